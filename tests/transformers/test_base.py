"""What all transformers share: stages that PyTerrier can see."""

import pandas as pd
import pyterrier as pt
import pytest

from fairtk import BM25Scorer, Candidates, FairSampler, PerSample, PlackettLuceExposure
from fairtk.credit import Subsets
from fairtk.errors import ColumnError
from fairtk.transformers import SingleDocumentSampler
from fairtk.transformers.base import FairTransformer


class Several(FairTransformer):
    SETTINGS = ("first", "others", "names")

    def __init__(self, first, others=(), names=()):
        super().__init__()
        self.first, self.others, self.names = first, others, names

    def transform(self, inp):
        return self.first.transform(inp)


def test_settings_that_are_transformers_are_stages():
    one, two = pt.Transformer.identity(), Several(pt.Transformer.identity())
    assert pt.inspect.subtransformers(Several(one)) == {"first": one}
    assert pt.inspect.subtransformers(Several(one, [two])) == {"first": one, "others": [two]}
    # an empty tuple, or one of other things, is no list of stages
    assert pt.inspect.subtransformers(Several(one, (), ("a", "b"))) == {"first": one}
    assert pt.inspect.subtransformers(Several("none")) == {}
    assert "Several" in pt.schematic.draw(Several("none", [Several("none")], ()))


RANKED = ["qid", "docno", "score"]


@pytest.mark.parametrize(
    ("stage", "columns"),
    [
        (FairSampler(), RANKED),
        (PlackettLuceExposure(), RANKED),
        (SingleDocumentSampler(), RANKED),
        (Subsets(), RANKED),
        (BM25Scorer(), ["qid", "query", "docno", "text"]),
        (PerSample(FairSampler()), RANKED),
        (Candidates("lamp/4/dev"), ["qid"]),
    ],
)
def test_the_columns_that_a_stage_needs(stage, columns):
    assert pt.inspect.transformer_inputs(stage) == [columns]


@pytest.mark.parametrize("make", [BM25Scorer, lambda: PerSample(BM25Scorer())])
def test_what_is_no_frame_of_plain_columns_is_named(make):
    run = pd.DataFrame({"qid": ["q"], "docno": ["d"], "score": [1.0], "sample": [0]})
    two_levels = run.set_axis(pd.MultiIndex.from_tuples([(c, "") for c in run.columns]), axis=1)
    twice = pd.concat([run, run[["qid"]]], axis=1)
    for frame, message in (
        (run.to_numpy(), "expected a DataFrame, got a ndarray"),
        (two_levels, "got a MultiIndex"),
        (twice, "duplicate column 'qid'"),
    ):
        with pytest.raises(ColumnError, match=message):
            make().transform(frame)


def test_a_table_of_another_library_in_a_chain_is_one_clear_line():
    polars = pytest.importorskip("polars")
    rows = {"qid": ["q"] * 300, "docno": [f"d{i}" for i in range(300)], "score": [1.0] * 300}
    chain = FairSampler(n_samples=2) >> pt.Transformer.identity()
    with pytest.raises(ColumnError, match="299") as error:
        chain(polars.DataFrame(rows))
    assert len(str(error.value)) < 250
