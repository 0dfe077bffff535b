"""Settings are checked in one place: what passes, what is refused, and in which words."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from fairtk import checks
from fairtk.errors import NotFoundError, ParameterError


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(1)])
def test_whole_numbers_are_ints(value):
    assert type(checks.integer("n", value, "It")) is int and checks.integer("n", value) == value


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None, np.float64(2), math.nan, [1]])
def test_other_numbers_than_whole_ones_are_refused(value):
    with pytest.raises(ParameterError) as error:
        checks.integer("n", value, "It")
    assert str(error.value) == f"It: n must be an integer of at least 1, got {value!r}"


def test_the_smallest_whole_number():
    assert checks.integer("seed", 0, "It", least=0) == 0
    assert checks.integer("seed", -5, "It", least=None) == -5
    with pytest.raises(ParameterError, match="^It: seed must be an integer, got 0.5$"):
        checks.integer("seed", 0.5, "It", least=None)


@pytest.mark.parametrize("value", [0, 0.5, 1, np.float32(0.25), Fraction(1, 4)])
def test_shares_are_floats(value):
    assert type(checks.share("w", value, "It")) is float and checks.share("w", value) == value


@pytest.mark.parametrize(
    "value", [-0.1, 1.1, math.nan, math.inf, "0.5", True, None, [0.5], 10**400]
)
def test_other_numbers_than_shares_are_refused(value):
    with pytest.raises(ParameterError, match=r"^w must be in \[0, 1\], got "):
        checks.share("w", value)


@pytest.mark.parametrize(
    ("ends", "inner", "outer", "interval"),
    [
        ("[]", (0, 2), (-1, 3), r"\[0, 2\]"),
        ("(]", (0.1, 2), (0, 3), r"\(0, 2\]"),
        ("[)", (0, 1.9), (-1, 2), r"\[0, 2\)"),
        ("()", (0.1, 1.9), (0, 2), r"\(0, 2\)"),
    ],
)
def test_ends_of_ranges(ends, inner, outer, interval):
    for value in inner:
        assert checks.number("x", value, "It", 0, 2, ends) == value
    for value in outer:
        with pytest.raises(ParameterError, match=f"It: x must be in {interval}, got {value}"):
            checks.number("x", value, "It", 0, 2, ends)


def test_ranges_without_an_upper_end_and_other_words():
    assert checks.number("x", 1e300) == 1e300
    for ends, words in (("[]", "of at least 0"), ("(]", "above 0")):
        with pytest.raises(ParameterError, match=f"^x must be a finite number {words}, got inf$"):
            checks.number("x", math.inf, ends=ends)
    with pytest.raises(ParameterError, match="^x must be 0 or above, got -1$"):
        checks.number("x", -1, rule="be 0 or above")
    with pytest.raises(ParameterError, match="^It: n must be odd, got 0$"):
        checks.integer("n", 0, "It", rule="be odd")
    assert checks.open_interval("confidence", 0.95) == 0.95
    for value in (0, 1, 95):
        with pytest.raises(ParameterError, match="0.*1"):
            checks.open_interval("confidence", value)


def test_choices_and_known_names():
    assert checks.choice("pool", "last", ("last", "union")) == "last"
    with pytest.raises(ParameterError) as error:
        checks.choice("pool", "unions", ("last", "union"), "It")
    assert str(error.value) == "It: pool must be one of 'last', 'union', got 'unions'"
    for value in (None, 3, ["last"]):
        with pytest.raises(ParameterError, match="'last'.*'union'"):
            checks.choice("pool", value, ("last", "union"))
    assert checks.known("test", "t", ("t", "sign")) == "t"
    with pytest.raises(NotFoundError, match="'sing'.*'sign'"):
        checks.known("test", "sing", ("t", "sign"))


def test_cutoffs_and_exponents():
    assert checks.cutoff(None, "It") is None and checks.cutoff(np.int64(5), "It") == 5
    with pytest.raises(ParameterError, match="at least 1, got 0; use None for full rankings$"):
        checks.cutoff(0, "It")
    assert [repr(checks.exponent(a, "It")) for a in (2.0, 2, 0.5, 0)] == ["2", "2", "0.5", "0"]
    for value in (-1, math.inf, "2"):
        with pytest.raises(ParameterError, match="alpha"):
            checks.exponent(value, "It")
