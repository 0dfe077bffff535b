"""The contract of measures fails for broken measures, and for the right reason."""

from contextlib import contextmanager

import numpy as np
import pytest
from failing import failing

from fairtk import FairMeasure, hookimpl, plugins
from fairtk.measures import CUTOFF, Param
from fairtk.testing import MeasureContract, toy_answers, toy_qrels


class Share(FairMeasure):
    """How much of the first k ranks useful documents have."""

    NAME = "ToyShare"
    PRETTY_NAME = "Share of useful documents"
    BETTER = "higher"
    MISSING = 0.0
    SUPPORTED_PARAMS = {"cutoff": CUTOFF, "rel": Param(int, default=1)}

    def score_query(self, qrels, run):
        useful = qrels.loc[qrels["label"] >= self["rel"], "docno"]
        return float(run["docno"].isin(useful).mean())


class Waste(Share):
    """How much of the first k ranks useful documents lack."""

    BETTER = "lower"
    MISSING = 1.0

    def score_query(self, qrels, run):
        return 1 - super().score_query(qrels, run)


@contextmanager
def given(measure):
    """Register a measure for as long as the block lasts."""

    class Plugin:
        @hookimpl
        def fairtk_measures(self):
            return [type(measure)()]

    plugin = Plugin()
    plugins.register(plugin, "toy", "1")
    try:
        yield
    finally:
        plugins.unregister(plugin)


def failures(cls, of=lambda m: m @ 2, only="test_"):
    class Contract(MeasureContract):
        measure = of(cls())

    with given(cls()):
        return failing(Contract, only)


def test_a_good_measure_passes():
    assert failures(Waste) == {}


def test_a_good_measure_passes_without_cutoff():
    assert failures(Share, lambda m: m(rel=2)) == {}


def test_not_registered():
    class Contract(MeasureContract):
        measure = Share() @ 2

    errors = failing(Contract, "test_reads")
    assert list(errors) == ["test_reads_back_what_it_prints"]
    assert "is the plugin installed" in errors["test_reads_back_what_it_prints"]


class NotOurs:
    """Not even a measure."""


def test_no_measure_at_all():
    class Contract(MeasureContract):
        measure = NotOurs()

    assert "test_declarations" in failing(Contract, "test_decl")


# One flaw each -----------------------------------------------------------------------------------


class FirstLabel(Share):
    """Looks at the label that happens to come first."""

    def score_query(self, qrels, run):
        return float(qrels["label"].iloc[0])


class Alphabet(Share):
    """Prefers documents by name."""

    def score_query(self, qrels, run):
        return float(min(run["docno"]) <= "d1")


class CutAcross(Share):
    """Cuts as ir_measures' own runtime measures do: the first rows of a query."""

    def score_all(self, judged):
        whole = list(judged.by_query(None))
        return np.array(
            [
                0.0 if run is None else self.score_query(qrels, run.head(self["cutoff"]))
                for _, qrels, run in whole
            ]
        )


class NoCut(Share):
    """Forgets its cutoff."""

    def score_all(self, judged):
        return np.array(
            [
                0.0 if run is None else self.score_query(qrels, run)
                for _, qrels, run in judged.by_query(None)
            ]
        )


class Relative(Share):
    """Divides by the number of queries."""

    def score_all(self, judged):
        return super().score_all(judged) / len(judged.qids)


class Flattering(Waste):
    """Counts a missing query as perfect."""

    MISSING = 0.0


class Undeclared(Share):
    """Reads the text, and does not say so."""

    def score_query(self, qrels, run):
        return float(run["text"].str.contains("fox").mean())


class Silent(Share):
    """Is undefined without a word."""

    def score_all(self, judged):
        values = super().score_all(judged)
        return np.where(judged.qrels.labels.max() > 1, np.nan, values)


class Changing(Share):
    """Adds a gold answer to the user's own list."""

    QREL_COLUMNS = (*FairMeasure.QREL_COLUMNS, "gold_answer")

    def score_query(self, qrels, run):
        for gold in qrels["gold_answer"]:
            if isinstance(gold, list):
                gold.append("and this")
        return super().score_query(qrels, run)


class Mumbling(Share):
    """Prints its name and cutoff alone."""

    def __repr__(self):
        return f"{self.NAME}@{self['cutoff']}"


class Forgetful(Share):
    """Is right the first time only."""

    calls = 0

    def score_all(self, judged):
        Forgetful.calls += 1
        return super().score_all(judged) / Forgetful.calls


class Fragile(Share):
    """Cannot do without useful documents."""

    def score_query(self, qrels, run):
        return super().score_query(qrels, run) / max(qrels["label"].tolist()) * 1.0


class OpenWithoutRankings(Share):
    """Calls short rankings undefined, and a query without any too."""

    def score_all(self, judged):
        short = np.array([run is None or len(run) < 2 for _, _, run in judged.by_query(2)])
        self.warn_undefined(judged.qids[short], len(short), "its ranking is too short")
        return np.where(short, np.nan, super().score_all(judged))


class ForeignColumns(Share):
    """Declares ir_measures' names."""

    RUN_COLUMNS = ("query_id", "doc_id", "score")


FLAWS = [
    (FirstLabel, "test_order_of_rows_does_not_matter"),
    (Alphabet, "test_names_of_documents_do_not_matter"),
    (CutAcross, "test_numbers_of_samples_do_not_matter"),
    (NoCut, "test_cutoff_is_within_each_sample"),
    (Relative, "test_other_queries_do_not_matter"),
    (Relative, "test_experiment"),
    (Flattering, "test_missing_query_gets_the_worst_value"),
    (Undeclared, "test_declared_columns_are_enough"),
    (Silent, "test_order_of_rows_does_not_matter"),
    (Changing, "test_inputs_stay_as_they_are"),
    (Forgetful, "test_ways_through_ir_measures_agree"),
    (Fragile, "test_no_useful_document"),
    (OpenWithoutRankings, "test_empty_run"),
    (ForeignColumns, "test_declarations"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("cls", "test"), FLAWS, ids=lambda v: getattr(v, "__name__", v))
def test_a_flaw_is_found(cls, test):
    assert test in failures(cls, only=test)


def test_a_parameter_that_is_not_printed_is_found():
    errors = failures(Mumbling, lambda m: m(rel=2) @ 2, "test_reads")
    assert "print alike" in errors["test_reads_back_what_it_prints"]


def test_own_frames():
    class Contract(MeasureContract):
        measure = Share() @ 1

        def qrels(self):
            return toy_qrels().replace({"qid": {"q1": "another"}})

        def samples(self):
            return toy_answers(2).replace({"qid": {"q1": "another"}})

    with given(Share()):
        assert failing(Contract, "test_experiment") == {}
