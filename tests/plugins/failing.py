"""Runs a contract as pytest would, on a class with a flaw, and says which of its tests fail."""

import sys
from contextlib import contextmanager

from fairtk import hookimpl, plugins


def failing(contract, only="test_"):
    """Return {test: error} for a contract class, of the tests whose names begin with `only`."""
    errors = {}
    for name in dir(contract):
        if name.startswith(only):
            try:
                getattr(contract(), name)()
            except AssertionError as error:
                assert str(error), f"{name} fails without a message"
                errors[name] = str(error)
            except Exception as error:
                errors[name] = f"{type(error).__name__}: {error}"
    return errors


def flawed(base, members):
    """Return a subclass with some members replaced, `Flawed` in the module of its base."""
    cls = type(
        "Flawed", (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **members}
    )
    sys.modules[base.__module__].Flawed = cls  # where specs and pickles look for it
    return cls


def assert_found(flaw, failures):
    """Check that a flaw, (names of tests, ...), fails these tests; `failures` takes a name."""
    for test in flaw[0].split():
        assert test in failures(test)


@contextmanager
def given(**gave):
    """Register a plugin that gives lists of things, by kind, for as long as the block lasts."""
    hooks = {
        f"fairtk_{kind}": hookimpl(lambda self, things=things: things)
        for kind, things in gave.items()
    }
    plugin = type("Plugin", (), hooks)()
    plugins.register(plugin, "toy", "1")
    try:
        yield
    finally:
        plugins.unregister(plugin)
