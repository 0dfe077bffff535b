"""Documents that PISA would lose or rename are refused or reported."""

import pandas as pd
import pytest

from fairtk.errors import DataWarning, InputError
from fairtk.transformers import CollectionBM25
from fairtk.transformers.candidates import checked_document

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")

TOPICS = pd.DataFrame({"qid": ["1"], "query": ["cat"]})
WRONG = [
    {"text": float("nan")},
    {"text": None},
    {"text": 3},
    {"text": ["cat"]},
    {"text": "cat \ud800"},
    {"docno": "New York"},
    {"docno": "a\tb"},
    {"docno": " a"},
    {"docno": ""},
    {"docno": None},
    {"docno": 1.5},
    {"docno": True},
]


def documents(**change):
    rows = [{"docno": f"d{i}", "text": f"cat {'x' * i}"} for i in range(5)]
    rows[3] |= change
    return rows


@pytest.mark.parametrize("change", WRONG, ids=repr)
def test_an_invalid_document_is_named(change):
    with pytest.raises(InputError, match=f"document 4.*{next(iter(change))}"):
        checked_document(4, documents(**change)[3])


@pytest.mark.parametrize("wrong", [{"docno": "d"}, {"text": "cat"}, ("d", "cat"), None])
def test_a_document_without_docno_or_text_is_named(wrong):
    with pytest.raises(InputError, match="document 6"):
        checked_document(6, wrong)


def test_an_invalid_document_leaves_no_index(tmp_path):
    with pytest.raises(InputError, match="document 4.*'d3'.*nan"):
        CollectionBM25(tmp_path / "index", lambda: documents(text=float("nan")))(TOPICS)
    assert not list((tmp_path / "index").iterdir())
    run = CollectionBM25(tmp_path / "index", lambda: documents(docno=7))(TOPICS)
    assert set(run["docno"]) == {"d0", "d1", "d2", "7", "d4"}


def test_repeated_docnos_are_reported(tmp_path):
    with pytest.warns(DataWarning, match="1 of 5 documents.*'d1'") as caught:
        run = CollectionBM25(tmp_path / "index", lambda: documents(docno="d1"))(TOPICS)
    assert set(run["docno"]) == {"d0", "d1", "d2", "d4"}
    assert len(caught) == 1
