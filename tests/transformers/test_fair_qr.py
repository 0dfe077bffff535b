"""The whole loop of FAIR-QR on a few invented documents and a small retriever."""

from __future__ import annotations

import json
import math
import pickle
import re
from functools import partial

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk import AWRF, BM25Scorer, Groups, Target, stage_context
from fairtk.errors import (
    ColumnError,
    DataWarning,
    DuplicateError,
    InputError,
    NotFoundError,
    ParameterError,
)
from fairtk.exposure.browsing import GERR, RBP
from fairtk.groups import JensenShannon, KullbackLeibler, ReverseKullbackLeibler
from fairtk.llm import KeywordRefiner
from fairtk.testing import TransformerContract
from fairtk.transformers.fair_qr.transformer import FairQR

TERMS = {"f": ["woman"], "m": ["man"]}
# Six documents on ships and six on chess: of each four men (who come first) and two women.
DOCS = pd.DataFrame(
    [
        (f"{topic[0]}{i}", f"{topic} " * (6 - i) + ("woman" if i > 3 else "man") + " x" * i)
        for topic in ("ships", "chess")
        for i in range(6)
    ],
    columns=["docno", "text"],
)
GROUPS = Groups.from_frame(
    pd.DataFrame({"docno": DOCS["docno"], "group": ["m", "m", "m", "m", "f", "f"] * 2}),
    name="gender",
)
HALF = Target.uniform(GROUPS)


class Search(pt.Transformer):
    """Q -> R: the number of the query's words in a document (a real, if simple, retriever)."""

    def __init__(self, docs=DOCS):
        super().__init__()
        self.docs = docs
        self.calls = []

    def transform(self, inp):
        pt.validate.query_frame(inp, extra_columns=["query"])
        if len(inp):
            self.calls.append(inp["query"].tolist())
        rows = []
        for topic in inp.itertuples():
            for doc in self.docs.itertuples():
                words = doc.text.split()
                score = sum((3.0 if w in TERMS["f"] else 1.0) * words.count(w)
                            for w in topic.query.split())  # fmt: skip
                if score:
                    rows.append((topic.qid, topic.query, doc.docno, score, doc.text))
        out = pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "text"])
        out = out.sort_values(["qid", "score", "docno"], ascending=[True, False, True])
        return out.assign(rank=out.groupby("qid").cumcount().astype("int64"))

    def __repr__(self):
        return f"Search({len(self.docs)})"

    def digest(self):
        return repr(self)

    def __eq__(self, other):
        return repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))


def topics(*rows, **columns):
    rows = rows or (("1", "ships"), ("2", "chess"))
    return pd.DataFrame(rows, columns=["qid", "query"]).assign(**columns)


def fair_qr(llm=None, **options):
    llm = KeywordRefiner(TERMS) if llm is None else llm
    settings = {"depth": 3, "retriever": Search(), "groups": GROUPS, "target": HALF} | options
    return FairQR(llm=llm, **settings)


def answering(*answers):
    """Return a model whose n-th round gives the n-th answer to all (a dict: by original query)."""
    rounds = iter(answers)

    def model(prompts):
        answer = next(rounds)
        if isinstance(answer, str):
            return [answer] * len(prompts)
        return [answer[re.search("Original query: (.*)", p)[1]] for p in prompts]

    return model


short = partial(fair_qr, max_iterations=1)


class TestContract(TransformerContract):
    def make(self):
        return short()

    def others(self):
        return [
            short(depth=2),
            short(k=5),
            short(threshold=0.1),
            short(pool="refined"),
            short(rerank=False),
            short(reranker=BM25Scorer()),
            short(temperature=None),
            short(prompt="refine-few-shot"),
            short(KeywordRefiner({"f": ["her"], "m": ["he"]})),
        ]

    def other_values(self):
        groups = GROUPS.to_frame()
        groups["group"] = groups["group"].map({"f": "m", "m": "f"})
        labels = pd.DataFrame({"qid": ["1", "2"], "docno": ["s0", "c5"], "label": [1, 1]})
        return {
            "retriever": Search(DOCS[:9]),
            "groups": Groups.from_frame(groups, name="gender"),
            "target": Target.population({"f": 0.2, "m": 0.8}, GROUPS),
            **{"choose": "ratio", "divergence": "js", "rerank": "exposure", "qrels": labels},
            **{"browsing": "RBP(p=0.8)", "unlabeled": "unknown", "failed": "keep"},
        }

    def inp(self):
        return topics(n=[1, 2])


def test_one_query_by_hand():
    system = fair_qr(rerank=False)
    out = system(topics(("1", "ships"), n=[7]))
    # "ships": s0, s1, s2, all men: shares (0, 1), smoothed by .01: (.005, .995) against a half:
    # .005 ln .01 + .995 ln 1.99 = .6618. "ships woman": 2 + 3, 1 + 3, 6: s0 (6), s4 (5), s1 (5)
    trace = system.trace
    first, second = trace.iloc[0], trace.iloc[1]
    assert first["divergence"] == pytest.approx(0.005 * math.log(0.01) + 0.995 * math.log(1.99))
    assert (first["share:f"], first["share:m"], first["group"]) == (0.0, 1.0, "")
    assert (second["query"], second["added"], second["group"]) == ("ships woman", "woman", "f")
    # attention 1, 1, 1/log2(3) = .6309: a woman at rank 2 (or 3, by the order of ties) of 3
    women = {0: 1 / 2.6309, 1: 1 / 2.6309, 2: 0.6309 / 2.6309}
    rank = out["docno"].tolist().index("s4")
    assert second["share:f"] == pytest.approx(women[rank], abs=1e-4)
    assert out["query"].tolist() == ["ships"] * 3 and out["n"].tolist() == [7] * 3
    assert set(out["docno"]) == {"s0", "s1", "s4"} and "s4" not in {"s0", "s1"}
    assert second["kept"] and trace.iloc[-1]["note"] in (
        "no new keywords", "divergence at most the threshold"
    )  # fmt: skip
    # the trace's AWRF is the measure's
    run = Search()(topics(("1", "ships woman")))
    [value] = (AWRF(groups=GROUPS, target=HALF) @ 3).iter_calc(
        pd.DataFrame({"query_id": ["1"], "doc_id": ["s0"], "relevance": [1]}),
        run.rename(columns={"qid": "query_id", "docno": "doc_id"}),
    )
    assert second["AWRF"] == pytest.approx(value.value)


def test_all_queries_take_a_step_together():
    search = Search()
    n_prompts = []

    def model(prompts):
        n_prompts.append(len(prompts))
        return answering({"ships": "ships, woman", "chess": "chess, woman"})(prompts)

    out = fair_qr(model, retriever=search, max_iterations=1)(topics())
    assert search.calls == [["ships", "chess"], ["ships woman", "chess woman"]] and n_prompts == [2]
    assert out.groupby("qid")["docno"].agg(lambda d: d.isin(["s4", "c4", "s5", "c5"]).any()).all()


def test_reranking_orders_the_pool_by_the_original_query():
    plain = fair_qr(rerank=False, max_iterations=1)(topics(("1", "ships")))
    out = fair_qr(max_iterations=1)(topics(("1", "ships")))
    assert set(out["docno"]) == set(plain["docno"])
    assert out["docno"].tolist() == ["s0", "s1", "s4"]  # 6, 5 and 2 times "ships"
    assert out["score"].tolist() == [6.0, 5.0, 2.0] and out["rank"].tolist() == [0, 1, 2]
    bm25 = fair_qr(max_iterations=1, reranker=BM25Scorer())(topics(("1", "ships")))
    assert set(bm25["docno"]) == set(out["docno"]) and "text" in bm25


@pytest.mark.parametrize("judged", [True, False])
def test_a_reranker_is_measured_on_the_way_if_there_are_qrels(judged):
    qrels = pd.DataFrame({"qid": "1", "docno": ["s0", "s4"], "label": 1}) if judged else None
    one = fair_qr(max_iterations=1, reranker=BM25Scorer(), qrels=qrels)
    one(topics(("1", "ships")))
    assert ("AWRF_reranked" in one.trace.columns) == judged
    assert ("nDCG_reranked" in one.trace.columns) == judged


def test_documents_without_a_first_score_come_last():
    docs = pd.concat([DOCS, pd.DataFrame([("z", "woman woman")], columns=["docno", "text"])])
    groups = Groups.from_frame(
        pd.concat(
            [GROUPS.to_frame(), pd.DataFrame({"docno": ["z"], "group": ["f"], "weight": [1.0]})]
        ),
        name="gender",
    )
    out = fair_qr(retriever=Search(docs), groups=groups, target=Target.uniform(groups))(
        topics(("1", "ships"))
    )
    assert out["docno"].iloc[-1] == "z" and out["score"].is_monotonic_decreasing


def test_pools():
    def run(**options):
        found = fair_qr(k=3, max_iterations=1, **options)(topics(("1", "ships")))
        return found["docno"].tolist()

    assert set(run(pool="refined")) == set(run(pool="last"))
    with pytest.warns(DataWarning, match="'union'"):
        everything = run(pool="union")
    assert everything[:3] == ["s0", "s1", "s2"] and len(everything) == 4  # the no-op
    assert set(run(pool="union", rerank=False)) == set(everything)
    assert run(pool="union", rerank=False)[:3] == run(pool="last", rerank=False)


def test_the_best_list_is_kept_when_the_divergence_rises():
    # after "ships woman" (one woman among three), only men
    system = fair_qr(answering("ships, woman", "ships, man"), rerank=False, threshold=0.0)
    out = system(topics(("1", "ships")))
    assert "s4" in set(out["docno"])
    trace = system.trace
    assert trace["kept"].tolist() == [True, True, False]
    assert trace["note"].tolist()[-1] == "divergence did not fall; the earlier list is kept"
    assert trace["dropped"].tolist()[-1] == "woman" and trace["added"].tolist()[-1] == "man"


@pytest.mark.filterwarnings("ignore:.*share no word with the query")
def test_stops():
    def note(*answers, **options):
        system = fair_qr(answering(*answers), **options)
        system(topics(("1", "ships")))
        return system.trace["note"].iloc[-1], len(system.trace)

    assert note(threshold=1.0) == ("divergence at most the threshold", 1)
    assert note(max_iterations=0) == ("max_iterations reached", 1)
    assert note("ships, woman", max_iterations=1, threshold=0.0) == ("max_iterations reached", 2)
    assert note("Ships") == ("no new keywords", 2)
    assert note("xylophone") == ("nothing was retrieved; the earlier list is kept", 2)
    only_men = Target.from_frame(pd.DataFrame({"group": ["m"], "weight": [1.0]}), GROUPS)
    assert note(target=only_men) == ("divergence at most the threshold", 1)


def test_a_target_with_one_group():
    only_women = Target.from_frame(pd.DataFrame({"group": ["f"], "weight": [1.0]}), GROUPS)
    system = fair_qr(target=only_women)
    out = system(topics(("1", "ships")))
    assert "s4" in set(out["docno"]) and set(system.trace["group"]) == {"", "f"}
    assert np.isfinite(system.trace["divergence"].iloc[0])


@pytest.mark.filterwarnings("ignore:.*they keep their list")
def test_failed_calls_leave_the_query_missing_and_named():
    answers = {"ships": "I'm sorry, I can't help.", "chess": "chess, woman"}
    system = fair_qr(answering(answers), max_iterations=1)
    with pytest.warns(DataWarning, match="1 of 2"):
        out = system(topics())
    assert set(out["qid"]) == {"2"}
    [row] = system.missing.to_dict("records")
    assert (row["qid"], row["iteration"]) == ("1", 1) and "refused" in row["reason"]
    keeping = fair_qr(answering(answers), max_iterations=1, failed="keep")
    assert set(keeping(topics())["qid"]) == {"1", "2"} and keeping.missing.empty
    assert "refused" in keeping.trace.set_index(["qid", "iteration"]).loc[("1", 1), "note"]
    again = fair_qr(answering(answers), max_iterations=1, failed="keep")
    [row] = again.refine(topics()).kept.to_dict("records")
    assert (row["qid"], row["iteration"]) == ("1", 1) and "refused" in row["reason"]
    # done again with better luck, the query is no longer missing
    system.llm = fair_qr(answering("ships, woman")).llm
    assert set(system(topics(("1", "ships")))["qid"]) == {"1"}
    assert system.missing.empty and set(system.trace["qid"]) == {"1"}  # of the last call


def test_no_groups_at_all():
    other = Groups.from_frame(pd.DataFrame({"docno": ["q", "r"], "group": ["f", "m"]}), name="g")
    system = fair_qr(groups=other, target=Target.uniform(other))
    with pytest.warns(DataWarning, match="2 of 2"):
        out = system(topics())
    assert out["docno"].tolist() == ["s0", "s1", "s2", "c0", "c1", "c2"]
    assert system.trace["divergence"].isna().all() and len(system.trace) == 2


def test_no_target_nothing_retrieved_and_few_documents():
    targets = Target.from_frame(
        pd.DataFrame({"qid": ["1", "1"], "group": ["f", "m"], "weight": [0.5, 0.5]}), GROUPS
    )
    system = fair_qr(target=targets, depth=50)
    with pytest.warns(DataWarning, match="1 of 3.*'2'"):
        out = system(topics(("1", "ships"), ("2", "chess"), ("3", "xylophone")))
    # fewer than depth; "ships woman" finds the two women of chess, too
    assert out.groupby("qid").size().to_dict() == {"1": 8, "2": 6}
    notes = system.trace.groupby("qid")["note"].last()
    assert notes["2"] == "there is no target" and notes["3"] == "nothing was retrieved"
    assert system.trace["retrieved"].tolist()[0] == 6


def test_unknown_is_measured_and_never_asked_for():
    frame = GROUPS.to_frame()
    frame.loc[frame["group"] == "m", "group"] = "@UNKNOWN"
    groups = Groups.from_frame(frame, name="gender")
    target = Target.from_frame(
        pd.DataFrame({"group": ["f", "@UNKNOWN"], "weight": [0.3, 0.7]}), groups
    )
    system = fair_qr(groups=groups, target=target)
    system(topics())
    assert "@UNKNOWN" not in set(system.trace["group"]) and "share:@UNKNOWN" in system.trace


def test_relevance_in_the_trace():
    qrels = pd.DataFrame({"qid": ["1", "1"], "docno": ["s0", "s4"], "label": [1, 1]})
    system = fair_qr(qrels=qrels, max_iterations=1)
    out = system(topics())
    assert out.equals(fair_qr(max_iterations=1)(topics()))
    trace = system.trace.set_index(["qid", "iteration"])
    # s0 at rank 1 of an ideal 1 + 1; then s0 and s4 at ranks 1 and 3: 1.6309 / 2
    assert trace.loc[("1", 0), "nDCG"] == pytest.approx(0.5)
    assert trace.loc[("1", 1), "nDCG_reranked"] == pytest.approx(1.6309 / 2, abs=1e-4)
    assert trace.loc["2", "nDCG"].isna().all()
    assert {"AWRF_reranked", "seconds", "prompt_tokens"} <= set(trace.columns)


def test_the_trace_before_and_after():
    system = fair_qr()
    assert system.trace.empty
    assert system(topics()[:0]).empty and system.trace.empty
    system(topics())
    columns = list(system.trace.columns)
    assert columns == list(fair_qr().trace.columns)
    assert columns[:6] == ["qid", "iteration", "query", "added", "dropped", "group"]
    assert "woman" in system.trace.to_string()


def test_refine_returns_all_and_keeps_nothing():
    system = fair_qr()
    outcome = system.refine(topics())
    assert system.trace.empty and system.missing.empty
    assert system(topics()).equals(outcome.run) and system.trace.equals(outcome.trace)
    assert outcome.missing.empty and "2 queries, 0 of them missing" in repr(outcome)
    copy = pickle.loads(pickle.dumps(system))
    assert copy == system and copy.trace.equals(outcome.trace) and copy.missing.empty


def test_browsing_models_and_divergences_are_read_from_strings():
    system = fair_qr(browsing="RBP(p=0.8)", divergence="kl(smoothing=0.1)")
    assert system.browsing == RBP(p=0.8) and system.divergence == KullbackLeibler(smoothing=0.1)
    assert fair_qr(divergence="js").divergence == JensenShannon()
    assert fair_qr(smoothing=0.2).divergence == KullbackLeibler(smoothing=0.2)
    same = fair_qr(divergence=ReverseKullbackLeibler(smoothing=0.01))
    assert same(topics()).equals(fair_qr(divergence="reverse-kl")(topics()))


def test_estimate():
    found = fair_qr(max_iterations=4).estimate(topics())
    assert (found.calls, found.recorded, found.completion_tokens, found.price) == (8, 0, 0, 0)
    assert 8 * 50 < found.prompt_tokens < 8 * 500
    unknown = fair_qr(answering(), max_iterations=1).estimate(topics())
    assert unknown.calls == 2 and math.isnan(unknown.price)


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    system = fair_qr(qrels=pd.DataFrame({"qid": ["1"], "docno": ["s0"], "label": [1]}))
    system(topics())
    figure = system.plot_trace("1")
    figure.savefig(tmp_path / "trace.png")
    above, below = figure.axes
    labels = [text.get_text() for text in above.get_legend().get_texts()]
    assert labels == ["divergence", "AWRF", "nDCG", "nDCG re-ranked"]
    assert {text.get_text() for text in below.get_legend().get_texts()} == {"f", "m"}
    with pytest.raises(NotFoundError, match="'9'"):
        system.plot_trace("9")


def test_choosing_by_hand():
    from fairtk.transformers.fair_qr.ordering import under_represented

    share = np.array([[0.8, 0.2, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.2, 0.4, 0.4, 0.0]])
    target = np.array([[0.3, 0.45, 0.05, 0.2], [0.4, 0.1, 0.3, 0.2], [0.2, 0.4, 0.4, 0.0]])
    known = np.array([True, True, True, False])
    # lacks .25 and .05 (the unknown .2 does not count); .1 and .3; nothing
    assert under_represented(share, target, known, "difference").tolist() == [1, 2, -1]
    # target / share 2.25, infinite; infinite twice: the larger target
    assert under_represented(share, target, known, "ratio").tolist() == [2, 2, -1]


@pytest.mark.parametrize(
    "options",
    [
        {"choose": "most"},
        {"divergence": "lk"},
        {"divergence": 3},
        {"pool": "all"},
        {"failed": "drop"},
        {"threshold": math.nan},
        {"smoothing": 1},
        {"depth": 0},
        {"k": 0},
        {"max_iterations": -1},
        {"reranker": 3},
        {"prompt": "rag"},
        {"browsing": GERR()},
        {"browsing": "RPB(p=0.8)"},
    ],
)
def test_bad_settings(options):
    with pytest.raises(ParameterError, match=rf"\b{[*options][-1]}\b"):
        fair_qr(**options)


def test_bad_input():
    with pytest.raises(DuplicateError, match="qid '1'"):
        fair_qr()(topics(("1", "a"), ("1", "b")))
    with pytest.raises(InputError, match="qid '1'"):
        fair_qr()(topics(("1", None)))
    with pytest.raises(ColumnError, match="FairQR"):
        fair_qr()(topics().drop(columns="query"))
    with pytest.raises(ColumnError, match="qrels"):
        fair_qr(qrels=topics())
    with pytest.raises(InputError):
        fair_qr(reranker=pt.apply.generic(lambda frame: frame[:0]))(topics())
    other = Target.uniform(Groups.from_frame(GROUPS.to_frame().replace("f", "x"), name="gender"))
    with pytest.raises(InputError):
        fair_qr(target=other)


def test_with_pisa(tmp_path):
    pisa = pytest.importorskip("pyterrier_pisa")
    index = pisa.PisaIndex(str(tmp_path / "index"), text_field="text", threads=1)
    index.index(DOCS.to_dict("records"))
    bm25 = index.bm25(num_results=10, threads=1)
    women = Target.from_frame(pd.DataFrame({"group": ["f", "m"], "weight": [0.7, 0.3]}), GROUPS)
    system = FairQR(bm25, GROUPS, women, KeywordRefiner(TERMS), depth=6)
    out = system(topics())
    best = system.trace[system.trace["kept"]].groupby("qid")["divergence"]
    assert (best.last() < best.first()).all() and (system.trace["iteration"] <= 2).all()
    # the four women come first for "ships woman", those of chess last for "ships"
    found = out.groupby("qid")["docno"].agg(list)
    assert found["1"][:4] == ["s0", "s1", "s4", "s5"] and set(found["1"][4:]) == {"c4", "c5"}
    assert found["2"][:4] == ["c0", "c1", "c4", "c5"] and set(found["2"][4:]) == {"s4", "s5"}


def test_an_experiment_keeps_waits_and_traces(tmp_path):
    system = fair_qr(answering("ships, woman"), max_iterations=1)
    outcome = system.refine(topics(("1", "ships")))
    system = fair_qr(answering("ships, woman"), max_iterations=1)
    notes = {}
    with stage_context.changed(notes=(system, notes)):
        run = system.transform(topics(("1", "ships")))
    assert run.equals(outcome.run) and list(notes) == ["1"] and notes["1"]["waited"] > 0
    trace = pd.DataFrame(json.loads(json.dumps(notes["1"]["trace"])))
    assert trace.drop(columns="seconds").equals(outcome.trace.drop(columns="seconds"))
    results = fairtk.Experiment(
        {"fair-qr": fair_qr()}, topics(), save_dir=tmp_path / "store", fail_fast=True
    )
    notes_of_queries = results.notes("fair-qr").set_index("qid")["note"]
    assert (
        list(notes_of_queries.index) == ["1", "2"]
        and notes_of_queries["2"]["trace"][0]["query"] == "chess"
    )
