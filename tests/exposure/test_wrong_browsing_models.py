"""Browsing models of plugins whose values are not valid: an error names them, in all measures."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairtk import Groups
from fairtk.errors import MeasureError
from fairtk.exposure import BrowsingModel
from fairtk.plugins import registry
from fairtk.transformers import DeterministicExposure, OracleExposure, PlackettLuceExposure

RUN = pd.DataFrame({"qid": "q", "docno": [*"abcd"], "score": [4.0, 3.0, 2.0, 1.0]})
QRELS = pd.DataFrame({"qid": "q", "docno": [*"abcd"], "label": [1, 0, 1, 0]})
GROUPS = Groups.from_frame({"a": "x", "b": "y", "c": "x", "d": "y"}, name="side")


@dataclass(frozen=True)
class Given(BrowsingModel):
    """A model that returns what is given, for any ranks."""

    value: Any
    stop: Any = 0.0
    total_square: Any = 4.0

    def weights(self, ranks):
        """Return the value."""
        return self.value(ranks) if callable(self.value) else self.value


WRONG = [
    pytest.param(np.array([0.7]), id="one for all"),
    pytest.param(0.7, id="a number"),
    pytest.param(lambda ranks: np.ones((len(ranks), 2)), id="a table"),
    pytest.param(lambda ranks: ranks * np.nan, id="nan"),
    pytest.param(lambda ranks: np.inf + ranks, id="infinite"),
    pytest.param(lambda ranks: -0.5 - ranks, id="negative"),
    pytest.param(lambda ranks: [[1.0], [1.0, 2.0]], id="ragged"),
    pytest.param(lambda ranks: ["0.5"] * len(ranks), id="texts"),
    pytest.param(lambda ranks: ranks * 1j, id="complex"),
    pytest.param(None, id="None"),
]


@pytest.mark.parametrize("value", WRONG)
def test_weights_are_checked(value):
    model = Given(value)
    with pytest.raises(
        MeasureError, match=rf"^browsing model Given[^:]*\(module {__name__}\): weights"
    ):
        model.checked_weights(np.arange(3))


@pytest.mark.parametrize("setting", ["stop", "total_square"])
@pytest.mark.parametrize("value", [-0.1, np.nan, None])
def test_other_values_are_checked(setting, value):
    with pytest.raises(MeasureError, match=setting):
        Given(np.ones(3), **{setting: value}).checked_weights(np.arange(3))


@pytest.mark.parametrize(
    "value", [[1, 0, 0], np.array([True, False, False]), np.array([1, 0, 0], dtype=np.float32)]
)
def test_numbers_of_any_type_are_weights(value):
    weight = Given(value).checked_weights(np.arange(3))
    assert weight.tolist() == [1.0, 0.0, 0.0] and weight.dtype == np.float64


WITHOUT = {
    *("AE_D",),  # the target alone reads the browsing model
    *(f"{name}_expeval" for name in ("EE_D", "EE_R", "EE_L")),  # they accept RBP and GERR only
    *(f"{name}_expeval" for name in ("GroupEE_D", "GroupEE_R", "GroupEE_L")),
}


def of_measures():
    for entry in registry.measures.entries():
        declared = entry.value.SUPPORTED_PARAMS
        if "browsing" in declared and entry.name not in WITHOUT:
            given = {"groups": GROUPS, "target": "uniform"}
            options = {name: value for name, value in given.items() if name in declared}
            yield pytest.param(entry.value, options, id=entry.name)


@pytest.mark.parametrize(("measure", "options"), [*of_measures()])
def test_each_measure_names_the_model(measure, options):
    wrong = measure(browsing=Given(np.array([0.7])), **options) @ 3
    with pytest.raises(MeasureError, match="^browsing model Given"):
        wrong.calc_aggregate(QRELS, RUN.assign(credit=0.25))


@pytest.mark.parametrize(
    "stage",
    [
        PlackettLuceExposure(1, 3, Given(np.array([0.7]))),
        OracleExposure(QRELS, 3, Given(np.array([0.7]))),
        DeterministicExposure(3, Given(np.array([0.7]))),
    ],
    ids=lambda stage: type(stage).__name__,
)
def test_each_transformer_names_the_model(stage):
    with pytest.raises(MeasureError, match="^browsing model Given"):
        stage(RUN)
