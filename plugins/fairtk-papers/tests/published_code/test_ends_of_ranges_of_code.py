"""No measure of published code is worse than that of a missing query, over all rankings."""

import pytest
from fairtk_papers.published_code import (
    EE_D_expeval,
    EE_D_fair_rag,
    EE_L_expeval,
    EE_L_fair_rag,
    EE_R_expeval,
    EE_R_fair_rag,
    GroupEE_D_expeval,
    GroupEE_L_expeval,
    GroupEE_R_expeval,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from ranges import check, labels_of_three, only, orders, policies, two_groups, values

FAIR_RAG = (EE_D_fair_rag, EE_R_fair_rag, EE_L_fair_rag)
EXPEVAL = (EE_D_expeval, EE_R_expeval, EE_L_expeval)
GROUP_EXPEVAL = (GroupEE_D_expeval, GroupEE_R_expeval, GroupEE_L_expeval)
pytestmark = [
    pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning"),
    pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning"),
]


@settings(max_examples=30, deadline=None)
@given(labels_of_three, st.sampled_from([1, 2, 3, 5]), st.integers(0, 99))
def test_fair_rag(grades, cutoff, seed):
    measures = [m(normalize=n) @ cutoff for m in FAIR_RAG for n in (True, False)]
    labels = dict(zip("abc", grades, strict=True))
    for measure, (missing, found) in values(
        measures, policies(orders("abcx"), seed), labels
    ).items():
        check(measure, missing, found, 0)


@settings(max_examples=60, deadline=None)
@given(
    labels_of_three,
    st.sampled_from(["RBP(p=0.2)", "RBP(p=0.9)", "GERR(p=0.5, u=0.9)", "GERR(p=0.9, u=0.1)"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_expeval(grades, model, complete, graded, grouped, seed):
    options = {"browsing": model, "complete": complete, "graded": graded}
    measures = EXPEVAL
    if grouped:
        options["groups"], measures = two_groups(), GROUP_EXPEVAL
    labels = dict(zip("abc", grades, strict=True))
    raw = [m(**options, normalize=False) for m in measures]
    # with complete labels there are no other documents, and its bounds are for full rankings
    rankings = list(orders("abc" if complete else "abcx"))
    for measure, (missing, found) in values(raw, policies(rankings, seed), labels).items():
        check(measure, missing, found, 0)
    full = [r for r in rankings if len(r) == 3] if complete else rankings
    normalized = [m(**options) for m in measures]
    for measure, (missing, found) in values(normalized, policies(full, seed), labels).items():
        check(measure, missing, found)


def test_expeval_raw_relevance_of_a_missing_query_is_its_worst_value():
    measure = EE_R_expeval(browsing="RBP(p=0.5)", normalize=False)
    # one useful document: target 1, so the best value is 1; the code's "worst" is 1, too
    assert only(measure, [[["a"]]], {"a": 1, "b": 0}) == (0, 1)


def test_fair_rag_raw_loss_of_a_missing_query_where_all_documents_are_useful():
    measure = EE_L_fair_rag(normalize=False) @ 5
    # n = m = 2 <= k: the code's bound divides by 0; targets 1 and 1, and 5 documents with 1: 2 + 5
    assert only(measure, [[["a", "b"]]], {"a": 1, "b": 1}) == (7, 0)
