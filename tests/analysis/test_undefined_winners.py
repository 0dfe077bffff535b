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
    result = outcome({"d1": 0, "d2": 0}, vary=["cutoff", "bounds"], cutoffs=[2])
    assert set(result.table["winner"]) == {"undefined"} and not result.table["flips"].any()
    assert result.summary == "EE_R@1: the winner is undefined, also with all 2 other settings."
    result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<p>{result.summary}</p>" in page and ">tie<" not in page
    assert "undefined" in repr(result) and "tie" not in repr(result)


def test_a_setting_with_a_value_differs_from_an_undefined_winner():
    result = outcome({"d1": 0}, vary=["judgments"])
    winners = result.table.set_index("setting")["winner"].to_dict()
    # d2 is unjudged: useful with the first setting, which b shows first
    assert winners == {"": "undefined", "unjudged useful": "b", "unjudged by score": "undefined"}
    assert result.flips["setting"].tolist() == ["unjudged useful"]
    assert result.summary.startswith("EE_R@1: the winner is undefined, but not with judgments")


@pytest.mark.parametrize("undefined, text", [(1, "undefined with 1 setting."), (0, "settings.")])
def test_undefined_settings_are_no_ties(undefined, text):
    result = outcome({"d1": 0, "d2": 0}, vary=["cutoff"], cutoffs=[2, 3, 4])
    result.table["winner"] = "a"
    result.table.loc[result.table.index[3 : 3 + undefined], "winner"] = "undefined"
    assert result.summary.startswith("EE_R@1: a wins, also with ")
    assert result.summary.endswith(text)
