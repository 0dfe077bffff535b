"""Settings of public classes and functions refuse None, NaN, an empty string and other types."""

import inspect
import math

import pytest
from settings_calls import calls

from fairtk.testing.toys import check_refused, is_one_of

SCALARS = {"int", "float", "str", "bool"}


def invalid(parameter):
    """Return values that a parameter with scalar annotations must refuse."""
    words = set(str(parameter.annotation).replace("|", " ").split())
    if not words & SCALARS or words - SCALARS - {"None"}:
        return []
    values = [math.nan, "", [1.5], object()]
    values += [] if "None" in words else [None]
    values += [] if "str" in words else ["x"]
    values += [] if "bool" in words else [True]
    values += [] if "float" in words else [1.5]
    return [value for value in values if not is_one_of(value, [parameter.default])]


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("name", calls())
def test_settings(name):
    call, arguments = calls()[name]
    call(**arguments)  # the call is valid but for the setting
    for setting, parameter in inspect.signature(call).parameters.items():
        for value in invalid(parameter):
            changed = {**arguments, setting: value}
            what = f"{name}({setting}={value!r})"
            check_refused(lambda changed=changed: call(**changed), setting, what)
