"""A file is opened once, and a reader that is given a list notes what is wrong and goes on."""

from pathlib import Path

import pandas as pd
import pytest

from fairtk.errors import FormatError
from fairtk.io import read_qrels, read_run, write_run
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


def test_what_is_wrong_is_noted_and_left_out(tmp_path):
    path = tmp_path / "a.run"
    lines = ["1 Q0 a 1 2 t", "1 Q0 b", "1 Q0 a 2 1.5 t", "1 Q0 c 3 x t", "1 Q0 d 4 1 t", "1 Q"]
    path.write_text("\n".join(lines))
    errors = []
    assert read_run(path, errors=errors)["docno"].tolist() == ["a", "d"]
    assert [(e.check, e.error.line, e.count) for e in errors] == [
        ("line", 2, 1), ("cut", 6, 1), ("bad-values", 4, 1), ("duplicates", 3, 1)
    ]  # fmt: skip
    with pytest.raises(FormatError, match="2.*6"):
        read_run(path)


def test_ranks_that_disagree_are_noted_and_scores_count(tmp_path):
    path = tmp_path / "a.run"
    path.write_text("1 Q0 a 1 1 t\n1 Q0 b 2 2 t\n")
    errors = []
    assert read_run(path, errors=errors)["rank"].tolist() == [1, 0]
    assert [error.check for error in errors] == ["order"]


def test_labels_of_a_file_that_was_cut_off(tmp_path):
    path = tmp_path / "q.jsonl"
    record = '{"qid": "1", "docno": "a", "label": 1}\n'
    path.write_text(record + '{"qid": "1", "docno')
    errors = []
    assert len(read_qrels(path, errors)) == 1
    assert [(e.check, e.error.line) for e in errors] == [("cut", 2)]
