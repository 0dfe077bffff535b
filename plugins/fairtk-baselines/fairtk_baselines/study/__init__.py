"""The baselines as systems of ``fairtk qr``: each module builds one from a `Setting`."""
