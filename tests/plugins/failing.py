"""Runs a contract as pytest would, and says which of its tests fail."""


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
