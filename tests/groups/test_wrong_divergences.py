"""Divergences of plugins that return something else than a number per row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

from fairtk import FairQR, Groups, Target
from fairtk.errors import MeasureError
from fairtk.groups import Divergence
from fairtk.groups.rows import SparseRows
from fairtk.plugins import registry

EXPOSURE = SparseRows.of_dense(np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.5]]))
TARGET = SparseRows.of_dense(np.array([[0.0, 1.0], [0.5, 0.5], [0.0, 0.0]]))


@dataclass(frozen=True)
class Given(Divergence):
    """A divergence that returns what is given."""

    NAME = "given"
    value: Any

    def between(self, shown, target):
        """Return the value."""
        return self.value


@pytest.mark.parametrize(
    "value",
    [np.full(3, np.nan), np.zeros(2), np.zeros((3, 1)), 0.5, None, ["0"] * 3, np.zeros(3) * 1j],
    ids=["nan", "short", "table", "number", "None", "texts", "complex"],
)
def test_values_are_checked(value):
    with pytest.raises(
        MeasureError, match=rf"^divergence Given[^:]*\(module {__name__}\): between"
    ):
        Given(value).checked_between(EXPOSURE, TARGET)


def test_undefined_rows_may_be_nan_and_values_may_be_infinite():
    values = Given([np.inf, np.nan, np.nan]).checked_between(EXPOSURE, TARGET)
    assert values.tolist()[0] == np.inf and np.isnan(values[1:]).all()


@pytest.mark.parametrize("name", registry.divergences.names())
def test_registered_divergences_are_as_they_were(name):
    one = registry.divergences.get(name)()
    checked = one.checked_between(EXPOSURE, TARGET)
    assert np.array_equal(checked, one.between(EXPOSURE, TARGET), equal_nan=True)


def test_a_stage_names_the_divergence():
    run = pd.DataFrame({"qid": "q", "docno": ["a", "b"], "score": [2.0, 1.0], "rank": [0, 1]})
    groups = Groups.from_frame({"a": "x", "b": "y"}, name="side")
    stage = FairQR(
        *(pt.Transformer.from_df(run), groups, Target.uniform(groups)),
        *(lambda prompts: ["another query" for _ in prompts],),
        depth=2,
        divergence=Given(np.array([np.nan])),
    )
    with pytest.raises(MeasureError, match="^divergence Given"):
        stage(pd.DataFrame({"qid": ["q"], "query": ["words"]}))
