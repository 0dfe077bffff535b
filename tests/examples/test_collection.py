"""The packaged collection: its form, and that the committed files are what the command makes."""

import json

import pytest
from demo_model.collection import build_collection, main
from demo_model.examples import draw_example
from demo_model.grammar import load_grammar
from demo_model.groups import annotate

from fairtk import demo

FILES = ("dev_questions.json", "dev_outputs.json", "groups.tsv")


@pytest.fixture(scope="module")
def questions():
    return json.loads((demo.collection_folder() / FILES[0]).read_text(encoding="utf-8"))


def test_the_command_makes_the_committed_files(tmp_path, capsys):
    main(["--out", str(tmp_path)])
    assert "84 queries" in capsys.readouterr().out
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (demo.collection_folder() / name).read_bytes()


def test_the_asked_theme_is_in_the_profile():
    for profile in build_collection(20):
        assert sum(item.theme == profile.query.theme for item in profile.items) >= 2


def test_load():
    data = demo.load()
    assert list(data.topics) == ["qid", "query", "question", "gold_answer"]
    assert {"qid", "query", "question", "docno", "score", "rank", "text", "tag"} <= set(
        data.candidates
    )
    assert list(data.qrels) == ["qid", "docno", "label", "gold_answer"]
    assert data.candidates["docno"].is_unique
    assert set(data.qrels["docno"]) == set(data.candidates["docno"])
    assert set(data.groups["docno"]) == set(data.candidates["docno"])
    assert set(data.topics["gold_answer"]) <= set(load_grammar().tags)
    useful = data.qrels[data.qrels["label"] > 0]
    assert useful["qid"].nunique() >= 60


def test_groups():
    groups = demo.load().groups
    sums = groups.groupby(["docno", "attribute"])["weight"].sum()
    assert (sums == 1).all()
    assert set(groups["attribute"]) == {"production", "origin"}
    assert "@UNKNOWN" in set(groups["group"])
    assert annotate(["a", "b"], [0, 0], seed=3) == annotate(["a", "b"], [0, 0], seed=3)


def test_training_shares_no_description(questions):
    import numpy as np

    packaged = {e["description"] for q in questions for e in q["profile"]}
    packaged |= {q["input"].split("description: ")[1] for q in questions}
    rng, grammar = np.random.default_rng(7), load_grammar()
    for _ in range(300):
        prompt = draw_example(rng, grammar, 6).prompt
        assert not any(text in prompt for text in packaged)
