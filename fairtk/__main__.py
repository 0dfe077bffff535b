"""``python -m fairtk``: the command line."""

from fairtk.cli import main

main()
