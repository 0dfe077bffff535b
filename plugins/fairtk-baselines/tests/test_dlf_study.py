"""DLF as a system of the study, and at the end of a pipeline."""

import numpy as np
import pandas as pd
import pytest
from fairtk_baselines.study import build_dlf as build
from invented_setting import TOPICS, WORDS, setting_of

from fairtk import Groups
from fairtk.errors import ParameterError


def collection():
    """Return 48 documents, 12 per topic: those of group b say what group they are of."""
    rng = np.random.default_rng(5)
    rows = []
    for i in range(48):
        level = "ab"[(i // 4) % 2]
        words = [WORDS[i % 4]] * (1 + i % 3) + list(rng.choice(["river", "school", "prize"], 5))
        text = " ".join([*words, *(["herself", "her"] if level == "b" else ["himself", "his"])])
        rows.append((f"d{i:02}", text, level, str(i % 4 + 1), int(i % 3 > 0)))
    return pd.DataFrame(rows, columns=["docno", "text", "group", "qid", "label"])


DOCS = collection()
QRELS = DOCS[["qid", "docno", "label"]]


def setting(folder, **options):
    groups = Groups.from_frame(DOCS[["docno", "group"]])
    return setting_of(DOCS, groups, folder, 3, {"dimensions": 8, "epochs": 3, **options})


def test_fits_on_some_topics_and_ranks_others(tmp_path):
    system = build(setting(tmp_path))
    system.fit(TOPICS[:3], QRELS)
    found = system(TOPICS[3:])
    assert sorted(found.columns) == ["docno", "qid", "query", "rank", "score"]
    assert len(found) == 20 and found["rank"].tolist() == list(range(20))
    again = build(setting(tmp_path))
    assert again[-1] != system[-1]
    again.fit(TOPICS[:3], QRELS)
    assert again[-1] == system[-1]
    pd.testing.assert_frame_equal(again(TOPICS[3:]), found)


def test_topics_that_find_nothing(tmp_path):
    system = build(setting(tmp_path))
    system.fit(TOPICS[:3], QRELS)
    found = system(TOPICS[:0])
    assert len(found) == 0 and sorted(found.columns) == sorted(system(TOPICS).columns)


def test_options_reach_the_model(tmp_path):
    rerank = build(setting(tmp_path, weight=0.25, divergence="kl"))[-1]
    assert rerank.weight == 0.25 and rerank.recipe.divergence == "kl"
    assert rerank.recipe.cutoff == 5 and rerank.recipe.seed == 3
    assert build(setting(tmp_path, cutoff=7))[-1].recipe.cutoff == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wieght": 0.2}, "system 'dlf' has no option 'wieght'; did you mean 'weight'"),
        ({"seed": 1}, "no option 'seed'"),
        ({"weight": 2}, "weight must lie in"),
    ],
)
def test_wrong_options(tmp_path, options, message):
    with pytest.raises(ParameterError, match=message):
        build(setting(tmp_path, **options))
