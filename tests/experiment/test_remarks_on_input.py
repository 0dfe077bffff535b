"""Remarks on files and frames: in the results of whatever reads them, and one warning each."""

import warnings

import pandas as pd
import pytest

import fairtk
from fairtk import remarks
from fairtk.errors import DataWarning

QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 a 1\n"
RUN = "q1 Q0 a 0 2 x\nq1 Q0 b 1 1 x\nq2 Q0 a 0 1 x\n"
TOPICS = pd.DataFrame({"qid": ["q1", "q2"], "query": ["one", "two"]})


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def repeated(write):
    return {"qrels": write("q.qrels", QRELS + "q2 0 a 1\n"), "runs": [write("r.run", RUN)]}


def without_rows(write):
    runs = [write("r.run", RUN), write("none.run", "")]
    return {"qrels": write("q.qrels", QRELS), "runs": runs}


def against_scores(write):
    run = write("r.run", "q1 Q0 a 0 1 x\nq1 Q0 b 1 2 x\nq2 Q0 a 0 1 x\n")
    return {"qrels": write("q.qrels", QRELS), "runs": [run], "order": "rank"}


def unknown_groups(write):
    groups = pd.DataFrame({"docno": ["a", "b", "c"], "group": ["x", "n/a", "y"]})
    return {
        "qrels": write("q.qrels", QRELS),
        "runs": [write("r.run", RUN)],
        "groups": {"of-input": groups},
        "target": "uniform",
    }


CASES = {
    remarks.REPEATED_ROWS: repeated,
    remarks.NO_ROWS: without_rows,
    remarks.RANKS_DISAGREE: against_scores,
    remarks.UNKNOWN_SPELLINGS: unknown_groups,
}


def texts_of(found, kind):
    return [remarks.text_of([one]) for one in found if one.kind == kind]


def warned(call, kind):
    """Return the result of a call, and the remarks of a kind that are among its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    texts = [str(one.message) for one in caught if issubclass(one.category, DataWarning)]
    return result, [text for text in texts if text in texts_of(result.remarks, kind)]


@pytest.mark.parametrize("kind", CASES)
def test_evaluate(kind, write):
    given = CASES[kind](write)
    measures = ["AWRF@5"] if "groups" in given else ["EE_D@5"]
    results, texts = warned(lambda: fairtk.evaluate(**given, measures=measures), kind)
    assert len(texts_of(results.remarks, kind)) == 1
    assert texts == texts_of(results.remarks, kind)


@pytest.mark.parametrize("kind", CASES)
def test_compare(kind, write):
    given = CASES[kind](write)
    measures = ["AWRF@5"] if "groups" in given else ["EE_D@5"]
    runs = [*given.pop("runs"), write("other.run", RUN)]
    compared, texts = warned(
        lambda: fairtk.compare(given.pop("qrels"), runs, measures, **given), kind
    )
    assert texts == texts_of(compared.evaluation.remarks, kind) and len(texts) == 1


@pytest.mark.parametrize("kind", CASES)
def test_doctor_lists_them_and_does_not_warn(kind, write):
    given = CASES[kind](write)
    diagnosis = fairtk.doctor(
        given["qrels"], given["runs"][-1], groups=given.get("groups", ()), cutoff=5
    )
    # the order of ranks is an error for the doctor, which reads scores
    checks = {"order"} if kind == remarks.RANKS_DISAGREE else {"data", "empty"}
    assert checks & {finding.check for finding in diagnosis.findings}


def test_experiment_warns_once_before_it_runs(write):
    given = repeated(write)
    run = fairtk.io.read_run(given["runs"][0])
    results, texts = warned(
        lambda: fairtk.Experiment({"x": run}, TOPICS, given["qrels"], ["EE_D@5"]),
        remarks.REPEATED_ROWS,
    )
    assert texts == texts_of(results.remarks, remarks.REPEATED_ROWS) and len(texts) == 1


def test_opened_results(write, tmp_path):
    given = repeated(write)
    run = fairtk.io.read_run(given["runs"][0])
    pipeline = fairtk.transformers.FairSampler(alpha=1, n_samples=2)
    import pyterrier as pt

    system = pt.Transformer.from_df(run) >> pipeline
    fairtk.Experiment({"x": system}, TOPICS, save_dir=tmp_path / "store")
    results, texts = warned(
        lambda: fairtk.experiment.open_results(
            tmp_path / "store", measures=["EE_D@5"], qrels=given["qrels"]
        ),
        remarks.REPEATED_ROWS,
    )
    assert texts == texts_of(results.remarks, remarks.REPEATED_ROWS) and len(texts) == 1
