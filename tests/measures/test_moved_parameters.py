"""Parameters of EE_D, EE_R and EE_L that are measures of their own."""

import pytest
from ir_measures import parse_measure

from fairtk import EE_D, EE_L, EE_R
from fairtk.errors import ParameterError
from fairtk.measures import parse

GROUPS = {"groups": "'gender'", "target": "'uniform'", "useful_only": "True"}
CODE = {"variant": "'expeval'", "complete": "True"}


@pytest.mark.parametrize("measure", [EE_D, EE_R, EE_L], ids=repr)
@pytest.mark.parametrize("parameter", [*GROUPS, *CODE])
def test_an_error_names_the_measure_that_has_the_parameter(measure, parameter):
    value = (GROUPS | CODE)[parameter]
    names = [f"Group{measure}"] if parameter in GROUPS else [f"{measure}_expeval", "fairtk-papers"]
    for make in (
        lambda: measure(**{parameter: value.strip("'")}),
        lambda: parse(f"{measure}({parameter}={value})@5"),
        lambda: parse_measure(f"{measure}({parameter}={value})@5"),
    ):
        with pytest.raises(ParameterError) as caught:
            make()
        message = str(caught.value)
        assert f"{measure}: unknown parameter {parameter!r}" in message
        assert all(name in message for name in names)
