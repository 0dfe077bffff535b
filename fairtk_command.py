"""The console script ``fairtk``: the plugins are loaded when a command runs, not at the start.

`main` sets the mark, because a worker process imports this module and does not call `main`.
"""

is_running = False


def main() -> None:
    """Run the command line and exit."""
    global is_running
    is_running = True
    from fairtk.cli import main as run

    run()
