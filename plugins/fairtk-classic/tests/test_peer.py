"""PEER: values computed manually, and against the authors' package peer-measure 0.0.1 (PyPI)."""

from unittest.mock import patch

import ir_measures
import numpy as np
import pandas as pd
import pytest
from fairtk_classic import PEER
from frames import groups, value
from scipy.stats import chi2

from fairtk.errors import InputError, ParameterError, UndefinedWarning

LANGUAGES = ["de", "fr", "zh"]
MEMBERS = {"a": "de", "b": "de", "c": "fr", "d": "fr", "e": "zh"}
TOY = groups(MEMBERS, name="language")
ONES = dict.fromkeys("abcd", 1)


def of(ranking, labels, **options):
    return value(PEER(groups=TOY, **options), ranking, labels)


def test_two_languages_by_hand():
    # ranks de 1, 2 and fr 3, 4: means 1.5 and 3.5, overall 2.5
    # H = 3 (2 (1)^2 + 2 (1)^2) / (1.5^2 + .5^2 + .5^2 + 1.5^2) = 3 x 4 / 5
    assert of(list("abcd"), ONES) == pytest.approx(chi2.sf(2.4, 1))
    # ranks de 1, 4 and fr 2, 3: equal means
    assert of(list("acdb"), ONES) == pytest.approx(1.0)
    # the ranks of the complete list: an unlabeled document first moves all ranks by one
    assert of(list("eabcd"), ONES) == pytest.approx(chi2.sf(2.4, 1))


def test_labels_are_tested_apart_and_weighted():
    # label 1: a (rank 1), c (rank 3): N = 2, means 1 and 3, H = 1 x (1 + 1) / (1 + 1) = 1
    # label 2: b (rank 2) alone: one language, p = 1
    labels = {"a": 1, "c": 1, "b": 2}
    alone = chi2.sf(1.0, 1)
    assert of(list("abc"), labels) == pytest.approx((alone + 1) / 2)
    assert of(list("abc"), labels, weights="1:0.25,2:0.75") == pytest.approx(0.25 * alone + 0.75)
    # a weighted label that the query does not have adds 0
    assert of(list("abc"), labels, weights="1:0.5,3:0.5") == pytest.approx(alone / 2)


def test_unretrieved_documents_by_hand():
    # e is at rank 1, a at 2, b at 3; c and d (fr) are not among the first 3, N = 4, u = 2.
    # published: rank 4 + 3/2 = 5.5 each: means de 2.5, fr 5.5, overall 4;
    # H = 3 (2 x 1.5^2 x 2) / (2^2 + 1^2 + 2 x 1.5^2) = 27 / 9.5
    assert of(list("eabcd"), ONES, cutoff=3) == pytest.approx(chi2.sf(27 / 9.5, 1))
    # last: rank 3 + 3/2 = 4.5: overall 3.5, deviations 1.5, .5, 1, 1: H = 3 (4 x 1) / 4.5
    same = of(list("eabcd"), ONES, cutoff=3, unretrieved="last")
    assert same == pytest.approx(chi2.sf(12 / 4.5, 1))
    # nothing relevant is retrieved
    assert of(["e"], {**ONES, "e": 0}) == 1.0


def test_equal_ranks_are_no_difference():
    # c is at rank 3, a is not retrieved: 2 + (1 + 1) / 2 = 3, too
    assert of(list("debca")[1:4], {"a": 1, "c": 1}, cutoff=3) == 1.0


def test_documents_without_a_language():
    # x has none; its rank stays, so a is at 2 and c at 3: N = 2, H = 1
    labels = {"x": 1, "a": 1, "c": 1}
    assert of(list("xac"), labels) == pytest.approx(chi2.sf(1.0, 1))


def test_undefined_and_invalid():
    with pytest.warns(UndefinedWarning, match="'q'.*weighted label"):
        assert np.isnan(of(list("abc"), {"a": 0}))
    for wrong in ("1:0.5", "1", "1:0.5,1:0.5", "1:-1,2:2", "x:1", ""):
        with pytest.raises(ParameterError, match="weights"):
            PEER(weights=wrong)
    both = groups({"a": {"de": 0.5, "fr": 0.5}, "b": "fr"})
    with pytest.raises(InputError, match="'a'"):
        value(PEER(groups=both), ["a", "b"])


def lists(seed, n_queries=4):
    """Return random languages, qrels and a run; some relevant documents are not in the run."""
    rng = np.random.default_rng(seed)
    docnos = [f"d{i:03}" for i in range(60)]
    members = dict(zip(docnos, rng.choice(LANGUAGES, len(docnos)).tolist(), strict=True))
    run, qrels = {}, {}
    for q in range(n_queries):
        order = rng.permutation(docnos)[:40].tolist()
        run[f"q{q}"] = {d: float(40 - i) for i, d in enumerate(order)}
        qrels[f"q{q}"] = dict(zip(docnos, rng.integers(0, 4, len(docnos)).tolist(), strict=True))
    return members, qrels, run


def values(seed, weights, cutoff):
    members, qrels, run = lists(seed)
    text = ",".join(f"{label}:{weight}" for label, weight in weights.items())
    measure = PEER(groups=groups(members, name="language"), weights=text) @ cutoff
    return {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}


GOLDEN = {
    1: [0.5312546203974283, 0.6889386146885356, 0.5237983390090284, 0.4609062414244825],
    2: [0.3652857936618297, 0.4786553108244418, 0.6513547138628144, 0.6039902994906643],
    3: [0.4278365757066952, 0.37260252136930516, 0.5720883486362984, 0.320912331357081],
}


@pytest.mark.parametrize("seed", GOLDEN)
def test_values_of_the_package(seed):
    """The values of peer-measure 0.0.1 for `lists(seed)` at 20."""
    result = values(seed, {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}, 20)
    assert [result[f"q{q}"] for q in range(4)] == pytest.approx(GOLDEN[seed], rel=1e-9)


def values_of_the_package(package, seed, weights, cutoff):
    members, qrels, run = lists(seed)
    measure = package.PEER(weights=weights, lang_mapping=members) @ cutoff
    # its provider calls a function that newer versions of ir_measures do not have
    evaluator = package.PEEREvaluator([measure], qrels, {0: [(cutoff, measure)]}, {0: members})
    return {m.query_id: float(m.value) for m in evaluator._iter_calc(run)}


@pytest.fixture(scope="module")
def package():
    """Return the package, imported without a trace in ir_measures, which has our PEER."""
    names = ir_measures.measures.registry
    with (
        patch.dict(names),
        patch.dict(ir_measures.providers.registry),
        patch.object(ir_measures.DefaultPipeline, "providers", []),
    ):
        names.pop("PEER", None)
        return pytest.importorskip("peer_measure")


@pytest.mark.parametrize("seed", range(10))
def test_the_package_itself(package, seed):
    for weights, cutoff in (({1: 0.5, 3: 0.5}, 10), ({0: 0.4, 2: 0.6}, 25), ({1: 1.0}, 40)):
        expected = values_of_the_package(package, seed, weights, cutoff)
        assert values(seed, weights, cutoff) == pytest.approx(expected, rel=1e-9)


def test_samples_are_averaged():
    samples = [list("abcd"), list("acdb")]
    assert value(PEER(groups=TOY), samples, ONES) == pytest.approx((chi2.sf(2.4, 1) + 1) / 2)


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_a_query_missing_from_the_run():
    qrels = pd.DataFrame({"query_id": ["p", "q"], "doc_id": ["a", "a"], "relevance": [1, 1]})
    run = pd.DataFrame({"query_id": ["q"], "doc_id": ["a"], "score": [1.0]})
    result = {m.query_id: m.value for m in ir_measures.iter_calc([PEER(groups=TOY)], qrels, run)}
    assert result == {"p": 0.0, "q": 1.0}
