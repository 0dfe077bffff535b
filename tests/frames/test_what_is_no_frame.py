"""Objects that are passed instead of the frame that they return: the message has the remedy."""

import pytest

import fairtk
from fairtk.errors import ColumnError

QRELS = {"q1": {"d1": 1}}


@pytest.mark.parametrize(
    ("stage", "remedy"),
    [
        (fairtk.BM25Scorer(), "transformer(topics)"),
        (fairtk.FairSampler(), "transformer(topics)"),
        (fairtk.Seen(fairtk.BM25Scorer()), ".exposure(...)"),
    ],
    ids=["scorer", "sampler", "Seen"],
)
@pytest.mark.parametrize("name", [None, "agent"])
def test_a_transformer_is_no_run(stage, remedy, name):
    runs = stage if name is None else {name: stage}
    with pytest.raises(ColumnError) as error:
        fairtk.evaluate(QRELS, runs, ["EE_D@2"])
    assert type(stage).__name__ in str(error.value)
    assert str(error.value).endswith(remedy) or f"{remedy} returns" in str(error.value)
