"""The baselines as systems of ``fairtk qr``: the contract, and how options reach them."""

import functools

import pandas as pd
import pyterrier as pt
import pytest
from fairtk_baselines.mmr import MMR
from fairtk_baselines.study import (
    WithoutColumns,
    build_deltr,
    build_dlf,
    build_fa_star_ir,
    build_mmr,
    build_vector_search,
)

from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.testing import TransformerContract, toy_topics

pytest.importorskip("fairtk_papers")

from fairtk_papers.testing import StudySystemContract, toy_setting


class TestVectorSearch(StudySystemContract):
    name = "vector-search"


class TestVectorSearchByTorch(StudySystemContract):
    name = "vector-search"
    options = {"dimensions": 2, "search": "torch"}


class TestDlf(StudySystemContract):
    name = "dlf"
    options = {"epochs": 3}


class TestDeltr(StudySystemContract):
    name = "deltr"


class TestDeltrWithAnEncoder(StudySystemContract):
    name = "deltr"
    options = {"encoder": "lsa", "dimensions": 2}


class TestFaStarIr(StudySystemContract):
    name = "fa*ir"


class TestFaStarIrBinomial(StudySystemContract):
    name = "fa*ir"
    options = {"test": "binomial", "p": 0.3}


class TestMmr(StudySystemContract):
    name = "mmr"


class TestMmrOverVectors(StudySystemContract):
    name = "mmr"
    options = {"encoder": "lsa", "lambda": 0.2}


@pytest.fixture
def setting(tmp_path):
    return functools.partial(toy_setting, tmp_path)


def test_enough_documents_are_retrieved(setting):
    assert build_vector_search(setting(cutoff=5, candidates=2)).num_results == 5
    # fewer candidates than ranks that are measured are not cut to
    with pytest.warns(DataWarning):
        out = build_fa_star_ir(setting(cutoff=4, candidates=1, p=0.9))(toy_topics())
    assert out.groupby("qid").size().to_dict() == {"q1": 4, "q2": 4, "q3": 4, "q4": 1}


def test_mmr_with_lambda_1_is_the_retriever(setting):
    out = build_mmr(setting(**{"lambda": 1}))(toy_topics())
    expected = (setting().retriever % 4)(toy_topics())
    assert out[["qid", "docno", "rank"]].equals(expected[["qid", "docno", "rank"]])


def test_mmr_uses_vectors_where_an_encoder_is_named(setting):
    for options, used in (({"encoder": "lsa"}, "doc_vec"), ({}, "text")):
        [mmr] = [s for s in build_mmr(setting(**options)) if isinstance(s, MMR)]
        assert (mmr.vectors, mmr.cutoff) == (used, 2)


def test_fa_star_ir_takes_the_shares_of_the_target_by_default(setting):
    given = setting()
    rerank = list(build_fa_star_ir(given))[-1]
    assert (rerank.cutoff, rerank.test, rerank.seed) == (2, "multinomial", 3)
    assert rerank.p == given.target.for_groups(given.groups)
    rerank = list(build_fa_star_ir(setting(p=0.3)))[-1]
    assert (rerank.p, rerank.test) == (0.3, "binomial")


def test_dlf_has_the_cutoff_and_seed_of_the_study(setting):
    recipe = build_dlf(setting())[-1].recipe
    assert (recipe.cutoff, recipe.seed) == (2, 3)


@pytest.mark.parametrize(
    ("system", "options", "named"),
    [
        (
            build_vector_search,
            {"serach": 1},
            "unknown option 'serach' .*; did you",
        ),
        (build_vector_search, {"dimensions": 0}, "dimensions"),
        (build_vector_search, {"encoder": "lsa", "search": "fast"}, "search must be one of"),
        (
            build_mmr,
            {"lamda": 1},
            "unknown option 'lamda' .*; did you mean 'lambda'",
        ),
        (build_mmr, {"lambda": 3}, "lambda must be in"),
        (
            build_deltr,
            {"gama": 1},
            "unknown option 'gama' .*; did you mean 'gamma'",
        ),
        (build_deltr, {"seed": 1}, "'seed'"),
        (build_deltr, {"gamma": -1}, "gamma"),
        (
            build_dlf,
            {"wieght": 1},
            "unknown option 'wieght' .*; did you mean 'weight'",
        ),
        (build_dlf, {"weight": 2}, "weight must be in"),
        (
            build_fa_star_ir,
            {"alhpa": 1},
            r"unknown option 'alhpa' .*; did you mean 'alpha'",
        ),
    ],
)
def test_options_that_cannot_be_used(setting, system, options, named):
    with pytest.raises(ParameterError, match=named):
        system(setting(**options))


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
    columns = ["qid", "query", "docno", "score", "rank"]
    found = pt.inspect.transformer_outputs(build_vector_search(setting()), ["qid", "query"])
    assert found == columns
