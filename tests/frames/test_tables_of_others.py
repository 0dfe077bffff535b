"""Tables of polars, DuckDB and pyarrow where a frame is taken."""

import pandas as pd
import pyarrow as pa
import pytest

import fairtk
from fairtk import EE_D, FairSampler, Groups, OracleSampler, Target
from fairtk.errors import ColumnError
from fairtk.frames import Qrels, Run
from fairtk.frames.accepted import frame_of
from fairtk.io import read_answers, read_qrels, read_run, write_answers, write_qrels, write_run

RUN = pd.DataFrame(
    [("1", "a", 3.0, 0), ("1", "é", 2.0, 1), ("2", "b", 1.5, 0), ("2", "a", 1.0, 1)],
    columns=["qid", "docno", "score", "rank"],
)
QRELS = pd.DataFrame(
    [("1", "é", 1), ("2", "b", 1), ("2", "a", 2)], columns=["qid", "docno", "label"]
)
TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["one", "two"]})
GROUPS = pd.DataFrame({"docno": ["a", "b", "é"], "group": ["x", "y", "y"]})


class Streamed:
    """Anything that has the stream, and nothing else."""

    def __init__(self, frame):
        self._table = pa.table(frame)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def polars_frame(frame):
    return pytest.importorskip("polars").from_arrow(pa.table(frame))


def relation(frame):
    return pytest.importorskip("duckdb").arrow(pa.table(frame))


MAKERS = {"pyarrow": pa.table, "stream": Streamed, "polars": polars_frame, "duckdb": relation}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS)
def table(request):
    return request.param


def test_frames(table):
    pd.testing.assert_frame_equal(frame_of(table(RUN)), RUN)
    assert Run(table(RUN), "here").docnos.tolist() == Run(RUN, "here").docnos.tolist()
    assert Qrels(table(QRELS), "here").labels.tolist() == [1, 1, 2]


def test_measuring(table):
    groups, target = table(GROUPS), Target.uniform(Groups.from_frame(table(GROUPS), name="kind"))
    by_group = fairtk.evaluate(QRELS, {"r": RUN}, "AWRF@2", groups=[groups], target=target)
    plain = fairtk.evaluate(QRELS, {"r": RUN}, "AWRF@2", groups=[GROUPS], target=target)
    assert by_group.means.iloc[0, 0] == plain.means.iloc[0, 0]


def test_experiments(table, tmp_path):
    systems = {"fixed": table(RUN)}
    made = fairtk.Experiment(systems, table(TOPICS), table(QRELS), [EE_D @ 2], save_dir=tmp_path)
    plain = fairtk.Experiment({"fixed": RUN}, TOPICS, QRELS, [EE_D @ 2])
    pd.testing.assert_frame_equal(made.per_query, plain.per_query)


def test_samplers(table):
    for sampler in (FairSampler(n_samples=4, seed=3), OracleSampler(table(QRELS), n_samples=2)):
        pd.testing.assert_frame_equal(sampler(table(RUN)), sampler(RUN))
    assert OracleSampler(table(QRELS)) == OracleSampler(QRELS)


def test_files_and_labels(table, tmp_path):
    write_run(table(RUN), tmp_path / "a.run")
    write_qrels(table(QRELS), tmp_path / "qrels.txt")
    answers = pd.DataFrame({"qid": ["1", "2"], "qanswer": ["yes", "no"]})
    write_answers(table(answers), tmp_path / "answers.tsv")
    assert read_run(tmp_path / "a.run")["docno"].tolist() == RUN["docno"].tolist()
    assert read_qrels(tmp_path / "qrels.txt")["label"].tolist() == [1, 1, 2]
    assert read_answers(tmp_path / "answers.tsv")["qanswer"].tolist() == ["yes", "no"]
    gold = pd.DataFrame({"qid": ["1", "2"], "gold_answer": [["yes", "ja"], ["nein"]]})
    measured = fairtk.evaluate(
        *(table(QRELS), {"run": table(RUN)}, "EU(utility='accuracy')"),
        answers=[table(answers)],
        gold=table(gold),
    )
    assert measured.means.iloc[0, 0] == 0.5  # "yes" is one of the gold answers, "no" none
    assert len(fairtk.drop_undefined(table(QRELS))) == 3


def test_what_has_no_table_is_said(table):
    with pytest.raises(ColumnError, match="got a"):
        Run(pa.chunked_array([["1"]]), "here")
    polars = pytest.importorskip("polars")
    with pytest.raises(ColumnError, match=r"got a LazyFrame; .collect\(\) it first"):
        Run(polars.from_arrow(pa.table(RUN)).lazy(), "here")
    with pytest.raises(ColumnError, match="got a"):
        fairtk.evaluate({("q", "d", 1)}, RUN, "P@1")
    with pytest.raises(ColumnError, match="got a"):
        Run(polars.Series(["1"]), "here")
