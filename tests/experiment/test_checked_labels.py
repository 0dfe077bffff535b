"""Labels by people for some queries: `evaluate`, `compare`, `Results` and the command line."""

import functools
import re

import click.testing
import jsonschema
import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk.cli.group import cli
from fairtk.errors import (
    ColumnError,
    DataWarning,
    InputError,
    MissingWarning,
    ParameterError,
    UndefinedWarning,
)
from fairtk.experiment import Results, results_schema
from fairtk.statistics import corrected_mean, mean_intervals

GENERATOR = np.random.default_rng(8)
QIDS = [f"q{i}" for i in range(40)]
TRUE = pd.DataFrame(
    [(qid, f"d{j}", int(j == 0 or GENERATOR.random() < 0.4)) for qid in QIDS for j in range(8)],
    columns=["qid", "docno", "label"],
)
MODEL = TRUE.assign(label=np.where(GENERATOR.random(len(TRUE)) < 0.2, 1, TRUE["label"]))
CHOSEN = sorted(GENERATOR.choice(QIDS, 12, replace=False))
CHECKED = TRUE[TRUE["qid"].isin(CHOSEN)]
MEASURES = ["nDCG@5", "P@3"]


def run(seed, boost=0.0):
    generator = np.random.default_rng(seed)
    return TRUE.assign(score=lambda frame: generator.random(len(frame)) + boost * frame["label"])[
        ["qid", "docno", "score"]
    ]


RUNS = {"a": run(1), "b": run(2, 0.5), "c": run(3)}


@functools.cache
def values_with_each_label():
    """Return the values with the true labels and with those of the model."""
    return [
        fairtk.evaluate(labels, RUNS, MEASURES).per_query.pivot(
            index="qid", columns=["measure", "system"], values="value"
        )
        for labels in (TRUE, MODEL)
    ]


def parts(measure, system, baseline=None):
    """Return the arguments of `corrected_mean`, from values with each of the labels."""
    exact, cheap = (
        table[measure, system] - (table[measure, baseline] if baseline else 0)
        for table in values_with_each_label()
    )
    is_checked = exact.index.isin(CHOSEN)
    return exact[is_checked], cheap[is_checked], cheap[~is_checked]


def test_evaluate_corrects_the_means():
    results = fairtk.evaluate(MODEL, RUNS, MEASURES, checked=CHECKED)
    rows = results.corrected.set_index(["system", "measure"])
    assert list(rows.index) == [(s, m) for m in MEASURES for s in RUNS]
    for (system, measure), row in rows.iterrows():
        expected = corrected_mean(*parts(measure, system), bounds=(0, 1))
        assert (row["n"], row["checked"], row["note"]) == (40, 12, "")
        for name in ("mean", "mean_checked", "corrected", "low", "high", "weight"):
            assert row[name] == pytest.approx(getattr(expected, name), rel=1e-12), name
    assert (rows["weight"] > 0).all()
    # the means are still those of the model's labels
    plain = fairtk.evaluate(MODEL, RUNS, MEASURES)
    pd.testing.assert_frame_equal(results.means, plain.means)
    assert rows["mean"].to_dict() == pytest.approx(plain.means.stack().to_dict())


def check_comparison(table, confidence=0.95):
    name = "run" if "run" in table.columns else "system"
    for _, row in table.iterrows():
        system, measure = row[name], row["measure"]
        mean = corrected_mean(*parts(measure, system))
        assert (row["n"], row["checked"]) == (40, 12)
        for column in ("mean", "mean_checked", "corrected"):
            assert row[column] == pytest.approx(getattr(mean, column), rel=1e-12)
        if system != "a":
            test = corrected_mean(*parts(measure, system, "a"), confidence=confidence)
            actual = tuple(row[["difference", "low", "high", "p"]])
            assert actual == pytest.approx(
                (test.corrected, test.low, test.high, test.p), rel=1e-9, abs=1e-12
            )


def test_compare_corrects_the_differences():
    compared = fairtk.compare(MODEL, RUNS, MEASURES, checked=CHECKED)
    check_comparison(compared.table)
    table = fairtk.compare(MODEL, RUNS, MEASURES, checked=CHECKED, confidence=0.8).table
    check_comparison(table, 0.8)
    experiment = fairtk.Experiment(RUNS, None, MODEL, MEASURES, baseline="a")
    check_comparison(experiment.compare(checked=CHECKED))
    with_checked = experiment.with_checked(CHECKED)
    check_comparison(with_checked.compare())
    evaluated = fairtk.evaluate(MODEL, RUNS, MEASURES, checked=CHECKED)
    check_comparison(evaluated.compare("a"))
    pd.testing.assert_frame_equal(with_checked.corrected, evaluated.corrected)


def test_the_interval_is_not_wider_than_that_of_the_checked_queries():
    for seed in range(5):
        judged = MODEL.assign(label=np.random.default_rng(seed).integers(0, 2, len(MODEL)))
        results = fairtk.evaluate(judged, {"a": RUNS["a"]}, MEASURES, checked=CHECKED)
        alone = fairtk.evaluate(CHECKED, {"a": RUNS["a"]}, MEASURES).per_query
        for _, row in results.corrected.iterrows():
            values = alone.loc[alone["measure"] == row["measure"], "value"].to_numpy()
            (low,), (high,) = mean_intervals(values[None])
            assert row["high"] - row["low"] <= (high - low) * 1.0001


def test_targets_follow_the_labels():
    groups = pd.DataFrame({"docno": [f"d{j}" for j in range(8)], "group": list("xxxyyzzz")})
    options = {"groups": groups, "target": "relevance"}
    results = fairtk.evaluate(MODEL, RUNS, ["AWRF@5"], checked=CHECKED, **options)
    expected = fairtk.evaluate(CHECKED, RUNS, ["AWRF@5"], **options)
    actual = results.corrected.set_index("system")["mean_checked"]
    assert actual.to_dict() == pytest.approx(expected.means.iloc[:, 0].to_dict(), rel=1e-12)


BAD = {
    "other queries": (CHECKED.assign(qid="z" + CHECKED["qid"]), InputError, f"12.*'z{CHOSEN[0]}'"),
    "one unknown query": (
        pd.concat([CHECKED, CHECKED.head(8).assign(qid="zz")]),
        InputError,
        "1 of 13.*'zz'",
    ),
    "one query": (CHECKED.head(8), InputError, "two.*" + CHECKED["qid"].iloc[0]),
    "none": (CHECKED.iloc[:0], InputError, "checked"),
    "no labels": (CHECKED.drop(columns="label"), ColumnError, "checked.*'label'"),
    "a run": (RUNS["a"], ColumnError, "checked.*score"),
    "no file": ("missing.txt", InputError, "missing.txt"),
}


@pytest.mark.parametrize(("checked", "kind", "match"), BAD.values(), ids=BAD)
def test_invalid_checked_labels_are_refused(checked, kind, match):
    results = fairtk.Experiment(RUNS, None, MODEL, MEASURES, baseline="a")
    for call in (
        lambda: fairtk.evaluate(MODEL, RUNS, MEASURES, checked=checked),
        lambda: fairtk.compare(MODEL, RUNS, MEASURES, checked=checked),
        lambda: results.compare(checked=checked),
    ):
        with pytest.raises(kind, match=match):
            call()


GROUPS = pd.DataFrame({"docno": QIDS, "group": ["x", "y"] * 20})


@pytest.mark.parametrize(
    "measure",
    ["NumRet", "E(NumRet)", "NumQ", fairtk.ByGroup(fairtk.EE_R @ 3, by="query", groups=GROUPS)],
    ids=str,
)
def test_measures_that_are_not_means_are_refused_by_name(measure):
    with pytest.raises(InputError, match="means.*(NumRet|NumQ|ByGroup)"):
        fairtk.evaluate(MODEL, RUNS, ["P@3", measure], checked=CHECKED)


def test_other_options_are_refused_by_name():
    options = {
        "margin": {"margin": 0.1},
        "levels": {"levels": True},
        "wilcoxon": {"test": "wilcoxon"},
        "randomization": {"test": "randomization"},
        "cluster": {"cluster": {qid: qid[:2] for qid in QIDS}},
    }
    results = fairtk.evaluate(MODEL, RUNS, MEASURES, checked=CHECKED)
    for name, option in options.items():
        with pytest.raises(ParameterError, match=name):
            fairtk.compare(MODEL, RUNS, MEASURES, checked=CHECKED, **option)
        with pytest.raises(ParameterError, match=name):
            results.compare("a", **option)
    with pytest.raises(ParameterError, match="queries_needed"):
        results.queries_needed(0.1, baseline="a")
    with pytest.raises(ParameterError, match="checked"):
        fairtk.evaluate(MODEL, RUNS, MEASURES).corrected  # noqa: B018
    with pytest.raises(InputError, match="qrels"):
        fairtk.evaluate(None, RUNS, ["EE_D@3"], checked=CHECKED)


def test_all_queries_checked_is_reported():
    with pytest.warns(DataWarning, match="all 40"):
        results = fairtk.evaluate(MODEL, RUNS, MEASURES, checked=TRUE)
    rows = results.corrected
    assert (rows["weight"] == 0).all() and (rows["corrected"] == rows["mean_checked"]).all()
    means = fairtk.evaluate(TRUE, RUNS, MEASURES).means
    assert rows.set_index(["system", "measure"])["corrected"].to_dict() == pytest.approx(
        means.stack().to_dict()
    )


def test_checked_queries_missing_from_a_run_are_named():
    runs = {**RUNS, "b": RUNS["b"][RUNS["b"]["qid"] != CHOSEN[0]]}
    with pytest.warns(MissingWarning) as caught:
        results = fairtk.evaluate(MODEL, runs, MEASURES, checked=CHECKED)
    assert any(
        re.search(f"1 of 12 .*b .*'{CHOSEN[0]}'.* checked", str(one.message)) for one in caught
    )
    row = results.checked.query(f"system == 'b' and qid == '{CHOSEN[0]}'")
    assert (row["value"] == 0).all() and len(row) == 2
    table = fairtk.compare(MODEL, runs, MEASURES, checked=CHECKED, queries="common").table
    assert (table["n"] == 39).all() and (table["checked"] == 11).all()


def test_queries_that_are_undefined_with_one_of_both_labels():
    checked = CHECKED.assign(label=CHECKED["label"].where(CHECKED["qid"] != CHOSEN[0], 0))
    with pytest.warns(UndefinedWarning, match=rf"checked.*'{CHOSEN[0]}'"):
        results = fairtk.evaluate(MODEL, RUNS, ["EE_R@3"], checked=checked)
    rows = results.corrected
    assert (rows["checked"] == 11).all() and (rows["weight"] == 0).all()
    assert (rows["corrected"] == rows["mean_checked"]).all()


def test_tables_pages_and_saved_results(tmp_path):
    text = "12 of 40 queries"
    results = fairtk.evaluate(MODEL, RUNS, MEASURES, checked=CHECKED)
    compared = fairtk.compare(MODEL, RUNS, MEASURES, checked=CHECKED)
    row = results.corrected.iloc[1]
    for shown in (repr(results), results._repr_html_()):
        assert text in shown
        for name in ("mean", "mean_checked", "corrected", "low", "high"):
            assert f"{row[name]:.4f}" in shown
    tables = [made for of in (results, compared) for made in (of.to_latex(), of.to_markdown())]
    for shown in (repr(compared), *tables, results.to_latex("a"), results.to_markdown("b")):
        assert text in shown and f"{row['corrected']:.4f}" in shown
    compared.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text in page and f"{row['corrected']:.3f}" in page
    results.save(tmp_path / "saved")
    loaded = Results.load(tmp_path / "saved")
    pd.testing.assert_frame_equal(loaded.corrected, results.corrected)
    pd.testing.assert_frame_equal(loaded.compare("a"), results.compare("a"))
    schema = results_schema()
    rows = pd.read_parquet(tmp_path / "saved" / "checked.parquet").to_dict("records")
    of_file = {"$defs": schema["$defs"], **schema["properties"]["checked.parquet"]}
    jsonschema.Draft202012Validator(of_file).validate(rows)


def test_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fairtk.io.write_qrels(MODEL, "model.txt")
    fairtk.io.write_qrels(CHECKED, "people.txt")
    for name, frame in RUNS.items():
        fairtk.io.write_run(frame, f"{name}.run")

    def invoke(*words):
        return click.testing.CliRunner().invoke(cli, words)

    files = ("model.txt", "a.run", "b.run", "c.run", "-m", "nDCG@5", "-m", "P@3")
    files += ("--checked", "people.txt")
    outcome = invoke("evaluate", *files, "--format", "csv", "-o", "means.csv")
    assert outcome.exit_code == 0, outcome.output
    actual = pd.read_csv("means.csv", keep_default_na=False)
    expected = fairtk.evaluate(MODEL, RUNS, MEASURES, checked=CHECKED).corrected
    pd.testing.assert_frame_equal(
        actual, expected.rename(columns={"system": "run"}), check_dtype=False
    )
    output = " ".join(invoke("evaluate", *files).output.split())
    assert "12 of 40 queries" in output and f"{expected['corrected'][0]:.4f}" in output
    outcome = invoke("compare", *files, "--format", "csv", "-o", "table.csv")
    assert outcome.exit_code == 0, outcome.output
    check_comparison(pd.read_csv("table.csv"))
    assert "12 of 40 queries" in " ".join(invoke("compare", *files).output.split())
    for words in (("--test", "wilcoxon"), ("--margin", "0.1"), ("-m", "NumRet")):
        outcome = invoke("compare", *files, *words)
        assert outcome.exit_code == 2 and "--checked" in outcome.output
