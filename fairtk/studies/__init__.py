"""Studies: what the papers compare, run by one engine and shown as tables, figures and a report."""
