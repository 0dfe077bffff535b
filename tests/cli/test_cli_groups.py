"""`fairtk groups`, and `fairtk evaluate` with groups and targets from files."""

import io
import json
import math

import pandas as pd
import pytest

import fairtk
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
        # q1: t1 shows f and m once each: 1. q2: m and unknown, target f and m:
        # JSD = 1/2 (m: 0) + 1/4 ln 2 (unknown) + 1/4 ln 2 (f) = ln 2 / 2. Amortized, t2's
        # samples show the same to q1 (1: f, 3: m) and to q2 (2: m, 4: unknown)
        assert result.exit_code == 0
        mean = f"{1 - math.log(2) / 4:.4f}"
        # t2's samples have one document each
        assert "1 query of t1, 2 queries of t2" in result.stderr or "of t2" in result.stderr
        assert result.stdout.splitlines()[:4] == [
            "run  queries  AWRF@2",
            "---  -------  ------",
            f"t1         2  {mean}",
            f"t2         2  {mean}",
        ]

    def test_the_table_calls_measures_as_they_were_written(self, folder, fairtk):
        result = fairtk(
            "evaluate", "qrels.txt", "t1.tsv", "--groups", "gender.tsv", "--target", "qrels",
            "-m", "EE_L(groups='gender')@2", "-m", "nDCG_TREC@2 * AWRF@2",
        )  # fmt: skip
        header = result.stdout.splitlines()[0]
        assert header.split("  ")[-2:] == ["EE_L(groups='gender')@2", "nDCG_TREC@2 * AWRF@2"]
        assert "Lower is better: EE_L(groups='gender')@2." in result.stdout

    @pytest.mark.parametrize(
        "measure", ["ByGroup(P@1, 'gender')", "ByGroup( P@1,'gender', 'max') ", "E(AWRF('gender'))"]
    )
    def test_groups_of_a_file_without_a_name(self, folder, fairtk, measure):
        words = ["evaluate", "qrels.txt", "t1.tsv", "--groups", "gender.tsv", "--format", "json"]
        result = fairtk(*words, "-m", measure)
        if measure.startswith("E("):  # AWRF takes none without a name
            assert "parameters must be named" in error(result)
            return
        named = fairtk(*words, "-m", measure.replace("'gender'", "groups='gender'").replace(
            "'max'", "compare='max'"))  # fmt: skip
        assert result.exit_code == named.exit_code == 0, result.output
        assert json.loads(result.stdout) == json.loads(named.stdout)

    def test_an_attribute_that_no_file_has(self, folder, fairtk):
        found = fairtk(
            "evaluate",
            "qrels.txt",
            "t1.tsv",
            "--groups",
            "gender.tsv",
            "-m",
            "ByGroup(P@1, 'gendr')",
        )
        assert error(found).startswith(
            "ByGroup(P@1, 'gendr'): --groups has no attribute 'gendr'; did you mean 'gender'?"
        )

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
            "--target", "qrels", "-m", "AWRF@2", "-m", "AWRF(groups='gender')@2",
            "-m", "AWRF(groups='region*gender')@2", "--format", "json",
        )  # fmt: skip
        found = json.loads(result.stdout)
        assert [row["mean"] for row in found] == pytest.approx(expected)
        assert found[1]["measure"].startswith("AWRF(groups='gender#")

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

    def test_measures_inside_measures(self, folder, fairtk):
        result = fairtk(
            "evaluate", "qrels.txt", "t1.tsv", "--groups", "gender.tsv", "--target", "uniform",
            "-m", "nDCG_AWRF@2", "-m", "nDCG_TREC@2 * AWRF@2", "-m", "ByGroup(AP)",
            "-m", "AP", "--format", "json",
        )  # fmt: skip
        means = [row["mean"] for row in json.loads(result.stdout)]
        assert means[0] == pytest.approx(means[1])

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["-m", "AWRF@2"], "AWRF@2 needs groups: give --groups FILE"),
            (["--groups", "gender.tsv", "-m", "AWRF@2"], "AWRF@2 needs a target: give --target"),
            (["--groups", "gender.tsv", "-m", "EE_L@2"], "no measure uses --groups"),
            (
                ["--groups", "gender.tsv", "--target", "uniform", "-m", "AWRF(groups='gendr')@2"],
                "--groups has no attribute 'gendr'; did you mean 'gender'?",
            ),
            (
                ["--groups", "gender.tsv", "--groups", "gender.tsv", "-m", "AWRF@2"],
                "the attribute 'gender' is given twice",
            ),
            (["--groups", "t1.tsv", "-m", "AWRF@2"], "t1.tsv:1: a groups file needs the columns"),
            (
                ["--groups", "region.tsv", "--target", "half.tsv", "-m", "AWRF@2"],
                "half.tsv:2: the groups lack the level 'f' of 'region'",
            ),
            (
                ["--groups", "gender.tsv", "--target", "no.tsv", "-m", "AWRF@2"],
                "no.tsv: there is no such file",
            ),
            (
                ["--groups", "gender.tsv", "--target", "unifrom", "-m", "AWRF@2"],
                "unifrom: there is no such file; did you mean 'uniform'?",
            ),
            (
                ["--groups", "gender.tsv", "--groups", "region.tsv", "--target", "half.tsv",
                 "--target", "third.tsv", "-m", "AWRF@2"],
                "AWRF@2: no target fits 'gender*region'; found 'half.tsv', 'third.tsv'",
            ),
        ],
    )  # fmt: skip
    def test_wrong_input_is_one_line(self, folder, fairtk, words, message):
        assert message in error(fairtk("evaluate", "qrels.txt", "t1.tsv", *words))


class TestGroups:
    def test_inspect(self, folder, fairtk):
        result = fairtk("groups", "gender.tsv", "region.tsv")
        assert result.exit_code == 0
        lines = [line.split() for line in result.stdout.splitlines()]
        # unknown: one document of four; document 4 is half x, half y
        assert lines[2] == ["gender", "3", "of", "3", "4", "25.0%", "0.0%"]
        assert lines[3] == ["region", "2", "of", "2", "4", "0.0%", "25.0%"]
        assert ["m", "2", "0.5000"] in lines
        assert ["x", "2", "0.3750"] in lines

    def test_a_level_without_documents(self, folder, fairtk):
        frame = pd.DataFrame({"docno": ["1"], "group": ["f"]})
        Groups.from_frame(frame, name="gender", levels=["@UNKNOWN", "f", "NB"]).write("g.tsv")
        rows = json.loads(fairtk("groups", "g.tsv", "--format", "json").stdout)
        assert [(r["group"], r["documents"]) for r in rows] == [
            ("@UNKNOWN", 0), ("f", 1), ("NB", 0),
        ]  # fmt: skip

    def test_cross_with_a_target(self, folder, fairtk):
        result = fairtk("groups", "gender.tsv", "region.tsv", "--cross", "--target", "qrels",
                        "--qrels", "qrels.txt", "--format", "json")  # fmt: skip
        rows = {r["group"]: r for r in json.loads(result.stdout)}
        # relevant: q1 1 (f x), 3 (m y); q2 2 (m y), 4 (unknown, half x, half y)
        assert rows["m x y"]["target"] == pytest.approx(0.5)
        assert rows["f x x"] == {
            "attribute": "gender*region", "group": "f x x", "documents": 1, "share": 0.25,
            "target": 0.25,
        }  # fmt: skip
        table = fairtk("groups", "gender.tsv", "region.tsv", "--cross").stdout
        assert "4 of 6" in table

    def test_coverage(self, folder, fairtk):
        one = fairtk("groups", "gender.tsv", "--target", "half.tsv", "--format", "json")
        shares = {row["group"]: row["target"] for row in json.loads(one.stdout)}
        assert shares == {"@UNKNOWN": 0, "f": 0.5, "m": 0.5}  # of all queries: no mean of several
        result = fairtk("groups", "gender.tsv", "--coverage", "t1.tsv", "--format", "csv")
        assert result.stdout.splitlines() == [
            "attribute,qid,retrieved,with_row,with_label,row_share,label_share,groups_shown,"
            "groups_absent",
            "gender,q1,2,2,2,1.0,1.0,2,0",
            "gender,q2,2,2,1,1.0,0.5,1,1",
        ]
        table = fairtk("groups", "gender.tsv", "--coverage", "t1.tsv", "--cutoff", "1").stdout
        assert "known for 2 of 2 documents at rank 1; for under half of them in 0 of 2" in table

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["no.tsv"], "'no.tsv' does not exist"),
            (["qrels.txt"], "qrels.txt:1: a groups file needs the columns"),
            (["gender.tsv", "--target", "qrels"], "labels: give --qrels FILE"),
            (["gender.tsv", "--target", "no.tsv"], "no.tsv: there is no such file"),
            (["gender.tsv", "--coverage", "gender.tsv"], "gender.tsv:1: "),
            (["gender.tsv", "--qrels", "qrels.txt"], "--qrels is read for --target qrels"),
            (["gender.tsv", "-k", "5"], "-k/--cutoff is about --coverage RUN"),
            (["gender.tsv", "--coverage", "t1.tsv", "--target", "uniform"], "ask for one of them"),
        ],
    )
    def test_wrong_input_is_one_line(self, folder, fairtk, words, message):
        assert message in error(fairtk("groups", *words))


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["groups", "-", "--cross"], "gender.tsv"),
        (["groups", "gender.tsv", "--coverage", "-"], "t1.tsv"),
        (["groups", "gender.tsv", "--target", "qrels", "--qrels", "-"], "qrels.txt"),
        (["groups", "gender.tsv", "--target", "-"], "half.tsv"),
        (["doctor", "-", "t1.tsv", "--groups", "gender.tsv"], "qrels.txt"),
        (["doctor", "qrels.txt", "-", "--groups", "gender.tsv"], "t1.tsv"),
        (["explain", "qrels.txt", "-", "-m", "EE_L@2"], "t1.tsv"),
        (["explain", "-", "t1.tsv", "-m", "EE_L@2"], "qrels.txt"),
        (["frontier", "-", "t1.tsv"], "qrels.txt"),
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
        assert "-m was given 2 times (see fairtk explain --help)" in error(fairtk(*words))

    WORDS = ("explain", "qrels.txt", "t1.tsv", "-m", "AWRF@2", "--groups", "gender.tsv",
             "--target", "half.tsv")  # fmt: skip

    @pytest.fixture
    def explanation(self, folder):
        gender = Groups.read("gender.tsv")
        measure = AWRF(groups=gender, target=Target.read("half.tsv", gender)) @ 2
        return fairtk.explain(measure, read_run("t1.tsv"), read_qrels("qrels.txt"))

    def test_tables_and_figure(self, folder, command, explanation):
        result = command(*self.WORDS, "--plot", "explain.svg")
        assert result.exit_code == 0, result.output
        assert result.stdout == f"{explanation}\n"
        assert "<svg" in (folder / "explain.svg").read_text()

    @pytest.mark.parametrize("part", ["group", "attribute", "rank", "query"])
    def test_a_part(self, folder, command, explanation, part):
        result = command(*self.WORDS, "--by", part, "--format", "csv")
        expected = getattr(explanation, f"by_{part}")
        assert list(pd.read_csv(io.StringIO(result.stdout)).columns) == list(expected.columns)
        assert len(result.stdout.splitlines()) == len(expected) + 1

    def test_all_parts_a_baseline_and_bands(self, folder, command):
        result = command(*self.WORDS, "--baseline", "t2.tsv", "--band", "1", "--band", "2",
                         "--format", "json")  # fmt: skip
        rows = json.loads(result.stdout)
        assert {"qid", "group", "ranks", "exposure", "cost", "baseline_cost"} <= rows[0].keys()
        assert {row["ranks"] for row in rows} >= {"1", "2"}

    def test_documents_by_groups(self, folder, command):
        words = ["explain", "qrels.txt", "t1.tsv", "-m", "EE_L@2"]
        assert "not useful" in command(*words).stdout
        by_group = command(*words, "--groups", "gender.tsv").stdout
        assert "not useful" not in by_group and " m " in by_group

    def test_wrong_measures(self, folder, command):
        words = ["explain", "qrels.txt", "t1.tsv", "-m"]
        assert "takes AWRF and EE_L" in error(command(*words, "nDCG@5"))
        assert "give --groups FILE" in error(command(*words, "AWRF@5"))
