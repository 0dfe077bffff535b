"""The process that builds an index of PISA."""

from __future__ import annotations

import os
import sys

import pandas as pd
import pytest

from fairtk.errors import DataWarning, InputError
from fairtk.transformers import CollectionBM25

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")

QUERIES = pd.DataFrame({"qid": ["1"], "query": ["common"]})


def test_streams_stay_as_they_are_while_an_index_is_built(tmp_path, capfd):
    before = [os.fstat(number).st_ino for number in (1, 2)], sys.stdout, sys.stderr

    def documents():
        for number in range(3):
            assert before == (
                [os.fstat(descriptor).st_ino for descriptor in (1, 2)],
                sys.stdout,
                sys.stderr,
            )
            os.write(1, b"from another thread\n")
            yield {"docno": f"d{number}", "text": f"common word{number}"}
        yield {"docno": "d0", "text": "rare"}  # the first record of a docno counts

    with pytest.warns(DataWarning, match="1 of 4 documents.*'d0'"):
        ranking = CollectionBM25(tmp_path / "index", documents)(QUERIES)
    assert set(ranking["docno"]) == {"d0", "d1", "d2"}
    assert capfd.readouterr().out == "from another thread\n" * 3


def broken():
    yield {"docno": "d0", "text": "common"}
    raise ValueError("broken line 7")


@pytest.mark.parametrize(
    "documents, error, words", [(list, InputError, "no documents"), (broken, ValueError, "line 7")]
)
def test_documents_that_cannot_be_read_leave_no_index(tmp_path, documents, error, words):
    with pytest.raises(error, match=words):
        CollectionBM25(tmp_path / "index", documents)(QUERIES)
    assert not list((tmp_path / "index").iterdir())
