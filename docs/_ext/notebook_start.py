"""IPython runs this at the start of each notebook; conf.py puts it where IPython looks."""

import warnings

# one line without the paths of this machine
warnings.filterwarnings("ignore", message="IProgress not found")
warnings.formatwarning = lambda text, kind, *_, **__: f"{kind.__name__}: {text}\n"

_shell = get_ipython()  # noqa: F821 - IPython's own name


def _system(command, run=_shell.system):
    """Run a `!` command, which must succeed unless it ends with `# exit code 2` or another."""
    run(command)
    expected = command.partition("# exit code ")[2] or "0"
    if str(_shell.user_ns["_exit_code"]) != expected:
        raise RuntimeError(f"expected exit code {expected}, got {_shell.user_ns['_exit_code']}")


_shell.system = _system
