"""Runs and qrels of ranx are accepted wherever frames are; skipped if ranx is not installed."""

import pandas as pd
import pytest

import fairtk
from fairtk import FairSampler
from fairtk.io import read_qrels, read_run, write_qrels, write_run

ranx = pytest.importorskip("ranx")
RUN = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"b": 0.5, "a": 0.25}}
QRELS = {"q1": {"a": 1, "c": 2}, "q2": {"a": 1}}


def frame(scores, value):
    rows = [(q, d, s) for q, own in scores.items() for d, s in own.items()]
    return pd.DataFrame(rows, columns=["qid", "docno", value])


@pytest.mark.filterwarnings("ignore:unsafe cast")  # of numba, on its own code
def test_runs_and_qrels_of_ranx_are_accepted_as_frames(tmp_path):
    run, qrels = ranx.Run(RUN), ranx.Qrels(QRELS)
    plain, labels = frame(RUN, "score"), frame(QRELS, "label")
    measures = ["EE_D@2", "nDCG@3", "RR"]
    ours = fairtk.evaluate(qrels, {"run": run}, measures)
    pd.testing.assert_frame_equal(
        ours.means, fairtk.evaluate(labels, {"run": plain}, measures).means
    )
    # the same by ranx: q1 finds a first; q2 finds it second
    assert ours.means.loc["run", "RR"] == ranx.evaluate(qrels, run, "mrr") == (1 + 1 / 2) / 2
    made = fairtk.Experiment({"run": run}, None, qrels, ["EE_D@2"])
    assert made.means.loc["run", "EE_D@2"] == ours.means.loc["run", "EE_D@2"]
    sampler = FairSampler(n_samples=3, seed=1)
    pd.testing.assert_frame_equal(sampler(run), sampler(plain))
    write_run(run, tmp_path / "a.run")
    write_qrels(qrels, tmp_path / "qrels.txt")
    assert read_run(tmp_path / "a.run")["docno"].tolist() == ["a", "b", "c", "b", "a"]
    assert set(read_qrels(tmp_path / "qrels.txt")["label"]) == {1, 2}
