"""Targets of a study: the default, those from judgments alone, and fixed ones."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from fairtk_papers.fair_qr import QrConfiguration, from_trec_fair
from fairtk_papers.fair_qr.settings import study_target

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.groups import Target


def shares(target):
    return target.to_frame().set_index("group")["weight"].to_dict()


def test_forms_of_a_target(gender, tmp_path):
    groups, official = gender.attributes["gender"]

    def made(target):
        return study_target(target, groups, "gender", gender.qrels)

    assert shares(made("uniform")) == dict.fromkeys(["female", "male", "NB"], 1 / 3)
    half = {"female": 0.5, "male": 0.5}
    assert shares(made(half)) == half
    Target.population(half, groups).write(tmp_path / "half.tsv")
    assert shares(made(str(tmp_path / "half.tsv"))) == half
    assert made(official).digest() == official.digest()
    alone = Target.from_qrels(gender.qrels, groups)
    assert made("relevance").digest() == alone.digest() != official.digest()
    with pytest.raises(InputError, match="'gender'.*'robot'"):
        made({"robot": 1.0})
    with pytest.raises(InputError, match="'relevance', 'relevance.population', 'uniform'"):
        made("unifrom")
    with pytest.raises(InputError, match="'gender'.*DataFrame"):
        made(pd.DataFrame({"group": ["female"], "weight": [1.0]}))


def test_words_are_never_paths(gender, tmp_path):
    for word in ("uniform", "relevance", "relevance+population"):
        (tmp_path / word).write_text("group\tweight\nfemale\t1\n", encoding="utf-8")
    groups, _ = gender.attributes["gender"]
    assert len(shares(study_target("uniform", groups, "gender", gender.qrels))) == 3


def test_a_configuration_with_targets(wiki, tmp_path):
    path = tmp_path / "study.toml"
    (tmp_path / "half.tsv").write_text("group\tweight\nfemale\t0.5\nmale\t0.5\n", encoding="utf-8")
    path.write_text(
        f"folder = '{wiki}'\n[targets]\ngender = ['relevance', 'uniform', 'half.tsv', "
        "{female = 0.4, male = 0.6}, 'relevance+population']\n",
        encoding="utf-8",
    )
    targets = QrConfiguration.read(path).data["targets"]
    data = from_trec_fair(wiki, ["gender"], target=targets)
    names = ["relevance", "uniform", "half", "shares"]
    # naming the default adds nothing
    assert list(data.attributes) == ["gender", *(f"gender ({name})" for name in names)]
    assert data.target_label("gender") == "relevance+population"
    assert [data.target_label(f"gender ({name})") for name in names] == names
    assert "gender (half): half" in data.target_text
    groups, _ = data.attributes["gender"]
    relevance = data.attributes["gender (relevance)"][1]
    np.testing.assert_allclose(
        relevance.for_qids(["1"]).total(),
        Target.from_qrels(data.qrels, groups).for_qids(["1"]).total(),
    )
    single = from_trec_fair(wiki, ["gender"], target={"gender": "uniform"})
    assert list(single.attributes) == ["gender", "gender (uniform)"]


def test_the_default_without_a_background(wiki):
    data = from_trec_fair(wiki, ["occ"], target={"occ": "relevance"})
    assert list(data.attributes) == ["occ"] and data.target_label("occ") == "relevance"
    assert data.target_text == "Target: relevance."
    with pytest.raises(ParameterError, match="'occ'"):
        from_trec_fair(wiki, ["occ"], target={"occ": "relevance+population"})


def test_targets_that_are_refused(wiki, tmp_path):
    with pytest.raises(InputError, match="'robot'"):  # before anything is done
        from_trec_fair(wiki, ["gender"], target={"gender": {"female": 0.5, "robot": 0.5}})
    with pytest.raises(NotFoundError, match="'gendre'"):
        from_trec_fair(wiki, ["gender"], target={"gendre": "uniform"})
    with pytest.raises(ParameterError, match="'shares' of 'gender'"):
        from_trec_fair(wiki, ["gender"], target={"gender": [{"female": 1}, {"male": 1}]})
    for word in ("relevance", "relevance+population"):  # names of other targets
        file = tmp_path / f"{word}.tsv"
        file.write_text("group\tweight\nfemale\t1\n", encoding="utf-8")
        with pytest.raises(ParameterError, match=re.escape(f"'{word}' of 'gender'")):
            from_trec_fair(wiki, ["gender"], target={"gender": str(file)})
