"""Labels and scores of other types than int and float are read back as the same numbers."""

from __future__ import annotations

import pandas as pd
import pytest

from fairtk import io

COLUMNS = {
    "bool": pd.Series([True, False]),
    "boolean": pd.Series([True, False], dtype="boolean"),
    "object": pd.Series([True, 0.5], dtype=object),
    "category": pd.Series([2, 1], dtype="category"),
    "float32": pd.Series([0.1, 0.0], dtype="float32"),
    "Int64": pd.Series([2, 1], dtype="Int64"),
}
FILES = [
    *((io.write_qrels, io.read_qrels, "label", s) for s in ("txt", "tsv", "jsonl", "parquet")),
    *((io.write_run, io.read_run, "score", s) for s in ("txt", "parquet")),
]


@pytest.mark.parametrize("write, read, column, suffix", FILES)
@pytest.mark.parametrize("kind", COLUMNS)
def test_numbers_of_any_type_are_read_back(tmp_path, write, read, column, suffix, kind):
    values, path = COLUMNS[kind], tmp_path / f"file.{suffix}"
    write(pd.DataFrame({"qid": "q", "docno": ["d0", "d1"], column: values}), path)
    assert [*map(float, read(path)[column])] == [*map(float, values)]


def test_scores_with_more_digits_than_int64_fit_in_parquet(tmp_path):
    path = tmp_path / "run.parquet"
    scores = pd.Series([10**30, 2**70], dtype=object)
    io.write_run(pd.DataFrame({"qid": "q", "docno": ["d0", "d1"], "score": scores}), path)
    assert io.read_run(path)["score"].tolist() == [1e30, 2.0**70]
