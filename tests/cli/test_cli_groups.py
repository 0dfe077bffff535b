"""`fairtk groups`, and `fairtk evaluate` with groups and targets from files."""

import json
import math

import pandas as pd
import pytest

from fairtk import AWRF, Groups, Target
from fairtk.io import read_qrels, read_run

QRELS = "q1 0 1 1\nq1 0 2 0\nq1 0 3 1\nq2 0 2 1\nq2 0 4 1\n"
FILES = {
    "qrels.txt": QRELS,
    "t1.tsv": "id\tpage_id\nq1\t1\nq1\t2\nq2\t2\nq2\t4\n",
    "t2.tsv": "id\tseq_no\tpage_id\nq1\t1\t1\nq1\t2\t3\nq2\t1\t2\nq2\t2\t4\n",
    "gender.tsv": "docno\tgroup\n1\tf\n2\tm\n3\tm\n4\t\n",
    "region.tsv": "docno\tgroup\tweight\n1\tx\t1\n2\ty\t1\n3\ty\t1\n4\tx\t.5\n4\ty\t.5\n",
    "half.tsv": "group\tweight\nf\t.5\nm\t.5\n",
    "third.tsv": "region\tweight\nx\t1\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def error(result):
    assert result.exit_code == 2
    assert result.stdout == ""
    [line] = result.stderr.strip().splitlines()
    return line.removeprefix("Error: ")


class TestEvaluate:
    def test_task_1_and_task_2_files(self, folder, fairtk):
        result = fairtk(
            "evaluate", "qrels.txt", "t1.tsv", "t2.tsv", "--groups", "gender.tsv",
            "--target", "half.tsv", "-m", "AWRF@2",
        )  # fmt: skip
        # q1: t1 shows f and m once each: 1. q2: m and unknown, target f and m; unknown is left
        # out, so m is 1 and JSD = (ln(4/3) + ln(2/3)/2 + ln(2)/2) / 2 = .2158. Amortized, t2's
        # samples show the same to q1 (1: f, 3: m) and to q2 (2: m, 4: unknown)
        assert result.exit_code == 0
        divergence = (math.log(4 / 3) + math.log(2 / 3) / 2 + math.log(2) / 2) / 2
        mean = f"{1 - divergence / 2:.4f}"
        assert "2 of 2 queries of t2" in result.stderr  # samples of one document each
        table = [line.split() for line in result.stdout.splitlines()[:4]]
        assert table[0] == ["run", "queries", "AWRF(groups='gender',target='half')@2"]
        assert table[2:] == [["t1", "2", mean], ["t2", "2", mean]]

    def test_the_table_names_groups_and_targets(self, folder, fairtk):
        words = ["evaluate", "qrels.txt", "t1.tsv", "-g", "sex=gender.tsv", "--target", "relevance"]
        labels = [
            "GroupEE_L(groups='sex',target='relevance')@2",
            "nDCG_TREC@2 * AWRF(groups='sex',target='relevance')@2",
        ]
        measures = ["-m", "GroupEE_L(groups='sex')@2", "-m", "nDCG_TREC@2 * AWRF@2"]
        text = fairtk(*words, *measures).stdout
        assert all(label in text for label in labels) and "#" not in text
        assert f"Lower is better: {labels[0]}." in text
        rows = json.loads(fairtk(*words, *measures, "--format", "json").stdout)
        assert [row["measure"] for row in rows] == labels

    def test_two_files_of_one_name(self, folder, fairtk):
        (folder / "other").mkdir()
        (folder / "other" / "gender.tsv").write_text(FILES["gender.tsv"])
        words = ["evaluate", "qrels.txt", "t1.tsv", "-m", "AWRF@2", "--target", "uniform"]
        message = error(fairtk(*words, "-g", "gender.tsv", "-g", "other/gender.tsv"))
        assert "'gender'" in message and "NAME=FILE" in message
        assert fairtk(*words, "-g", "gender.tsv", "-g", "b=other/gender.tsv").exit_code == 0

    def test_names_that_mean_nothing_here(self, folder, fairtk):
        message = error(fairtk("evaluate", "qrels.txt", "t1.tsv", "-m", "AWRF(groups='species')@2"))
        assert "--groups" in message and "'species'" in message and "register" not in message

    @pytest.mark.parametrize(
        "measure", ["ByGroup(P@1, 'gender')", "ByGroup( P@1,'gender', 'max') "]
    )
    def test_groups_of_a_file_without_a_name(self, folder, fairtk, measure):
        words = ["evaluate", "qrels.txt", "t1.tsv", "--groups", "gender.tsv", "--format", "json"]
        named = measure.replace("'gender'", "groups='gender'").replace("'max'", "compare='max'")
        one, other = (json.loads(fairtk(*words, "-m", text).stdout) for text in (measure, named))
        assert one == other

    def test_the_same_as_in_python(self, folder, fairtk):
        gender, region = Groups.read("gender.tsv"), Groups.read("region.tsv")
        labels = read_qrels("qrels.txt")
        run = read_run("t1.tsv")
        names = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
        expected = [
            (AWRF(groups=groups, target=Target.from_qrels(labels, groups)) @ 2).calc_aggregate(
                labels.rename(columns=names), run.rename(columns=names)
            )
            for groups in (gender * region, gender, region * gender)
        ]
        result = fairtk(
            "evaluate", "qrels.txt", "t1.tsv", "--groups", "gender.tsv", "--groups", "region.tsv",
            "--target", "relevance", "-m", "AWRF@2", "-m", "AWRF(groups='gender')@2",
            "-m", "AWRF(groups='region*gender')@2", "--format", "json",
        )  # fmt: skip
        found = json.loads(result.stdout)
        assert [row["mean"] for row in found] == pytest.approx(expected)
        assert found[1]["measure"] == "AWRF(groups='gender',target='relevance')@2"

    def test_each_measure_takes_the_target_over_its_attributes(self, folder, fairtk):
        def both(*targets):
            words = [w for t in targets for w in ("--target", t)]
            result = fairtk(
                "evaluate", "qrels.txt", "t1.tsv", "--groups", "gender.tsv", "--groups",
                "region.tsv", *words, "-m", "AWRF(groups='gender')@2",
                "-m", "AWRF(groups='region')@2", "--format", "json",
            )  # fmt: skip
            assert result.exit_code == 0, result.stderr
            return [row["mean"] for row in json.loads(result.stdout)]

        gender, region = both("third.tsv", "half.tsv")
        assert gender == both("half.tsv", "uniform")[0]
        assert region != both("half.tsv", "uniform")[1]

    @pytest.mark.parametrize(
        ("words", "place"),
        [
            (["gender.tsv", "-m", "EE_L@2"], "--groups"),
            (["gender.tsv", "--groups", "region.tsv", "--target", "half.tsv", "--target",
              "third.tsv", "-m", "AWRF@2"], "'gender*region'"),
        ],
    )  # fmt: skip
    def test_groups_and_targets_that_nothing_takes(self, folder, fairtk, words, place):
        assert place in error(fairtk("evaluate", "qrels.txt", "t1.tsv", "--groups", *words))


class TestGroups:
    def test_a_level_without_documents(self, folder, fairtk):
        frame = pd.DataFrame({"docno": ["1"], "group": ["f"]})
        Groups.from_frame(frame, name="gender", levels=["@UNKNOWN", "f", "NB"]).write("g.tsv")
        rows = json.loads(fairtk("groups", "g.tsv", "--format", "json").stdout)
        assert [(r["group"], r["documents"]) for r in rows] == [
            ("@UNKNOWN", 0), ("f", 1), ("NB", 0),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("words", "option"),
        [
            (["--qrels", "qrels.txt"], "--qrels"),
            (["-k", "5"], "-k/--cutoff"),
            (["--coverage", "t1.tsv", "--target", "uniform"], "cannot be combined"),
        ],
    )
    def test_options_that_do_not_go_together(self, folder, fairtk, words, option):
        assert option in error(fairtk("groups", "gender.tsv", *words))


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["groups", "-", "--cross"], "gender.tsv"),
        (["groups", "gender.tsv", "--coverage", "-"], "t1.tsv"),
        (["groups", "gender.tsv", "--target", "relevance", "--qrels", "-"], "qrels.txt"),
        (["groups", "gender.tsv", "--target", "-"], "half.tsv"),
        (["doctor", "-", "t1.tsv", "--groups", "gender.tsv"], "qrels.txt"),
        (["doctor", "qrels.txt", "-", "--groups", "gender.tsv"], "t1.tsv"),
        (["explain", "qrels.txt", "-", "-m", "EE_L@2"], "t1.tsv"),
        (["explain", "-", "t1.tsv", "-m", "EE_L@2"], "qrels.txt"),
        (["frontier", "-", "t1.tsv", "-a", "1", "--resamples", "9"], "qrels.txt"),
        (["sensitivity", "qrels.txt", "t1.tsv", "-", "-m", "EE_D@2"], "t2.tsv"),
        (["evaluate", "qrels.txt", "t1.tsv", "--groups", "-", "--target", "uniform", "-m", "AWRF"],
         "gender.tsv"),
    ],
)  # fmt: skip
def test_any_file_may_be_standard_input(folder, fairtk, words, file):
    (folder / "stdin").write_text(FILES[file])  # what is named after its file is named alike
    from_file = fairtk(*("stdin" if word == "-" else word for word in words))
    result = fairtk(*words, stdin=FILES[file])
    assert result.exit_code == 0, result.output
    assert result.stdout.replace("standard input", "stdin") == from_file.stdout
    assert "standard input" in fairtk(*words, stdin="broken\0").output


class TestExplain:
    def test_one_measure_at_a_time(self, folder, fairtk):
        words = ["explain", "qrels.txt", "t1.tsv", "-m", "EE_L@2", "-m", "EE_L@1"]
        assert "expected one -m/--measure, got 2 (see fairtk explain --help)" in error(
            fairtk(*words)
        )

    def test_a_figure(self, folder, fairtk):
        words = ["explain", "qrels.txt", "t1.tsv", "-m", "EE_L@2", "--plot", "explain.svg"]
        assert fairtk(*words).exit_code == 0
        assert "<svg" in (folder / "explain.svg").read_text()
