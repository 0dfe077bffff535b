"""One rule for ids, ranks and samples, whatever door they come in by: frames or files."""

import json

import numpy as np
import pandas as pd
import pytest

from fairtk.errors import InputError
from fairtk.frames import Qrels, Run
from fairtk.io import read_qrels, read_run, write_parquet

NO_IDS = {
    "": "is empty",
    "a\x0b": r"has the character U\+000B",
    "a\x0cb": r"has the character U\+000C",
    "\x1ca": r"has the character U\+001C",
    "a\x1fb": r"has the character U\+001F",
    "a\x7f": r"has the character U\+007F",
    "a\x85b": r"has the character U\+0085",
    "a\u2028b": r"has the character U\+2028",
    "\u00a0a": "has spaces around it",
    "a\u3000": "has spaces around it",
}
IDS = ["a", "Zoë", "名前", "a\u3000b", "NA", '"', "1_0", "True"]


def _frame(docno, other="z"):
    return pd.DataFrame(
        {"qid": ["q", "q"], "docno": [docno, other], "score": [2.0, 1.0], "label": [1, 0]}
    )


def _text(path, frame):
    lines = [f"q Q0 {r.docno} {i} {r.score} t\n" for i, r in enumerate(frame.itertuples())]
    path.write_text("".join(lines), encoding="utf-8", newline="")
    return read_run(path)


def _delimited(path, frame, sign):
    # the field is quoted where csv would, and nothing checks it on the way
    fields = ['"' + d.replace('"', '""') + '"' if '"' in d else d for d in frame["docno"]]
    rows = [sign.join(("q", d, str(s))) for d, s in zip(fields, frame["score"], strict=True)]
    header = sign.join(("qid", "docno", "score"))
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8", newline="")
    return read_run(path)


def _json(path, frame, columns):
    records = frame[columns].to_dict("records")
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _parquet(path, frame):
    write_parquet(frame.drop(columns="label"), path)
    return read_run(path)


def _run(frame):
    return Run(frame, "here").checked().with_text_ids()


DOORS = {
    "Run": lambda path, frame: _run(frame),
    "categories": lambda path, frame: _run(frame.astype({"docno": "category"})),
    "objects": lambda path, frame: _run(frame.astype({"docno": object})),
    "Qrels": lambda path, frame: Qrels(frame, "here").with_text_ids(),
    "text": lambda path, frame: _text(path / "x.run", frame),
    "tsv": lambda path, frame: _delimited(path / "x.tsv", frame, "\t"),
    "csv": lambda path, frame: _delimited(path / "x.csv", frame, ","),
    "json": lambda path, frame: read_run(_json(path / "x.jsonl", frame, ["qid", "docno", "score"])),
    "json qrels": lambda path, frame: read_qrels(
        _json(path / "y.jsonl", frame, ["qid", "docno", "label"])
    ),
    "parquet": lambda path, frame: _parquet(path / "x.parquet", frame),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("docno", NO_IDS, ids=map(ascii, NO_IDS))
def test_what_is_no_id_is_refused_at_every_door(door, docno, tmp_path):
    if door == "text" and not docno:
        pytest.skip("a field of a text file has something in it")
    with pytest.raises(InputError, match=NO_IDS[docno]):
        DOORS[door](tmp_path, _frame(docno))


@pytest.mark.parametrize("door", DOORS)
def test_every_other_text_is_an_id_at_every_door(door, tmp_path):
    for docno in IDS:
        assert DOORS[door](tmp_path, _frame(docno))["docno"].tolist() == [docno, "z"]


NO_INTEGERS = {
    "missing": pd.array([0, None], dtype="Int64"),
    "durations": pd.to_timedelta([1, 2], unit="s"),
    "dates": pd.to_datetime(["2020", "2021"]),
    "above 2^63": np.array([1, 2**63 + 1], np.uint64),
}


@pytest.mark.parametrize("door", ["Run", "parquet"])
@pytest.mark.parametrize("column", ["rank", "sample"])
@pytest.mark.parametrize("values", NO_INTEGERS.values(), ids=NO_INTEGERS)
def test_ranks_and_samples_are_whole_numbers_at_every_door(door, column, values, tmp_path):
    with pytest.raises(InputError, match=f"{column}'? (is missing|must be)"):
        DOORS[door](tmp_path, _frame("a").assign(**{column: values}))


def test_numbers_of_samples_that_leave_much_out_tell_rankings_apart():
    # 3 queries times 2^61 is beyond 64 bits
    frame = pd.DataFrame(
        {"qid": ["p", "q", "r", "r"], "docno": "d", "score": 1.0, "sample": [2**61, 0, 2**61, 5]}
    )
    run = Run(frame, "here").checked()
    assert run.ranking_query.tolist() == [0, 1, 2, 2]
    assert run.ranking_sample.tolist() == [2**61, 0, 5, 2**61]
