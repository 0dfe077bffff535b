"""What to cite is known for measures, data sets and systems."""

import re

import pytest

import fairtk
from fairtk.errors import NotFoundError
from fairtk.plugins import registry
from fairtk.plugins.references import TOOLS, bibliography, citation_keys, cite_results, entries


def keys(bibtex):
    return re.findall(r"^@\w+\{([^,]+),", bibtex, flags=re.M)


def test_measures_data_and_systems():
    assert keys(fairtk.cite("nDCG_TREC")) == ["ekstrand2022overview"]
    assert citation_keys("lamp/4/dev") == ["salemi2024lamp"]
    assert "plackett1975analysis" in citation_keys("FairSampler")


def test_a_measure_in_a_measure_and_each_source_once():
    found = keys(fairtk.cite("Product(left='EE_R@20',right='nDCG_TREC@20')", "EE_D@5"))
    assert "diaz2020evaluating" in found and "ekstrand2022overview" in found
    assert len(found) == len(set(found))


def test_without_names_the_tools():
    assert keys(fairtk.cite())[0] == "fairtk"
    assert fairtk.__version__ in fairtk.cite()


def test_an_unknown_name():
    with pytest.raises(NotFoundError, match="'EE_D'"):
        fairtk.cite("EED")
    with pytest.raises(NotFoundError):
        fairtk.cite("nope(EE_D)")


def test_what_an_experiment_rests_on():
    found = keys(cite_results(["BM25Scorer >> FairSampler", "mine"], ["E(nDCG@5)", "AWRF@20"]))
    assert found[0] == "fairtk" and len(found) == len(set(found))
    assert {"robertson2009probabilistic", "kim2024fairrag", "sapiezynski2019quantifying"} <= set(
        found
    )


def test_what_is_cited_is_there_and_what_is_there_is_cited():
    cited = [e.value.CITATION for e in registry.measures.entries()]
    specs = (registry.datasets, registry.transformers, registry.studies, registry.study_systems)
    for filled in specs:
        cited += [e.value.citation or "" for e in filled.entries()]
    assert {*TOOLS, *" ".join(cited).split()} == entries().keys()


def test_entries_are_whole():
    text = bibliography()
    assert len(keys(text)) == len(set(keys(text))) >= 15
    for entry in text.split("\n\n"):
        assert entry.count("{") == entry.count("}"), entry
        assert "title" in entry and "year" in entry and "author" in entry
