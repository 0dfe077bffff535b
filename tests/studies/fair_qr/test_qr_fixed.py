"""Fixed targets of a study, beside those that judgments give."""

from __future__ import annotations

import pytest

from fairtk.errors import FormatError, InputError, NotFoundError
from fairtk.groups import Target
from fairtk.studies.fair_qr import QrConfiguration, from_trec_fair
from fairtk.studies.fair_qr.settings import fixed_target


def shares(target):
    return target.to_frame().set_index("group")["weight"].to_dict()


def test_forms_of_a_fixed_target(gender, tmp_path):
    groups, official = gender.attributes["gender"]
    assert shares(fixed_target("uniform", groups, "gender")) == dict.fromkeys(
        ["female", "male", "NB"], 1 / 3
    )
    half = {"female": 0.5, "male": 0.5}
    assert shares(fixed_target(half, groups, "gender")) == half
    Target.population(half, groups).write(tmp_path / "half.tsv")
    assert shares(fixed_target(str(tmp_path / "half.tsv"), groups, "gender")) == half
    assert fixed_target(official, groups, "gender").digest() == official.digest()
    with pytest.raises(InputError, match="the target of 'gender': .*lack.*'robot'"):
        fixed_target({"robot": 1.0}, groups, "gender")
    with pytest.raises(InputError, match="'uniform', shares by group or a file that exists"):
        fixed_target("unifrom", groups, "gender")


def test_a_configuration_with_fixed_targets(wiki, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(f'folder = "{wiki}"\n[targets]\ngender = "uniform"\n', encoding="utf-8")
    data = from_trec_fair(wiki, ["gender"], targets=QrConfiguration.read(path).data["targets"])
    assert list(data.attributes) == ["gender", "gender (fixed target)"]
    with pytest.raises(InputError, match="lack.*'robot'"):  # before anything is done
        from_trec_fair(wiki, ["gender"], targets={"gender": {"female": 0.5, "robot": 0.5}})
    with pytest.raises(NotFoundError, match=r"attribute of \[targets\] 'gendre'; did you mean"):
        from_trec_fair(wiki, ["gender"], targets={"gendre": "uniform"})
    path.write_text(f'folder = "{wiki}"\n[target]\ngender = "uniform"\n', encoding="utf-8")
    with pytest.raises(FormatError, match="unknown key 'target'; did you mean 'targets'"):
        QrConfiguration.read(path)
