"""What messages of `evaluate`, `compare` and the like name."""

import inspect

import click.testing
import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.cli.group import cli
from fairtk.errors import InputError, ParameterError

QRELS = pd.DataFrame({"qid": list("1122"), "docno": list("abab"), "label": [1, 0, 1, 0]})
RUN = QRELS[["qid", "docno"]].assign(score=[2.0, 1.0, 2.0, 1.0])
OTHER = RUN.assign(score=[1.0, 2.0, 1.0, 2.0])
TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": "x"})
EVALUATED = fairtk.evaluate(QRELS, {"r": RUN, "s": OTHER}, ["P@1"])


@pytest.mark.parametrize("measures", [["EE_D@3"], ["nDCG@3"], ["EE_D@3", "nDCG@3"]])
def test_a_repeated_row_is_named(measures):
    with pytest.raises(InputError, match="r: .*qid '2', docno 'b'; 1 such row"):
        fairtk.evaluate(QRELS, {"r": pd.concat([RUN, RUN[3:4]])}, measures)


def test_a_repeated_rank_is_named():
    with pytest.raises(InputError, match="r: .*qid '1', docno 'b'; 1 such row"):
        fairtk.evaluate(QRELS, {"r": RUN.assign(rank=[0, 0, 0, 1])}, ["nDCG@3"])


@pytest.mark.parametrize("groups", [{"a": "x", "b": "y"}, [{"a": "x", "b": "y"}], [{"a": "x"}]])
@pytest.mark.parametrize(
    "call",
    [
        lambda groups: fairtk.evaluate(QRELS, RUN, ["AWRF@2"], groups=groups, target="uniform"),
        lambda groups: fairtk.frontier(QRELS, {"r": RUN}, groups=groups, target="uniform"),
        lambda groups: fairtk.doctor(QRELS, RUN, groups, target="uniform"),
        lambda groups: fairtk.sensitivity(
            QRELS, [RUN, OTHER], "AWRF@2", groups=groups, target="uniform"
        ),
    ],
)
def test_groups_without_a_name(call, groups):
    with pytest.raises(InputError, match="groups={'gender': {docno: group}}"):
        call(groups)


def test_records_of_groups():
    records = [{"docno": "a", "group": "x"}, {"docno": "b", "group": "y"}]
    frame = pd.DataFrame(records)
    for groups in (records, [records], frame):
        results = fairtk.evaluate(QRELS, RUN, ["AWRF@2"], groups=groups, target="uniform")
        assert results.means.iloc[0, 0] == 1.0
        diagnosis = fairtk.doctor(QRELS, RUN, groups, target="uniform", support=3)
        assert "x 1 (1 useful), y 1 (0 useful)" in str(diagnosis)


@pytest.mark.parametrize(
    ("call", "name", "near"),
    [
        (lambda **o: fairtk.compare(QRELS, [RUN, OTHER], ["P@1"], **o), "compare", "groups"),
        (lambda **o: fairtk.compare(QRELS, [RUN, OTHER], ["P@1"], **o), "compare", "levels"),
        (lambda **o: fairtk.plan([RUN], TOPICS, **o), "plan", "save_dir"),
        (lambda **o: fairtk.tune(lambda: RUN, {}, TOPICS, QRELS, "P@1", **o), "tune", "workers"),
        (lambda **o: EVALUATED.to_latex(**o), "to_latex", "digits"),
        (lambda **o: EVALUATED.to_markdown(**o), "to_markdown", "pairs"),
    ],
)
def test_an_unknown_option_is_that_of_the_function(call, name, near):
    with pytest.raises(ParameterError, match=f"{name}: .*'{near[:-1]}'.*'{near}'"):
        call(**{near[:-1]: 3})


def test_plan_accepts_all_options_of_an_experiment():
    system = pt.Transformer.from_df(RUN)
    names = inspect.signature(fairtk.Experiment).parameters
    given = {name: p.default for name, p in names.items() if p.default is not p.empty}
    planned = fairtk.plan([system], **{**given, "topics": TOPICS, "names": ["r"]})
    assert planned.cells["system"].tolist() == ["r"]


def test_the_command_line_warns_once_of_a_pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fairtk.io.write_qrels(QRELS, "q.txt")
    fairtk.io.write_run(RUN, "A.run")
    fairtk.io.write_run(OTHER, "B.run")
    arguments = ["compare", "q.txt", "A.run", "B.run", "-m", "P@1", "--format", "latex"]
    lines = click.testing.CliRunner().invoke(cli, arguments).stderr.splitlines()
    assert len(lines) == 1 and "B and A" in lines[0]  # all differences are 1


def test_the_command_line_advises_no_option_that_it_does_not_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fairtk.io.write_qrels(QRELS, "q.txt")
    fairtk.io.write_run(RUN, "A.run")
    groups = pd.DataFrame({"docno": list("abcde"), "group": ["x; y", "x", "y", "z", "Z"]})
    groups.to_csv("g.tsv", sep="\t", index=False)
    for command in (["evaluate", "q.txt", "A.run"], ["compare", "q.txt", "A.run", "A.run"]):
        arguments = [*command, "-m", "AWRF@2", "-g", "g.tsv", "--target", "uniform"]
        text = click.testing.CliRunner().invoke(cli, arguments).stderr
        assert "--separator" in text and "Groups.read(..., levels=[...])" in text
        assert "`levels`" not in text and "--levels" not in text
