"""Results that pt.Experiment saves and reuses keep samples and answers."""

import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk import EE_D, EE_R, EU, FairSampler
from fairtk.errors import FormatError

TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["x", "y"]})
QRELS = pd.DataFrame(
    {"qid": ["1", "1", "2"], "docno": ["a", "b", "a"], "label": [1, 0, 1], "gold_answer": "yes"}
)
RUN = pd.DataFrame(
    {
        "qid": ["1"] * 3 + ["2"] * 3,
        "docno": ["a", "b", "c"] * 2,
        "score": [3.0, 2.0, 1.0] * 2,
        "rank": [0, 1, 2] * 2,
        "query": ["x"] * 3 + ["y"] * 3,
    }
)


def answered(frame):
    """Answer each sample by its first document, with its words as a list."""
    first = frame.sort_values("rank").groupby(["qid", "sample"])["docno"].first()
    keys = pd.MultiIndex.from_frame(frame[["qid", "sample"]])
    answers = first.reindex(keys).map({"a": "yes", "b": "no", "c": "no"})
    return frame.assign(qanswer=answers.tolist(), words=[["w", d] for d in frame["docno"]])


@pytest.fixture
def system():
    retrieve = pt.Transformer.from_df(RUN)
    return retrieve >> FairSampler(alpha=1, n_samples=5, seed=1) >> pt.apply.generic(answered)


MEASURES = [EE_D @ 2, EE_R @ 2, EU(utility="em")]


def table(system, folder, **options):
    given = {"save_dir": str(folder), "save_format": fairtk.io.save_format, "names": ["s"]}
    return pt.Experiment([system], TOPICS, QRELS, MEASURES, validate="ignore", **given, **options)


def test_a_second_run_measures_the_same(system, tmp_path):
    first = table(system, tmp_path)
    again = table(pt.apply.generic(pytest.fail), tmp_path, save_mode="reuse")
    pd.testing.assert_frame_equal(first, again)
    # 5 samples: neither 0 nor 1, as one ranking without samples would give
    assert 0 < first["EU(utility='em')"].iloc[0] < 1


def test_every_column_comes_back(system, tmp_path):
    frame = system(TOPICS)
    read, write = fairtk.io.save_format
    with (tmp_path / "s.custom").open("wb") as file:
        write(frame, file)
    with (tmp_path / "s.custom").open("rb") as file:
        pd.testing.assert_frame_equal(read(file), frame)


def test_a_half_written_file_is_named(system, tmp_path):
    table(system, tmp_path)
    path = tmp_path / "s.custom"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FormatError, match=f"{path.name}: invalid Parquet file"):
        table(system, tmp_path, save_mode="reuse")
