"""SingleDocumentSampler: every document alone, in a ranking of its own."""

import pandas as pd
import pytest

from fairtk import FairSampler
from fairtk.errors import ColumnError, DuplicateError
from fairtk.testing import TransformerContract
from fairtk.transformers import SingleDocumentSampler


def run():
    rows = [("1", "q one", "b", 1.0), ("2", "q two", "a", 5.0), ("1", "q one", "a", 2.0)]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "score"])
    return frame.assign(text=["bread", "apple", "apple"])


def test_each_document_is_a_ranking():
    out = SingleDocumentSampler()(run())
    found = out[["qid", "docno", "rank", "sample", "text"]].to_numpy().tolist()
    assert found == [
        ["1", "a", 0, 0, "apple"],
        ["1", "b", 0, 1, "bread"],
        ["2", "a", 0, 0, "apple"],
    ]


class TestContract(TransformerContract):
    def make(self):
        return SingleDocumentSampler()


def test_bad_input():
    with pytest.raises(ColumnError):
        SingleDocumentSampler()(FairSampler(n_samples=2)(run()))
    with pytest.raises(DuplicateError, match="'a'"):
        SingleDocumentSampler()(pd.concat([run(), run().tail(1)]))
