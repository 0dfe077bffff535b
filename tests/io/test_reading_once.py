"""A file is opened once, and a reader that gets a list notes broken lines there and goes on."""

from pathlib import Path

import pandas as pd
import pytest

from fairtk.errors import FormatError
from fairtk.io import read_run, write_run
from fairtk.io.qrels import qrels_rows
from fairtk.io.runs import run_rows
from fairtk.io.tables import write_table

RUN = pd.DataFrame({"qid": ["1", "1"], "docno": ["a", "b"], "score": [2.0, 1.0]})


@pytest.mark.parametrize("name", ["x.run", "x.run.gz", "x.tsv", "x.csv", "x.jsonl", "x.parquet"])
def test_each_file_is_opened_once(tmp_path, monkeypatch, name):
    path = tmp_path / name
    if ".run" in name:
        write_run(RUN, path)
    else:
        write_table(RUN, path)
    opened, before = [], Path.open

    def spy(self, *words, **options):
        opened.append(self)
        return before(self, *words, **options)

    monkeypatch.setattr(Path, "open", spy)
    assert read_run(path)["docno"].tolist() == ["a", "b"]
    assert opened == [path]


def test_broken_lines_are_noted_and_left_out(tmp_path):
    path = tmp_path / "a.run"
    lines = ["1 Q0 a 1 2 t", "1 Q0 b", "1 Q0 a 2 1.5 t", "1 Q0 c 3 x t", "1 Q0 d 4 1 t", "1 Q"]
    path.write_text("\n".join(lines))
    errors = []
    rows = run_rows(path, errors=errors)
    assert rows.frame["docno"].tolist() == ["a", "a", "c", "d"]
    assert [(e.check, e.line) for e in errors] == [("line", 2), ("cut", 6)]
    left = rows.without([1])
    assert left.frame["docno"].tolist() == ["a", "c", "d"]
    assert [left.line_of(row) for row in left.frame.index] == [1, 4, 5]
    with pytest.raises(FormatError, match="2.*6"):
        read_run(path)


def test_labels_of_a_file_that_was_cut_off(tmp_path):
    path = tmp_path / "q.jsonl"
    record = '{"qid": "1", "docno": "a", "label": 1}\n'
    path.write_text(record + '{"qid": "1", "docno')
    errors = []
    assert len(qrels_rows(path, errors).frame) == 1
    assert [(e.check, e.line) for e in errors] == [("cut", 2)]
