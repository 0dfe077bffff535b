"""The trace of FAIR-QR after an error has the steps before it."""

import pandas as pd
import pyterrier as pt
import pytest
from test_fair_qr import TERMS, Search, fair_qr, topics

from fairtk.errors import InputError
from fairtk.llm import BudgetError, KeywordRefiner, Ledger


def test_a_spent_budget(tmp_path):
    queries = topics(("1", "ships"), ("2", "chess"))
    with Ledger(tmp_path / "answers.sqlite", max_calls=1) as ledger:
        system = fair_qr(ledger.wrap(KeywordRefiner(TERMS)))
        with pytest.raises(BudgetError):
            system(queries)
    trace = system.trace
    # the first rankings of both queries were measured before the first call
    assert trace[["qid", "iteration"]].to_numpy().tolist() == [["1", 0], ["2", 0]]
    assert trace["AWRF"].notna().all() and trace["kept"].all()
    assert system.missing["qid"].tolist() == ["1", "2"]
    assert all("max_calls" in reason for reason in system.missing["reason"])


class Breaking(Search):
    """Fails at the second retrieval."""

    def transform(self, inp):
        if self.calls:
            raise InputError("the index is gone")
        return super().transform(inp)


def test_a_retriever_that_fails_later():
    system = fair_qr(retriever=Breaking())
    with pytest.raises(InputError, match="the index is gone"):
        system(topics())
    trace = system.trace
    # the refined keywords were not retrieved: they are in the trace without values
    assert trace["iteration"].tolist() == [0, 1, 0, 1]
    assert trace["query"].str.contains("woman").tolist() == [False, True, False, True]
    assert trace["AWRF"].isna().tolist() == [False, True, False, True]


def test_an_error_replaces_the_trace_of_an_earlier_call(tmp_path):
    with Ledger(tmp_path / "answers.sqlite", max_calls=2) as ledger:
        system = fair_qr(ledger.wrap(KeywordRefiner(TERMS)), max_iterations=1)
        system(topics())
        assert set(system.trace["qid"]) == {"1", "2"}
        with pytest.raises(BudgetError):
            system(topics(("3", "ships chess")))
    assert system.trace["qid"].tolist() == ["3"]


def test_refine_does_not_change_the_transformer():
    system = fair_qr(retriever=Breaking())
    with pytest.raises(InputError):
        system.refine(topics())
    assert system.trace.empty and isinstance(system, pt.Transformer)
    assert isinstance(system.missing, pd.DataFrame) and system.missing.empty
