"""What a newcomer types first: qrels before runs, one `target`, results that show themselves."""

import inspect
import warnings

import pandas as pd
import pytest
from click.testing import CliRunner

import fairtk
from fairtk import AWRF, EE_D, EE_L, EE_R, FairSampler, Groups, Target
from fairtk.cli.group import cli

QRELS = pd.DataFrame(
    {"qid": ["1", "1", "1", "2", "2"], "docno": list("abcab"), "label": [1, 0, 1, 0, 1]}
)
RUN = pd.DataFrame(
    {"qid": ["1"] * 3 + ["2"] * 3, "docno": list("abcabc"), "score": [3.0, 2, 1, 1, 2, 3]}
)
GROUPS = pd.DataFrame({"docno": list("abc"), "group": ["f", "m", "m"]})
FAIR = FairSampler(n_samples=5)(RUN)
GENDER = Groups.from_frame(GROUPS, name="gender")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The same data as files, in the current folder."""
    monkeypatch.chdir(tmp_path)
    fairtk.io.write_qrels(QRELS, "qrels.txt")
    fairtk.io.write_run(RUN, "bm25.run")
    GROUPS.to_csv("gender.tsv", sep="\t", index=False)


class TestQrelsComeFirst:
    def test_doctor(self):
        assert fairtk.doctor(QRELS, RUN).counts["labels"] == len(QRELS)

    def test_precision(self):
        assert fairtk.precision(QRELS, FAIR, [EE_R @ 2]).means["n"].tolist() == [2]

    def test_explain(self):
        result = fairtk.explain(QRELS, RUN, "EE_L@2")
        expected = fairtk.evaluate(QRELS, RUN, "EE_L@2").means["EE_L@2"].iloc[0]
        assert result.total == pytest.approx(expected)

    def test_off_policy_utility(self):
        gold = QRELS.assign(gold_answer="yes")
        answers = FairSampler(alpha=1, n_samples=50, cutoff=2)(RUN).assign(qanswer="yes")
        result = fairtk.off_policy_utility(gold, {1: answers}, RUN, [1], "em", 2)
        assert result.means["value"].tolist() == [1]

    def test_every_public_function(self):
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


class TestOneWordForTargets:
    @pytest.mark.parametrize("target", ["uniform", ["uniform"], Target.uniform(GENDER)])
    def test_evaluate(self, target):
        means = fairtk.evaluate(QRELS, RUN, "AWRF@2", groups=GENDER, target=target).means
        expected = fairtk.evaluate(
            QRELS, RUN, [AWRF(groups=GENDER, target=Target.uniform(GENDER)) @ 2]
        ).means
        assert means.to_numpy().tolist() == expected.to_numpy().tolist()

    def test_doctor(self):
        tied = RUN.assign(score=1.0)
        for target in ("uniform", ["uniform"]):
            ties = fairtk.doctor(QRELS, tied, GENDER, target=target).ties
            assert ties["measure"].str.startswith("AWRF").any()


class TestPrinting:
    def test_a_comparison(self):
        result = fairtk.compare(QRELS, {"bm25": RUN, "fair": FAIR}, [EE_D @ 2])
        for text in (str(result), result._repr_html_()):
            assert all(word in text for word in ("bm25", "fair", "difference", "p"))

    def test_a_diagnosis(self):
        result = fairtk.doctor(QRELS, RUN)
        for text in (str(result), repr(result), result._repr_html_()):
            assert result.verdict in text

    def test_precision(self):
        result = fairtk.precision(QRELS, FAIR, [EE_R @ 2])
        assert "EE_R@2" in str(result)
        assert result._repr_html_().count("<tr>") == 2

    def test_a_plan(self, tmp_path):
        result = fairtk.plan([FairSampler()], RUN, save_dir=tmp_path / "store")
        assert "queries" in str(result) and "<table>" in result._repr_html_()

    def test_an_explanation(self):
        result = fairtk.explain(QRELS, RUN, "EE_L@2")
        for text in (str(result), repr(result), result._repr_html_()):
            assert f"{result.total:.4f}" in text

    @pytest.mark.parametrize("measure", [EE_D @ 5, EE_L(browsing="RBP(p=0.8)"), AWRF(base=2) @ 3])
    def test_a_measure(self, measure):
        assert fairtk.measures.parse(repr(measure)) == measure
        html = measure._repr_html_()
        assert measure.SHORT_DESC.split("'")[0] in html and "<th>parameter</th>" in html


class TestNoWarning:
    def test_measures_by_document_next_to_groups(self, files):
        words = ["qrels.txt", "bm25.run", "-m", "AWRF@2", "-m", "EE_D@2", "--groups", "gender.tsv"]
        result = CliRunner().invoke(cli, ["evaluate", *words, "--target", "uniform", "--strict"])
        assert result.exit_code == 0, result.output
        assert "EE_D(groups='gender')" in result.stdout
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            options = {"groups": "gender.tsv", "target": "uniform"}
            result = fairtk.evaluate("qrels.txt", "bm25.run", ["AWRF@2", "EE_D@2"], **options)
        assert result.note.count("EE_D@2") == 1


class TestOneQuery:
    def test_explain(self):
        result = fairtk.explain(QRELS, RUN, "AWRF@2", groups=GENDER, target="uniform", qid="2")
        assert result.by_document["docno"].tolist() == ["c", "b"]
        assert result.by_document["groups"].tolist() == ["m", "m"]
        assert result.by_query["qid"].tolist() == ["2"]

    def test_on_the_command_line(self, files):
        words = ["explain", "qrels.txt", "bm25.run", "-m", "EE_L@2", "--qid"]
        result = CliRunner().invoke(cli, [*words, "1"])
        assert result.exit_code == 0 and "By document" in result.stdout
        result = CliRunner().invoke(cli, [*words, "7"])
        assert result.exit_code == 2 and "'7'" in result.stderr and "2 queries" in result.stderr
        assert len(result.stderr.splitlines()) == 1
