"""The contract of measures fails for broken measures, and for the right reason."""

import itertools

import numpy as np
import pytest
from failing import assert_found, failing, flawed, given

from fairtk import FairMeasure
from fairtk.measures import CUTOFF, Param, Scores
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


def failures(cls, of=lambda m: m @ 2, only="test_"):
    class Contract(MeasureContract):
        measure = of(cls())

    with given(measures=[cls()]):
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


def change_gold_answers(self, qrels, run):
    for gold in qrels["gold_answer"]:
        if isinstance(gold, list):
            gold.append("and this")
    return Share.score_query(self, qrels, run)


def leave_short_rankings_open(self, judged):
    short = np.array([run is None or len(run) < 2 for _, _, run in judged.by_query(2)])
    scores = Share.score_all(self, judged)
    return Scores.of(scores.values, [("its ranking is too short", short)])


def score_rows(self, judged, count):
    """Return the values of the first rows of queries, whatever their samples and ranks."""
    return np.array(
        [
            0.0 if run is None else self.score_query(qrels, run.head(count))
            for _, qrels, run in judged.by_query(None)
        ]
    )


CALLS = itertools.count(1)
FLAWS = {
    "looks at the label that comes first": (
        "test_order_of_rows_does_not_matter",
        {"score_query": lambda self, qrels, run: float(qrels["label"].iloc[0])},
    ),
    "prefers documents by name": (
        "test_names_of_documents_do_not_matter",
        {"score_query": lambda self, qrels, run: float(min(run["docno"]) <= "d1")},
    ),
    "cuts the first rows of a query, as ir_measures' own runtime measures do": (
        "test_numbers_of_samples_do_not_matter",
        {"score_all": lambda self, judged: score_rows(self, judged, self["cutoff"])},
    ),
    "forgets its cutoff": (
        "test_cutoff_is_within_each_sample",
        {"score_all": lambda self, judged: score_rows(self, judged, None)},
    ),
    "divides by the number of queries": (
        "test_other_queries_do_not_matter test_experiment",
        {"score_all": lambda self, judged: Share.score_all(self, judged) / len(judged.qids)},
    ),
    "counts a missing query as perfect": (
        "test_missing_query_gets_the_worst_value",
        {
            "BETTER": "lower",
            "score_query": lambda self, qrels, run: 1 - Share.score_query(self, qrels, run),
        },
    ),
    "reads the text without a declaration": (
        "test_declared_columns_are_enough",
        {"score_query": lambda self, qrels, run: float(run["text"].str.contains("fox").mean())},
    ),
    "is undefined without a warning": (
        "test_order_of_rows_does_not_matter",
        {
            "score_all": lambda self, judged: np.where(
                judged.qrels.labels.max() > 1, np.nan, Share.score_all(self, judged)
            )
        },
    ),
    "changes the user's gold answers": (
        "test_inputs_stay_as_they_are",
        {
            "QREL_COLUMNS": (*FairMeasure.QREL_COLUMNS, "gold_answer"),
            "score_query": change_gold_answers,
        },
    ),
    "is right the first time only": (
        "test_ways_through_ir_measures_agree",
        {"score_all": lambda self, judged: Share.score_all(self, judged) / next(CALLS)},
    ),
    "fails without useful documents": (
        "test_no_useful_document",
        {
            "score_query": lambda self, qrels, run: (
                Share.score_query(self, qrels, run) / max(qrels["label"].tolist())
            )
        },
    ),
    "is undefined for a query without a ranking": (
        "test_empty_run",
        {"score_all": leave_short_rankings_open},
    ),
    "is about a whole sentence": ("test_tables_need_no_measure", {"ABOUT": "It counts."}),
    "has a bias that nobody computes": (
        "test_tables_need_no_measure",
        {"has_sampling_bias": True},
    ),
    "has no docstring": ("test_declarations", {"__doc__": None}),
    "declares ir_measures' names": (
        "test_declarations",
        {"RUN_COLUMNS": ("query_id", "doc_id", "score")},
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_found(flaw):
    cls = flawed(Share, FLAWS[flaw][1])
    assert_found(FLAWS[flaw], lambda test: failures(cls, only=test))


def test_a_parameter_that_is_not_printed_is_found():
    cls = flawed(Share, {"__repr__": lambda self: f"{self.NAME}@{self['cutoff']}"})
    errors = failures(cls, lambda m: m(rel=2) @ 2, "test_reads")
    assert "have the same repr" in errors["test_reads_back_what_it_prints"]


def test_own_frames():
    class Contract(MeasureContract):
        measure = Share() @ 1

        def qrels(self):
            return toy_qrels().replace({"qid": {"q1": "another"}})

        def samples(self):
            return toy_answers(2).replace({"qid": {"q1": "another"}})

    with given(measures=[Share()]):
        assert failing(Contract, "test_experiment") == {}
