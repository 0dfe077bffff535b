"""A study refuses the options that its run would refuse, before a dry run shows its cost."""

from __future__ import annotations

import pytest

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("fairtk_papers")

from fairtk_papers.fair_qr import QrSettings, QrStudy, from_trec_fair

from fairtk.demo.invented_people import write_invented_folder
from fairtk.errors import InputError
from fairtk.llm import KeywordRefiner
from fairtk.plugins import registry

SYSTEMS = ("vector-search", "dlf", "deltr", "fa*ir", "mmr")
INVALID = {
    "vector-search": ("dimensions", 0),
    "dlf": ("weight", 2),
    "deltr": ("gamma", -1),
    "fa*ir": ("p", 2),
    "mmr": ("lambda", 5),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "people"
    write_invented_folder(folder, 60)
    return from_trec_fair(folder, attributes=["gender"])


def study(data, folder, system, **settings):
    everything = {"systems": (system,), "variations": {}, "tuning": {}, **settings}
    return QrStudy(data, folder, KeywordRefiner(), QrSettings(**everything))


def test_all_systems_are_here():
    assert set(SYSTEMS) <= set(registry.study_systems.names()) and set(SYSTEMS) == set(INVALID)


@pytest.mark.parametrize("system", SYSTEMS)
def test_invalid_options_are_refused_before_the_cost_is_shown(data, tmp_path, system):
    name, value = INVALID[system]
    for options, named in (({"no_such": 1}, "no_such"), ({name: value}, name)):
        with pytest.raises(InputError, match=f"{named}"):
            study(data, tmp_path / "out", system, options={system: options})
        grid = {option: [one] for option, one in options.items()}
        with pytest.raises(InputError, match=f"{named}"):
            study(data, tmp_path / "out", system, tuning={system: grid})
    assert not (tmp_path / "out").exists()


def test_a_model_is_not_downloaded_to_check_options(data, tmp_path):
    options = {"encoder": "no-such-owner/no-such-model", "lambda": 0.5}
    assert study(data, tmp_path, "mmr", options={"mmr": options}).cells
