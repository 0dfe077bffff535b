"""An undefined mean has no winner, which is not a tie."""

import pandas as pd
import pytest

import fairtk

COLUMNS = ["qid", "docno", "score"]
RUNS = {
    "a": pd.DataFrame([("q", "d1", 2.0), ("q", "d2", 1.0)], columns=COLUMNS),
    "b": pd.DataFrame([("q", "d2", 2.0), ("q", "d1", 1.0)], columns=COLUMNS),
}


def outcome(labels, **options):
    qrels = pd.DataFrame(
        [("q", docno, label) for docno, label in labels.items()], columns=["qid", "docno", "label"]
    )
    with pytest.warns(fairtk.errors.UndefinedWarning):
        return fairtk.sensitivity(qrels, RUNS, "EE_R@1", **options)


def test_without_useful_documents_the_winner_is_undefined(tmp_path):
    found = outcome({"d1": 0, "d2": 0}, vary=["cutoff", "bounds"], cutoffs=[2])
    assert set(found.table["winner"]) == {"undefined"} and not found.table["flips"].any()
    assert found.summary == "EE_R@1: the winner is undefined, also with all 2 other settings."
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<p>{found.summary}</p>" in page and ">tie<" not in page
    assert "undefined" in repr(found) and "tie" not in repr(found)


def test_a_setting_with_a_value_differs_from_an_undefined_winner():
    found = outcome({"d1": 0}, vary=["judgments"])
    winners = found.table.set_index("setting")["winner"].to_dict()
    # d2 is unjudged: useful with the first setting, which b shows first
    assert winners == {"": "undefined", "unjudged useful": "b", "unjudged by score": "undefined"}
    assert found.flips["setting"].tolist() == ["unjudged useful"]
    assert found.summary.startswith("EE_R@1: the winner is undefined, but not with judgments")


@pytest.mark.parametrize("undefined, text", [(1, "undefined with 1 setting."), (0, "settings.")])
def test_undefined_settings_are_no_ties(undefined, text):
    found = outcome({"d1": 0, "d2": 0}, vary=["cutoff"], cutoffs=[2, 3, 4])
    found.table["winner"] = "a"
    found.table.loc[found.table.index[3 : 3 + undefined], "winner"] = "undefined"
    assert found.summary.startswith("EE_R@1: a wins, also with ")
    assert found.summary.endswith(text)
