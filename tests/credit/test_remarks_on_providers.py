"""What a reader of shares of providers must know of a run: the facts that `evaluate` reports."""

import warnings

import pandas as pd
import pytest

import fairtk
from fairtk.credit import providers
from fairtk.errors import MissingWarning, TruncationWarning

QRELS = pd.DataFrame({"qid": list("1122"), "docno": list("abab"), "label": [1, 0, 1, 0]})
RUN = pd.DataFrame({"qid": list("1122"), "docno": list("abab"), "score": [2.0, 1.0] * 2})
OWNERS = pd.DataFrame({"docno": list("ab"), "group": ["P", "Q"]})
RUNS = {
    "whole": RUN,
    "a query is missing": RUN[:2],
    "a ranking is short": RUN[:3],
    "both": RUN[:1],
    "sampled": pd.concat([RUN.assign(sample=0), RUN[:3].assign(sample=1)]),
    "credit": RUN[:2].rename(columns={"score": "credit"}),
}


def warned(call):
    """Return the class and the first words of warnings about missing queries and lengths."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    kinds = MissingWarning, TruncationWarning
    return {
        (one.category, *str(one.message).split(": ")[-1].split()[:4])
        for one in caught
        if one.category in kinds
    }


@pytest.mark.parametrize("name", RUNS)
def test_providers_report_what_evaluate_reports(name):
    run = RUNS[name]
    measure = "CreditAWRF" if "credit" in run else "EE_R@2"
    options = {"groups": {"owner": OWNERS}, "target": "uniform"} if "credit" in run else {}
    expected = warned(lambda: fairtk.evaluate(QRELS, run, [measure], **options))
    assert warned(lambda: providers(QRELS, run, OWNERS, cutoff=2, resamples=2)) == expected
    assert bool(expected) == (name != "whole")


def test_missing_queries_are_no_worst_value_here():
    with pytest.warns(MissingWarning, match="'2'.*merit"):
        table = providers(QRELS, RUN[:2], OWNERS, cutoff=2, resamples=2).table
    merit = table.set_index("provider")["merit"].to_dict()
    with_both = providers(QRELS, RUN, OWNERS, cutoff=2, resamples=2).table
    assert merit == with_both.set_index("provider")["merit"].to_dict()


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
def test_without_exposure_the_share_without_a_provider_is_undefined():
    result = providers(QRELS, RUN.assign(qid="3"), OWNERS, resamples=2)
    assert pd.isna(result.unknown)
    assert "undefined" in result.unknown_text and "nan" not in repr(result).lower().split("\n")[-1]
