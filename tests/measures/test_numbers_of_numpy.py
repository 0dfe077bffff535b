"""Numbers of numpy are parameters like those of Python, and too large integers are refused."""

import numpy as np
import pytest

from fairtk.errors import ParameterError
from fairtk.measures import AWRF, EE_D, nDCG_TREC, parse


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"cutoff": np.int64(5)}, "EE_D@5"),
        ({"n": np.uint8(5)}, "EE_D(n=5)"),
        ({"rel": np.float32(0.5)}, "EE_D(rel=0.5)"),
        ({"rel": np.float64(0.5)}, "EE_D(rel=0.5)"),
        ({"normalize": np.False_}, "EE_D(normalize=False)"),
        ({"bounds": np.str_("exact")}, "EE_D(bounds='exact')"),
    ],
)
def test_the_text_of_a_number_of_numpy_is_read_back(params, text):
    measure = EE_D(**params)
    assert repr(measure) == text
    assert parse(text) == measure


@pytest.mark.parametrize(
    "value", [np.float64("nan"), np.float32("inf"), np.True_, np.datetime64(5, "s")]
)
def test_other_scalars_of_numpy_are_refused(value):
    with pytest.raises(ParameterError, match="rel must"):
        EE_D(rel=value)


def test_an_integer_that_is_no_float_is_refused():
    with pytest.raises(ParameterError, match="base must be finite"):
        AWRF(base=10**400)
    with pytest.raises(ParameterError, match="rel must be finite"):
        EE_D(rel=10**400)


@pytest.mark.parametrize("rel", [0, -1])
def test_a_label_of_0_is_not_useful(rel):
    with pytest.raises(ParameterError, match="rel must"):
        nDCG_TREC(rel=rel)
