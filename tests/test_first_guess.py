"""What a newcomer tries first, as they would type it."""

import inspect

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import P, nDCG

import fairtk
from fairtk import AWRF, EE_D, EE_L, FairSampler, Groups, OracleSampler, Target
from fairtk.errors import ColumnError, InputError
from fairtk.io import read_qrels, read_run, write_qrels, write_run
from fairtk.remarks import NOT_BY_GROUP

QRELS = {"q1": {"a": 1, "b": 0}, "q2": {"a": 2, "c": 1}}
RUN = {"q1": {"a": 0.5, "c": 0.25}, "q2": {"b": 1.5, "a": 1.0}}
OTHER = {"q1": {"c": 2.0, "a": 1.0}, "q2": {"a": 1.5, "c": 1.0}}
LABELS = pd.DataFrame(
    [(q, d, label) for q, docs in QRELS.items() for d, label in docs.items()],
    columns=["qid", "docno", "label"],
)
ROWS = pd.DataFrame(
    [(q, d, score) for q, docs in RUN.items() for d, score in docs.items()],
    columns=["qid", "docno", "score"],
)
GROUPS = pd.DataFrame({"docno": ["a", "b", "c"], "group": ["x", "y", "y"]})
GENDER = Groups.from_frame(GROUPS, name="gender")
MEASURES = ["nDCG@2", "EE_D@2"]


# what is accepted


def as_iterables(kind, data):
    return (kind(q, d, value) for q, docs in data.items() for d, value in docs.items())


def as_ranx(kind, data):
    return getattr(pytest.importorskip("ranx"), kind)(data)


def as_polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


def as_file(kind, data, folder):
    path = folder / f"{kind}.txt"
    (write_qrels if kind == "qrels" else write_run)(data, path)
    return path


FORMS = {
    "dict": lambda folder: (QRELS, RUN),
    "frame": lambda folder: (LABELS, ROWS),
    "polars": lambda folder: (as_polars(LABELS), as_polars(ROWS)),
    "ir_measures": lambda folder: (
        as_iterables(ir_measures.Qrel, QRELS),
        as_iterables(ir_measures.ScoredDoc, RUN),
    ),
    "list": lambda folder: (
        [*as_iterables(ir_measures.Qrel, QRELS)],
        [*as_iterables(ir_measures.ScoredDoc, RUN)],
    ),
    "Path": lambda folder: (as_file("qrels", QRELS, folder), as_file("run", RUN, folder)),
    "str": lambda folder: (str(as_file("qrels", QRELS, folder)), str(as_file("run", RUN, folder))),
    "ranx": lambda folder: (as_ranx("Qrels", QRELS), as_ranx("Run", RUN)),
    "read_trec": lambda folder: (
        ir_measures.read_trec_qrels(str(as_file("qrels", QRELS, folder))),
        ir_measures.read_trec_run(str(as_file("run", RUN, folder))),
    ),
}


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def given(request, tmp_path):
    """Qrels and a run in one of the accepted forms, new ones for each call."""
    return lambda: request.param(tmp_path)


def test_one_run_in_each_form(given):
    expected = ir_measures.calc_aggregate([nDCG @ 2], QRELS, RUN)[nDCG @ 2]
    results = fairtk.evaluate(*given(), MEASURES)
    assert results.means.shape == (1, 2)
    assert results.means.iloc[0, 0] == expected


def test_several_runs_in_each_form(given):
    qrels, run = given()
    listed = fairtk.evaluate(qrels, [run, OTHER], MEASURES)
    qrels, run = given()
    named = fairtk.evaluate(qrels, {"bm25": run, "other": OTHER}, MEASURES)
    assert [*named.means.index] == ["bm25", "other"]
    np.testing.assert_array_equal(listed.means, named.means)


def test_what_is_asked_of_one_run(given):
    by_frame = fairtk.precision(run=sampled(ROWS), qrels=LABELS, measures="EE_D@2").means
    qrels, run = given()
    means = fairtk.precision(run=sampled(ROWS), qrels=qrels, measures="EE_D@2").means
    pd.testing.assert_frame_equal(means, by_frame)
    assert GENDER.coverage(run)["retrieved"].tolist() == [2, 2]
    qrels, run = given()
    diagnosis = fairtk.doctor(run=run, qrels=qrels, cutoff=2)
    assert (diagnosis.counts["rows"], diagnosis.counts["labels"]) == (4, 4)
    qrels, run = given()
    part = fairtk.explain(measure="EE_L@2", run=run, qrels=qrels, baseline=OTHER)
    assert sorted(part.by_query["qid"]) == ["q1", "q2"]


def sampled(run):
    return FairSampler(n_samples=4)(run.assign(rank=[0, 1, 0, 1]))


def test_experiments(given):
    means = fairtk.Experiment({"fixed": ROWS}, None, given()[0], [EE_D @ 2]).means
    assert means.iloc[0, 0] == fairtk.evaluate(QRELS, RUN, "EE_D@2").means.iloc[0, 0]


def test_dicts_elsewhere(tmp_path):
    assert Target.from_qrels(QRELS, GENDER) == Target.from_qrels(LABELS, GENDER)
    assert OracleSampler(QRELS) == OracleSampler(LABELS)
    pd.testing.assert_frame_equal(FairSampler(seed=3)(RUN), FairSampler(seed=3)(ROWS))
    assert len(fairtk.drop_undefined(QRELS)) == 4
    write_run(RUN, tmp_path / "a.run")
    write_qrels(QRELS, tmp_path / "qrels")
    assert read_run(tmp_path / "a.run")["score"].tolist() == [0.5, 0.25, 1.5, 1.0]
    pd.testing.assert_frame_equal(read_qrels(tmp_path / "qrels"), LABELS)
    for systems in ({"run": RUN}, [RUN], RUN):
        assert len(fairtk.Experiment(systems, None, QRELS, [P @ 1]).means) == 1
    table = fairtk.analysis.sensitivity(QRELS, {"a": RUN, "b": OTHER}, "nDCG@2").table
    assert not table.empty
    curves = fairtk.analysis.frontier(QRELS, {"a": RUN}, x="EE_D@2", y="EE_R@2", resamples=2)
    assert not curves.curve.empty


def test_an_empty_query_of_a_run_is_missing():
    with pytest.warns(fairtk.errors.MissingWarning, match="'q1'"):
        means = fairtk.evaluate(QRELS, {**RUN, "q1": {}}, "nDCG@2").means
    assert 0 < means.iloc[0, 0] < 0.5  # the mean of two queries, one of which is 0


DEEP = {"bm25": RUN}
REFUSED = {
    "three levels for qrels": (lambda: fairtk.evaluate(DEEP, RUN, MEASURES), "'bm25', 'q1' (2 in"),
    "four levels for runs": (lambda: fairtk.evaluate(QRELS, {"x": DEEP}, MEASURES), "x must be {"),
    "one level": (lambda: fairtk.doctor(run={"q1": 0.5, "q2": 1}, qrels=QRELS), "'q1' (2 in"),
    "lists": (lambda: fairtk.evaluate({"q1": ["a"]}, RUN, MEASURES), "list for 'q1' (1 in"),
    "words": (
        lambda: fairtk.evaluate(QRELS, {"q1": {"a": "high", "b": "low"}, "q2": {"a": 1}}, MEASURES),
        "'high' (qid 'q1', docno 'a'; 2 such rows)",
    ),
    "no label": (lambda: fairtk.evaluate({"q1": {"a": None}}, RUN, "nDCG@2"), "docno 'a'; 1 such"),
    "no queries": (lambda: fairtk.evaluate({}, RUN, MEASURES), "qrels must not be empty"),
    "no labels": (
        lambda: fairtk.evaluate({**QRELS, "q9": {}}, RUN, MEASURES),
        "qid 'q9' has no documents (1 such query)",
    ),
    "no results": (
        lambda: fairtk.evaluate(QRELS, {"q1": {}}, MEASURES),
        "qid 'q1' has no documents (1 such query)",
    ),
    "no runs": (lambda: fairtk.evaluate(QRELS, {}, MEASURES), "at least one run"),
}


@pytest.mark.parametrize(("call", "first"), REFUSED.values(), ids=REFUSED)
def test_bad_dicts_are_named_in_one_line(call, first):
    with pytest.raises(InputError) as error:
        call()
    assert first in str(error.value)
    assert "\n" not in str(error.value)


# qrels and run in each other's place


SWAPPED = {
    "frames": (ROWS, LABELS),
    "a frame and a dict": (QRELS, LABELS),
    "a dict and a frame": (ROWS, RUN),
    "ir_measures' iterables": (
        [*as_iterables(ir_measures.ScoredDoc, RUN)],
        [*as_iterables(ir_measures.Qrel, QRELS)],
    ),
}


@pytest.mark.parametrize(("first", "second"), SWAPPED.values(), ids=SWAPPED)
def test_swapped_data_is_named(first, second):
    for call in (fairtk.evaluate, fairtk.analysis.sensitivity):
        with pytest.raises(ColumnError, match="qrels come first"):
            call(first, second, MEASURES)


@pytest.mark.parametrize("suffix", ["txt", "tsv", "jsonl", "parquet"])
def test_swapped_files_are_named(suffix, tmp_path):
    qrels, run = tmp_path / f"qrels.{suffix}", tmp_path / f"run.{suffix}"
    if suffix == "txt":
        write_qrels(QRELS, qrels)
        write_run(RUN, run)
    else:
        fairtk.io.tables.write_table(LABELS, qrels)
        fairtk.io.tables.write_table(ROWS, run)
    with pytest.raises(InputError, match=rf"run.{suffix}.*qrels come first"):
        fairtk.evaluate(run, qrels, MEASURES)
    with pytest.raises(InputError, match=rf"qrels.{suffix}.*qrels come first"):
        fairtk.evaluate(qrels, [qrels], MEASURES)
    findings = fairtk.doctor(run=qrels, qrels=run).findings
    assert sum("qrels come first" in finding.text for finding in findings) == 2


# qrels before runs, one word for targets, results that show themselves


def test_qrels_come_first_in_every_function():
    like_pyterrier = {"Experiment", "plan"}  # systems, topics, qrels
    for name in set(fairtk.__all__) - like_pyterrier:
        function = getattr(fairtk, name)
        if not inspect.isfunction(function):
            continue
        names = list(inspect.signature(function).parameters)
        runs = [names.index(n) for n in ("run", "runs", "answers", "scores") if n in names]
        if "qrels" in names and runs:
            assert names.index("qrels") < min(runs), name
        assert "targets" not in names, name


@pytest.mark.parametrize("target", ["uniform", ["uniform"], Target.uniform(GENDER)])
def test_one_word_for_targets(target):
    means = fairtk.evaluate(QRELS, RUN, "AWRF@2", groups=GENDER, target=target).means
    measure = AWRF(groups=GENDER, target=Target.uniform(GENDER)) @ 2
    assert means.to_numpy() == fairtk.evaluate(QRELS, RUN, measure).means.to_numpy()
    ties = fairtk.doctor(QRELS, ROWS.assign(score=1.0), GENDER, target=target).ties
    assert ties["measure"].str.startswith("AWRF").any()


PRINTED = {
    "comparison": (
        lambda: fairtk.compare(QRELS, {"bm25": RUN, "fair": OTHER}, [P @ 1]),
        lambda result: ["bm25", "fair", "difference", "p"],
    ),
    "diagnosis": (lambda: fairtk.doctor(QRELS, RUN), lambda result: [result.verdict]),
    "precision": (
        lambda: fairtk.precision(QRELS, sampled(ROWS), "EE_D@2"),
        lambda result: ["EE_D@2"],
    ),
    "plan": (
        lambda: fairtk.plan([FairSampler()], ROWS, save_dir="store"),
        lambda result: ["queries"],
    ),
    "explanation": (
        lambda: fairtk.explain(QRELS, RUN, "EE_L@2"),
        lambda result: [f"{result.total:.4f}"],
    ),
    "measure": (
        lambda: EE_L(browsing="RBP(p=0.8)"),
        lambda result: ["browsing", "RBP(p=0.8)"],
    ),
}


@pytest.mark.parametrize(("make", "words"), PRINTED.values(), ids=PRINTED)
def test_results_show_themselves(make, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = make()
    html = result._repr_html_()
    assert "<table" in html
    for text in (str(result), html):
        assert all(word in text for word in words(result)), text


def test_measures_by_document_next_to_groups():
    options = {"groups": GROUPS, "target": "uniform"}
    for name in ("EE_D", "EE_R", "EE_L"):
        result = fairtk.evaluate(QRELS, RUN, ["AWRF@2", f"{name}@2"], **options)
        [remark] = [remark for remark in result.remarks if remark.kind == NOT_BY_GROUP]
        assert remark.measure == f"{name}@2"
        fairtk.evaluate(QRELS, RUN, [f"{remark.detail}@2"], **options)  # the advice works
        assert remark.detail.startswith(f"Group{name}(")
