"""Clusters of queries in `compare`, `evaluate`, `Experiment`, commands and pages."""

import click.testing
import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk.cli.group import cli
from fairtk.errors import ColumnError, DataWarning, InputError, NotFoundError, ParameterError
from fairtk.experiment import Results
from fairtk.statistics import paired_test

QIDS = [f"q{i}" for i in range(24)]
USERS = {qid: f"u{i % 7}" for i, qid in enumerate(QIDS)}
TOPICS = pd.DataFrame({"qid": QIDS, "query": "x", "user": USERS.values()})
MEASURES = ["nDCG@5", "P@1"]


def run(seed):
    generator = np.random.default_rng(seed)
    rows = [(qid, f"d{j}", generator.random()) for qid in QIDS for j in range(8)]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


QRELS = run(0).assign(label=lambda frame: (frame.pop("score") > 0.5).astype(int))
RUNS = {"a": run(1), "b": run(2), "c": run(3)}


def results(topics=TOPICS, **options):
    return fairtk.Experiment(RUNS, topics, QRELS, MEASURES, baseline="a", **options)


@pytest.fixture(scope="module")
def expected():
    """The tests of a against b by the statistics alone."""
    values = results().per_query.pivot(index="qid", columns=["system", "measure"], values="value")
    users = [USERS[qid] for qid in values.index]
    return {m: paired_test(values["b", m], values["a", m], clusters=users) for m in MEASURES}


def check(table, expected):
    name = "run" if "run" in table.columns else "system"
    rows = table[table[name] == "b"].set_index("measure")
    for measure, test in expected.items():
        row = rows.loc[measure]
        assert (row["n"], row["clusters"]) == (24, 7)
        assert tuple(row[["difference", "low", "high", "p"]]) == pytest.approx(
            (test.difference, test.low, test.high, test.p), rel=1e-12
        )


def forms(folder):
    pairs = TOPICS[["qid", "user"]]
    pairs.to_csv(folder / "users.tsv", sep="\t", index=False)
    pairs.to_csv(folder / "users.csv", index=False)
    pairs.to_json(folder / "users.jsonl", orient="records", lines=True)
    TOPICS.assign(turn=1).to_parquet(folder / "topics.parquet")
    pairs.rename(columns={"user": "cluster"}).assign(turn=1).to_csv(folder / "c.csv", index=False)
    return {
        "dict": USERS,
        "integers": {qid: int(user[1:]) for qid, user in USERS.items()},
        "series": TOPICS.set_index("qid")["user"],
        "frame": pairs,
        "topics": TOPICS,
        "shuffled": pairs.sample(frac=1, random_state=1),
        "tsv": folder / "users.tsv",
        "csv": str(folder / "users.csv"),
        "jsonl": folder / "users.jsonl",
        "column=file": f"user={folder / 'topics.parquet'}",
        "column cluster": folder / "c.csv",
    }


def test_every_form_of_clusters_gives_the_same_tests(tmp_path, expected):
    plain = results()
    for name, form in forms(tmp_path).items():
        check(plain.compare(cluster=form), expected)
        if name not in ("dict", "tsv", "column=file"):
            continue
        check(fairtk.compare(QRELS, RUNS, MEASURES, cluster=form).table, expected)
        check(results(cluster=form).compare(), expected)


def test_a_column_of_the_topics_qrels_or_runs(expected):
    check(results().compare(cluster="user"), expected)
    check(results(cluster="user").compare(), expected)
    candidates = RUNS["a"].merge(TOPICS)  # a topic in several rows
    check(results(candidates).compare(cluster="user"), expected)
    check(fairtk.compare(QRELS.merge(TOPICS), RUNS, MEASURES, cluster="user").table, expected)
    # b lacks a query; a has its user
    runs = {**RUNS, "b": RUNS["b"].merge(TOPICS).query("qid != 'q3'"), "c": RUNS["c"].merge(TOPICS)}
    with pytest.warns(fairtk.errors.MissingWarning):
        table = fairtk.compare(QRELS, runs, MEASURES, cluster="user").table
    assert (table["clusters"] == 7).all()


def test_clusters_of_one_query_change_nothing():
    plain, alone = results(), results(cluster="qid")
    for options in ({}, {"test": "randomization"}, {"margin": 0.1}, {"levels": True}):
        table = alone.compare(**options)
        assert (table.pop("clusters") == 24).all()
        pd.testing.assert_frame_equal(table, plain.compare(**options), rtol=1e-12)


def test_all_tests_use_the_clusters():
    plain, clustered = results(), results(cluster="user")
    for options, columns in [
        ({"test": "randomization"}, ["p", "low"]),
        ({"margin": 0.1}, ["p_not_worse", "p_equivalent"]),
        ({"levels": True}, ["error_queries"]),
    ]:
        tables = [one.compare(**options).set_index("system").loc["b"] for one in (plain, clustered)]
        for column in columns:
            assert (tables[0][column] != tables[1][column]).any(), column
    with pytest.raises(ParameterError, match="wilcoxon"):
        clustered.compare(test="wilcoxon")
    with pytest.raises(ParameterError, match="user"):
        clustered.queries_needed(0.1)


def test_excluded_queries_are_not_counted_as_clusters():
    qrels = QRELS.copy()
    qrels.loc[qrels["qid"].map(USERS) == "u3", "label"] = 0  # EE_R is undefined
    with pytest.warns(fairtk.errors.UndefinedWarning):
        table = fairtk.compare(qrels, RUNS, ["EE_R@3", "P@1"], cluster=USERS).table
    assert table["clusters"].tolist() == [6] * 3 + [7] * 3


BAD = {
    "unknown column": ("usr", NotFoundError, "'usr'.*user"),
    "missing value": ({**USERS, "q4": None}, InputError, "1 of 24.*'q4'"),
    "empty value": ({**USERS, "q4": ""}, InputError, "'q4'"),
    "missing query": (dict(list(USERS.items())[2:]), InputError, "2 of 24.*'q0', 'q1'"),
    "one cluster": (dict.fromkeys(QIDS, "u"), InputError, "'u'.*24"),
    "other queries": ({"x": "u", "y": "v"}, InputError, "'q0'.*'x'"),
    "two clusters of a query": (
        pd.concat([TOPICS, TOPICS.head(1).assign(user="u9")]),
        InputError,
        "'q0'.*u0.*u9",
    ),
    "two columns": (TOPICS.assign(turn=1), ColumnError, "'turn'"),
    "no qid": (TOPICS[["user"]], ColumnError, "qid"),
    "lists": (TOPICS.assign(user=[["a"]] * 24), InputError, "user"),
    "a list": (list(USERS.values()), ParameterError, "list"),
    "a number": (5, ParameterError, "int"),
}


@pytest.mark.parametrize(("cluster", "kind", "match"), BAD.values(), ids=BAD)
def test_invalid_clusters_are_refused(cluster, kind, match):
    for call in (
        lambda: results().compare(cluster=cluster),
        lambda: results(cluster=cluster),
        lambda: fairtk.evaluate(QRELS.merge(TOPICS), RUNS, MEASURES, cluster=cluster),
        lambda: fairtk.compare(QRELS.merge(TOPICS), RUNS, MEASURES, cluster=cluster),
    ):
        with pytest.raises(kind, match=match):
            call()


def test_a_column_with_missing_values_is_refused_by_name():
    topics = TOPICS.assign(user=TOPICS["user"].where(TOPICS["qid"] != "q5"))
    with pytest.raises(InputError, match="'user'.*1 of 24.*'q5'"):
        results(topics, cluster="user")
    with pytest.raises(InputError, match="'user'.*1 of 24.*'q5'"):
        results(topics).compare(cluster="user")


def test_unknown_queries_are_reported():
    with pytest.warns(DataWarning, match="'zz'") as caught:
        table = results().compare(cluster={**USERS, "zz": "u1"})
    assert caught[0].filename == __file__
    assert (table["clusters"] == 7).all()


def test_captions_have_the_number_of_clusters(tmp_path):
    text = "7 clusters of 24 queries (user)"
    made = results(cluster="user")
    assert text in repr(made)
    assert text in made.to_latex() and text in made.to_markdown()
    assert text in repr(fairtk.compare(QRELS.merge(TOPICS), RUNS, MEASURES, cluster="user"))
    results().report(tmp_path / "page.html", cluster="user")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text in page
    low = results().compare(cluster="user").query("system == 'b'")["low"].iloc[0]
    assert f"{low:+.4f}" in page


def test_saved_results_have_their_topics_and_clusters(tmp_path, expected):
    for made in (results(), results(cluster=USERS), results(cluster="user")):
        made.save(tmp_path / "saved")
        loaded = Results.load(tmp_path / "saved")
        check(loaded.compare(cluster="user"), expected)
        pd.testing.assert_frame_equal(loaded.compare(), made.compare())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fairtk.io.write_qrels(QRELS, "qrels.txt")
    for name, frame in RUNS.items():
        fairtk.io.write_run(frame, f"{name}.run")
    TOPICS.to_csv("topics.tsv", sep="\t", index=False)
    return tmp_path


def invoke(*words):
    return click.testing.CliRunner().invoke(cli, words)


def test_the_commands(folder, expected):
    files = ("qrels.txt", "a.run", "b.run", "-m", "nDCG@5", "-m", "P@1")
    for cluster in ("topics.tsv", "user=topics.tsv"):
        outcome = invoke("compare", *files, "--cluster", cluster, "--format", "csv", "-o", "t.csv")
        assert outcome.exit_code == 0, outcome.output
        check(pd.read_csv("t.csv"), expected)
    text = "7 clusters of 24 queries"
    output = " ".join(invoke("compare", *files, "--cluster", "topics.tsv").output.split())
    assert text in output
    outcome = invoke("evaluate", *files, "--cluster", "topics.tsv", "--page", "page.html")
    assert outcome.exit_code == 0 and text in " ".join(outcome.output.split())
    assert text in (folder / "page.html").read_text(encoding="utf-8")
    results().save("saved")
    assert invoke("report", "saved", "--cluster", "user").exit_code == 0
    assert text in (folder / "report.html").read_text(encoding="utf-8")
    for words in (("--cluster", "x.tsv"), ("--cluster", "topics.tsv", "--test", "wilcoxon")):
        assert invoke("compare", *files, *words).exit_code == 2
