"""Providers over queries: sums by hand, Gini and intervals, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtk import FairSampler, Groups, PlackettLuceExposure
from fairtk.credit import AE_D, providers
from fairtk.credit.amortized import gini
from fairtk.errors import InputError, MissingWarning, ParameterError, UndefinedWarning

QRELS = pd.DataFrame({"qid": list("1112"), "docno": list("abca"), "label": [1, 1, 0, 1]})
RUN = pd.DataFrame(
    {"qid": list("11122"), "docno": list("abcca"), "score": [3.0, 2.0, 1.0, 2.0, 1.0]}
)
OWNERS = pd.DataFrame({"docno": list("abc"), "group": ["P", "Q", "Q"]})


def by_name(result):
    return result.table.set_index("provider")


def test_by_hand():
    table = by_name(providers(QRELS, RUN, OWNERS, cutoff=1))
    # one rank: query 1 shows a (P), query 2 shows c (Q); merit: 1: a and b 1/2 each, 2: a
    assert table["exposure"].to_dict() == {"P": 0.5, "Q": 0.5}
    assert table["merit"].to_dict() == {"P": 0.75, "Q": 0.25}
    assert table["gap"].to_dict() == {"P": -0.25, "Q": 0.25}
    assert table["documents"].to_dict() == {"P": 1, "Q": 2}


def test_summary_by_hand():
    result = providers(QRELS, RUN, OWNERS, cutoff=1, top=0.5, resamples=200)
    summary = result.summary.set_index("name")
    assert summary["value"].to_dict() == {
        "amortized": 0.5,
        "gini": 0.0,
        "top": 0.5,
        "minimum": 0.5,
    }
    # Query 1: shares (1, 0), merit (1/2, 1/2); query 2: (0, 1), (1, 0). Exchanged in both or in
    # none, shares are (1/2, 1/2) and merit (3/4, 1/4) or the reverse: .5. Exchanged in one, they
    # are (0, 1) and (3/4, 1/4): 1.5. By chance: the mean of both, 1
    assert summary["chance"]["amortized"] == pytest.approx(1, abs=0.15)
    # The quantile of the errors, expanded for two queries, is beyond the bounds
    assert summary.loc["amortized", ["low", "high"]].tolist() == [0.0, 2.0]
    assert result.unknown == 0


@pytest.mark.parametrize("cell", [None, [], "n/a"])
def test_an_unknown_provider_is_no_provider(cell):
    owners = pd.DataFrame({"docno": list("abc"), "group": ["P", "Q", cell]})
    result = providers(QRELS, RUN, owners, unknown_values="n/a")
    without = providers(QRELS, RUN, owners.head(2))
    assert result.table.equals(without.table) and result.summary.equals(without.summary)
    assert result.unknown == without.unknown > 0
    with pytest.raises(InputError, match="unknown"):
        providers(QRELS, RUN, owners.tail(1), unknown_values="n/a")


def test_weights_and_soft_memberships():
    soft = pd.DataFrame(
        {"docno": ["a", "c", "c"], "group": ["P", "P", "Q"], "weight": [1.0, 0.5, 0.5]}
    )
    result = providers(QRELS, RUN, soft, cutoff=1, weights={"1": 1, "2": 3})
    # query 1: a, weight 1; query 2: c, weight 3, half and half
    assert by_name(result)["exposure"].to_dict() == {"P": 2.5 / 4, "Q": 1.5 / 4}


def test_documents_without_a_provider_are_counted():
    result = providers(QRELS, RUN, OWNERS[:1], cutoff=1)
    assert result.unknown == 0.5 and by_name(result)["exposure"].to_dict() == {"P": 1.0}


def test_credit_in_the_place_of_exposure():
    credit = pd.DataFrame(
        {"qid": list("112"), "sample": 0, "docno": list("aba"), "credit": [3.0, 1.0, 2.0]}
    )
    result = providers(QRELS, credit, OWNERS)
    assert result.settings["of"] == "credit"
    assert by_name(result)["exposure"].to_dict() == {"P": 1.75 / 2, "Q": 0.25 / 2}


def test_a_query_without_defined_credit_is_left_out():
    # nothing is cited in the answer to query 2: a could not earn there what it merits
    credit = pd.DataFrame(
        {"qid": list("1122"), "sample": 0, "docno": list("abac"), "credit": [3.0, 1.0, 0.0, 0.0]}
    )
    with pytest.warns(UndefinedWarning, match="1 of 2 queries .'2'"):
        table = by_name(providers(QRELS, credit, OWNERS, cutoff=1))
    assert table["exposure"].to_dict() == {"P": 0.75, "Q": 0.25}
    assert table["merit"].to_dict() == {"P": 0.5, "Q": 0.5}  # it was 3/4 and 1/4, and no word
    with pytest.warns(MissingWarning, match="'2'.*merit"):
        missing = by_name(providers(QRELS, credit[:2], OWNERS, cutoff=1))
    assert missing["merit"].to_dict() == {"P": 0.75, "Q": 0.25}


@pytest.mark.filterwarnings("ignore:.*for some rankings .1, for")
@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_documents_of_rankings_without_defined_credit_alone_are_not_there():
    credit = pd.DataFrame(
        {"qid": "1", "sample": [0, 0, 1, 1], "docno": list("abax"), "credit": [3.0, 1.0, 0.0, 0.0]}
    )
    owners = pd.concat([OWNERS, pd.DataFrame({"docno": ["x"], "group": ["X"]})])
    assert "X" not in by_name(providers(QRELS, credit, owners, cutoff=1)).index
    table = providers(QRELS, credit.assign(credit=[3.0, 1.0, 2.0, 0.0]), owners, cutoff=1)
    assert by_name(table)["exposure"]["X"] == 0
    for frame, n in ((credit, 3), (credit.assign(credit=[3.0, 1.0, 2.0, 0.0]), 4)):  # a, b, c; x
        labels, square = QRELS[QRELS["qid"] == "1"], AE_D.calc_aggregate
        floor = (square(labels, frame) - 1 / n) / (1 - 1 / n)
        assert AE_D(bounds="exact").calc_aggregate(labels, frame) == pytest.approx(floor)


def test_samples_and_exact_exposure_agree(tmp_path):
    groups = Groups.from_frame(OWNERS, name="outlet")
    sampled = providers(
        QRELS, FairSampler(alpha=2, n_samples=4000, cutoff=1)(RUN), groups, cutoff=1
    )
    exact = providers(QRELS, PlackettLuceExposure(2, cutoff=1)(RUN), groups, cutoff=1)
    assert by_name(sampled)["exposure"].to_dict() == pytest.approx(
        by_name(exact)["exposure"].to_dict(), abs=0.03
    )
    exact.plot(tmp_path / "lorenz.svg")
    assert (tmp_path / "lorenz.svg").read_text().count("<path") > 3


def test_gini_by_hand():
    # shares 0, 1/4, 3/4: sum over pairs of |difference| / (2 n): (1/4 + 3/4 + 1/2) / 3
    assert gini(np.array([[0.75, 0.0, 0.25]])).tolist() == [0.5]
    assert gini(np.array([[1.0, 0, 0, 0]])).tolist() == [0.75]


@settings(max_examples=10)
@given(st.permutations(range(5)), st.permutations(range(3)))
def test_order_of_rows_and_names_do_not_matter(rows, owners):
    first = providers(QRELS, RUN, OWNERS, resamples=20)
    again = providers(QRELS[::-1], RUN.iloc[list(rows)], OWNERS.iloc[list(owners)], resamples=20)
    pd.testing.assert_frame_equal(first.table, again.table)
    assert first.summary["value"].tolist() == pytest.approx(again.summary["value"].tolist())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"providers": OWNERS.assign(docno=list("xyz"))},
            InputError,
            "docno 'x' in the providers, 'a' in the run",
        ),
        ({"providers": OWNERS[:0]}, InputError, "providers"),
        ({"weights": {"1": 1.0}}, InputError, "weight of qid '2'"),
        ({"weights": {"1": 1.0, "2": -1}}, ParameterError, "weights"),
        ({"top": 0}, ParameterError, "top"),
        ({"cutoff": 0}, ParameterError, "cutoff"),
    ],
)
def test_wrong_input(options, error, message):
    with pytest.raises(error, match=message):
        providers(QRELS, RUN, **{"providers": OWNERS, **options})
