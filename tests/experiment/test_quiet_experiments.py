"""`Experiment(warn=False)` returns what it would warn of; `Plan.pending` says what is to do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from remarking_stages import QIDS, fair_qr, named

import fairtk
from fairtk.errors import ChangedWarning, FairtkWarning, ParameterError
from fairtk.transformers import FairTransformer

TOPICS = pd.DataFrame({"qid": list(QIDS), "query": [f"words of {qid}" for qid in QIDS]})
QRELS = pd.DataFrame({"qid": list(QIDS), "docno": "d1", "label": 1})


class Fixed(FairTransformer):
    """One document for all queries but those that fail."""

    SETTINGS = ("failing", "score")
    identity_name = "test.Fixed"
    output_version = 1

    def __init__(self, failing=(), score=1.0):
        super().__init__()
        self.failing = failing
        self.score = score

    def transform(self, inp):
        if set(inp["qid"]) & set(self.failing):
            raise ValueError("no luck")
        return inp[["qid"]].assign(docno="d1", score=self.score, rank=0)


def caught(*args, **options):
    with warnings.catch_warnings(record=True, action="always") as records:
        results = fairtk.Experiment(*args, **options)
    return results, [w.message for w in records if isinstance(w.message, FairtkWarning)]


def test_what_is_not_issued_is_in_the_results():
    systems = {
        "fails": Fixed(QIDS[:2]),
        "union": named(fair_qr(pool="union"), "union, quiet"),  # a stage that remarks
    }
    given = (systems, TOPICS, QRELS, ["nDCG@5"])
    loud, issued = caught(*given)
    quiet, none = caught(*given, warn=False)
    assert none == [] and len(issued) >= 2
    for results in (loud, quiet):
        texts = [(type(warning), str(warning)) for warning in results.warnings]
        assert texts == [(type(warning), str(warning)) for warning in issued]
    with pytest.warns(type(quiet.warnings[0])):
        warnings.warn(quiet.warnings[0], stacklevel=1)


def test_changed_systems_are_not_named(tmp_path):
    fairtk.Experiment({"a": Fixed()}, TOPICS, save_dir=tmp_path)
    _, none = caught({"a": Fixed(score=2.0)}, TOPICS, save_dir=tmp_path, warn=False)
    _, one = caught({"a": Fixed(score=3.0)}, TOPICS, save_dir=tmp_path)
    assert none == [] and [type(warning) for warning in one] == [ChangedWarning]
    with pytest.raises(ParameterError, match="warn"):
        fairtk.Experiment({"a": Fixed()}, TOPICS, warn="no")


def test_a_plan_lists_what_is_pending(tmp_path):
    systems = {"fails": Fixed(QIDS[:2]), "works": Fixed()}
    before = fairtk.plan(systems, TOPICS, save_dir=tmp_path).pending
    assert before["qid"].tolist() == [*QIDS, *QIDS] and before["error"].isna().all()
    caught(systems, TOPICS, save_dir=tmp_path, warn=False)
    after = fairtk.plan(systems, TOPICS, save_dir=tmp_path)
    assert after.pending[["system", "qid"]].to_numpy().tolist() == [["fails", q] for q in QIDS[:2]]
    assert after.pending["error"].str.endswith("no luck").all()
    assert len(after.pending) == np.sum(after.cells[["failed", "missing"]].to_numpy())
