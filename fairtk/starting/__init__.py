"""What the command line sets before anything else of fairtk is imported: Ctrl-C, and warnings."""
