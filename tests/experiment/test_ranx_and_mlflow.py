"""With the real ranx and MLflow, which .ci/run installs in an environment of their own."""

import pandas as pd
import pytest
from experiment_stages import Retriever, world

import fairtk
from fairtk import EE_D, FairSampler
from fairtk.experiment import open_results
from fairtk.io import read_qrels, read_run, write_qrels, write_run

ranx = pytest.importorskip("ranx")
MlflowClient = pytest.importorskip("mlflow.tracking").MlflowClient
RUN = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"b": 0.5, "a": 0.25}}
QRELS = {"q1": {"a": 1, "c": 2}, "q2": {"a": 1}}


def frame(scores, value):
    rows = [(q, d, s) for q, own in scores.items() for d, s in own.items()]
    return pd.DataFrame(rows, columns=["qid", "docno", value])


@pytest.mark.filterwarnings("ignore:unsafe cast")  # of numba, on its own code
def test_runs_and_qrels_of_ranx_are_taken_where_frames_are(tmp_path):
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


def measured(store):
    topics, qrels = world(2)
    systems = {"fixed": Retriever(4), "fair": Retriever(4) >> FairSampler(n_samples=3)}
    return fairtk.Experiment(systems, topics, qrels, [EE_D @ 3], baseline="fixed", save_dir=store)


def test_mlflow_has_means_settings_and_files(tmp_path):
    simple = measured(tmp_path / "store")
    number = simple.log_to_mlflow("mine", tracking_uri=tmp_path / "runs", name="one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = MlflowClient(tracking_uri=(tmp_path / "runs").as_uri())
        place = client.get_experiment_by_name("mine").experiment_id
        runs = {run.info.run_name: run for run in client.search_runs([place])}
        assert runs.keys() == {"one", *simple.systems} and runs["one"].info.run_id == number
        fair = runs["fair"].data
        assert fair.metrics["EE_D_3"] == pytest.approx(simple.means.loc["fair", "EE_D@3"])
        assert fair.tags["fairtk.measure.EE_D_3"] == "EE_D@3"
        assert fair.tags["mlflow.parentRunId"] == number
        assert fair.params["2.FairSampler.n_samples"] == "3"
        assert runs["one"].data.params["baseline"] == "fixed"
        place = client.download_artifacts(number, "results", tmp_path)
        pd.testing.assert_frame_equal(open_results(place).per_query, simple.per_query)
