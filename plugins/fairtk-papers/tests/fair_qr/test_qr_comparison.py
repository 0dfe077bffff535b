"""The comparison: its numbers against the same work done by hand, and who trains on what."""

from __future__ import annotations

import warnings
from dataclasses import replace

import ir_measures
import numpy as np
import pandas as pd
import pytest
import qr_toys
import qr_world
from chat_server import serving
from scipy.stats import ttest_1samp, ttest_rel

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")

from fairtk_papers.fair_qr import QrSettings
from fairtk_papers.fair_qr.report import comparison, cost_table
from fairtk_papers.fair_qr.systems import systems
from fairtk_papers.fair_qr.values import MEASURES

from fairtk import FairQR
from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.llm import KeywordRefiner
from fairtk.measures import AWRF, E, nDCG_AWRF
from fairtk.plugins import registry
from fairtk.transformers import CollectionBM25

TOYS = (("toy-reverse", "reverse", False), ("toy-same", "same", False), ("toy-few", "few", False))


@pytest.fixture(scope="module")
def results(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    varied = {"max_iterations": (0, 1, 5), "pool": ("last", "union")}
    with qr_world.installed(*TOYS):
        return qr_world.study(data, folder, KeywordRefiner(terms=1), variations=varied).run()


@pytest.fixture(scope="module")
def bm25(data, tmp_path_factory):
    return CollectionBM25(tmp_path_factory.mktemp("own") / "index", data.documents)


@pytest.mark.slow
def test_what_fair_qr_did_is_explained_once_for_each_attribute(results, data):
    assert results.attributes_with_fair_qr == list(data.attributes)


def by_hand(run, data, attribute):
    """Return the three measures of each query, by ir_measures and, for nDCG, by hand."""
    groups, target = data.attributes[attribute]
    run = run.rename(columns={"qid": "query_id", "docno": "doc_id"})
    qrels = data.qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    measures = [AWRF(groups=groups, target=target) @ 5, nDCG_AWRF(groups=groups, target=target) @ 5]
    names = dict(zip(measures, MEASURES[1:], strict=True))
    with warnings.catch_warnings():  # no document has some of the target's groups
        warnings.simplefilter("ignore", DataWarning)
        values = list(ir_measures.iter_calc(measures, qrels, run))
    found = {(v.query_id, names[v.measure]): v.value for v in values}
    for qid in data.topics["qid"]:
        relevant = set(qrels.loc[qrels["query_id"] == qid, "doc_id"])
        docnos = run[run["query_id"] == qid].sort_values("rank").head(5)["doc_id"]
        # the track's discount: 1 / log2(max(rank, 2))
        weights = 1 / np.log2(np.maximum(np.arange(1, 6), 2))
        gained = sum(w for w, d in zip(weights, docnos, strict=False) if d in relevant)
        found[qid, "nDCG"] = gained / weights[: len(relevant)].sum()
    return found


def measured(results, attribute, system, variation="", setting=""):
    frame = results.per_query
    keys = {"attribute": attribute, "system": system, "variation": variation, "setting": setting}
    for name, value in keys.items():
        frame = frame[frame[name] == value]
    assert not frame.duplicated(["qid", "measure"]).any()
    return frame.set_index(["qid", "measure"])["value"].to_dict()


@pytest.mark.parametrize("attribute", ["gender", "geography"])
def test_values_are_those_of_the_same_work_by_hand(results, data, bm25, attribute):
    groups, target = data.attributes[attribute]

    def refined(**options):
        llm = KeywordRefiner(terms=1)
        return FairQR(bm25, groups, target, llm, **({"depth": 5, "k": 5} | options))(data.topics)

    expected = {
        ("bm25",): bm25(data.topics),
        ("fair-qr",): refined(),
        ("fair-qr (no re-ranking)",): refined(rerank=False),
        ("fair-qr + exposure re-ranking",): refined(rerank="exposure", k=200),
        ("fair-qr", "max_iterations", "1"): refined(max_iterations=1),
        ("fair-qr", "max_iterations", "5"): refined(),
        ("fair-qr", "pool", "union"): bm25(data.topics),  # in BM25's own order
    }
    for place, run in expected.items():
        assert measured(results, attribute, *place) == pytest.approx(by_hand(run, data, attribute))
    table = results.table.set_index(["attribute", "system"])
    for name in MEASURES:
        values = [v for (_, m), v in by_hand(expected["fair-qr",], data, attribute).items()
                  if m == name]  # fmt: skip
        assert table.loc[(attribute, "fair-qr"), name] == pytest.approx(np.mean(values))
    assert not results.missing.size
    # refinement does something here: else all of this would hold without it
    product = results.changes(attribute)["nDCG x AWRF"]
    assert (product > 0.01).sum() >= 3 and product.mean() > 0.01


def test_rankings_and_traces_are_those_of_the_loop(results, data, bm25):
    groups, target = data.attributes["geography"]
    qr = FairQR(bm25, groups, target, KeywordRefiner(terms=1), 5, 5, qrels=data.qrels)
    run = qr(data.topics)
    rows = results.rankings
    rows = rows[(rows["attribute"] == "geography") & (rows["system"] == "fair-qr")]
    rows = rows[rows["variation"] == ""].reset_index(drop=True)
    run = run[["qid", "docno", "score", "rank"]]
    pd.testing.assert_frame_equal(
        rows[list(run)].sort_values(["qid", "rank"], ignore_index=True),
        run.sort_values(["qid", "rank"], ignore_index=True),
        check_dtype=False,
    )
    traces = results.traces
    traces = traces[(traces["attribute"] == "geography") & (traces["system"] == "fair-qr")]
    traces = traces[traces["variation"] == ""]
    assert traces["query"].tolist() == qr.trace["query"].tolist()
    assert traces["nDCG_reranked"].tolist() == pytest.approx(
        qr.trace["nDCG_reranked"].tolist(), nan_ok=True
    )
    counts_row = results.iterations.query(
        "attribute == 'geography' and system == 'fair-qr' and variation == '' and count == 'asked'"
    ).iloc[0]
    counts = (qr.trace["iteration"] > 0).groupby(qr.trace["qid"]).sum()
    assert counts_row["mean"] == counts.mean() and counts_row["75%"] == np.quantile(counts, 0.75)
    assert counts_row["queries"] == 8


def test_p_values_are_paired_t_tests_with_holm(results):
    table = results.table.set_index(["attribute", "system"])
    for attribute in ("gender", "geography"):
        base = measured(results, attribute, "bm25")
        for name in MEASURES:
            p = {}
            for system in table.loc[attribute].index:
                pairs = [(v, base[key]) for key, v in measured(results, attribute, system).items()
                         if key[1] == name]  # fmt: skip
                if any(a != b for a, b in pairs):
                    p[system] = ttest_rel(*zip(*pairs, strict=True)).pvalue
            assert {"toy-reverse", "fair-qr"} <= set(p)
            # Holm: the smallest times n, the next times n - 1, ..., never falling, at most 1;
            # a system that never differs from BM25 is no test, and does not count
            largest = 0.0
            for place, system in enumerate(sorted(p, key=p.get)):
                largest = max(largest, min(1.0, p[system] * (len(p) - place)))
                assert table.loc[(attribute, system), f"{name} p"] == pytest.approx(largest)
            for system in set(table.loc[attribute].index) - set(p):
                assert np.isnan(table.loc[(attribute, system), f"{name} p"])
    assert np.isnan(table.loc[("gender", "toy-same"), "AWRF p"])


def test_variations_are_exploratory_and_not_tested(results):
    assert not [name for name in results.variations.columns if name.endswith(" p")]
    none = results.variations.query("attribute == 'gender' and setting == '0'").iloc[0]
    assert none["nDCG change"] == 0  # nothing refined: BM25


def test_intervals_are_students(results):
    table = results.table.set_index(["attribute", "system"])
    base, now = (measured(results, "gender", name) for name in ("bm25", "fair-qr"))
    qids = sorted({qid for qid, _ in base})
    for column, values in (
        ("AWRF", [now[q, "AWRF"] for q in qids]),
        ("nDCG x AWRF change", [now[q, MEASURES[2]] - base[q, MEASURES[2]] for q in qids]),
    ):
        found = ttest_1samp(values, 0).confidence_interval(0.95)
        row = table.loc[("gender", "fair-qr")]
        assert [row[f"{column} low"], row[f"{column} high"]] == pytest.approx(list(found))


def test_changes_split_exactly(results):
    for attribute in ("gender", "geography"):
        frame = results.changes(attribute)
        assert (
            frame["qid"].tolist() == frame.sort_values("nDCG x AWRF", kind="stable")["qid"].tolist()
        )
        total = frame["by AWRF"] + frame["by nDCG"]
        assert total.tolist() == pytest.approx(frame["nDCG x AWRF"].tolist())
        row = results.table.query(f"attribute == '{attribute}' and system == 'fair-qr'").iloc[0]
        assert frame["nDCG x AWRF"].mean() == pytest.approx(row["nDCG x AWRF change"])
    # the second word is found nowhere: asked for, not kept
    assert frame["groups"].str.contains(r"\(").any() and (frame["note"] != "").all()


def test_systems_come_in_the_papers_order(monkeypatch):
    known = registry.Registry("system")
    monkeypatch.setattr(registry, "study_systems", known)
    own = ("fair-qr", "fair-qr (no re-ranking)", "fair-qr + exposure re-ranking", "random-terms")
    assert systems(QrSettings()) == ("bm25", *own)
    for asked in (QrSettings(systems=("mmr",)), QrSettings(options={"mmr": {"lambda": 0.5}})):
        with pytest.raises(InputError, match="'mmr'"):
            systems(asked)
    for name in ("zeta", "mmr", "alpha", "dlf", "fa*ir", "deltr", "vector-search"):
        known.add(registry.StudySystemSpec(name, "qr_toys:same", "a toy"), "toys 1.0")
    assert systems(QrSettings()) == (
        *("bm25", "vector-search", "dlf", "deltr", "fa*ir", "mmr", "alpha", "zeta"),
        *own,
    )
    assert systems(QrSettings(systems=("fair-qr", "mmr"))) == ("bm25", "mmr", "fair-qr")


def test_rows_come_attribute_by_attribute(results):
    names = ["bm25", "toy-few", "toy-reverse", "toy-same", "fair-qr", "fair-qr (no re-ranking)"]
    names += ["fair-qr + exposure re-ranking", "random-terms"]
    expected = [(a, s) for a in ("gender", "geography") for s in names]
    for frame in (results.table, results.costs[results.costs["variation"] == ""]):
        assert list(zip(frame["attribute"], frame["system"], strict=True)) == expected
    table = comparison(results)
    assert [row[0] for row in table.rows] == names and len(table.columns) == 7


def test_settings_that_are_equal_are_done_once(gender, tmp_path):
    varied = {"max_iterations": (1, 5, 5), "depth": (5,), "k": (5,), "pool": ("last",),
              "threshold": (0.05,), "temperature": (0.3,)}  # fmt: skip
    only = {"variations": varied, "systems": ("fair-qr",)}
    study = qr_world.study(gender, tmp_path, KeywordRefiner(), **only)
    progress = []
    results = study.run(progress.append)
    # BM25, FAIR-QR, one refinement at most
    assert len(progress) == 3 and qr_world.kept(tmp_path) == 3 * 8
    assert len(results.variations) == 7  # the double 5 is one
    equal = results.variations[results.variations["setting"] != "1"]
    main = results.table[results.table["system"] == "fair-qr"].set_index("attribute")
    for row in equal.itertuples():
        assert main.loc[row.attribute, "AWRF"] == row.AWRF


def test_nothing_is_trained_on_what_it_is_tested_on(data, tmp_path):
    qr_toys.FITTED.clear()
    qr_toys.APPLIED.clear()
    order = np.random.default_rng(5).permutation(len(data.topics))
    data = replace(data, topics=data.topics.iloc[order], qrels=data.qrels.iloc[::-1])
    with qr_world.installed(("toy-memory", "memory", True)):
        study = qr_world.study(data, tmp_path, KeywordRefiner(), systems=("toy-memory",), folds=3)
        results = study.run()
        assert list(dict.fromkeys(results.rankings["qid"])) == data.topics["qid"].tolist()
        assert len(qr_toys.FITTED) == 6  # three folds, two attributes
        for seen, judged in qr_toys.FITTED:
            assert set(judged) == set(seen) and len(seen) in (5, 6)
            assert list(seen) == sorted(seen)  # whatever order the topics come in
        tested = []
        for seen, applied in qr_toys.APPLIED:
            assert seen and not set(seen) & set(applied)
            tested += applied
            assert len(applied) == 1  # kept one by one
        assert sorted(tested) == sorted(list(data.topics["qid"]) * 2)
        assert (results.costs.query("system == 'toy-memory'")["training seconds"] > 0).all()
        # only what is lost is trained for again
        qr_toys.FITTED.clear()
        qr_world.forget(tmp_path, "gender: toy-memory", "3")
        study.run()
        assert len(qr_toys.FITTED) == 1


def test_more_folds_than_topics(data, tmp_path):
    qr_toys.FITTED.clear()
    with qr_world.installed(("toy-memory", "memory", True)):
        few = qr_world.first_topics(data, 3)
        given = (few, tmp_path, KeywordRefiner())
        qr_world.study(*given, systems=("toy-memory",)).run()  # four by default
        with pytest.raises(ParameterError, match="3.*9"):
            qr_world.study(*given, folds=9)
    assert [len(seen) for seen, _ in qr_toys.FITTED] == [2] * 6


def test_what_is_not_retrieved_has_the_worst_value(results, data):
    found = measured(results, "gender", "toy-few")
    first = data.topics["qid"].iloc[0]
    assert all(found[first, name] == 0.0 for name in MEASURES)
    assert max(found[qid, "AWRF"] for qid, _ in found) > 0
    here = results.table.query("attribute == 'gender' and system == 'toy-few'").iloc[0]
    assert here["missing"] == 0  # done, and nothing found
    values = [v for (_, name), v in found.items() if name == "AWRF"]
    assert len(values) == 8 and here["AWRF"] == pytest.approx(np.mean(values))


def test_warnings_are_collected_and_said_once(gender, tmp_path):
    with qr_world.installed(("toy-doubts", "doubts", False)):
        study = qr_world.study(gender, tmp_path, KeywordRefiner(), systems=("toy-doubts",))
        with pytest.warns(DataWarning) as records:
            results = study.run()
        assert len([w for w in records if "the toy" in str(w.message)]) == 1
        assert results.warnings[0] == "the toy has *doubts*"
        # what no ranking can do is no surprise of this study, and stands in its report alone
        assert "no ranking can reach" in results.warnings[1]
        assert "no ranking can reach" not in str([w.message for w in records])
        assert study.run().warnings == results.warnings  # those of earlier runs, too


def test_costs_with_tokens_prices_and_seconds(gender, tmp_path, client):
    from fairtk.llm import Ledger

    with (
        serving(qr_world.adds_a_term) as server,
        Ledger(tmp_path / "ledger.sqlite", prices={"toy": (3.0, 10.0)}) as ledger,
    ):
        only = {"systems": ("fair-qr",)}
        study = qr_world.study(gender, tmp_path / "out", client(server), ledger=ledger, **only)
        results = study.run()
        requests = len(server.requests)
    costs = results.costs.set_index("system")
    row, traces = costs.loc["fair-qr"], results.traces
    calls = ((traces["system"] == "fair-qr") & (traces["iteration"] > 0)).sum()
    assert row["calls"] == calls / 8
    assert row["prompt_tokens"] == 10 * calls / 8 and row["completion_tokens"] == 5 * calls / 8
    assert row["price"] == pytest.approx(calls / 8 * (10 * 3 + 5 * 10) / 1e6)
    waits = traces.loc[traces["system"] == "fair-qr", "seconds"]
    assert row["model seconds"] == pytest.approx(waits.sum() / 8) and waits.sum() > 0
    system = next(system for cell, system in results.systems.items() if cell.system == "fair-qr")
    spent = [system.total(name) for name in ("seconds", "waited")]
    assert row["own seconds"] == (spent[0] - spent[1]) / 8 > 0
    assert costs.loc["bm25", "training seconds"] > 0  # its index
    assert costs.loc["bm25", ["calls", "price", "model seconds"]].tolist() == [0] * 3
    assert requests == ledger.spent.calls == len(qr_world.paid(ledger.path))
    unknown = qr_world.study(gender, tmp_path / "out", client(server), **only)  # without prices
    with Ledger(tmp_path / "ledger.sqlite", offline=True) as offline:
        unknown.ledger = offline
        results = unknown.run()
    price = results.costs.set_index("system")["price"]
    rows = cost_table(results).rows
    assert np.isnan(price["fair-qr"]) and price["bm25"] == 0
    assert [row[5] for row in rows] == ["0.000000", "unknown"]


def test_trec_eval_ndcg_is_another_number(data, tmp_path, bm25):
    results = qr_world.study(
        data, tmp_path, KeywordRefiner(), systems=("bm25",), ndcg="trec_eval"
    ).run()
    run = bm25(data.topics).rename(columns={"qid": "query_id", "docno": "doc_id"})
    qrels = data.qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    expected = ir_measures.calc_aggregate([E(ir_measures.nDCG @ 5)], qrels, run)
    assert results.table["nDCG"].iloc[0] == pytest.approx(next(iter(expected.values())))
