"""What a measure prints leads back to its object as long as an equal one lives."""

import gc
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from fairtk import AWRF, EE_D, Groups, Target
from fairtk.exposure import BrowsingModel

FRAME = pd.DataFrame({"docno": ["a", "b"], "group": ["x", "y"]})


@dataclass(frozen=True, repr=False)
class Odd(BrowsingModel):
    """A browsing model that no plugin gives."""

    weight: float = 0.5

    def weights(self, ranks):
        return np.full(len(ranks), self.weight)


def groups():
    return Groups.from_frame(FRAME, name="side")


@pytest.mark.parametrize("first_dies", [True, False])
def test_groups_outlive_equal_ones(first_dies):
    both = [groups(), groups()]
    measures = [AWRF(groups=g, target=Target.uniform(g)) for g in both]
    place = 0 if first_dies else 1
    both[place] = measures[place] = None
    gc.collect()
    # the string form is read when the cutoff is set
    assert "side#" in repr(measures[1 - place] @ 5)


@pytest.mark.parametrize("first_dies", [True, False])
def test_browsing_models_outlive_equal_ones(first_dies):
    both = [Odd(), Odd()]
    measures = [EE_D(browsing=model) for model in both]
    place = 0 if first_dies else 1
    both[place] = measures[place] = None
    gc.collect()
    assert "Odd" in repr(measures[1 - place] @ 5)
