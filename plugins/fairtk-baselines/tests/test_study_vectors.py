"""The systems ``vector-search`` and ``mmr`` of the study."""

import functools

import pandas as pd
import pyterrier as pt
import pytest
from fairtk_baselines.mmr import MMR
from fairtk_baselines.study import WithoutColumns, build_mmr, build_vector_search

from fairtk.errors import InputError, ParameterError
from fairtk.plugins import registry
from fairtk.testing import TransformerContract, toy_topics

pytest.importorskip("fairtk_papers")

from fairtk_papers.testing import ToyRetriever, toy_setting


@pytest.fixture
def setting(tmp_path):
    return functools.partial(toy_setting, tmp_path)


COLUMNS = {"qid", "query", "question", "docno", "score", "rank"}


@pytest.mark.parametrize("options", [{}, {"dimensions": 2}, {"search": "torch"}])
def test_vector_search(setting, options):
    system = build_vector_search(setting(**options))
    out = system(toy_topics())
    assert set(out.columns) == COLUMNS
    assert out.groupby("qid").size().tolist() == [4] * 4
    again = build_vector_search(setting(**options))
    assert again == system and repr(again) == repr(system)
    pd.testing.assert_frame_equal(again(toy_topics()), out)


def test_vector_search_gives_enough(setting):
    assert build_vector_search(setting(cutoff=5, candidates=2)).num_results == 5


@pytest.mark.parametrize(
    "options",
    [{}, {"lambda": 0.2}, {"encoder": "lsa"}, {"dimensions": 2}, {"normalize": "none"}],
)
def test_mmr(setting, options):
    system = build_mmr(setting(**options))
    out = system(toy_topics())
    assert set(out.columns) <= COLUMNS and {"qid", "docno", "score", "rank"} <= set(out.columns)
    sizes = out.groupby("qid").size().to_dict()
    assert sizes == {"q1": 4, "q2": 4, "q3": 4, "q4": 1}
    top = {qid: own["docno"].iloc[0] for qid, own in out.groupby("qid")}
    assert top == {"q1": "d3", "q2": "d2", "q3": "d6", "q4": "d5"}
    assert build_mmr(setting(**options)) == system


def test_mmr_with_lambda_1_is_the_retriever(setting):
    out = build_mmr(setting(**{"lambda": 1}))(toy_topics())
    wanted = (ToyRetriever() % 4)(toy_topics())
    assert out[["qid", "docno", "rank"]].equals(wanted[["qid", "docno", "rank"]])


def test_mmr_uses_vectors_where_an_encoder_is_named(setting):
    stages = [s for s in build_mmr(setting(encoder="lsa")) if isinstance(s, MMR)]
    assert [s.vectors for s in stages] == ["doc_vec"] and stages[0].cutoff == 2
    stages = [s for s in build_mmr(setting()) if isinstance(s, MMR)]
    assert [s.vectors for s in stages] == ["text"]


@pytest.mark.parametrize(
    ("system", "options", "named"),
    [
        (
            build_vector_search,
            {"serach": "torch"},
            "'vector-search' has no option 'serach'; did you mean",
        ),
        (build_vector_search, {"dimensions": 0}, "dimensions"),
        (build_vector_search, {"encoder": "lsa", "search": "fast"}, "search must be one of"),
        (build_mmr, {"lamda": 1}, "'mmr' has no option 'lamda'; did you mean 'lambda'"),
        (build_mmr, {"lambda": 3}, "lambda_ must lie in"),
    ],
)
def test_options_that_cannot_be_used(setting, system, options, named):
    with pytest.raises(ParameterError, match=named):
        system(setting(**options))


def test_the_systems_are_registered():
    for name in ("vector-search", "mmr"):
        assert registry.study_systems.get(name)


class TestWithoutColumns(TransformerContract):
    def make(self):
        return WithoutColumns("text")

    def others(self):
        return [WithoutColumns("query"), WithoutColumns("text", "query")]


def test_without_columns_that_are_not_there():
    assert list(WithoutColumns("a", "none")(pd.DataFrame({"a": [1], "b": [2]})).columns) == ["b"]
    for wrong in ((), (["text"],)):
        with pytest.raises(InputError):
            WithoutColumns(*wrong)


def test_pipelines_can_be_inspected(setting):
    assert pt.inspect.transformer_outputs(build_vector_search(setting()), ["qid", "query"]) == [
        "qid",
        "query",
        "docno",
        "score",
        "rank",
    ]
