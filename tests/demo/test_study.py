"""The study of ``fairtk demo``, on few queries, through the real parts."""

import pandas as pd
import pytest

from fairtk.demo import study
from fairtk.errors import ParameterError

pytest.importorskip("torch")
pytest.importorskip("transformers")

EE = "EE_D(estimator='unbiased')@5"
COLUMNS = ["alpha", EE, "EE_R@5", "E(measure='nDCG@5')", "EU(utility='accuracy')"]


@pytest.fixture(scope="module")
def table():
    return study.table_of(study.run(n_samples=5, queries=4))


def test_table(table):
    assert list(table.columns) == COLUMNS
    assert table["alpha"].tolist() == [0, 1, 2, 4, 8, "deterministic"]
    assert table[COLUMNS[1:]].apply(lambda column: column.between(0, 1).all()).all()
    # a single ranking has the greatest disparity: 1 of each of the 5 shown documents, normalized 1
    assert table[EE].iloc[-1] == pytest.approx(1)
    assert table[EE].iloc[0] < table[EE].iloc[4]


def test_one_query_is_enough():
    run, qrels = study.prepare(queries=1)
    assert run["qid"].nunique() == qrels["qid"].nunique() == 1


def test_refuses_no_queries():
    with pytest.raises(ParameterError, match="got 0"):
        study.run(queries=0)
    with pytest.raises(ParameterError, match="got 1"):
        study.run(n_samples=1)


def _table(disparity, utility):
    rows = zip([0, 8, "deterministic"], disparity, [0.4, 0.5, 0.6], [0.5] * 3, utility, strict=True)
    return pd.DataFrame(rows, columns=COLUMNS)


def test_summary_names_the_fairest_policy_without_a_loss():
    text = study.summary(_table([0.1, 0.8, 1.0], [0.5, 0.70, 0.7]))
    assert max(map(len, text.splitlines())) <= 80
    assert "Alpha 8" in text and "EE_D@5 is 0.80 instead of 1.00" in text
    assert "Alpha 0" in study.summary(_table([0.1, 0.8, 1.0], [0.694, 0.70, 0.7]))


def test_summary_says_when_every_policy_loses():
    text = study.summary(_table([0.1, 0.8, 1.0], [0.5, 0.6, 0.7]))
    assert "0.60 with alpha 8, 0.70" in text
