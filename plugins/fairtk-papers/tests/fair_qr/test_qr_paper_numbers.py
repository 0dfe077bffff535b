"""A study's numbers next to the known ones of the FAIR-QR paper."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from fairtk_papers.fair_qr import QrResults, QrSettings
from fairtk_papers.fair_qr.report import paper_table

from fairtk.llm import KeywordRefiner, Prices

TABLE = pd.DataFrame(
    [
        ("gender", "bm25", 0.7, 0.9, 0.63),
        ("gender", "mmr", 0.1, 0.2, 0.02),  # not in the paper
        ("gender", "fair-qr", 0.66, 0.8, 0.6),
        ("geography (population)", "bm25", 0.7, 0.75, 0.525),
        ("topic", "bm25", 0.7, 0.3, 0.21),
    ],
    columns=["attribute", "system", "nDCG", "AWRF", "nDCG x AWRF"],
)


def rows(data, cutoff):
    """Return the rows of results with the values of `TABLE`."""
    attributes = dict.fromkeys(TABLE["attribute"], data.attributes["gender"])
    data = replace(data, attributes=attributes, targets=dict.fromkeys(attributes, "equal"))
    model, settings = KeywordRefiner(), QrSettings(cutoff=cutoff)
    results = QrResults(data, settings, {}, model, Prices({}), {}, [], Path("absent"))
    results.table = TABLE  # instead of the evaluation of systems
    return paper_table(results).rows


def test_each_number_of_the_paper_is_next_to_that_of_its_system(data):
    geography = "geography (population)"
    assert rows(data, 20) == [
        ["", "", "bm25", "nDCG", "0.7000", "0.6638", "+0.0362"],  # once for all attributes
        ["gender", "equal", "fair-qr", "nDCG", "0.6600", "0.6530", "+0.0070"],
        ["gender", "equal", "bm25", "AWRF", "0.9000", "0.8857", "+0.0143"],
        [geography, "equal", "bm25", "AWRF", "0.7500", "0.7895", "-0.0395"],
        ["gender", "equal", "fair-qr", "nDCG x AWRF", "0.6000", "0.6083", "-0.0083"],
    ]


@pytest.mark.parametrize("cutoff", [5, 100])
def test_numbers_at_another_cutoff_are_not_those_of_the_paper(data, cutoff):
    assert rows(data, cutoff) == []
