"""The contract of transformers fails for broken transformers, and for the right reason."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from failing import assert_found, failing, flawed

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


def transforms(change):
    """Return the member of a flaw that changes the output of `Scaler`."""
    return {"transform": lambda self, inp: change(Scaler.transform(self, inp))}


def change_input(self, inp):
    inp["score"] = inp["score"] * self.factor
    return inp.copy()


def copy_by_index(self, inp):
    out = Scaler.transform(self, inp)
    return out.assign(copy=pd.Series(inp["docno"].to_numpy()))  # aligned by index


def ask_for_too_much(self, inp):
    if not len(inp.columns):
        self.check_inputs(inp, ["qid", "docno", "score", "text"])
    return Scaler.transform(self, inp)


def fail_without_columns(self, inp):
    if not len(inp.columns):
        pt.validate.columns(inp, includes=["score"])
    return inp.assign(score=inp["score"].astype(float) * self.factor)


MIXING = transforms(lambda out: out.assign(score=lambda d: d["score"] / d["score"].sum()))
FLAWS = {
    "writes into its input": ("test_input_stays_as_it_is", {"transform": change_input}),
    "forgets the columns of an empty frame": (
        "test_empty_frame_has_the_output_columns test_inspect",
        transforms(lambda out: out if len(out) else pd.DataFrame()),
    ),
    "turns scores and keeps ranks": (
        "test_rankings_are_in_order",
        transforms(lambda out: out.assign(score=-out["score"])),
    ),
    "gives documents twice": (
        "test_rankings_are_in_order",
        transforms(lambda out: pd.concat([out, out]).drop(columns="rank", errors="ignore")),
    ),
    "answers queries that nobody asked": (
        "test_output_has_no_other_queries",
        transforms(lambda out: pd.concat([out, out.head(1).assign(qid="new")])),
    ),
    "adds noise": (
        "test_deterministic",
        transforms(lambda out: out.assign(score=out["score"] + np.random.default_rng().random())),
    ),
    "draws from numpy's global state": (
        "test_global_random_state_stays",
        transforms(lambda out: out.assign(noise=np.random.rand(len(out)))),
    ),
    "scales by the scores of all queries": ("test_batches_do_not_matter", MIXING),
    "believes that the index counts from 0": (
        "test_order_of_rows_does_not_matter",
        {"transform": copy_by_index},
    ),
    "is equal to nothing else": (
        "test_equality_is_by_settings",
        {"__eq__": object.__eq__, "__hash__": object.__hash__},
    ),
    "is equal to all of its kind, and prints so": (
        "test_equality_is_by_settings test_printable",
        {"SETTINGS": ()},
    ),
    "prints an address": ("test_printable", {"__repr__": object.__repr__}),
    "fails with a KeyError of pandas where a column is missing": (
        "test_missing_columns_are_named",
        {"transform": fail_without_columns},
    ),
    "asks for a column that it does not need": (
        "test_missing_columns_are_named",
        {"transform": ask_for_too_much},
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_found(flaw):
    cls = flawed(Scaler, FLAWS[flaw][1])
    assert_found(FLAWS[flaw], lambda test: failures(cls, test))


def test_batches_may_matter_where_the_author_says_so():
    assert failures(flawed(Scaler, MIXING), per_query=False) == {}


def test_make_must_be_defined():
    errors = failing(TransformerContract, "test_deterministic")
    assert "must define make()" in errors["test_deterministic"]


def test_a_column_that_is_read_without_being_asked_for_is_found():
    def only_declared(self):  # the columns that pt.inspect finds
        return toy_run()[["qid", "docno", "score", "rank"]]

    upper = transforms(lambda o: o.assign(text=o["text"].str.upper()) if len(o) else o)
    assert "test_deterministic" in failures(flawed(Scaler, upper), "test_det", inp=only_declared)
