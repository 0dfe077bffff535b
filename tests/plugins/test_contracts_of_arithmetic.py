"""Every built-in browsing model and divergence passes its contract; broken ones do not."""

from dataclasses import dataclass

import numpy as np
import pytest
from failing import assert_found, failing, flawed, given

from fairtk import plugins
from fairtk.exposure import BrowsingModel
from fairtk.groups import Divergence
from fairtk.plugins import registry
from fairtk.testing import BrowsingModelContract, DivergenceContract

BUILTIN = plugins.loaded_plugins()[0].gave
REQUIRED = {"Fitted": {"weight": (0.5, 1.0, 0.2)}}
"""Settings without a default."""


@pytest.mark.parametrize("name", BUILTIN["fairtk_browsing_models"])
class TestBrowsingModels(BrowsingModelContract):
    @pytest.fixture(autouse=True)
    def _set(self, name):
        model = registry.browsing_models.get(name)
        self.model = model(**REQUIRED.get(name, model.typical))


@pytest.mark.parametrize("name", BUILTIN["fairtk_divergences"])
class TestDivergences(DivergenceContract):
    @pytest.fixture(autouse=True)
    def _set(self, name):
        self.divergence = registry.divergences.get(name)()


# One flaw each -----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Halving(BrowsingModel):
    """Half the attention at each rank."""

    def weights(self, ranks):
        return 0.5**ranks


@dataclass(frozen=True, repr=False)
class Variation(Divergence):
    """Half the sum of the differences."""

    NAME = "toy-variation"

    def between(self, shown, target):
        shown, target = shown.normalized().dense(), target.expanded().normalized().dense()
        gap = 0.5 * np.abs(shown - target).sum(axis=1)
        return np.where((shown.sum(axis=1) > 0) & (target.sum(axis=1) > 0), gap, np.nan)


def failures(cls, only="test_"):
    """Return the tests of the contract that fail for a class, registered by a plugin."""

    class Model(BrowsingModelContract):
        model = cls()

    class Distance(DivergenceContract):
        divergence = cls()

    if issubclass(cls, BrowsingModel):
        with given(browsing_models=[cls]):
            return failing(Model, only)
    with given(divergences=[cls]):
        return failing(Distance, only)


# test that finds the flaw, base, members
FLAWS = {
    "depends on other ranks": (
        "test_weights_depend_on_the_rank_alone",
        Halving,
        {"weights": lambda self, ranks: 0.5**ranks / max(1, ranks.sum())},
    ),
    "is below 0": (
        "test_weights_are_finite",
        Halving,
        {"weights": lambda self, ranks: 0.5**ranks - 0.25},
    ),
    "stops with a probability of 2": ("test_weights_are_finite", Halving, {"stop": 2.0}),
    "has a bound that is too low": ("test_weights_are_finite", Halving, {"total_square": 1.0}),
    "prints another name": ("test_read_back", Halving, {"__repr__": lambda self: "Halving"}),
    "needs a stored target": (
        "test_takes_computed_targets",
        Variation,
        {"between": lambda self, s, t: Variation.between(self, s, type(s)(t.matrix))},
    ),
    "depends on the sum": (
        "test_what_must_not_matter",
        Variation,
        {"between": lambda self, s, t: Variation.between(self, s, t) * s.total()},
    ),
    "depends on the order of groups": (
        "test_what_must_not_matter",
        Variation,
        {"between": lambda self, s, t: Variation.between(self, s, t) * (1 + s.dense()[:, 0])},
    ),
    "is not 0 for equal rows": (
        "test_values",
        Variation,
        {"between": lambda self, s, t: Variation.between(self, s, t) + 0.1},
    ),
    "is 0 for an empty row": (
        "test_values",
        Variation,
        {"between": lambda self, s, t: np.nan_to_num(Variation.between(self, s, t))},
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_found(flaw):
    cls = flawed(*FLAWS[flaw][1:])
    assert_found(FLAWS[flaw], lambda test: failures(cls, test))


@pytest.mark.parametrize("cls", [Halving, Variation])
def test_good_ones_pass(cls):
    assert failures(cls) == {}
