"""Measures of other libraries get the rows that they would get without fairtk."""

import ir_measures
import pandas as pd
import pytest
from ir_measures import RR, nDCG

import fairtk
from fairtk import EE_D
from fairtk.errors import DuplicateError, InputError

QRELS = pd.DataFrame([("q", "a", 1), ("q", "b", 2)], columns=["query_id", "doc_id", "relevance"])
RUN = pd.DataFrame(
    [("q", "a", 2.0), ("q", "b", 1.0), ("q", "a", 0.5)], columns=["query_id", "doc_id", "score"]
)


def test_a_repeated_row_has_the_value_of_ir_measures():
    # pytrec_eval reads a dict, so the last score of a counts: b, a is the ideal order
    # DCG = 2 / log2(2) + 1 / log2(3) = ideal DCG
    values = ir_measures.calc_aggregate([nDCG @ 5, RR(rel=2)], QRELS, RUN)
    assert values == {nDCG @ 5: 1.0, RR(rel=2): 1.0}
    rows = [ir_measures.ScoredDoc(*row) for row in RUN.itertuples(index=False)]
    assert ir_measures.calc_aggregate([nDCG @ 5, RR(rel=2)], QRELS, rows) == values


def test_several_samples_are_refused():
    sampled = RUN.assign(sample=[0, 0, 1])
    with pytest.raises(InputError, match=r"write E\(nDCG@5\)"):
        ir_measures.calc_aggregate([nDCG @ 5], QRELS, sampled)


def test_fairtk_refuses_the_row():
    with pytest.raises(DuplicateError, match="docno 'a'"):
        ir_measures.calc_aggregate([EE_D @ 5], QRELS, RUN)
    with pytest.raises(InputError, match="duplicate document"):
        fairtk.evaluate(QRELS, RUN, [nDCG @ 5])


def test_fractions_can_become_gains_or_get_a_threshold(tmp_path):
    (tmp_path / "qrels.txt").write_text("q 0 a 0.4\nq 0 b 1\n")
    (tmp_path / "a.run").write_text("q Q0 a 1 2 t\nq Q0 b 2 1 t\n")
    with pytest.raises(InputError, match=r"got 0\.4.*\.round\(\)\.astype\(int\).*>= 0\.5"):
        fairtk.evaluate(tmp_path / "qrels.txt", tmp_path / "a.run", [nDCG @ 5])
    # with a threshold of .5: a is not relevant, b is, at rank 2: 1 / log2(3)
    labels = fairtk.io.read_qrels(tmp_path / "qrels.txt")
    labels["label"] = (labels["label"] >= 0.5).astype(int)
    values = fairtk.evaluate(labels, tmp_path / "a.run", [nDCG @ 5]).means
    assert values.iloc[0, 0] == pytest.approx(0.6309297535714575)
