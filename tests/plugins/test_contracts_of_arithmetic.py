"""Every built-in browsing model and divergence passes its contract; broken ones do not."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from failing import failing

from fairtk import hookimpl, plugins
from fairtk.exposure import BrowsingModel
from fairtk.groups import Divergence
from fairtk.plugins import registry
from fairtk.testing import BrowsingModelContract, DivergenceContract

BUILTIN = plugins.loaded()[0].gave
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
class Relative(Halving):
    def weights(self, ranks):
        return super().weights(ranks) / max(1, ranks.sum())


@dataclass(frozen=True, repr=False)
class Negative(Halving):
    def weights(self, ranks):
        return super().weights(ranks) - 0.25


@dataclass(frozen=True, repr=False)
class Certain(Halving):
    stop: ClassVar[float] = 2.0


@dataclass(frozen=True, repr=False)
class Bounded(Halving):
    total_square: ClassVar[float] = 1.0


class Printed(Halving):
    def __repr__(self):
        return "Halving"


@dataclass(frozen=True, repr=False)
class Variation(Divergence):
    """Half the sum of the differences."""

    NAME = "toy-variation"

    def between(self, shown, target):
        shown, target = shown.normalized().dense(), target.expanded().normalized().dense()
        gap = 0.5 * np.abs(shown - target).sum(axis=1)
        return np.where((shown.sum(axis=1) > 0) & (target.sum(axis=1) > 0), gap, np.nan)


class Stored(Variation):
    def between(self, shown, target):
        return super().between(shown, type(shown)(target.matrix))


class Whole(Variation):
    def between(self, shown, target):
        return super().between(shown, target) * shown.total()


class Shifted(Variation):
    def between(self, shown, target):
        return super().between(shown, target) + 0.1


class Filled(Variation):
    def between(self, shown, target):
        return np.nan_to_num(super().between(shown, target))


class Ordered(Variation):
    def between(self, shown, target):
        return super().between(shown, target) * (1 + shown.dense()[:, 0])


def failures(cls, only="test_"):
    """Return the tests of the contract that fail for a class, registered by a plugin."""
    models = issubclass(cls, BrowsingModel)

    class Plugin:
        @hookimpl
        def fairtk_browsing_models(self):
            return [cls] if models else []

        @hookimpl
        def fairtk_divergences(self):
            return [] if models else [cls]

    class Model(BrowsingModelContract):
        model = cls() if models else None

    class Distance(DivergenceContract):
        divergence = None if models else cls()

    plugin = Plugin()
    plugins.register(plugin, "toy")
    try:
        return failing(Model if models else Distance, only)
    finally:
        plugins.unregister(plugin)


FLAWS = [
    (Relative, "test_weights_depend_on_the_rank_alone"),
    (Negative, "test_weights_are_finite"),
    (Certain, "test_weights_are_finite"),
    (Bounded, "test_weights_are_finite"),
    (Printed, "test_read_back"),
    (Stored, "test_takes_computed_targets"),
    (Whole, "test_what_must_not_matter"),
    (Ordered, "test_what_must_not_matter"),
    (Shifted, "test_values"),
    (Filled, "test_values"),
]


@pytest.mark.parametrize(("cls", "test"), FLAWS, ids=lambda v: getattr(v, "__name__", v))
def test_a_flaw_is_found(cls, test):
    assert test in failures(cls, test)


@pytest.mark.parametrize("cls", [Halving, Variation])
def test_good_ones_pass(cls):
    assert failures(cls) == {}
