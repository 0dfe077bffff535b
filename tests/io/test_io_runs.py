import gzip
import math
import os

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from pandas.testing import assert_frame_equal

from fairtk.errors import DataWarning, DuplicateError, FormatError, InputError, NotFoundError
from fairtk.io import read_qrels, read_run, write_run

SAMPLED = """\
q1 0 d1 1 3.0 sys
q1 0 d2 2 2.0 sys
q1 1 d2 1 3.0 sys
q1 1 d1 2 2.0 sys
q2 0 d9 1 0.5 sys
q2 1 d9 1 0.5 sys
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="run.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def column(frame, name):
    return frame[name].tolist()


class TestForms:
    def test_sampled(self, file):
        run = read_run(file(SAMPLED))
        assert list(run.columns) == ["qid", "docno", "score", "rank", "sample"]
        assert column(run, "qid") == ["q1"] * 4 + ["q2"] * 2
        assert column(run, "docno") == ["d1", "d2", "d2", "d1", "d9", "d9"]
        assert column(run, "rank") == [0, 1, 0, 1, 0, 0]
        assert column(run, "sample") == [0, 0, 1, 1, 0, 1]
        assert column(run, "score") == [3, 2, 3, 2, 0.5, 0.5]
        assert run["rank"].dtype == run["sample"].dtype == np.int64
        assert run["score"].dtype == np.float64

    def test_expeval_names_samples_with_q(self, file):
        run = read_run(file(SAMPLED.replace(" 0 ", " Q0 ").replace(" 1 d", " Q1 d")))
        assert_frame_equal(run, read_run(file(SAMPLED, "other.txt")))

    @pytest.mark.parametrize("word", ["Q0", "q0", "ITER", "-"])
    def test_a_constant_word_is_an_unsampled_run(self, file, word):
        run = read_run(file(f"q1 {word} d1 1 3 t\nq1 {word} d2 2 2 t\n"))
        assert list(run.columns) == ["qid", "docno", "score", "rank"]

    def test_a_constant_integer_is_one_sample(self, file):
        assert column(read_run(file("q1 0 d1 1 3 t\nq2 0 d1 1 3 t\n")), "sample") == [0, 0]

    def test_without_tag(self, file):
        assert column(read_run(file("q1\tQ0\td1\t1\t3.5\n")), "score") == [3.5]

    def test_gzip_whatever_the_name(self, file):
        expected = read_run(file(SAMPLED))
        for name in ("run.gz", "run.res"):
            assert_frame_equal(read_run(file(gzip.compress(SAMPLED.encode()), name)), expected)

    def test_spaces_tabs_blank_lines_line_ends_and_byte_order_mark(self, file):
        text = "\ufeff  q1\t Q0   d1 1\t3 t  \r\n\r\n \t\r\nq1 Q0 d2 2 2 t"
        run = read_run(file(text))
        assert column(run, "qid") == ["q1", "q1"]
        assert column(run, "docno") == ["d1", "d2"]

    def test_header_of_named_columns(self, file):
        # as Fair-RAG writes the files that its copy of expeval reads
        text = (
            "qid\tsample\tdocno\trank\tsim\trun_id\n7\tQ0\t001\t1\t2.5\tm\n7\tQ1\t001\t1\t2.5\tm\n"
        )
        run = read_run(file(text))
        assert list(run.columns) == ["qid", "docno", "score", "rank", "sample", "run_id"]
        assert run.iloc[1].tolist() == ["7", "001", 2.5, 0, 1, "m"]

    def test_comma_separated(self, file):
        run = read_run(file("qid,docno,score\n1,d1,2.5\n1,d2,3\n"))
        assert column(run, "rank") == [1, 0]

    def test_ids_stay_strings(self, file):
        run = read_run(
            file(
                "001 Q0 NA 1 9 t\n001 Q0 null 2 8 t\n001 Q0 1e5 3 7 t\n"
                '001 Q0 "x 4 6 t\n001 Q0 #y 5 5 t\n001 Q0 None 6 4 t\n'
            )
        )
        assert column(run, "qid") == ["001"] * 6
        assert column(run, "docno") == ["NA", "null", "1e5", '"x', "#y", "None"]

    @pytest.mark.parametrize("text", ["", "\n", "\ufeff", "\ufeff\n"])
    def test_empty_file(self, file, text):
        with pytest.warns(DataWarning):
            run = read_run(file(text))
        assert list(run.columns) == ["qid", "docno", "score", "rank"]  # no samples are known of
        assert run.empty
        assert list(read_qrels(file(text)).columns) == ["qid", "docno", "label"]


class TestOrder:
    def test_ranks_decide_and_start_anywhere(self, file):
        run = read_run(file("q Q0 a 10 1 t\nq Q0 b 3 1 t\nq Q0 c 7 1 t\n"))
        assert column(run, "rank") == [2, 0, 1]

    def test_ties_in_rank_are_broken_by_score_then_docno(self, file):
        run = read_run(file("q Q0 a 1 5 t\nq Q0 c 2 4 t\nq Q0 b 2 4 t\nq Q0 d 2 4.5 t\n"))
        # trec_eval's order of tied documents is descending
        assert run.sort_values("rank")["docno"].tolist() == ["a", "d", "c", "b"]

    def test_constant_ranks_say_nothing(self, file):
        run = read_run(file("q Q0 a 0 1 t\nq Q0 b 0 2 t\nq Q0 c 0 2 t\n"))
        assert run.sort_values("rank")["docno"].tolist() == ["c", "b", "a"]

    def test_scores_that_contradict_ranks(self, file):
        path = file("q Q0 a 1 1 t\n\nq Q0 b 2 5 t\n")
        with pytest.raises(
            FormatError,
            match="run.txt.*rank 2.*rank 1.*qid 'q'",
        ):
            read_run(path)
        assert column(read_run(path, order="score"), "rank") == [1, 0]
        with pytest.warns(DataWarning):
            run = read_run(path, order="rank")
        assert column(run, "rank") == [0, 1]
        assert column(run, "score") == [2.0, 1.0]

    def test_order_by_rank_leaves_no_ties_to_evaluators_that_read_scores(self, file):
        path = file("q Q0 a 1 5 t\nq Q0 b 2 5 t\nr Q0 a 1 7 t\n")
        assert column(read_run(path, order="rank"), "score") == [2.0, 1.0, 2.0]
        assert column(read_run(path), "score") == [5.0, 5.0, 7.0]

    def test_samples_are_ordered_one_by_one(self, file):
        assert column(read_run(file(SAMPLED), order="score"), "rank") == [0, 1, 0, 1, 0, 0]

    def test_order_by_rank_needs_ranks(self, file):
        with pytest.raises(FormatError, match="'rank'"):
            read_run(file("qid\tdocno\tscore\n1\td1\t1\n"), order="rank")

    def test_unknown_order(self, file):
        with pytest.raises(NotFoundError, match="'docno'"):
            read_run(file(SAMPLED), order="docno")


BROKEN = {
    "too few columns": ("q1 Q0 d1 1 3 t\nq1 Q0 d2 2\n", 2, r"got 4: 'q1 Q0 d2 2'"),
    "too many columns": ("q1 Q0 d1 1 3 t\nq1 Q0 d2 2 2 t u v\n", 2, "expected 6 columns"),
    "one column too many in line 1": ("q1 Q0 d1 1 3 my tag\n", 1, "got 7"),
    "tag missing in one line": ("q1 Q0 d1 1 3 t\nq1 Q0 d2 2 2\n", 2, "got 5"),
    "tag in one line only": ("q1 Q0 d1 1 3\nq1 Q0 d2 2 2 t\n", 2, "expected 5 columns"),
    "one word": ("hello\n", 1, "got 1: 'hello'"),
    "rank is no integer": ("q1 Q0 d1 1 3 t\n\nq1 Q0 d2 x 2 t\n", 3, "rank must be an integer"),
    "score is no number": ("q1 Q0 d1 1 3 t\nq1 Q0 d2 2 1,5 t\n", 2, "got '1,5'"),
    "score is infinite": ("q1 Q0 d1 1 3 t\n\n\nq1 Q0 d2 2 -inf t\n", 4, "got -inf"),
    "Q0 among integers": ("q 0 d 1 3 t\nq Q0 d 1 3 t\n", 2, "sampled and unsampled rows are mixed"),
    "a word among integers": ("q 0 d 1 3 t\nq x d 1 3 t\n", 2, "'x' after '0'"),
    "an integer among words": ("q x d 1 3 t\nq 0 d 1 3 t\n", 2, "'0' after 'x'"),
    "a fraction": ("q 0 d 1 3 t\nq 0.5 d 1 3 t\n", 2, "'0.5' after '0'"),
    "negative sample": ("q 0 d 1 3 t\nq -1 d 1 3 t\n", 2, "'-1' after '0'"),
    "two words": ("q a d 1 3 t\nq b d 1 3 t\n", 2, "got 'b' after 'a'"),
    "expected UTF-8": (b"q Q0 d 1 3 t\nq Q0 d\xe9 2 2 t\n", 2, "expected UTF-8 text"),
    "named, too few": ("qid\tdocno\tscore\na\tb\n", 2, "expected 3 columns"),
    "named, duplicate": ("qid\tdocno\tscore\na\tb\t1\na\tb\t2\n", 3, "first in line 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(file, name):
    text, line, message = BROKEN[name]
    path = file(text)
    with pytest.raises(FormatError) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_a_broken_line_deep_in_a_large_file(file):
    lines = [f"q{i // 100} Q0 d{i % 100} {i % 100} {100 - i % 100} t" for i in range(5000)]
    lines[4321] = "q43 Q0 d21 21 seven t"
    with pytest.raises(FormatError, match="run.txt.*4322.*'seven'"):
        read_run(file("\n".join(lines)))


class TestFilesThatCannotBeRead:
    def test_missing_or_a_folder(self, tmp_path):
        for path in (tmp_path / "nowhere.txt", tmp_path):
            with pytest.raises(InputError):
                read_run(path)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX pipes")
    def test_pipe(self):
        reading, writing = os.pipe()
        os.write(writing, SAMPLED.encode())
        os.close(writing)
        try:
            with pytest.raises(InputError):
                read_run(f"/dev/fd/{reading}")
        finally:
            os.close(reading)

    PACKED = gzip.compress(SAMPLED.encode() * 100)
    DAMAGED = {
        "truncated": PACKED[: len(PACKED) // 2],
        "another checksum": PACKED[:-8] + b"none" + PACKED[-4:],
        "parquet": b"PAR1 and nothing else",
    }

    @pytest.mark.parametrize("raw", DAMAGED.values(), ids=DAMAGED)
    def test_damaged(self, file, raw):
        with pytest.raises(FormatError):
            read_run(file(raw))

    def test_named_columns_missing(self, file):
        with pytest.raises(FormatError, match="'score'"):
            read_run(file("qid\tdocno\n1\t2\n"))


class TestParquet:
    def frame(self, **changes):
        columns = {
            "qid": ["1", "1", "1"], "docno": ["001", "NA", "c"], "score": [1.0, 3.0, 2.0],
            "sample": [0, 0, 1], "qanswer": ["x", "x", ""],
        }  # fmt: skip
        return pd.DataFrame(columns | changes)

    def test_columns_by_name(self, tmp_path):
        path = tmp_path / "run.bin"
        self.frame()[["qanswer", "sample", "score", "docno", "qid"]].to_parquet(path)
        run = read_run(path)
        assert list(run.columns) == ["qid", "docno", "score", "rank", "sample", "qanswer"]
        assert column(run, "docno") == ["001", "NA", "c"]
        assert column(run, "rank") == [1, 0, 0]

    def test_integer_ids_become_strings(self, tmp_path):
        self.frame(qid=[7, 7, 8]).to_parquet(tmp_path / "run.parquet")
        assert column(read_run(tmp_path / "run.parquet"), "qid") == ["7", "7", "8"]

    def test_all_columns_survive(self, tmp_path):
        run = self.frame(rank=[1, 0, 0])
        write_run(run, tmp_path / "run.parquet")
        assert_frame_equal(read_run(tmp_path / "run.parquet"), run, check_like=True)


class TestWriting:
    RUN = pd.DataFrame(
        {"qid": ["q", "q"], "docno": ["a", "b"], "score": [0.1, 1 / 3], "rank": [1, 0]}
    )

    def test_unsampled(self, tmp_path):
        write_run(self.RUN, tmp_path / "run.txt", tag="mine")
        assert (tmp_path / "run.txt").read_text() == (
            "q Q0 b 1 0.3333333333333333 mine\nq Q0 a 2 0.1 mine\n"
        )

    def test_sampled(self, tmp_path):
        write_run(self.RUN.assign(sample=3), tmp_path / "run.txt")
        assert (tmp_path / "run.txt").read_text().split("\n")[0].split()[1] == "3"

    def test_equal_runs_give_equal_packed_files(self, tmp_path):
        for name in ("a.gz", "b.gz"):
            write_run(self.RUN, tmp_path / name)
        assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
        assert gzip.decompress((tmp_path / "a.gz").read_bytes()).startswith(b"q Q0 b 1")

    @pytest.mark.parametrize("wrong", ["a b", "", "a\tb", "a\u00a0b", "a\nb", "\ufeffa"])
    def test_ids_that_the_format_cannot_hold(self, tmp_path, wrong):
        with pytest.raises(
            InputError,
            match="write_run: .*docno .*(be empty or have spaces|is empty|has the character)",
        ):
            write_run(self.RUN.assign(docno=["x", wrong]), tmp_path / "run.txt")
        with pytest.raises(InputError):
            write_run(self.RUN, tmp_path / "run.txt", tag=wrong)
        assert list(tmp_path.iterdir()) == []

    def test_a_frame_that_is_no_run(self, tmp_path):
        with pytest.raises(DuplicateError, match="write_run"):
            write_run(self.RUN.assign(docno="same"), tmp_path / "run.txt")
        with pytest.raises(InputError, match="write_run"):
            write_run(self.RUN.assign(score=math.nan), tmp_path / "run.txt")

    def test_no_rows(self, tmp_path):
        write_run(self.RUN.iloc[:0], tmp_path / "run.txt")
        assert (tmp_path / "run.txt").read_text() == ""


IDS = st.text(
    st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"], exclude_characters="\ufeff"),
    min_size=1,
    max_size=6,
) | st.sampled_from(["NA", "null", "nan", "001", "1e3", "-inf", "None", '"', "#", "True"])
SCORES = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def runs(draw):
    rows = []
    samples = draw(st.sampled_from([None, 1, 3]))
    for qid in draw(st.lists(IDS, max_size=3, unique=True)):
        for sample in range(samples or 1):
            docnos = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
            scores = sorted(draw(st.lists(SCORES, min_size=4, max_size=4)), reverse=True)
            rows += [
                (qid, docno, score, rank, sample)
                for rank, (docno, score) in enumerate(zip(docnos, scores, strict=False))
            ]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank", "sample"])
    frame = frame.astype({"qid": "str", "docno": "str", "score": float, "rank": "int64"})
    if samples is None or not rows:
        return frame.drop(columns="sample")
    return frame.astype({"sample": "int64"})


@pytest.mark.parametrize("suffix", ["txt", "gz", "parquet"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=runs())
def test_round_trip(tmp_path, suffix, run):
    write_run(run, tmp_path / f"run.{suffix}")
    if run.empty:
        with pytest.warns(DataWarning):
            back = read_run(tmp_path / f"run.{suffix}")
    else:
        back = read_run(tmp_path / f"run.{suffix}")
    keys = [c for c in ("qid", "sample", "rank") if c in run.columns]
    assert_frame_equal(
        back[run.columns].sort_values(keys, ignore_index=True),
        run.sort_values(keys, ignore_index=True),
        check_dtype=not run.empty,
        check_exact=True,
    )
