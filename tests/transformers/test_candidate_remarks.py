"""Remarks before sampling: scores that are all equal, and queries among their candidates."""

import warnings

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk import BM25Scorer, FairSampler, PlackettLuceExposure
from fairtk.errors import DataWarning
from fairtk.exposure import score_gaps
from fairtk.transformers import IgnoreIdenticalIds, OracleSampler
from fairtk.transformers.samplers import Sampler

EQUAL = pd.DataFrame({"qid": "q", "docno": [*"abcdefgh"], "score": 0.0})
OTHER = pd.DataFrame({"qid": "r", "docno": [*"abc"], "score": [3.0, 2.0, 1.0]})
RUN = pd.concat([EQUAL, OTHER], ignore_index=True)
OWN = RUN.assign(docno=RUN["docno"].mask(RUN.index == 8, "r")).tail(3)
LABELS = pd.DataFrame({"qid": ["q", "r"], "docno": "b", "label": 1})


class OfAPlugin(Sampler):
    """A sampler that defines its policy only."""

    SETTINGS = ("n_samples", "cutoff", "seed")

    def policy(self, inp):
        run = self.plain_run(inp)
        return run, run.order, score_gaps(run.scores[run.order], run.ranking_start, 1.0)


STAGES = [
    FairSampler(alpha=2, n_samples=2),
    FairSampler(target_disparity=0.5, cutoff=2, n_samples=2),
    PlackettLuceExposure(alpha=2),
    PlackettLuceExposure(alpha=[0, 2]),
    OfAPlugin(2, None, 1),
]
SILENT = [
    FairSampler(alpha=0, n_samples=2),
    PlackettLuceExposure(alpha=0),
    OracleSampler(LABELS, n_samples=2),
]


def texts(stage, run):
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        stage(run)
    assert all(issubclass(w.category, DataWarning) for w in records)
    records = [w for w in records if "cannot be reached" not in str(w.message)]
    assert {w.filename for w in records} <= {__file__}
    return [str(w.message) for w in records]


def test_each_sampler_is_listed():
    samplers = {cls for cls in Sampler.__subclasses__() if cls.__module__.startswith("fairtk.")}
    assert samplers <= {type(stage) for stage in [*STAGES, *SILENT]}


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_equal_scores_are_remarked(stage):
    [text] = [text for text in texts(stage, RUN) if "equal" in text]
    assert text.startswith(f"{type(stage).__name__}: ") and "1 of 2 queries ('q')" in text


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_a_query_that_is_a_candidate_is_remarked(stage):
    [text] = [text for text in texts(stage, OWN) if "IgnoreIdenticalIds" in text]
    assert text.startswith(f"{type(stage).__name__}: ") and "1 of 1 query ('r')" in text
    assert not texts(IgnoreIdenticalIds() >> OfAPlugin(2, None, 1), OWN)


@pytest.mark.parametrize("stage", SILENT, ids=repr)
@pytest.mark.parametrize("run", [RUN, OWN], ids=["equal", "own"])
def test_stages_that_do_not_read_scores_are_silent(stage, run):
    assert not texts(stage, run)


def test_one_document_is_not_remarked():
    assert not texts(FairSampler(n_samples=2), EQUAL.head(1))


@pytest.mark.parametrize("query", ["", "\N{GRINNING FACE}", "unknown words"])
def test_a_scorer_without_matches_is_remarked(query):
    run = EQUAL.assign(query=query, text="some text")
    [text] = texts(BM25Scorer(), run)
    assert text.startswith("BM25Scorer: ") and "('q')" in text


def test_the_score_of_the_query_scales_the_others():
    """With alpha 4, the scores 2, 1.5 and 1 of documents are almost equal next to 100.

    Scaled to [1, 2], they are 1.0101, 1.0051 and 1; without 100 they are 2, 1.5 and 1, of which the
    first has the log-weight 16, the others 5.06 and 1, so that it is first in almost all rankings.
    """
    run = pd.DataFrame(
        {"qid": "r", "docno": [*"rabc"], "score": [100.0, 2.0, 1.5, 1.0], "rank": np.arange(4)}
    )
    others = IgnoreIdenticalIds()(run)
    exposure = PlackettLuceExposure(alpha=4, cutoff=1)(others).set_index("docno")["exposure"]
    weights = np.exp(np.array([2.0, 1.5, 1.0]) ** 4)
    assert exposure[["a", "b", "c"]].to_numpy() == pytest.approx(weights / weights.sum())
    with pytest.warns(DataWarning, match="'r'"):
        of_all = PlackettLuceExposure(alpha=4, cutoff=1)(run).set_index("docno")["exposure"]
    scaled = np.exp((1 + (np.array([100.0, 2.0, 1.5, 1.0]) - 1) / 99) ** 4)
    assert of_all[["r", "a", "b", "c"]].to_numpy() == pytest.approx(scaled / scaled.sum())


@pytest.mark.parametrize("n", [2, 3])
def test_distances_are_named_first(n):
    run = pd.DataFrame(
        {"qid": "q", "docno": [*"abc"], "score": [0.12, 0.35, 0.9], "rank": range(3)}
    )
    qrels = run[["qid", "docno"]].assign(label=1)
    with pytest.raises(fairtk.errors.InputError) as error:
        fairtk.evaluate(qrels, run.head(n), ["EE_R@1"])
    assert str(error.value).startswith("run 1: these look like distances") == (n == 3)
