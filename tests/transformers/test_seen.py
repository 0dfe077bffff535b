"""Who is seen in a session: values computed manually, sessions, what is passed on, refusals."""

from __future__ import annotations

import contextlib
import copy
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_agents import Catalog, Drawn, Scripted

import fairtk
from fairtk import FairSampler, Groups, PerSample, PlackettLuceExposure, Seen, Target
from fairtk.errors import ColumnError, DataWarning, DuplicateError, InputError, ParameterError
from fairtk.exposure import Fitted
from fairtk.plugins import registry
from fairtk.testing import toy_groups, toy_qrels, toy_run

RUN, QRELS = toy_run(), toy_qrels()
GROUPS = Groups.from_frame(toy_groups(), name="toy")
QUESTION = pd.DataFrame({"qid": ["q"], "query": ["a,b"]})


def search(seen, *queries, qid="q"):
    for query in queries:
        seen(pd.DataFrame({"qid": [qid], "query": [query]}))


def values(frame):
    return dict(zip(frame["docno"], frame["exposure"], strict=True))


def test_two_turns_by_hand():
    """Each of two documents is first with probability 1/2, in both turns, independently.

    The samples are all four cases. A document is first in turn 1 or 2 in three of four: 3/4. The
    sum of its attention is 2, 1, 1, 0: 1 on average.
    """
    ab, ba = "ab", "ba"
    seen = Seen(Drawn([ab, ab, ba, ba], [ab, ba, ab, ba]))
    seen(QUESTION), seen(QUESTION)
    assert values(seen.exposure(cutoff=1)) == {"a": 0.75, "b": 0.75}
    assert values(seen.exposure("total", "MU", 1)) == {"a": 1.0, "b": 1.0}


def test_weights_by_hand():
    """RBP(p=0.5) has the weights 1, 1/2, 1/4: c gets 1/4 and 1/2; 1 - 3/4 x 1/2 = 5/8, 3/4."""
    seen = Seen(Catalog())
    search(seen, "a,b,c", "a,c")
    rbp = {"browsing": "RBP(p=0.5)", "cutoff": None}
    assert values(seen.exposure(**rbp)) == {"a": 1.0, "b": 0.5, "c": 0.625}
    assert values(seen.exposure("total", **rbp)) == {"a": 2.0, "b": 0.5, "c": 0.75}
    frame = seen.exposure(**rbp)
    assert list(frame["docno"]) == ["a", "c", "b"] and list(frame["rank"]) == [0, 1, 2]
    assert frame["score"].equals(frame["exposure"].rename("score"))
    assert set(frame["browsing"]) == {"RBP(p=0.5)"} and frame["cutoff"].isna().all()


def test_records():
    seen = Seen(Catalog())
    search(seen, "b,a")
    search(seen, "c")
    search(seen, "a", qid="r")
    rows = [("q", 0, 0, 1, "b,a", "b", 0), ("q", 0, 0, 1, "b,a", "a", 1)]
    rows += [("q", 0, 0, 2, "c", "c", 0), ("r", 0, 0, 1, "a", "a", 0)]
    names = ["qid", "session", "sample", "turn", "query", "docno", "rank"]
    expected = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(("qid", "query"), "str"))
    pd.testing.assert_frame_equal(seen.records, expected.astype({"docno": "str"}))
    seen.clear()
    assert seen.records.empty and list(seen.records.columns) == names


turns = st.lists(st.permutations("abcd").map(lambda p: "".join(p[:3])), min_size=3, max_size=3)


@given(st.lists(turns, min_size=1, max_size=4), st.sampled_from(["MU", "DCG", "RBP(p=0.3)"]))
def test_against_the_formula(table, browsing):
    """Three samples per turn; the formulas for each document and sample, then the mean."""
    seen, cutoff = Seen(Drawn(*table)), 2
    for _ in table:
        seen(QUESTION)
    weights = {"MU": [1, 1], "DCG": [1, 1 / np.log2(3)], "RBP(p=0.3)": [1, 0.3]}[browsing]
    ever, total = seen.exposure("ever", browsing, cutoff), seen.exposure("total", browsing, cutoff)
    for docno in seen.records["docno"].unique():
        rank = np.array([[s.find(docno) for s in rankings] for rankings in table])
        attention = np.where((rank < 0) | (rank >= 2), 0, np.array(weights)[np.clip(rank, 0, 1)])
        by_hand = (1 - (1 - attention).prod(axis=0)).mean(), attention.sum(axis=0).mean()
        assert values(ever)[docno] == pytest.approx(by_hand[0], abs=1e-12)
        assert values(total)[docno] == pytest.approx(by_hand[1], abs=1e-12)


def accepting(model):
    """Yield the registered measures that accept a frame X and this browsing model."""
    for name in registry.measures.names():
        measure = registry.measures.get(name)
        if "browsing" in measure.SUPPORTED_PARAMS and measure.supports_exact_exposure:
            options = {"groups": GROUPS, "target": Target.uniform(GROUPS)}
            options = {n: v for n, v in options.items() if n in measure.SUPPORTED_PARAMS}
            with contextlib.suppress(ParameterError):  # measures of published code have few models
                measure = measure(browsing=model, **options) @ 3
                yield from () if measure.parts else (measure,)  # parts have their own models


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("name", registry.browsing_models.names())
def test_one_turn_of_a_sampler_has_the_values_of_its_rankings(name):
    """In each browsing model of ranks, for each measure that accepts exposure."""
    kind = registry.browsing_models.get(name)
    model = kind((0.5, 1.0, 0.2)) if name == "Fitted" else kind(**kind.typical)
    seen = Seen(FairSampler(alpha=2, n_samples=5, seed=3))
    samples = seen(RUN)
    if model.stop:
        with pytest.raises(ParameterError, match=name):
            seen.exposure(browsing=model)
        return
    measures = list(accepting(model))
    assert {"EE_D", "GroupEE_L", "AWRF"} <= {measure.NAME for measure in measures}
    for mode in ("ever", "total"):
        runs = {"seen": seen.exposure(mode, model, 3), "samples": samples}
        means = fairtk.evaluate(QRELS, runs, measures).means
        np.testing.assert_allclose(means.loc["seen"], means.loc["samples"], atol=1e-12)


@pytest.mark.parametrize(
    "retriever",
    [
        Catalog(),
        Catalog() >> FairSampler(n_samples=3),
        Catalog() % 1,
        Catalog() >> pt.apply.query(len),
    ],
)
def test_results_are_passed_on(retriever):
    topics = pd.DataFrame({"qid": ["1", "2"], "query": ["a,b", "c,d,e"]})
    for frame in (topics, topics[:0]):
        pd.testing.assert_frame_equal(Seen(retriever)(frame), retriever(frame))


def test_the_cutoff_of_an_agent_is_that_of_the_records():
    seen = Seen(Catalog())
    top = seen % 2
    assert list(top(QUESTION.assign(query="a,b,c"))["docno"]) == ["a", "b"]
    assert values(seen.exposure(cutoff=5)) == {"a": 1.0, "b": 1.0}
    assert top == Seen(Catalog() % 2) != seen


def test_sessions_are_samples():
    seen = Seen(Catalog())
    search(seen, "a", "b")
    seen.new_session()
    search(seen, "a")
    assert values(seen.exposure()) == {"a": 1.0, "b": 0.5}
    assert seen.records["session"].tolist() == [0, 0, 1]
    assert seen.records["turn"].tolist() == [1, 2, 1]


@pytest.mark.parametrize("joint", [False, True])
def test_samples_of_an_agent_are_sessions(joint):
    """Sample 0 searches a, then b; sample 1 searches b only."""
    seen = Seen(Catalog())
    topics = pd.DataFrame({"qid": "q", "query": ["a;b", "b"], "sample": [0, 1]})
    PerSample(Scripted(seen), joint=joint)(topics)
    assert values(seen.exposure()) == {"b": 1.0, "a": 0.5}
    assert set(seen.records["qid"]) == {"q"}


def test_a_sampler_in_several_sessions():
    """Session 0 has two samples, session 1 has one: c is in 1 of 2 and 0 of 1, so 1/4."""
    seen = Seen(Drawn(["a", "c"], ["a"]))
    seen(QUESTION)
    seen.new_session()
    seen(QUESTION)
    assert values(seen.exposure(cutoff=1)) == {"a": 0.75, "c": 0.25}


def test_threads():
    seen, start = Seen(Catalog()), threading.Barrier(4)

    def run(number):
        start.wait()
        for i in range(15):
            search(seen, f"d{i}", qid=f"q{number}")
            search(seen, f"d{i}", qid="all")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    n_turns = seen.records.groupby("qid")["turn"].agg(["size", "max", "nunique"])
    assert n_turns.loc["all"].tolist() == [60] * 3
    assert (n_turns.drop("all") == 15).all(axis=None) and len(n_turns) == 5


def test_parents_are_kept():
    passages = pd.DataFrame(
        {"qid": "q", "docno": ["d%p1", "d%p2"], "score": [2.0, 1], "parent": "d"}
    )
    seen = Seen(pt.Transformer.from_df(passages))
    seen(QUESTION)
    frame = seen.exposure("total", cutoff=2)
    assert list(frame["parent"]) == ["d", "d"]
    qrels = pd.DataFrame({"qid": ["q"], "docno": ["d"], "label": [1]})
    means = [fairtk.evaluate(qrels, f, ["EE_D@2"]).means for f in (frame, passages)]
    assert means[0].iloc[0, 0] == means[1].iloc[0, 0]


def test_questions_without_a_turn_are_named():
    seen = Seen(Catalog())
    with pytest.raises(InputError, match="no search"):
        seen.exposure()
    with pytest.raises(InputError, match="'q'"):
        seen.exposure(topics=QUESTION)
    search(seen, "a", qid="r")
    with pytest.warns(DataWarning, match="'q'") as caught:
        assert values(seen.exposure(topics=pd.DataFrame({"qid": ["q", "r"]}))) == {"a": 1.0}
    assert caught[0].filename == __file__
    seen.new_session()
    search(seen, "a", qid="q")
    with pytest.warns(DataWarning, match="2 sessions.*'r', 'q'"):
        assert list(seen.exposure()["exposure"]) == [0.5, 0.5]
    seen = Seen(Catalog())
    search(seen, "")  # a turn without documents
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert seen.exposure().empty


def test_refusals():
    with pytest.raises(ParameterError, match="retriever"):
        Seen(lambda frame: frame)
    seen = Seen(Catalog())
    with pytest.raises(DuplicateError, match="'q'"):
        seen(pd.concat([QUESTION, QUESTION]))
    search(seen, "a,b")
    with pytest.raises(ParameterError, match=r"ever.*2.*Fitted.*total"):
        seen.exposure("ever", Fitted(weight=(2.0, 1.0)))
    assert values(seen.exposure("total", Fitted(weight=(2.0, 1.0)))) == {"a": 2.0, "b": 1.0}
    with pytest.raises(ParameterError, match="cutoff"):
        seen.exposure(cutoff=None)
    with pytest.raises(ParameterError, match="GERR"):
        seen.exposure(browsing="GERR")
    with pytest.raises(ParameterError, match="mode.*'sum'"):
        seen.exposure("sum")
    with pytest.raises(InputError, match="browsing"):
        fairtk.evaluate(QRELS.head(1).assign(qid="q"), seen.exposure(), ["EE_D(browsing='DCG')@5"])
    with pytest.raises(ColumnError, match="exact exposure"):
        Seen(Catalog() >> PlackettLuceExposure())(QUESTION)
    with pytest.raises(ColumnError, match="docno"):
        Seen(pt.apply.generic(lambda frame: frame))(QUESTION)
    repeated = pd.DataFrame({"qid": "q", "docno": ["a", "a"], "score": [2.0, 1.0]})
    with pytest.raises(DuplicateError, match="'a'"):
        Seen(pt.Transformer.from_df(repeated))(QUESTION)
    mixed = Seen(Drawn(["a", "b"], ["a", "b"]))
    mixed(QUESTION)
    mixed.retriever.transform = Catalog().transform
    mixed(QUESTION)
    with pytest.raises(InputError, match="'q'"):
        mixed.exposure()


def test_copies_keep_their_records():
    seen = Seen(Catalog())
    search(seen, "a")
    for other in (pickle.loads(pickle.dumps(seen)), copy.deepcopy(seen)):
        search(other, "b")
        assert values(other.exposure()) == {"a": 1.0, "b": 1.0} and other == seen
    assert values(seen.exposure()) == {"a": 1.0}
