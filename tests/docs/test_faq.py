"""The Python code of the questions runs, with the names that the text before it has."""

import re
from pathlib import Path

import pandas as pd
import pytest

import fairtk
from fairtk import EE_D, E, FairSampler, Generator, Groups
from fairtk.llm import OpenAICompatible

PAGE = (Path(__file__).parents[2] / "docs" / "faq.md").read_text(encoding="utf-8")
BLOCKS = {
    question.partition("\n")[0]: block
    for question in PAGE.split("\n## ")
    for block in re.findall(r"^```python\n(.*?)^```$", question, re.MULTILINE | re.DOTALL)
}


@pytest.fixture(scope="module")
def all_names():
    """Return the names that the blocks use: data of the demo and two systems."""
    demo = fairtk.demo.load()
    qrels = fairtk.drop_undefined(demo.qrels)[["qid", "docno", "label"]]
    bm25 = fairtk.BM25Scorer()(demo.candidates)
    runs = {"bm25": bm25, "fair": FairSampler(alpha=2, n_samples=5, cutoff=10)(bm25)}
    table = bm25[["docno"]].drop_duplicates()
    half = len(table) // 2
    table = table.assign(gender=["f", "m"] * half, region=["north"] * half + ["south"] * half)
    groups = Groups.from_frame(table.assign(group=["blog", "news"] * half), "source")
    return {
        "pd": pd, "fairtk": fairtk, "EE_D": EE_D, "E": E, "Generator": Generator,
        "OpenAICompatible": OpenAICompatible, "base_url": "http://127.0.0.1:1/v1",
        "llm": lambda prompts: ["red" for _ in prompts],
        "qrels": qrels, "runs": runs, "groups": groups, "table": table,
        "results": fairtk.evaluate(qrels, runs, ["EE_D@5", "E(nDCG@5)"]),
    }  # fmt: skip


@pytest.fixture
def names(all_names):
    return dict(all_names)  # blocks define further names


def test_there_are_blocks():
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize("question", BLOCKS)
def test_block(question, names, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[question], names)


def test_several_publishers(names):
    (question,) = [q for q in BLOCKS if "publishers" in q]
    exec(BLOCKS[question], names)
    shares = names["shares"].set_index("provider")["exposure"]
    # ranks 1 and 2 have equal attention: a gives 1/2 to two owners, b 1/2 to Lee
    assert shares.to_dict() == pytest.approx({"Kim": 1 / 4, "Lee": 1 / 2 + 1 / 4})


def test_columns_are_crossed_attributes(names):
    (question,) = [q for q in BLOCKS if "own group labels" in q]
    exec(BLOCKS[question], names)
    [label] = fairtk.evaluate(
        names["qrels"],
        names["runs"],
        ["AWRF@10"],
        groups=names["attributes"],
        target="uniform",
    ).measures
    assert label == "AWRF(groups='gender*region',target='uniform')@10"


def test_the_bar_chart_has_all_systems_and_the_target(names, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    (question,) = [q for q in BLOCKS if "bar chart" in q]
    exec(BLOCKS[question], names)
    shares = pd.DataFrame(names["shares"])
    assert list(shares) == ["bm25", "fair", "target"]
    assert shares.sum().tolist() == pytest.approx([1, 1, 1])
    assert Path("shares.pdf").stat().st_size
