import json
import re

import pandas as pd
import pytest

from fairtk.experiment.inputs import unique_names


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
            "Best mean: fair in EE_D@1, EE_R@1, E(P@1).\n"
            "\n"
            "Lower is better: EE_D@1.\n"
        )
        assert result.stderr == ""

    def test_a_wide_table_is_several_narrow_ones(self, folder, fairtk):
        measures = [f"EE_D(browsing='RBP(p=0.{i})',bounds='exact')@1" for i in range(1, 5)]
        result = fairtk(
            "evaluate", "qrels.txt", "fair.run", *(w for m in measures for w in ("-m", m))
        )
        lines = result.stdout.splitlines()
        heads = [re.split(" {2,}", line) for line in lines if line.startswith("run ")]
        assert len(heads) == 2 and len({name for head in heads for name in head[1:]}) == 5
        assert sum(line.startswith("fair ") for line in lines) == 2
        assert max(map(len, lines)) <= 80
        legend = [line for line in lines if "…" in line and ": EE_D" in line]
        assert len(legend) == 4  # the full names

    def test_the_page(self, folder, fairtk):
        pytest.importorskip("jinja2")
        words = ("evaluate", "qrels.txt", "fair.run", "plain.run", "-m", "EE_D@1", "-m", "EE_R@1")
        result = fairtk(*words, "--page", "page.html")
        assert result.exit_code == 0 and result.stderr == "Page: page.html\n"
        assert result.stdout == fairtk(*words).stdout
        text = (folder / "page.html").read_text(encoding="utf-8")
        assert 'class="trade-off"' in text and 'id="packed-queries"' in text

    def test_equal_measures_are_measured_once(self, folder, fairtk):
        result = fairtk(
            "evaluate", "qrels.txt", "plain.run", "-m", "E(P@1)", "-m", "E(measure='P@1')"
        )
        assert result.stdout.splitlines()[0] == "run    queries  E(P@1)"


class TestFiles:
    def test_queries_without_labels_are_ignored(self, folder, fairtk):
        (folder / "qrels.txt").write_text("q1 0 a 1\n")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1")
        assert result.stdout.splitlines()[2].split() == ["plain", "1", "1.0000"]
        assert result.stderr == ""

    def test_an_empty_run(self, folder, fairtk):
        (folder / "plain.run").write_text("")
        result = fairtk("evaluate", "qrels.txt", "plain.run", "-m", "EE_D@1", "-m", "E(P@1)")
        assert result.stdout.splitlines()[2].split() == ["plain", "2", "1.0000", "0.0000"]
        assert "no rows" in result.stderr

    def test_a_single_sample_is_a_plain_run(self, folder, fairtk):
        (folder / "one.run").write_text((folder / "plain.run").read_text().replace("Q0", "0"))
        result = fairtk("evaluate", "qrels.txt", "one.run", "-m", "P@1", "-m", "E(P@1)")
        assert result.stdout.splitlines()[2].split() == ["one", "2", "0.5000", "0.5000"]

    @pytest.mark.parametrize("text", ["", "\ufeff"])
    def test_empty_qrels(self, folder, fairtk, text):
        (folder / "qrels.txt").write_text(text, encoding="utf-8")
        assert "qrels.txt: no rows" in error(
            fairtk("evaluate", "qrels.txt", "plain.run", "-m", "P@1")
        )

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

    def test_answers_must_be_there_and_of_the_run(self, fairtk):
        found = error(fairtk(*self.WORDS, "--gold", "gold.tsv"))
        assert found.startswith("fair.run: EU(utility='em')")
        files = ("--gold", "gold.tsv", "--answers", "answers.jsonl")
        found = error(fairtk("evaluate", "qrels.txt", "plain.run", "-m", "EU('em')", *files))
        assert found.startswith("answers.jsonl: ")


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
