"""DELTR as a system of the study."""

import numpy as np
import pandas as pd
import pytest
from deltr_data import groups
from fairtk_baselines import DELTR
from fairtk_baselines.study import build_deltr as build
from invented_setting import TOPICS, WORDS, setting_of

from fairtk.errors import ParameterError


def documents():
    """Return 40 documents; relevant ones of group b name the query's word less often."""
    rng = np.random.default_rng(2)
    rows = []
    for i in range(40):
        word, level = WORDS[i % 4], "ab"[(i // 4) % 2]
        often = (3 if level == "a" else 1) if i % 3 else 0
        text = [word] * often + list(rng.choice(["river", "school", "prize"], size=6))
        rows.append({"docno": f"d{i:02}", "text": " ".join(text), "level": level, "label": i % 3})
    return pd.DataFrame(rows)


DOCS = documents()
QRELS = pd.DataFrame(
    [
        (str(i % 4 + 1), row.docno, int(row.label > 0))
        for i, row in enumerate(DOCS.itertuples(index=False))
    ],
    columns=["qid", "docno", "label"],
)


def setting(folder, **options):
    of = groups(dict(zip(DOCS["docno"], DOCS["level"], strict=True)))
    return setting_of(DOCS, of, folder, 1, options)


@pytest.mark.parametrize("options", [{}, {"encoder": "lsa", "dimensions": 4}])
def test_fits_and_ranks(tmp_path, options):
    system = build(setting(tmp_path, **options))
    system.fit(TOPICS[:3], QRELS[QRELS["qid"] != "4"])
    out = system(TOPICS[3:])
    assert set(out.columns) == {"qid", "query", "docno", "score", "rank"}
    assert out["rank"].tolist() == list(range(20))
    other = build(setting(tmp_path, **options))
    other.fit(TOPICS[:3], QRELS[QRELS["qid"] != "4"])
    pd.testing.assert_frame_equal(other(TOPICS[3:]), out)


def learner(system):
    return next(stage for stage in system if isinstance(stage, DELTR))


def test_options(tmp_path):
    made = learner(build(setting(tmp_path)))
    assert (made.exposure, made.gamma, made.seed) == ("relative", 1.0, 1)
    made = learner(build(setting(tmp_path, exposure="top-one", gamma=7, protected="b")))
    assert (made.exposure, made.gamma, made.protected) == ("top-one", 7.0, ("b",))


def test_unknown_options_name_the_near_miss(tmp_path):
    with pytest.raises(ParameterError, match="'gama'.*'gamma'"):
        build(setting(tmp_path, gama=1))
    with pytest.raises(ParameterError, match="'seed'"):
        build(setting(tmp_path, seed=1))
    with pytest.raises(ParameterError, match="gamma"):
        build(setting(tmp_path, gamma=-1))
