"""The plugin as a whole: what it gives, and how its measures are named and read."""

import configparser
import re
from pathlib import Path

import fairtk_classic
import ir_measures
import pytest
from frames import groups, qrels, run

import fairtk
from fairtk.errors import ParameterError
from fairtk.measures.pages import page_of, plain_text

NAMES = [name for name in fairtk_classic.__all__ if name != "ABR"]  # which is EXP
MEASURES = [getattr(fairtk_classic, name) for name in NAMES]


def test_the_hook_gives_all_measures():
    given = fairtk_classic.fairtk_measures()
    assert [m.NAME for m in given] == NAMES
    assert fairtk.plugins.registry.measures.get("rND") == fairtk_classic.rND


def test_what_is_cited_is_in_the_references_and_no_more():
    text = (Path(fairtk_classic.__file__).parent / "references.bib").read_text(encoding="utf-8")
    keys = set(re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE))
    assert set(" ".join(m.CITATION for m in MEASURES).split()) == keys


def test_measures_as_strings_with_registered_groups():
    made = groups({"d1": "p", "d2": "x", "d3": "x", "d4": "p"}, name="classic-test")
    fairtk.register_groups(made, "classic-test")
    text = "rND(groups='classic-test',protected='p',step=2)@4"
    measure = ir_measures.parse_measure(text)
    found = ir_measures.calc_aggregate([measure], qrels({"d1": 1}), run([["d1", "d4", "d2", "d3"]]))
    assert found[measure] == pytest.approx(1)
    assert ir_measures.parse_measure(repr(measure)) == measure


def test_parameters_are_suggested():
    with pytest.raises(ParameterError, match="'protected'"):
        fairtk_classic.rND(protect="p")
    with pytest.raises(ParameterError, match="empty"):
        fairtk_classic.EXP(empty="zero")
    with pytest.raises(ParameterError, match="combine"):
        fairtk_classic.EXP(combine="sum")


def test_too_many_groups_are_refused():
    many = {f"d{i}": f"level{i}" for i in range(70)}
    crossed = groups(many, name="one") * groups(many, name="two")
    with pytest.raises(ParameterError, match="4900"):
        fairtk_classic.EXP(groups=crossed)


def test_levels_of_crossed_groups_are_named_by_a_star():
    one = groups({"d1": "p", "d2": "x", "d3": "x"}, name="one")
    two = groups({"d1": "u", "d2": "v", "d3": "u"}, name="two")
    asked = fairtk_classic.logDP(groups=one * two, protected="x*u")
    assert asked.names() == ["p*u", "p*v", "x*u", "x*v"]


def test_the_entry_point_leads_here():
    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[1] / "setup.cfg", encoding="utf-8")
    assert config["options.entry_points"]["fairtk"].split() == ["classic", "=", "fairtk_classic"]


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
def test_every_measure_has_a_page(measure):
    sections = page_of(measure).sections
    assert tuple(sections) == ("Formula", "Range", "What it does not say", "Example", "Related")
    assert "$$" in sections["Formula"] and "\\" not in plain_text(sections["Formula"])
    known = fairtk.plugins.registry.measures.names()
    assert set(re.findall(r"`(\w+)`", sections["Related"])) <= set(known)
