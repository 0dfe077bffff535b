"""Run files of TREC Fair Ranking 2022, Task 1 and Task 2."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.datasets import trec_fair
from fairtk.errors import ColumnError, DataWarning, FormatError, InputError
from fairtk.io import read_run, write_task_run

TASK1 = "id\tpage_id\n4\t30\n4\t7\n9\t12\n4\t55\n"
TASK2 = "id\tseq_no\tpage_id\n4\t1\t30\n4\t1\t7\n4\t2\t7\n9\t2\t12\n4\t2\t30\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="run.tsv"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


@pytest.mark.parametrize("name", ["run.tsv", "run.gz"])
@pytest.mark.parametrize("header", [True, False])
def test_task_1(write, name, header):
    text = TASK1 if header else TASK1.partition("\n")[2]
    run = read_run(write(text, name), format=None if header else "trec-fair")
    # the ranking of a topic is the order of its lines, which need not be together
    assert run.to_dict("list") == {
        "qid": ["4", "4", "9", "4"],
        "docno": ["30", "7", "12", "55"],
        "score": [0.0, -1.0, 0.0, -2.0],
        "rank": [0, 1, 0, 2],
    }


@pytest.mark.parametrize("name", ["run.tsv", "run.gz"])
@pytest.mark.parametrize("header", [True, False])
def test_task_2(write, name, header):
    text = TASK2 if header else TASK2.partition("\n")[2]
    run = read_run(write(text, name), format=None if header else "trec-fair")
    assert run.to_dict("list") == {
        "qid": ["4", "4", "4", "9", "4"],
        "docno": ["30", "7", "7", "12", "30"],
        "score": [0.0, -1.0, 0.0, 0.0, -1.0],
        "rank": [0, 1, 0, 0, 1],
        "sample": [0, 0, 1, 1, 1],
    }


def test_sequences_counted_from_0_stay_as_they_are(write):
    run = trec_fair.read_run(write("4\t0\t30\n4\t1\t30\n"))
    assert run["sample"].tolist() == [0, 1]
    only_later = trec_fair.read_run(write("4\t7\t30\n4\t9\t30\n"))
    assert only_later["sample"].tolist() == [6, 8]


def test_other_spellings(write):
    spaced = write("ID  Rep_Number page_id\r\n4 1 30\r\n\r\n4 1 31\r\n")
    assert read_run(spaced)["rank"].tolist() == [0, 1]
    assert read_run(spaced)["sample"].tolist() == [0, 0]
    assert read_run(write("\ufeff" + TASK1))["qid"].tolist() == ["4", "4", "9", "4"]


def test_what_a_file_is(write):
    assert "sample" not in trec_fair.read_run(write("4\t30\n"))
    assert "sample" in trec_fair.read_run(write("4\t1\t30\n"))
    for text in ("4\t30\n", "4\t1\t30\n"):
        with pytest.raises(FormatError, match="run.tsv:1: .*format='trec-fair'"):
            read_run(write(text))
    assert read_run(write("4 Q0 30 1 0.5 x\n"))["score"].tolist() == [0.5]
    assert read_run(write('{"id": 4, "page_id": 30}\n'))["docno"].tolist() == ["30"]
    assert read_run(write("id\tpage_id\nq4\td30\n"))["docno"].tolist() == ["d30"]
    with pytest.raises(FormatError):
        read_run(write("q4\td30\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\tpage_id\n4\t30\n4\t7\t8\n", "3: expected 2 columns .id page_id., got 3"),
        ("4\t30\n4\n", "2: expected 2 columns .id page_id., got 1"),
        ("id\tseq_no\tpage_id\n4\t30\n", "got 2"),
        ("id\tpage_id\n4\t30\n9\t30\n4\t30\n", "4: duplicate page.*first in line 2"),
        (
            "4\t1\t30\n4\t2\t30\n4\t1\t30\n",
            "3: duplicate page.*sample 1, docno '30'.*first in line 1",
        ),
        (
            "id\tseq_no\tpage_id\n4\t1\t30\n4\tx\t31\n",
            "3: sample must be an integer from 0, got 'x'",
        ),
        ("4\t1\t30\n4\t1.5\t31\n", "2: sample must be an integer from 0, got 1.5"),
        ("4\t1\t30\n4\t-1\t31\n", "2: sample must be an integer from 0, got -1"),
    ],
)
def test_errors_name_the_line(write, text, message):
    path = write(text)
    with pytest.raises(FormatError, match=message) as error:
        trec_fair.read_run(path)
    assert str(error.value).startswith(f"{path}:") and "\n" not in str(error.value)


def test_empty_files(write):
    with pytest.warns(DataWarning):
        run = read_run(write("id\tpage_id\n"))
    assert list(run.columns) == ["qid", "docno", "score", "rank"] and run.empty
    with pytest.warns(DataWarning):
        assert list(read_run(write("id\tseq_no\tpage_id\n")).columns)[-1] == "sample"


@given(
    st.dictionaries(
        st.tuples(st.integers(1, 4), st.integers(0, 3)),
        st.lists(st.integers(1, 30), unique=True, min_size=1, max_size=6),
        min_size=1,
    ),
    st.booleans(),
    st.sampled_from(["run.tsv", "run.tsv.gz"]),
)
def test_what_is_written_is_read_back(tmp_path_factory, rankings, sampled, name):
    rows = [
        (str(qid), str(page), -float(rank), rank, sample)
        for (qid, sample), pages in rankings.items()
        if sampled or sample == 0
        for rank, page in enumerate(pages)
    ]
    if not rows:
        return
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank", "sample"])
    if not sampled:
        frame = frame.drop(columns="sample")
    path = tmp_path_factory.mktemp("runs") / name
    write_task_run(frame.sample(frac=1, random_state=1), path)
    keys = [c for c in ("qid", "sample", "rank") if c in frame.columns]
    found = read_run(path).sort_values(keys).reset_index(drop=True)
    expected = frame.sort_values(keys).reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected[found.columns], check_dtype=False)


def test_only_runs_are_written(tmp_path):
    path = tmp_path / "run.tsv"
    with pytest.raises(ColumnError):
        write_task_run(pd.DataFrame({"qid": ["1"], "docno": ["2"]}), path)
    spaced = pd.DataFrame({"qid": ["1"], "docno": ["a b"], "score": [1.0], "rank": [0]})
    with pytest.raises(InputError, match="'a b'"):
        write_task_run(spaced, path)
    assert not path.exists()


MARCO = "4\t30\t1\n4\t7\t2\n9\t12\t1\n"


def test_runs_of_ms_marco_are_not_taken_for_task_2(write):
    path = write(MARCO)
    with pytest.raises(FormatError, match="run.tsv:1: .*format='msmarco'"):
        read_run(path)
    assert read_run(path, format="msmarco")["docno"].tolist() == ["30", "7", "12"]
    # a header or the user names the format
    assert len(read_run(write("id\tseq_no\tpage_id\n" + MARCO, "named.tsv"))) == 3
    assert len(trec_fair.read_run(path)) == 3


@pytest.mark.parametrize("suffix", ["parquet", "pq"])
def test_a_list_is_not_written_under_the_name_of_a_parquet_file(tmp_path, suffix):
    path = tmp_path / f"list.{suffix}"
    with pytest.raises(InputError, match=suffix):
        write_task_run(pd.DataFrame({"qid": ["1"], "docno": ["2"], "score": [1.0]}), path)
    assert not path.exists()
