"""The contract of transformers fails for broken transformers, and for the right reason."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from failing import failing

from fairtk.testing import TransformerContract, toy_run
from fairtk.transformers.base import FairTransformer


class Scaler(FairTransformer):
    """Multiplies scores."""

    SETTINGS = ("factor",)

    def __init__(self, factor=2.0):
        self.factor = factor

    def transform(self, inp):
        self.check_inputs(inp, ["qid", "docno", "score"])
        return inp.assign(score=inp["score"].astype(float) * self.factor)


def failures(cls, only="test_", **members):
    class Contract(TransformerContract):
        def make(self):
            return cls()

        def others(self):
            return [cls(3.0)]

    for name, value in members.items():
        setattr(Contract, name, value)
    return failing(Contract, only)


def test_a_good_transformer_passes():
    assert failures(Scaler) == {}


class InPlace(Scaler):
    """Writes into its input."""

    def transform(self, inp):
        inp["score"] = inp["score"] * self.factor
        return inp.copy()


class NoColumns(Scaler):
    """Forgets the columns of an empty frame."""

    def transform(self, inp):
        return super().transform(inp) if len(inp) else pd.DataFrame()


class Disordered(Scaler):
    """Turns scores and keeps ranks."""

    def transform(self, inp):
        return super().transform(inp).assign(score=-inp["score"])


class Doubling(Scaler):
    """Gives documents twice."""

    def transform(self, inp):
        out = super().transform(inp).drop(columns="rank", errors="ignore")
        return pd.concat([out, out], ignore_index=True)


class Inventing(Scaler):
    """Answers queries that nobody asked."""

    def transform(self, inp):
        out = super().transform(inp)
        return pd.concat([out, out.head(1).assign(qid="new")], ignore_index=True)


class Random(Scaler):
    """Adds noise of its own."""

    def transform(self, inp):
        noise = np.random.default_rng().random(len(inp)) / 1e3
        return super().transform(inp).assign(score=lambda d: d["score"] + noise)


class GlobalState(Scaler):
    """Draws from numpy's global state."""

    def transform(self, inp):
        out = super().transform(inp)
        out["noise"] = np.random.rand(len(inp))
        return out


class Mixing(Scaler):
    """Scales by the largest score of all queries."""

    def transform(self, inp):
        out = super().transform(inp)
        top = out.groupby("qid")["score"].sum().max()
        return out.assign(score=out["score"] / top)


class ByIndex(Scaler):
    """Believes that the index counts from 0."""

    def transform(self, inp):
        out = super().transform(inp)
        return out.assign(copy=pd.Series(inp["docno"].to_numpy()))  # aligned by index


class Different(Scaler):
    """Is equal to nothing else."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class AllAlike(Scaler):
    """Is equal to all of its kind, and prints so."""

    SETTINGS = ()


class Address(Scaler):
    """Prints where it is in memory."""

    __repr__ = object.__repr__


class Unexplained(pt.Transformer):
    """Fails with a KeyError of pandas where a column is missing."""

    def __init__(self, factor=2.0):
        self.factor = factor

    def transform(self, inp):
        if not len(inp.columns):
            pt.validate.columns(inp, includes=["qid", "docno", "score"])
        return inp.assign(score=inp["score"].astype(float) * self.factor)


class Undeclared(Scaler):
    """Reads a column that it does not ask for."""

    def transform(self, inp):
        out = super().transform(inp)
        return out.assign(text=out["text"].str.upper()) if len(out) else out


class Greedy(Scaler):
    """Asks for a column that it does not need."""

    def transform(self, inp):
        if not len(inp.columns):
            self.check_inputs(inp, ["qid", "docno", "score", "text"])
        return super().transform(inp)


FLAWS = [
    (InPlace, "test_input_stays_as_it_is"),
    (NoColumns, "test_empty_frame_has_the_output_columns"),
    (NoColumns, "test_inspect"),
    (Disordered, "test_rankings_are_in_order"),
    (Doubling, "test_rankings_are_in_order"),
    (Inventing, "test_output_has_no_other_queries"),
    (Random, "test_deterministic"),
    (GlobalState, "test_global_random_state_stays"),
    (Mixing, "test_batches_do_not_matter"),
    (ByIndex, "test_order_of_rows_does_not_matter"),
    (Different, "test_equality_is_by_settings"),
    (AllAlike, "test_equality_is_by_settings"),
    (AllAlike, "test_printable"),
    (Address, "test_printable"),
    (Unexplained, "test_missing_columns_are_named"),
    (Greedy, "test_missing_columns_are_named"),
]


@pytest.mark.parametrize(("cls", "test"), FLAWS, ids=lambda v: getattr(v, "__name__", v))
def test_a_flaw_is_found(cls, test):
    assert test in failures(cls, only=test)


def test_batches_may_matter_where_the_author_says_so():
    assert failures(Mixing, per_query=False) == {}


def test_make_must_be_defined():
    errors = failing(TransformerContract, "test_deterministic")
    assert "must define make()" in errors["test_deterministic"]


def test_a_column_that_is_read_without_being_asked_for_is_found():
    # the columns that pt.inspect finds are enough
    def only_declared(self):
        return toy_run()[["qid", "docno", "score", "rank"]]

    assert "test_deterministic" in failures(Undeclared, "test_det", inp=only_declared)
