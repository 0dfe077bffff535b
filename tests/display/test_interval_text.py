"""Intervals are never written with the width 0."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.display.tables import interval_text
from fairtk.report.tables import interval


@given(
    low=st.floats(-10, 10),
    width=st.floats(1e-12, 1),
    digits=st.integers(2, 5),
    sign=st.sampled_from(["", "+"]),
)
def test_the_ends_of_an_interval_differ_and_are_rounded_ends(low, width, digits, sign):
    text = interval_text(low, low + width, digits, sign=sign)
    ends = [float(end) for end in re.fullmatch(r"\[(.+), (.+)\]", text).groups()]
    assert ends[0] < ends[1]
    assert ends == pytest.approx([low, low + width], abs=0.5000001 * 10.0**-digits)


def test_a_narrow_interval_has_more_decimals_and_zero_has_no_minus():
    assert interval_text(0.1, 0.2) == "[0.1000, 0.2000]"
    # both ends are 0.0000 with four decimals, and 0.000000 and 0.000002 with six
    assert interval(-1e-7, 2e-6) == "[+0.000000, +0.000002]"
    assert interval(math.nan, math.nan) == "undefined"
