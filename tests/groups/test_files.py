"""Groups and targets in files: every format there and back, and errors that name the line."""

import gzip

import pandas as pd
import pytest
from small_frames import small_groups

from fairtk.errors import FormatError, InputError
from fairtk.groups import UNKNOWN, Groups, Target

FRAME = pd.DataFrame(
    {"docno": ["d1", "d2", "d2", "NA", "a,b"], "group": ["f", "f", "m", "NA", 'q"t']}
)
SUFFIXES = ["tsv", "csv", "tsv.gz", "csv.gz", "parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "groups",
    [
        Groups.from_frame(FRAME, name="gender"),
        Groups.from_frame(FRAME, name="other", levels=["f", UNKNOWN, "m", "NA", 'q"t', "none"]),
        Groups.from_frame(FRAME, name="other", unknown="NA"),
        Groups.from_frame(FRAME, name="other", unknown=None, normalize=False),
        Groups.from_frame(FRAME.assign(weight=[1, 1, 2, 3, 7]), name="gender"),
        small_groups([7, 5], ["x", None], "gender"),
    ],
    ids=["plain", "levels", "unknown", "raw", "weights", "page ids"],
)
def test_groups_come_back_equal(groups, suffix, tmp_path):
    path = tmp_path / f"gender.{suffix}"
    groups.write(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    back = Groups.read(path)
    assert back == groups
    assert back.space == groups.space
    assert list(back.docnos) == list(groups.docnos)


def test_what_the_caller_says_comes_first(tmp_path):
    path = tmp_path / "gender.tsv"
    Groups.from_frame(FRAME, name="other", normalize=False).write(path)
    levels = ["m", "f", "NA", 'q"t']
    again = Groups.read(path, name="mine", levels=levels, unknown=None, normalize=True)
    assert again.name == "mine"
    assert list(again.levels) == levels
    assert again == Groups.from_frame(FRAME, name="mine", levels=levels, unknown=None)


def test_plain_files_of_others(tmp_path):
    path = tmp_path / "sub-geo.tsv"
    path.write_text("weight\tgroup\tdocno\tnote\n2\tx\t1\t\n1\ty\t1\tz\n1\t\t2\t\n\n", "utf-8")
    groups = Groups.read(path)
    assert groups.name == "sub-geo"
    assert list(groups.levels) == [UNKNOWN, "x", "y"]
    assert groups.matrix.toarray().tolist() == [[0, 2 / 3, 1 / 3], [1, 0, 0]]
    assert Groups.read(path, split="equal").matrix.toarray().tolist()[0] == [0, 0.5, 0.5]
    without = tmp_path / "kind.csv"
    without.write_text("docno,group\na,x\nb,y\n", "utf-8")
    assert Groups.read(without).matrix.toarray().tolist() == [[1, 0], [0, 1]]


HEADER = "docno\tgroup\tweight\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("docno\tweight\nd1\t1\n", ":1: missing column 'group'.*a groups file"),
        (HEADER + "d1\tx\t1\nd1\ty\tmany\n", ":3: weight .* got 'many' .docno 'd1', group 'y'"),
        (HEADER + "d1\tx\t1\n\nd1\tx\t1\n", ":4: duplicate .*docno 'd1', group 'x'; .*line 2"),
        (HEADER + "d1\tx\t\n", ":2: weight .*docno 'd1', group 'x'"),
        (HEADER + "d0\tx\t1\nd1\tx\t0\n", ":3: .* sum to 0 .docno 'd1'"),
        (HEADER + "\tx\t1\n", ":2: docno is missing"),
        (
            HEADER + "d1\tx\t1\nd1\ty\t1\t1\n",
            ":3: expected 3 columns .*got 4",
        ),
        ('# fairtk: {"levels": ["x"]}\n' + HEADER + "d1\ty\t1\n", ":3: unknown level 'y'.*'x'"),
        ("# fairtk: {levels}\n" + HEADER + "d1\ty\t1\n", ":1: invalid JSON"),
        ("", "missing columns .* got no columns"),
    ],
)
def test_broken_files_are_named_with_their_line(text, message, tmp_path):
    path = tmp_path / "gender.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(FormatError, match=message) as caught:
        Groups.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_targets_come_back_equal(suffix, tmp_path):
    gender = Groups.from_frame(FRAME, name="gender")
    region = small_groups(["d1"], "x", "region")
    rows = [("q1", "f", 1 / 3), ("q1", "m", 2 / 3), ("02", "NA", 1.0)]
    single = Target.from_frame(pd.DataFrame(rows, columns=["qid", "group", "weight"]), gender)
    crossed = Target.uniform(gender * region)
    for target, groups in ((single, gender), (crossed, gender * region)):
        path = tmp_path / f"target.{suffix}"
        target.write(path)
        assert Target.read(path, groups) == target
        assert Target.read(path).for_groups(groups) == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qid\tgroup\nq\tx\n", ":1: missing column 'weight'.*a target file"),
        ("qid\tgroup\tweight\nq\tf\t0.5\nr\tf\t1\n", r":2: the weights of qid 'q' must sum to 1"),
        ("group\tweight\nf\t0.5\nzz\t0.5\n", ":3: unknown level 'zz' of 'gender'"),
        ("group\tweight\nf\t0.5\nf\t0.5\n", ":3: duplicate level .group 'f'; .*line 2"),
        ("group\tweight\nf\t-1\nm\t2\n", ":2: weight .* got -1.* .group 'f'"),
        ("qid\tgroup\tweight\nq\tf\tx\n", ":2: weight .* got 'x' .qid 'q', group 'f'"),
        ("qid\tgroup\tweight\n\tf\t1\n", ":2: qid is missing"),
    ],
)
def test_broken_targets_are_named_with_their_line(text, message, tmp_path):
    path = tmp_path / "target.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(FormatError, match=message):
        Target.read(path, Groups.from_frame(FRAME, name="gender"))


def test_other_formats_are_refused(tmp_path):
    groups = small_groups("a", "x", "g")
    for write in (groups.write, Target.uniform(groups).write):
        for name in ("g.json", "g.jsonl.gz"):
            with pytest.raises(
                FormatError, match=f"{name}: .*expected the suffix .tsv, .csv or .parquet"
            ):
                write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("odd", "reason"),
    [("\\u0000", "has the character U"), ("\\ud800", "surrogate")],
)
def test_names_in_json_that_no_file_could_hold_are_named_with_their_line(tmp_path, odd, reason):
    path = tmp_path / "gender.jsonl"
    path.write_text(f'{{"docno": "d", "group": "f"}}\n{{"docno": "e{odd}", "group": "f"}}\n')
    with pytest.raises(FormatError, match=reason) as caught:
        Groups.read(path)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    "note", ['{"levels": 5}', '{"levels": ["x", 1]}', '{"unknown": ["x"]}', '{"name": 5}']
)
def test_a_note_of_another_type_is_refused(tmp_path, note):
    path = tmp_path / "gender.tsv.gz"
    path.write_bytes(gzip.compress(f"# fairtk: {note}\ndocno\tgroup\nd\tx\n".encode()))
    with pytest.raises(FormatError, match="gender.tsv") as caught:
        Groups.read(path)
    assert caught.value.line == 1


def test_a_target_by_query_without_rows_is_refused(tmp_path):
    path = tmp_path / "target.tsv"
    path.write_text("qid\tgroup\tweight\n")
    with pytest.raises(InputError, match="target.tsv"):
        Target.read(path)
