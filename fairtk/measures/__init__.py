"""Measures."""
MEASURES: tuple[str, ...] = ()
