"""The doctor checks the cells of crossed groups that its measures use."""

import pandas as pd
import pytest

import fairtk

DOCNOS = list("abcdef")
QRELS = pd.DataFrame({"qid": "1", "docno": DOCNOS, "label": [1, 0, 1, 0, 1, 1]})
RUN = QRELS[["qid", "docno"]].assign(score=[6.0, 5, 4, 3, 2, 1])
# cells: (x, u) a; (x, v) b, c; (y, u) d, f; (y, v) e
GROUPS = {
    "gp": dict(zip(DOCNOS, "xxxyyy", strict=True)),
    "go": dict(zip(DOCNOS, "uvvuvu", strict=True)),
}


def cells(**options):
    diagnosis = fairtk.doctor(QRELS, RUN, GROUPS, **options)
    return [f.text for f in diagnosis.findings if f.check == "support" and "gp*go" in f.text]


@pytest.mark.parametrize("measures", [(), "AWRF@3"])
def test_cells_that_are_measured(measures):
    (text,) = cells(target="uniform", support=3, measures=measures)
    assert "('x', 'u') 1" in text and "('x', 'v') 2" in text
    assert cells(target="uniform", support=1, measures=measures) == []


def test_cells_that_are_not_measured():
    assert cells(support=3) == []  # without a target, there is no AWRF
    assert cells(target="uniform", support=3, measures="AWRF(groups='gp')@3") == []
    of_one = pd.DataFrame({"gp": ["x", "y"], "weight": 0.5})
    assert cells(target=of_one, support=3) == []
