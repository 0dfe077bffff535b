"""The rules for ids, numbers and rows, and that frames, files and `doctor` use the same ones."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairtk
from fairtk.credit.frame import Credit
from fairtk.errors import ColumnError, DuplicateError, FormatError, InputError
from fairtk.frames import Qrels, Run, schema
from fairtk.groups import Groups
from fairtk.io import read_qrels, read_run, write_parquet


class Refused(Exception):
    def __init__(self, problem):
        self.problem = problem


def refuse(problem):
    raise Refused(problem)


def problem_of(check, *args, **options):
    with pytest.raises(Refused) as caught:
        check(*args, refuse, **options)
    return caught.value.problem


def series(values):
    return pd.Series(values) if hasattr(values, "dtype") else pd.Series(values, dtype=object)


# values, the rows to name, words of the message
NO_IDS = {
    "float": ([1.0, 2.0], [0, 1], r"got 1.0 \(float\)"),
    "float32": ([np.float32(1.5), "a"], [0], r"\(float32\)"),
    "bytes": (["q", b"q1", b"q1"], [1, 2], r"got b'q1' \(bytes\)"),
    "bool": ([True, False], [0, 1], r"got True \(bool\)"),
    "list": (["q", ["q1"]], [1], r"got \['q1'\] \(list\)"),
    "dict": ([{}], [0], r"got \{\} \(dict\)"),
    "array": ([np.zeros(2)], [0], r"\(ndarray\)"),
    "tuple": ([("a", "b")], [0], r"\(tuple\)"),
    "date": ([pd.Timestamp("2022-01-01")], [0], r"\(Timestamp\)"),
    "nan": (["q", np.nan], [1], "is missing"),
    "none": ([None, "q", None], [0, 2], "is missing"),
    "NA": (pd.array([1, None], dtype="Int64"), [1], "is missing"),
    "one id as two values": ([1, "2", "1"], [0, 2], "'1' must have one type, got int, str"),
    "surrogate": (["\ud800"], [0], r"has the character U\+D800"),
    "empty": (["q", ""], [1], "'' is empty"),
    "NUL": (["q", "a\0b"], [1], r"'a\\x00b' has the character U\+0000"),
    "BOM": (["é", "\ufeffq"], [1], r"'\\ufeffq' has the character U\+FEFF .*joined files"),
    "line separator": (["a\u2028b", "q"], [0], r"has the character U\+2028"),
    "next line": (["a\x85b"], [0], r"has the character U\+0085"),
    "spaces": (["q", "a\u3000"], [1], "has spaces around it"),
}


@pytest.mark.parametrize("kind", NO_IDS)
def test_ids_are_text_or_whole_numbers(kind):
    values, rows, message = NO_IDS[kind]
    problem = problem_of(schema.check_ids, series(values), "qid")
    assert problem.rows.tolist() == rows
    assert problem.error is InputError and problem.check == "bad-values"
    with pytest.raises(InputError, match=f"^qid .*{message}"):
        raise InputError(problem.message)


def test_other_text_is_an_id():
    names = ["Zoë", "名前", "🙂", "a b", "a\u3000b", "NA", '"', "1_0", "True", "\u200dx"]
    codes, ids = schema.check_ids(pd.Series(names), "docno", refuse)
    assert ids.text[codes].tolist() == names


# column, good values, bad values, the error for the bad ones
NUMBERS = [
    ("score", [2, -1.5, True, np.float32(1)], [np.nan, None, np.inf, -np.inf], InputError),
    ("score", [10**300], ["1", [2.0], pd.Timestamp("2020-01-01"), {}], ColumnError),
    ("label", [2, 0.5, -1, True, 2**53 - 1], [np.nan, None, np.inf, 2**53, 10**400], InputError),
    ("label", [], ["1", "good", [1]], ColumnError),
    ("rank", [0, -3, 1.0], [0.5, np.nan, None, np.inf, 2**53 + 0.0, "1"], ColumnError),
    ("sample", [0, 7, 2.0], [-1, 0.5, np.inf, "first"], ColumnError),
    ("weight", [0, 0.25, 3], [-0.5, np.nan, np.inf], InputError),
    ("weight", [], ["many"], ColumnError),
    ("credit", [-1, 0.5, np.nan, None], [np.inf, -np.inf], InputError),
    ("credit", [], ["much"], ColumnError),
    ("price", [-1, 0.5], [np.nan, np.inf], InputError),
]


@pytest.mark.parametrize(("column", "good", "bad", "error"), NUMBERS)
def test_numbers(column, good, bad, error):
    found = schema.check_numbers(series(good), column, refuse)
    assert found.dtype == (np.int64 if column in ("rank", "sample") else np.float64)
    np.testing.assert_array_equal(found, np.array(good, dtype=float))
    for value in bad:
        # a good value before and after
        values = pd.Series([0, value, 0], dtype=object)
        problem = problem_of(schema.check_numbers, values, column)
        assert problem.rows.tolist() == [1], value
        assert problem.error is error, value
        assert problem.message.startswith(f"{column} must be ")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "Int64", "float32", "Float64", "object"])
@pytest.mark.parametrize("column", ["score", "label", "rank", "sample"])
def test_numbers_of_all_types(dtype, column):
    found = schema.check_numbers(pd.Series([2, 0], dtype=dtype), column, refuse)
    assert found.tolist() == [2, 0]


NO_INTEGERS = {
    "missing": pd.array([0, None], dtype="Int64"),
    "durations": pd.to_timedelta([1, 2], unit="s"),
    "dates": pd.to_datetime(["2020", "2021"]),
    "above 2^63": np.array([1, 2**63 + 1], np.uint64),
}


@pytest.mark.parametrize("column", ["rank", "sample"])
@pytest.mark.parametrize("kind", NO_INTEGERS)
def test_whole_numbers(column, kind):
    problem_of(schema.check_numbers, pd.Series(NO_INTEGERS[kind]), column)


def test_samples_are_all_there_or_none():
    problem = problem_of(schema.check_numbers, pd.Series([0, np.nan, 1, np.nan]), "sample")
    assert (problem.check, problem.rows.tolist()) == ("samples", [1, 3])


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60)


@given(PAIRS, st.booleans())
def test_rows_that_repeat(pairs, in_order):
    pairs = sorted(pairs, key=lambda pair: pair[0]) if in_order else pairs
    groups, items = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    expected = [pair in pairs[:row] for row, pair in enumerate(pairs)]
    assert schema.repeats(groups, items).tolist() == expected
    if any(expected):
        problem = problem_of(schema.check_unique, groups, items, "twice")
        first = problem.rows[0]
        assert (problem.error, problem.check) == (DuplicateError, "duplicates")
        assert problem.before == pairs.index(pairs[first]) < first
    else:
        schema.check_unique(groups, items, "twice", refuse)


def test_a_document_twice_in_a_long_ranking():
    items = np.append(np.arange(100), 7)
    assert np.flatnonzero(schema.repeats(np.zeros(101, np.int64), items)).tolist() == [100]


def test_pairs_of_numbers_that_leave_much_out_stay_apart():
    first, second = np.array([0, 1, 2, 2]), np.array([2**61, 0, 2**61, 5])
    found = schema.combined(first, second)
    assert len(set(found.tolist())) == 4
    assert np.argsort(found).tolist() == [0, 1, 3, 2]


def test_scores_fall_with_ranks():
    ranking, rank = np.array([0, 0, 1, 1, 1]), np.array([1, 2, 1, 2, 4])
    rows, falling = np.array([4, 3, 2, 1, 0]), np.array([2.0, 1.0, 9.0, 9.0, 0.0])
    schema.check_order(ranking, rank, falling, rows, refuse)
    rising = np.array([2.0, 1.0, 8.0, 9.0, 9.5])
    problem = problem_of(schema.check_order, ranking, rank, rising, rows)
    assert (problem.check, problem.rows.tolist()) == ("order", [1, 0])
    assert "score 9 at rank 2 is above score 8 at rank 1" in problem.message


# Entry points ----------------------------------------------------------------------------------

RUN = {"qid": ["q"] * 3, "docno": list("abc"), "score": [3.0, 2.0, 1.0], "rank": [1, 2, 3],
       "sample": [0] * 3}  # fmt: skip
LABELS = {"qid": ["q"] * 3, "docno": list("abc"), "label": [2, 1, 0]}
CREDITS = {"qid": ["q"] * 3, "sample": [0] * 3, "docno": list("abc"), "credit": [0.5, 0.25, 0]}
GROUPS = {"docno": list("abc"), "group": list("xyx"), "weight": [1.0, 0.5, 1.0]}


def _tsv(frame, path, read):
    # pandas writes what our writer refuses
    frame.to_csv(path / "x.tsv", sep="\t", index=False)
    return read(path / "x.tsv")


def _jsonl(frame, path, read):
    records = [{c: frame[c].tolist()[row] for c in frame} for row in range(len(frame))]
    (path / "x.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return read(path / "x.jsonl")


def _parquet(frame, path, read):
    write_parquet(frame, path / "x.parquet")
    return read(path / "x.parquet")


FILES = {"tsv": (_tsv, ":3: "), "jsonl": (_jsonl, ":2: "), "parquet": (_parquet, ": row 1: ")}

# what is read, the good columns, what makes a frame and a file of it
RUNS = (RUN, lambda frame: Run(frame, "here").checked(), read_run)
QRELS = (LABELS, lambda frame: Qrels(frame, "here"), read_qrels)
CREDIT = (CREDITS, lambda frame: Credit(Run(frame, "here")), read_run)
MEMBERS = (GROUPS, lambda frame: Groups.from_frame(frame, name="x"), Groups.read)

# what is read, the changes that break row 1, words of the message, what doctor calls it
FAULTS = {
    "qid": (RUNS, {"qid": ["q", "q ", "q"]}, "qid 'q ' has spaces around it", "bad-values"),
    "docno": (RUNS, {"docno": ["a", "b\x0b", "c"]}, "docno .* U.000B", "bad-values"),
    "empty docno": (RUNS, {"docno": ["a", "", "c"]}, "docno '' is empty", "bad-values"),
    "score": (RUNS, {"score": [3.0, "x", 1.0]}, "score must be a finite number", "bad-values"),
    "rank": (RUNS, {"rank": [1.0, 1.5, 3.0]}, "rank must be an integer", "bad-values"),
    "sample": (RUNS, {"sample": [0.0, 0.5, 0.0]}, "sample", None),
    "twice": (RUNS, {"docno": list("aac")}, "duplicate document in a ranking", "duplicates"),
    "order": (RUNS, {"score": [3.0, 4.0, 1.0]}, "score 4 at rank 2 is above score 3", "order"),
    "qid of a label": (QRELS, {"qid": ["q", "q\x7f", "q"]}, "qid .* U.007F", "bad-values"),
    "label": (QRELS, {"label": [2, "x", 0]}, "label must be a finite number below", "bad-values"),
    "large label": (QRELS, {"label": [2.0, 1e22, 0]}, "label must be a finite", "bad-values"),
    "label twice": (QRELS, {"docno": list("aac")}, "duplicate label for a document", "duplicates"),
    "credit": (CREDIT, {"credit": [1.0, "x", 0]}, "credit must be a finite number", None),
    "credit twice": (
        CREDIT,
        {"docno": list("aac")},
        "duplicate credit for a document of a ranking",
        None,
    ),
    "docno of a group": (MEMBERS, {"docno": ["a", "b\x1f", "c"]}, r"docno .* U.001F", None),
    "weight": (MEMBERS, {"weight": [1.0, -0.5, 1.0]}, "weight must be", "bad-values"),
    "group twice": (
        MEMBERS,
        {"docno": list("aac"), "group": list("xxx")},
        "duplicate group",
        "duplicates",
    ),
}


@pytest.mark.parametrize("entry", ["frame", *FILES])
@pytest.mark.parametrize("fault", FAULTS)
def test_all_entry_points_refuse_the_same(fault, entry, tmp_path):
    (columns, of_frame, read), changes, message, _ = FAULTS[fault]
    frame = pd.DataFrame(columns | {c: pd.Series(v) for c, v in changes.items()})
    if entry == "frame":
        of_frame(pd.DataFrame(columns))
        with pytest.raises(InputError, match=message) as caught:
            of_frame(frame)
        assert repr(frame["docno"][1]) in str(caught.value) or "row 1" in str(caught.value)
        return
    if entry == "parquet" and any(frame[c].map(type).nunique() > 1 for c in changes):
        frame = frame.astype(dict.fromkeys(changes, str))
    write, place = FILES[entry]
    assert len(write(pd.DataFrame(columns), tmp_path, read)) == 3
    with pytest.raises(FormatError, match=message) as caught:
        write(frame, tmp_path, read)
    assert str(caught.value).startswith(str(tmp_path)) and place in str(caught.value)


EXAMINED = [fault for fault, (*_, check) in FAULTS.items() if check]


@pytest.mark.parametrize("entry", ["frame", "tsv"])
@pytest.mark.parametrize("fault", EXAMINED)
def test_doctor_reports_the_same_and_goes_on(fault, entry, tmp_path):
    (columns, _, read), changes, message, check = FAULTS[fault]
    data = {"run": pd.DataFrame(RUN), "qrels": pd.DataFrame(LABELS), "groups": []}
    what = {id(RUN): "run", id(LABELS): "qrels", id(GROUPS): "groups"}[id(columns)]
    frame = pd.DataFrame(columns | {c: pd.Series(v) for c, v in changes.items()})
    data[what] = frame if entry == "frame" else _tsv(frame, tmp_path, lambda path: path)
    found = fairtk.doctor(**data)
    (finding,) = [f for f in found.findings if f.level == "error" and f.about == what]
    assert (finding.check, finding.count) == (check, 1)
    with pytest.raises(InputError, match=message):
        raise InputError(finding.text)
    left = 3 if what == "groups" or check == "order" else 2
    assert found.counts["labels" if what == "qrels" else "rows"] == left
