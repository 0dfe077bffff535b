"""Contracts of browsing models and divergences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from fairtk.frames import FloatArray
from fairtk.groups.levels import LevelSpace
from fairtk.groups.rows import FactoredRows, SparseRows
from fairtk.measures import EE_D, parse
from fairtk.plugins import parse_browsing_model, registry
from fairtk.plugins.registry import read_divergence
from fairtk.testing.toys import check_refused, toy_qrels, toy_samples

_RANKS = np.arange(1_000)


def check_settings_of(value: Any, name: str, read: Callable[[str], Any]) -> None:
    """Raise an `AssertionError` unless invalid settings are refused, in a call and in a string.

    Args:
        value: a frozen dataclass.
        name: its name in strings.
        read: reads the string.
    """
    for setting in (f.name for f in fields(value) if f.repr):
        for other in (None, math.nan, math.inf, "", object(), {}):
            text = f"{name}({setting}={other!r})"
            check_refused(partial(replace, value, **{setting: other}), setting, text)
            if other is None or other == "":
                check_refused(partial(read, text), setting, f"the string {text}")


class BrowsingModelContract:
    """Tests of a browsing model; subclass it and set `model`.

    Attributes:
        model: the browsing model, registered by its plugin.
    """

    model: Any

    def test_read_back(self) -> None:
        """It is registered under the name of its class, and its string is read back."""
        model = self.model
        name = type(model).__name__
        assert name in registry.browsing_models, f"no browsing model is registered as {name!r}"
        back = parse_browsing_model(repr(model))
        assert back == model and hash(back) == hash(model), f"{model!r} is read back as {back!r}"

    def test_settings_refuse_invalid_values(self) -> None:
        """None, NaN, infinity, an empty string and other types are errors that name the setting."""
        check_settings_of(self.model, type(self.model).__name__, parse_browsing_model)

    def test_weights_are_finite(self) -> None:
        """Each rank has one finite weight of at least 0; `total_square` and `stop` are valid."""
        weights = self.model.weights(_RANKS)
        assert weights.shape == _RANKS.shape, f"{self.model!r} returned shape {weights.shape}"
        valid = np.isfinite(weights) & (weights >= 0)
        assert valid.all(), f"{self.model!r} has invalid weights {weights[~valid][:3]}"
        square, total = float((weights**2).sum()), self.model.total_square
        assert square <= total * (1 + 1e-9), f"{self.model!r}: total_square={total}, not {square}"
        assert 0 <= self.model.stop <= 1, f"{self.model!r} has stop={self.model.stop}"

    def test_weights_depend_on_the_rank_alone(self) -> None:
        """The weight of a rank does not depend on its position in the array."""
        weights = self.model.weights(_RANKS)
        for ranks in (_RANKS[::-1], _RANKS[3:4], _RANKS[:0]):
            same = np.array_equal(self.model.weights(ranks), weights[ranks])
            assert same, f"{self.model!r}: the weight of a rank depends on other ranks"

    def test_works_in_a_measure(self) -> None:
        """``EE_D(browsing=...)`` is read back, and has finite values."""
        measure = EE_D(browsing=self.model) @ 1  # the toy rankings are short
        assert parse(repr(measure)) == measure, f"{measure!r} is not read back"
        value = measure.calc_aggregate(toy_qrels(), toy_samples())
        assert np.isfinite(value), f"{measure!r} must be finite, got {value!r}"


class DivergenceContract:
    """Tests of a divergence; subclass it and set `divergence`.

    Attributes:
        divergence: the divergence, registered by its plugin.
    """

    divergence: Any
    exposure = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]])
    target = np.array([[0.1, 0.2, 0.7], [0.4, 0.3, 0.3], [0.2, 0.5, 0.3]])

    def values(self, shown: FloatArray, target: FloatArray) -> FloatArray:
        """Return the divergence of each row."""
        rows = (SparseRows.of_dense(np.asarray(part)) for part in (shown, target))
        values: FloatArray = self.divergence.between(*rows)
        return values

    def compare(self, values: FloatArray, expected: FloatArray, message: str) -> None:
        """Raise an `AssertionError` with the message unless values agree to 1e-9."""
        same = np.allclose(values, expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        assert same, f"{self.divergence!r} {message}: expected {expected}, got {values}"

    def test_read_back(self) -> None:
        """It is registered under `NAME`, and its string is read back."""
        one = self.divergence
        assert one.NAME in registry.divergences, f"no divergence is registered as {one.NAME!r}"
        assert read_divergence(repr(one)) == one, f"{one!r} is not read back"

    def test_settings_refuse_invalid_values(self) -> None:
        """None, NaN, infinity, an empty string and other types are errors that name the setting."""
        check_settings_of(self.divergence, self.divergence.NAME, read_divergence)

    def test_values(self) -> None:
        """It is above 0 for unequal rows, 0 for equal rows, and NaN if either row is empty."""
        values, empty = self.values(self.exposure, self.target), np.zeros_like(self.exposure)
        valid = np.isfinite(values[:2]).all() and (values[:2] > 0).all()
        assert valid, f"{self.divergence!r} is {values[:2]} for rows that differ"
        zeros = self.values(self.exposure, self.exposure)
        self.compare(zeros, np.zeros(3), "of equal rows")
        for pair in ((empty, self.target), (self.exposure, empty)):
            self.compare(self.values(*pair), np.full(3, np.nan), "of an empty row")

    def test_what_must_not_matter(self) -> None:
        """Other rows, the order of groups and the sum of an exposure row do not change values."""
        values = self.values(self.exposure, self.target)
        for rows in ([2, 1, 0], [1]):
            other = self.values(self.exposure[rows], self.target[rows])
            self.compare(other, values[rows], "depends on other rows")
        other = self.values(self.exposure[:, ::-1], self.target[:, ::-1])
        self.compare(other, values, "depends on the order of groups")
        self.compare(self.values(7 * self.exposure, self.target), values, "depends on the sum")

    def test_takes_computed_targets(self) -> None:
        """A computed target, as of crossed attributes, has the values of a stored one."""
        space = LevelSpace(("group",), (("a", "b", "c"),), (-1,))
        target = FactoredRows.product(space, [self.target[0]])
        computed = self.divergence.between(SparseRows.of_dense(self.exposure[:1]), target)
        self.compare(
            computed, self.values(self.exposure[:1], self.target[:1]), "of a computed target"
        )
