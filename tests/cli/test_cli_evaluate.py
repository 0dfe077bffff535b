import csv
import gzip
import io
import json
import re

import pandas as pd
import pytest

from fairtk.analysis.evaluate import unique_names


def error(result):
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    return lines[0].removeprefix("Error: ")


class TestTable:
    def test_two_runs(self, folder, fairtk):
        result = fairtk(
            "evaluate", "qrels.txt", "fair.run", "plain.run",
            "-m", "EE_D@1", "-m", "EE_R@1", "-m", "E(P@1)",
        )  # fmt: skip
        # EE_D@1 of fair.run: each query shows two documents half of the time: 2 (1/2)^2 = 1/2.
        # E(P@1): q1 (1 + 0) / 2, q2 (1 + 1) / 2.
        # EE_R@1: q1 target a 1: 1/2; q2 targets b, c 1/2: (1/4 + 1/4) / (1/2) = 1.
        # plain.run: P@1 and EE_R@1 are 1 for q1 and 0 for q2.
        assert result.exit_code == 0
        assert result.stdout == (
            "run    queries  EE_D@1  EE_R@1  E(P@1)\n"
            "-----  -------  ------  ------  ------\n"
            "fair         2  0.5000  0.7500  0.7500\n"
            "plain        2  1.0000  0.5000  0.5000\n"
            "\n"
            "Lower is better: EE_D@1.\n"
        )
        assert result.stderr == ""

    def test_per_query(self, folder, fairtk):
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1", "--per-query")
        assert result.stdout.splitlines() == [
            "run    qid     P@1",
            "-----  ---  ------",
            "plain  q1   1.0000",
            "plain  q2   0.0000",
            "",
            "run    queries     P@1",
            "-----  -------  ------",
            "plain        2  0.5000",
        ]

    def test_means_are_over_defined_values_and_say_so(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 0\nq2 0 a 0\nq2 0 b 0\n")
        result = fairtk(
            "evaluate", "qrels.txt", "plain.run", "plain.run", "-m", "EE_R@1", "-m", "P@1"
        )
        assert result.exit_code == 0
        assert result.stdout.splitlines()[2:4] == [
            "plain          2  1.0000 (1/2)  0.5000",
            "plain#2        2  1.0000 (1/2)  0.5000",
        ]
        [line] = result.stderr.splitlines()  # the same warning for two runs is given once
        assert line.startswith("warning: undefined: EE_R@1 is undefined (NaN) for 1 of 2 queries")
        assert line.endswith("'q2'. Means are over the others.")

    def test_nothing_defined(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 0\nq2 0 a 0\n")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "EE_R@1")
        assert "undefined (0/2)" in result.stdout

    def test_a_wide_table_becomes_a_long_one(self, folder, fairtk):
        measures = [f"EE_D(browsing='RBP(p=0.{i})',bounds='exact')@1" for i in range(1, 5)]
        result = fairtk(
            "evaluate", "qrels.txt", "fair.run", *(w for m in measures for w in ("-m", m))
        )
        lines = result.stdout.splitlines()
        assert lines[0].split() == ["run", "measure", "mean", "queries"]
        assert lines[2].split() == ["fair", measures[0], "0.2500", "2/2"] or lines[2].endswith(
            "2/2"
        )
        assert max(map(len, lines[:6])) < 100

    def test_equal_measures_are_measured_once(self, folder, fairtk):
        result = fairtk(
            "evaluate", "qrels.txt", "plain.run", "-m", "E(P@1)", "-m", "E(measure='P@1')"
        )
        assert result.stdout.splitlines()[0] == "run    queries  E(P@1)"

    def test_a_product_is_labeled_as_it_is_written(self, folder, fairtk):
        result = fairtk("evaluate", "qrels.txt", "fair.run", "-m", "E(P@1) * EE_R@1")
        # q1: 1/2 * 1/2, q2: 1 * 1
        assert result.stdout.splitlines()[::2] == [
            "run   queries  E(P@1) * EE_R@1",
            "fair        2           0.6250",
        ]

    def test_a_measure_that_is_no_mean(self, folder, fairtk):
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "NumQ")
        assert result.stdout.splitlines()[2].split() == ["plain", "2", "2.0000"]


class TestMachineReadable:
    def test_csv(self, folder, fairtk):
        result = fairtk("evaluate", "qrels.txt", "fair.run", "-m", "EE_D@1", "--format", "csv")
        assert result.stdout == "run,measure,mean,defined,queries\nfair,EE_D@1,0.5,2,2\n"

    def test_json_with_undefined_values(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 1\nq1 0 c 1\nq2 0 a 0\n")
        words = ["evaluate", "qrels.txt", "fair.run", "-m", "EE_R@1", "--format", "json"]
        [mean] = json.loads(fairtk(*words).stdout)
        assert mean == {
            "run": "fair", "measure": "EE_R@1", "mean": pytest.approx(1), "defined": 1, "queries": 2
        }  # fmt: skip
        values = json.loads(fairtk(*words, "--per-query").stdout)
        assert [(v["qid"], v["value"]) for v in values] == [("q1", pytest.approx(1)), ("q2", None)]

    def test_all_digits(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 1\nq2 0 a 0\nq3 0 a 0\n")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1", "--format", "csv")
        [row] = csv.DictReader(io.StringIO(result.stdout))
        assert float(row["mean"]) != 1 / 3 or row["mean"] == repr(1 / 3)
        per_query = fairtk(
            "evaluate", "qrels.txt", "plain.run", "-m", "P@1", "--format", "csv", "--per-query"
        )
        assert per_query.stdout.splitlines()[0] == "run,qid,measure,value"

    def test_no_chatter_on_stdout(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 1\nq9 0 a 1\n")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "--format", "json")
        assert len(json.loads(result.stdout)) == 1
        assert result.stderr.startswith(
            "warning: missing: plain.run: 1 of 2 queries of the qrels are missing; they count"
        )


class TestFiles:
    def test_packed_and_parquet_runs(self, folder, fairtk):
        (folder / "fair.run.gz").write_bytes(gzip.compress((folder / "fair.run").read_bytes()))
        from fairtk.io import read_run

        read_run(folder / "fair.run").to_parquet(folder / "columns.parquet")
        result = fairtk(
            "evaluate", "qrels.txt", "fair.run", "fair.run.gz", "columns.parquet",
            "-m", "EE_D@1", "-m", "E(P@1)", "--format", "json",
        )  # fmt: skip
        values = json.loads(result.stdout)
        assert {v["run"] for v in values} == {"fair.run", "fair.run.gz", "columns"}
        assert [v["mean"] for v in values] == [0.5, 0.75] * 3

    def test_a_missing_query_gets_the_worst_value(self, folder, fairtk):
        (folder / "plain.run").write_text("q1 Q0 a 1 3 t\n")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "-m", "EE_R@1")
        assert result.stdout.splitlines()[2].split() == ["plain", "2", "1.0000", "0.5000"]
        assert "1 of 2 queries of the qrels are missing" in result.stderr

    def test_queries_without_labels_are_ignored(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 1\n")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1")
        assert result.stdout.splitlines()[2].split() == ["plain", "1", "1.0000"]
        assert result.stderr == ""

    def test_an_empty_run(self, folder, fairtk):
        (folder / "plain.run").write_text("")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "-m", "E(P@1)")
        assert result.stdout.splitlines()[2].split() == ["plain", "2", "1.0000", "0.0000"]
        assert "this run has no rows" in result.stderr

    def test_order(self, folder, fairtk):
        (folder / "plain.run").write_text("q1 Q0 b 1 1 t\nq1 Q0 a 2 2 t\n")
        words = ["evaluate", "qrels.txt", "plain.run", "-m", "E(P@1)"]
        assert "plain.run:2: ranks disagree with scores" in error(fairtk(*words))
        by_score = fairtk(*words, "--order", "score").stdout.splitlines()[2].split()
        by_rank = fairtk(*words, "--order", "rank")
        assert by_score == ["plain", "2", "0.5000"]
        assert by_rank.stdout.splitlines()[2].split() == ["plain", "2", "0.0000"]
        assert "scores of this run are replaced" in by_rank.stderr


class TestAnswers:
    @pytest.fixture(autouse=True)
    def answers(self, folder):
        (folder / "answers.jsonl").write_text(
            "".join(
                json.dumps({"qid": q, "sample": s, "qanswer": a}) + "\n"
                for q, s, a in [("q1", 0, "x"), ("q1", 1, "y"), ("q2", 0, "z"), ("q2", 1, "z")]
            )
        )
        (folder / "gold.tsv").write_text('qid\tgold_answer\nq1\tx\nq2\t"[""z"", ""w""]"\n')

    WORDS = ("evaluate", "qrels.txt", "fair.run", "-m", "EU(utility='em')")

    def test_files(self, fairtk):
        result = fairtk(*self.WORDS, "--answers", "answers.jsonl", "--gold", "gold.tsv")
        # q1: one of two answers is right; q2: both
        assert result.stdout.splitlines()[2].split() == ["fair", "2", "0.7500"], result.stderr

    def test_gold_answers_in_the_qrels(self, folder, fairtk):
        (folder / "qrels.tsv").write_text(
            "qid\tdocno\tlabel\tgold_answer\nq1\ta\t1\ty\nq1\tb\t0\ty\nq2\ta\t0\tw\n"
        )
        result = fairtk(
            "evaluate", "qrels.tsv", "fair.run", "-m", "EU('em')", "--answers", "answers.jsonl"
        )
        assert result.stdout.splitlines()[2].split() == ["fair", "2", "0.2500"], result.stderr

    def test_a_run_with_answers(self, folder, fairtk):
        frame = pd.DataFrame(
            {"qid": ["q1", "q2"], "docno": "a", "score": 1.0, "qanswer": ["x", "no"]}
        )
        frame.to_parquet(folder / "answered.parquet")
        result = fairtk(
            "evaluate", "qrels.txt", "answered.parquet", "-m", "EU('em')", "--gold", "gold.tsv"
        )
        assert result.stdout.splitlines()[2].split() == ["answered", "2", "0.5000"], result.stderr

    def test_what_is_missing_is_said(self, fairtk):
        assert "needs gold answers: give --gold FILE" in error(fairtk(*self.WORDS))
        assert (
            "fair.run: EU(utility='em') needs the generated answers: give --answers FILE"
            in error(fairtk(*self.WORDS, "--gold", "gold.tsv"))
        )
        assert "answers must be given once per run" in error(
            fairtk(*self.WORDS, "--answers", "answers.jsonl", "--answers", "answers.jsonl")
        )
        assert "answers.jsonl: the answers are of a sampled run, this run is not" in error(
            fairtk(
                "evaluate",
                "qrels.txt",
                "plain.run",
                "-m",
                "EU('em')",
                "--gold",
                "gold.tsv",
                "--answers",
                "answers.jsonl",
            )  # fmt: skip
        )


class TestWrongInput:
    @pytest.mark.parametrize(
        ("measure", "message"),
        [
            ("EE_X@5", "unknown measure 'EE_X'; did you mean"),
            ("Recal@5", "unknown measure 'Recal'; did you mean 'Recall'?"),
            ("EE_D(brwsing='MU')@5", "EE_D has no parameter 'brwsing'; did you mean 'browsing'?"),
            ("EE_D(browsing='RPB')@5", "unknown browsing model 'RPB'; did you mean 'RBP'?"),
            ("EU(utility='rougel')", "unknown utility 'rougel'; did you mean 'rougeL'?"),
            ("EE_D@0", "cutoff must be at least 1"),
            ("EE_D@", "cannot read the measure 'EE_D@'"),
            ("E(nDCG@5", "cannot read the measure"),
        ],
    )
    def test_measures(self, folder, fairtk, measure, message):
        assert message in error(fairtk("evaluate", "qrels.txt", "plain.run", "-m", measure))

    def test_a_plain_measure_of_a_sampled_run(self, folder, fairtk):
        said = error(fairtk("evaluate", "qrels.txt", "fair.run", "-m", "nDCG@5"))
        assert "fair.run: nDCG@5 reads one ranking per query, but the run has several" in said
        assert "write E(nDCG@5)" in said

    def test_order_by_rank_holds_for_every_measure(self, folder, fairtk):
        # by docno, as trec_eval breaks ties, b would come before a
        (folder / "tied.run").write_text("q1 Q0 a 1 1 t\nq1 Q0 b 2 1 t\n")
        measures = ["-m", "RR", "-m", "RR@5", "-m", "E(RR)", "-m", "nDCG@1"]
        result = fairtk("evaluate", "qrels.txt", "tied.run", *measures, "--order", "rank")
        assert set(result.stdout.splitlines()[2].split()[2:]) == {"0.5000"}

    def test_a_single_sample_is_a_plain_run(self, folder, fairtk):
        (folder / "one.run").write_text((folder / "plain.run").read_text().replace("Q0", "0"))
        result = fairtk("evaluate", "qrels.txt", "one.run", "-m", "P@1", "-m", "E(P@1)")
        assert result.stdout.splitlines()[2].split() == ["one", "2", "0.5000", "0.5000"]

    def test_a_broken_line(self, folder, fairtk):
        (folder / "plain.run").write_text("q1 Q0 a 1 3 t\nq1 Q0 b two 2 t\n")
        assert "plain.run:2: rank must be an integer; found 'two'" in error(
            fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1")
        )

    def test_qrels_and_run_exchanged(self, folder, fairtk):
        assert "plain.run is a run, qrels.txt holds labels" in error(
            fairtk("evaluate", "plain.run", "qrels.txt", "-m", "P@1")
        )

    def test_no_common_query(self, folder, fairtk):
        (folder / "plain.run").write_text("1 Q0 a 1 3 t\n")
        assert "no query of this run is in the qrels (run: '1'; qrels: 'q1', 'q2')" in error(
            fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1")
        )

    @pytest.mark.parametrize("text", ["", "\ufeff"])
    def test_empty_qrels(self, folder, fairtk, text):
        (folder / "qrels.txt").write_text(text, encoding="utf-8")
        assert "qrels.txt: these qrels have no rows" in error(
            fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1")
        )

    def test_fractional_labels(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 0.5\nq1 0 b 0\nq2 0 a 1\n")
        assert "qrels.txt: the labels have fractions (0.5), but E(measure='P@1')" in error(
            fairtk("evaluate", "qrels.txt", "fair.run", "-m", "E(P@1)")
        )
        assert fairtk("evaluate", "qrels.txt", "fair.run", "-m", "EE_R@1").exit_code == 0

    def test_files_and_options(self, folder, fairtk):
        assert "File 'no.run' does not exist (see fairtk evaluate --help)" in error(
            fairtk("evaluate", "qrels.txt", "no.run", "-m", "P@1")
        )
        assert "Missing option '-m' / '--measure'" in error(
            fairtk("evaluate", "qrels.txt", "plain.run")
        )
        assert "Missing argument 'RUNS...'" in error(fairtk("evaluate", "qrels.txt", "-m", "P@1"))
        found = error(fairtk("evaluate", "qrels.txt", "plain.run", "--formt", "csv"))
        assert re.search("Did you mean '?--format", found)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["x/bm25.run", "x/fair.txt.gz"], ["bm25", "fair"]),
        (["x/alpha0.5", "y/alpha2.run"], ["alpha0.5", "alpha2"]),
        (["x/fair.run", "x/fair.run.gz", "x/b.run"], ["fair.run", "fair.run.gz", "b"]),
        (["a/run.txt", "b/run.txt", "c/other.run"], ["a/run", "b/run", "other"]),
        (["a/s/run", "b/s/run", "b/t/run"], ["a/s/run", "b/s/run", "t/run"]),
        (["a/run", "a/run", "a/run"], ["run", "run#2", "run#3"]),
        (["a/run", "b/run", "b/run"], ["a/run", "b/run", "b/run#2"]),
        ([".run"], [".run"]),
    ],
)
def test_names_of_runs(paths, names):
    assert unique_names([f"/r/{path}" for path in paths]) == names


def test_runs_without_labels(fairtk, folder):
    (folder / "g.tsv").write_text("docno\tgroup\na\tx\nb\ty\n")
    done = fairtk("evaluate", "--no-qrels", "fair.run", "-m", "EE_D@1")
    assert done.exit_code == 0 and "0.5000" in done.stdout  # two documents, half of the time each
    assert "Without labels n is what a run retrieves, in documents a query: fair 2" in done.stdout
    for words, message in (
        (("--no-qrels", "fair.run", "-m", "EE_R@1"), "give QRELS without --no-qrels"),
        (("--no-qrels", "fair.run", "-m", "AWRF@1"), "AWRF@1 needs groups: give --groups FILE"),
        (("fair.run", "-m", "EE_D@1"), "Missing argument 'RUNS...'"),
        (("--no-qrels", "qrels.txt", "fair.run", "-m", "EE_D@1"), "qrels.txt holds labels, and"),
        (
            ("--no-qrels", "fair.run", "-m", "AWRF@1", "--groups", "g.tsv", "--target", "qrels"),
            "needs relevance labels: give QRELS without --no-qrels",
        ),
    ):
        done = fairtk("evaluate", *words)
        assert done.exit_code == 2 and message in done.stderr
