"""What a measure prints leads back to its object as long as an equal one lives."""

import gc
from dataclasses import dataclass

import numpy as np
import pytest
from small_frames import small_groups

from fairtk import AWRF, EE_D, Target
from fairtk.exposure import BrowsingModel


@dataclass(frozen=True, repr=False)
class Odd(BrowsingModel):
    """A browsing model that no plugin gives."""

    weight: float = 0.5

    def weights(self, ranks):
        return np.full(len(ranks), self.weight)


def by_groups(groups):
    return AWRF(groups=groups, target=Target.uniform(groups))


@pytest.mark.parametrize("first_dies", [True, False])
@pytest.mark.parametrize(
    ("make", "measure", "name"),
    [
        (lambda: small_groups("ab", "xy"), by_groups, "side'"),
        (Odd, lambda model: EE_D(browsing=model), "Odd"),
    ],
)
def test_objects_outlive_equal_ones(make, measure, name, first_dies):
    both = [make(), make()]
    measures = [measure(one) for one in both]
    dying = 0 if first_dies else 1
    both[dying] = measures[dying] = None
    gc.collect()
    # the string form is read when the cutoff is set
    assert name in repr(measures[1 - dying] @ 5)
