import gzip
import json
import math

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from pandas.testing import assert_frame_equal

from fairtk.errors import ColumnError, DataWarning, FormatError, InputError
from fairtk.io import (
    add_answers,
    read_answers,
    read_gold_answers,
    read_qrels,
    read_run,
    write_answers,
    write_qrels,
)


@pytest.fixture
def file(tmp_path):
    def write(text, name="table.tsv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


class TestQrels:
    def test_trec_form(self, file):
        qrels = read_qrels(file("01 0 NA 1\n01\t0\td2   2\n\n02 1|2 d1 -1\n"))
        assert list(qrels.columns) == ["qid", "docno", "label"]
        assert qrels["qid"].tolist() == ["01", "01", "02"]
        assert qrels["docno"].tolist() == ["NA", "d2", "d1"]
        assert qrels["label"].tolist() == [1, 2, -1]
        assert qrels["label"].dtype == np.int64

    def test_three_columns(self, file):
        assert read_qrels(file("q1 d1 1\n"), format="trec")["docno"].tolist() == ["d1"]
        with pytest.raises(FormatError, match="table.tsv:1: .*format='trec'"):
            read_qrels(file("q1 d1 1\n"))

    def test_fractional_labels(self, file):
        assert read_qrels(file("q 0 a 0.25\nq 0 b 1\n"))["label"].tolist() == [0.25, 1.0]

    def test_header_and_gold_answers(self, file):
        text = (
            "qid\tdocno\tlabel\tgold_answer\n1\ta\t1\t[1]\n1\tb\t0\t[1]\n"
            '2\ta\t1\t"[""x"", ""y z""]"\n3\ta\t1\tNA\n'
        )
        for raw in (text.encode(), gzip.compress(text.encode())):
            qrels = read_qrels(file(raw))
            assert list(qrels.columns) == ["qid", "docno", "label", "gold_answer"]
            # [1] is LaMP-1's label, no list
            assert qrels["gold_answer"].tolist() == ["[1]", "[1]", ["x", "y z"], "NA"]

    def test_names_of_fair_rag(self, file):
        qrels = read_qrels(file("qid\tpid\trelevance_label\n310\t3101\t1\n"))
        assert qrels.iloc[0].tolist() == ["310", "3101", 1]
        assert list(qrels.columns) == ["qid", "docno", "label"]

    def test_json_lines(self, file):
        text = "\n".join(
            json.dumps(row)
            for row in [
                {"qid": 1, "docno": "a", "label": 1, "gold_answer": ["x"]},
                {"qid": "2", "docno": "b", "label": 0.5, "gold_answer": "y"},
            ]
        )
        qrels = read_qrels(file("\n" + text + "\n\n"))
        assert qrels["qid"].tolist() == ["1", "2"]
        assert qrels["gold_answer"].tolist() == [["x"], "y"]
        assert qrels["label"].tolist() == [1.0, 0.5]

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("q 0 a 1\nq 0 b\n", 2, "got 3: 'q 0 b'"),
            ("q 0 a 1\n\nq 1 a 0\n", 3, "qid 'q', docno 'a'; 1 such row), first in line 1"),
            ("q 0 a 1 extra\n", 1, "expected 4 columns (qid iteration docno label), got 5"),
            ("qid\tdocno\tlabel\nq\ta\n", 2, "expected 3 columns (qid docno label), got 2"),
            ('qid\tdocno\tlabel\nq\t"a"b\t1\n', 2, "quote the whole field"),
            ('qid\tdocno\tlabel\nq\ta\t"1\n', 2, "quote the whole field"),
            ("qid\tdocno\tdocid\tlabel\nq\ta\tb\t1\n", 1, "duplicate column 'docno'"),
            ('{"qid": "1", "docno": "a", "label": 1}\n{"qid": 2\n', 2, "invalid JSON"),
            ('{"qid": "1", "docno": "a", "label": 1}\n[1]\n', 2, "expected a JSON object"),
            ('{"qid": "1", "docno": "a", "label": 1}\n{"qid": "2"}\n', 2, "expected the keys"),
            ('{"qid": null, "docno": "a", "label": 1}\n', 1, "qid is missing"),
            (b"qid\tdocno\tlabel\nq\t\xe9\t1\n", 2, "expected UTF-8"),
            (b'{"qid": "\xe9"}', 1, "expected UTF-8"),
        ],
    )
    def test_broken_files(self, file, text, line, message):
        path = file(text)
        with pytest.raises(FormatError) as caught:
            read_qrels(path)
        assert str(caught.value).startswith(f"{path}:{line}: ")
        assert message in str(caught.value)

    @pytest.mark.parametrize("gold", ["5", "null", "[]", '["a", 1]'])
    def test_gold_answers_of_other_types(self, file, gold):
        row = '{"qid": "1", "docno": "a", "label": 1, "gold_answer": %s}\n'
        with pytest.raises(FormatError, match="table.tsv"):
            read_qrels(file(row % '"x"' + row.replace('"a"', '"b"') % gold))

    def test_columns_missing(self, file):
        with pytest.raises(FormatError, match="docno, score"):
            read_qrels(file("qid\tdocno\tscore\nq\ta\t1\n"))

    @pytest.mark.parametrize("name", ["qid", "query_id"])
    def test_a_damaged_header_is_no_query(self, file, name):
        with pytest.raises(FormatError, match=rf":1: invalid header \({name} da 1\)"):
            read_qrels(file(f"{name}\tda\t1\nq\tb\t1\n"))

    def test_writing_the_trec_form(self, tmp_path):
        qrels = pd.DataFrame({"qid": ["q"], "docno": ["a"], "label": [1]})
        write_qrels(qrels, tmp_path / "qrels.txt")
        assert (tmp_path / "qrels.txt").read_text() == "q 0 a 1\n"

    def test_nothing_is_lost(self, tmp_path):
        qrels = pd.DataFrame({"qid": ["q"], "docno": ["a"], "label": [1], "gold_answer": ["x"]})
        with pytest.raises(InputError, match="'gold_answer'"):
            write_qrels(qrels, tmp_path / "qrels.txt")
        with pytest.raises(InputError, match="'a b'"):
            write_qrels(qrels[["qid", "docno", "label"]].assign(docno="a b"), tmp_path / "q.txt")
        with pytest.raises(ColumnError):
            write_qrels(qrels[["qid", "docno"]], tmp_path / "qrels.txt")
        assert list(tmp_path.iterdir()) == []


class TestAnswers:
    def test_three_formats(self, tmp_path):
        answers = pd.DataFrame(
            {
                "qid": ["1", "1", "2"],
                "sample": [0, 1, 0],
                "qanswer": ['He said "hi"', "", "a\tb\nc"],
            }
        )
        for name in ("a.tsv", "a.tsv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"):
            write_answers(answers, tmp_path / name)
            assert_frame_equal(read_answers(tmp_path / name), answers)

    def test_one_row_per_ranking_is_written(self, tmp_path):
        frame = pd.DataFrame(
            {"qid": ["1", "1", "2"], "docno": ["a", "b", "a"], "qanswer": ["x", "x", "y"]}
        )
        write_answers(frame, tmp_path / "a.tsv")
        assert (tmp_path / "a.tsv").read_text() == "qid\tqanswer\n1\tx\n2\ty\n"
        with pytest.raises(InputError, match="qid '1'"):
            write_answers(frame.assign(qanswer=["x", "z", "y"]), tmp_path / "a.tsv")

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("qid\tsample\tqanswer\nq\t0\ta\nq\t0\tb\n", "qid 'q'.*sample 0"),
            ("qid\tsample\tqanswer\nq\tx\ta\n", "'x'"),
            ("qid\tsample\tqanswer\nq\t0\ta\nq\t-1\ta\n", "got -1"),
            # a vertical tab is no white space of JSON
            ('{"qid": "q", "qanswer": "a"}\n{"qid": "r", "qanswer": "b"}\x0b\n', ":2"),
            ("qid\tanswer\nq\ta\n", "'qanswer'"),
            ('{"qid": "q", "qanswer": null}\n', ":1"),
            ("", "'qid'.*'qanswer'"),
        ],
    )
    def test_bad_files(self, file, text, place):
        with pytest.raises(FormatError, match=place):
            read_answers(file(text))

    def test_gold_answers(self, file):
        text = 'qid\tgold_answer\n1\tx\n1\tx\n2\t"[""a"", ""b""]"\n'
        gold = read_gold_answers(file(text))
        assert list(gold.columns) == ["qid", "gold_answer"]
        assert gold["gold_answer"].tolist() == ["x", "x", ["a", "b"]]
        with pytest.raises(FormatError, match="'gold_answer'"):
            read_gold_answers(file("qid\tanswer\n1\tx\n"))

    RUN = pd.DataFrame({"qid": ["1", "1", "2"], "docno": ["a", "b", "a"], "sample": [0, 1, 0]})

    def test_adding_to_a_run(self):
        answers = pd.DataFrame(
            {"qid": ["2", "1", "1", "9"], "sample": [0, 1, 0, 0], "qanswer": list("wxyz")}
        )
        with pytest.warns(DataWarning, match="1 of 4 answers .qid '9', sample 0") as caught:
            assert add_answers(self.RUN, answers)["qanswer"].tolist() == ["y", "x", "w"]
        assert caught[0].filename == __file__
        answers = answers[:3]
        plain = self.RUN.drop(columns="sample")
        with pytest.raises(InputError):
            add_answers(plain, answers)
        one = answers[answers["sample"] == 0]
        assert add_answers(plain, one)["qanswer"].tolist() == ["y", "y", "w"]
        with pytest.raises(InputError, match="'1'"):
            add_answers(self.RUN, one, "mine")
        with pytest.raises(InputError, match="column 'sample'"):
            add_answers(self.RUN, one.drop(columns="sample"))


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"docno": ["d", "d"]}, "write_qrels: .*qid 'q', docno 'd'"),
        ({"label": [1, None]}, "write_qrels: .*nan .qid 'q', docno 'e'"),
    ],
)
def test_qrels_that_no_measure_would_take_are_not_written(tmp_path, changed, place):
    frame = pd.DataFrame({"qid": ["q", "q"], "docno": ["d", "e"], "label": [1, 0]})
    with pytest.raises(InputError, match=place):
        write_qrels(frame.assign(**changed), tmp_path / "qrels.txt")
    assert not (tmp_path / "qrels.txt").exists()


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
IDS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=4)


@pytest.mark.parametrize("suffix", ["tsv", "tsv.gz", "jsonl", "parquet"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_qrels_round_trip(tmp_path, suffix, data):
    keys = data.draw(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=5, unique=True))
    labels = st.integers(-2, 4) | st.floats(-(2.0**52), 2.0**52)
    golds = TEXT.filter(bool) | st.lists(TEXT, min_size=1, max_size=2)
    frame = pd.DataFrame(
        {
            "qid": [k[0] for k in keys],
            "docno": [k[1] for k in keys],
            "label": [float(data.draw(labels)) for _ in keys],
        }
    )
    frame["gold_answer"] = pd.Series([data.draw(golds) for _ in keys], dtype=object)
    write_qrels(frame, tmp_path / f"q.{suffix}")
    back = read_qrels(tmp_path / f"q.{suffix}")
    assert back[["qid", "docno"]].to_dict("list") == frame[["qid", "docno"]].to_dict("list")
    assert back["label"].tolist() == frame["label"].tolist()

    def listed(gold):
        return [gold] if isinstance(gold, str) else list(gold)

    assert [*map(listed, back["gold_answer"])] == [*map(listed, frame["gold_answer"])]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(st.tuples(IDS, IDS), max_size=5, unique=True), data=st.data())
def test_trec_qrels_round_trip(tmp_path, keys, data):
    frame = pd.DataFrame(keys, columns=["qid", "docno"], dtype="str")
    frame["label"] = [data.draw(st.floats(-3, 3)) for _ in keys]
    write_qrels(frame, tmp_path / "q.txt")
    back = read_qrels(tmp_path / "q.txt")
    assert back.to_dict("list") == frame.to_dict("list")
    assert not back["label"].map(math.isnan).any()


class TestCredit:
    def test_comes_back_equal(self, tmp_path):
        credit = pd.DataFrame(
            {"qid": ["1", "1"], "sample": [0, 1], "docno": ["a", "b b"], "credit": [-2.0, None]}
        )
        credit.to_csv(tmp_path / "c.tsv", sep="\t", index=False)
        pd.testing.assert_frame_equal(read_run(tmp_path / "c.tsv"), credit)

    def test_samples_may_be_absent_and_cells_empty(self, tmp_path):
        (tmp_path / "c.csv").write_text("qid,docno,credit,rank\n1,a,,0\n1,b,2e-1,1\n")
        frame = read_run(tmp_path / "c.csv")
        assert frame.columns.tolist() == ["qid", "sample", "docno", "rank", "credit"]
        assert frame["sample"].tolist() == [0, 0]
        assert frame["credit"].isna().tolist() == [True, False]

    def test_infinite_credit_is_refused(self, tmp_path):
        (tmp_path / "c.tsv").write_text("qid\tdocno\tcredit\n1\ta\tinf\n")
        with pytest.raises(FormatError, match="c.tsv:2"):
            read_run(tmp_path / "c.tsv")
