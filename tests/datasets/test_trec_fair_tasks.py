"""The tasks of TREC Fair Ranking: a task is required, and official files are groups."""

import json
import math

import click.testing
import pandas as pd
import pytest
import trec_fair_files as data

import fairtk
from fairtk import GroupEE_L, Target
from fairtk.cli.group import cli
from fairtk.datasets import trec_fair
from fairtk.errors import InputError, ParameterError
from fairtk.groups.levels import OFFICIAL_TARGETS
from fairtk.measures import parse

# the topic and a page have the same id
pytestmark = pytest.mark.filterwarnings("ignore:.*is the qid:fairtk.errors.DataWarning")
METADATA = "trec_2022_articles_discrete.json.gz"
BAD_TASKS = [None, 0, 3, "1", 1.5, math.nan, True, [1], ""]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write two stubs (a woman, a man), a featured article (a man), and a Task 2 run."""
    monkeypatch.chdir(tmp_path)
    records = [
        data.record(1, qual_cat="Stub", gender=["female"]),
        data.record(2, qual_cat="Stub", gender=["male"]),
        data.record(3, qual_cat="FA", gender=["male"]),
    ]
    data.write(tmp_path / METADATA, data.lines(records))
    data.write(tmp_path / "train_topics_meta.jsonl", data.columns({1: ("a", ["a"], [3, 2, 1])}))
    (tmp_path / "qrels.txt").write_text("1 0 1 1\n1 0 2 1\n1 0 3 1\n")
    (tmp_path / "task2.tsv").write_text("id\tseq_no\tpage_id\n1\t1\t1\n1\t1\t3\n1\t2\t2\n1\t2\t3\n")
    return tmp_path


# Task 2, by work needed: the stubs have ranks 1 and 2 (weights 1, 1), the featured article rank 3
# (1 / log2 3), and half of the background; Task 1: each article has a third
THIRD = 1 / math.log2(3)
SHARES = {
    1: {"female": (1 / 3 + 0.495) / 2, "male": (2 / 3 + 0.495) / 2, "NB": 0.005},
    2: {
        "female": (1 / (2 + THIRD) + 0.495) / 2,
        "male": ((1 + THIRD) / (2 + THIRD) + 0.495) / 2,
        "NB": 0.005,
    },
}


def loss_at_2(task):
    # both samples show a stub at 1 and page 3 at 2 (weights 1 and 1): on average half of the
    # exposure of rank 1 is female, so s = (female .5, male 1.5); the target is scaled by 2
    exposure = {"female": 0.5, "male": 1.5, "NB": 0.0}
    return sum((exposure[level] - 2 * share) ** 2 for level, share in SHARES[task].items())


@pytest.mark.parametrize("task", BAD_TASKS, ids=repr)
def test_the_task_is_required(folder, task):
    given = {} if task is None else {"task": task}
    with pytest.raises(ParameterError, match=r"task=1.*task=2"):
        trec_fair.targets(folder, "gender", **given)


@pytest.mark.parametrize("task", [1, 2])
def test_each_task_by_hand(folder, task):
    target = trec_fair.targets(folder, "gender", task=task)
    shares = target.to_frame().set_index("group")["weight"].to_dict()
    assert shares == pytest.approx(SHARES[task])
    assert OFFICIAL_TARGETS[target.name] == task
    measure = GroupEE_L(groups=trec_fair.groups(folder, "gender"), target=target) @ 2
    assert f"target='{target.name}'" in repr(measure)
    run, qrels = fairtk.io.read_run("task2.tsv"), fairtk.io.read_qrels("qrels.txt")
    assert measure.calc_aggregate(qrels, run) == pytest.approx(loss_at_2(task))


@pytest.mark.parametrize("task", [1, 2])
def test_official_files_on_the_command_line(folder, task):
    words = [
        "evaluate", "qrels.txt", "task2.tsv", "--groups", f"gender={METADATA}",
        "--target", f"trec-2022-task-{task}", "-m", "GroupEE_L@2", "--format", "json",
    ]  # fmt: skip
    result = click.testing.CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.stderr
    [row] = json.loads(result.stdout)
    assert row["mean"] == pytest.approx(loss_at_2(task))


@pytest.mark.parametrize("how", ["evaluate", "doctor", "frame of groups"])
def test_metadata_are_groups_wherever_groups_are_given(folder, how):
    options = {"groups": f"gender={METADATA}", "target": "trec-2022-task-2"}
    if how == "evaluate":
        table = fairtk.evaluate("qrels.txt", "task2.tsv", "GroupEE_L(groups='gender')@2", **options)
        assert table.means.iloc[0].filter(like="EE_L").item() == pytest.approx(loss_at_2(2))
    elif how == "doctor":
        findings = fairtk.doctor("qrels.txt", "task2.tsv", **options).findings
        assert not [f for f in findings if f.level == "error"]
    else:
        assert trec_fair.groups(METADATA, "gender") == trec_fair.groups(folder, "gender")


def test_what_the_official_target_needs(folder):
    with pytest.raises(InputError, match="'gender'"):  # the file has several attributes
        fairtk.evaluate("qrels.txt", "task2.tsv", "AWRF@2", groups=METADATA, target="uniform")
    trec_fair.groups(folder, "gender").write("gender.tsv")
    for target in OFFICIAL_TARGETS:
        with pytest.raises(InputError, match=METADATA):
            fairtk.evaluate("qrels.txt", "task2.tsv", "AWRF@2", groups="gender.tsv", target=target)
        with pytest.raises(ParameterError, match="qrels"):
            parse(f"AWRF(groups='gender.tsv',target='{target}')")
        with pytest.raises(ParameterError, match=target):
            fairtk.register_target(Target.population({"x": 1}), target)
    wrong = {"groups": f"gender={METADATA}", "target": "trec-2022-task2"}
    with pytest.raises(InputError, match="'trec-2022-task-2'"):
        fairtk.evaluate("qrels.txt", "task2.tsv", "AWRF@2", **wrong)


def test_a_file_of_json_lines_is_not_taken_for_metadata(folder):
    rows = pd.DataFrame({"docno": ["1", "2", "3"], "group": ["female", "male", "male"]})
    rows.to_json("gender.jsonl", orient="records", lines=True)
    table = fairtk.evaluate(
        "qrels.txt", "task2.tsv", "AWRF@2", groups="gender.jsonl", target="uniform"
    )
    # female .5 of 2, male 1.5 of 2, against 1/2 each
    p, m = (0.25, 0.75), (0.375, 0.625)
    divergence = (
        sum(x * math.log(x / z) + 0.5 * math.log(0.5 / z) for x, z in zip(p, m, strict=True)) / 2
    )
    assert table.means.iloc[0].filter(like="AWRF").item() == pytest.approx(1 - divergence)
