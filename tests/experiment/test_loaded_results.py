"""Loaded results answer like the original, and say which plugin they need."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pandas as pd
import pytest
from experiment_stages import Retriever

import fairtk
from fairtk import EE_D, EE_R, E, FairMeasure, FairSampler, Groups, Results, Target, hookimpl
from fairtk.display import svg_text
from fairtk.errors import InputError, MissingPluginError, NotFoundError
from fairtk.experiment import Comparison
from fairtk.measures import AWRF, CUTOFF, ByGroup, MeasureInfo
from fairtk.plugins import register, unregister
from fairtk.transformers import FairTransformer, leave_notes

pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")

QIDS = [f"q{i}" for i in range(5)]


class Shown(FairMeasure):
    """How many documents are ranked.

    The number of documents in the first k ranks.
    """

    identity_name = "lab.Shown"
    output_version = 1
    NAME = "Shown"
    PRETTY_NAME = "Documents shown"
    BETTER = "lower"
    MISSING = 9.0
    ABOUT = "how much a reader has to read"
    CAVEAT = "it does not show whether it is worth reading"
    SUPPORTED_PARAMS = {"cutoff": CUTOFF}

    def score_query(self, qrels, run):
        """Return the number of documents."""
        return float(run["docno"].nunique())


class Lab:
    """The plugin of the measure."""

    @hookimpl
    def fairtk_measures(self):
        """Return the measure."""
        return [Shown()]


class Answers(FairTransformer):
    """Answers from the first document, with its credit and notes."""

    SETTINGS = ()
    leaves_notes = True

    def transform(self, inp):
        """Return the rows with answers and credit."""
        leave_notes(self, {q: {"n": 1} for q in inp["qid"]})
        return inp.assign(qanswer="bread", credit=(inp["rank"] == 0).astype(float))


@pytest.fixture(scope="module")
def groups():
    docnos = [f"{qid}-d{j}" for qid in QIDS for j in range(4)]
    frame = pd.DataFrame({"docno": docnos, "group": ["x", "y"] * 10, "weight": 1.0})
    return Groups.from_frame(frame, name="bank")


@pytest.fixture(scope="module")
def pair(groups, tmp_path_factory):
    """Return results of an experiment, and the same after loading; the plugin is installed."""
    plugin = Lab()
    register(plugin, "lab-measures", "1.2")
    topics = pd.DataFrame({"qid": QIDS, "query": [f"words of {q}" for q in QIDS]})
    rows = [(q, f"{q}-d{j}", int(j < 2 and q != "q4")) for q in QIDS for j in range(4)]
    qrels = pd.DataFrame(rows, columns=["qid", "docno", "label"]).assign(gold_answer="bread")
    of_queries = Groups.from_frame(
        pd.DataFrame({"docno": QIDS, "group": ["a", "a", "b", "b", "b"], "weight": 1.0}), "asker"
    )
    measures = [
        *(EE_D @ 2, EE_R @ 2, E("nDCG@2"), fairtk.EU(utility="em")),
        AWRF(groups=groups, target=Target.uniform(groups)) @ 2,
        E("nDCG@2") * (EE_R @ 2),
        ByGroup(EE_R @ 2, of_queries, by="query"),
        Shown() @ 2,
    ]
    answered = Retriever(4) >> FairSampler(n_samples=3, cutoff=3) >> Answers()
    systems = {"first": Retriever(4) >> Answers(), "sampled": answered}
    live = fairtk.Experiment(systems, topics, qrels, measures, baseline="first")
    folder = tmp_path_factory.mktemp("results")
    live.save(folder)
    yield live, Results.load(folder), plugin
    if any(one.implementation is plugin for one in fairtk.plugins.loaded_plugins()):
        unregister(plugin)


@pytest.fixture
def without_plugin(pair):
    """Return the original and the loaded results; the plugin is not installed."""
    live, loaded, plugin = pair
    unregister(plugin)
    yield live, replace(loaded)
    register(plugin, "lab-measures", "1.2")


def _files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


def _saved(write):
    def call(results, folder):
        write(results, folder)
        return _files(folder)

    return call


def refusal(call):
    with pytest.raises(InputError) as caught:
        call()
    if isinstance(caught.value, MissingPluginError):
        raise caught.value
    return str(caught.value)


SPELLINGS = ("AWRF@2", "EE_D @ 2", "E(nDCG @ 2)", E("nDCG@2"), "EE_D(browsing='MU')@2", EE_R @ 2)
"""Other ways to name the measures."""

CALLS = {
    "systems": lambda r, f: r.systems,
    "measures": lambda r, f: [info.as_json() for info in r.measures],
    "values": lambda r, f: r.values.means,
    "per_query": lambda r, f: r.per_query,
    "undefined": lambda r, f: r.undefined,
    "remarks": lambda r, f: r.remarks,
    "failures": lambda r, f: r.failures,
    "config": lambda r, f: r.config,
    "environment": lambda r, f: r.environment,
    "baseline": lambda r, f: r.baseline,
    "credits": lambda r, f: list(r.credits),
    "qrels": lambda r, f: r.qrels,
    "means": lambda r, f: r.means,
    "counts": lambda r, f: r.counts,
    "per_sample": lambda r, f: r.per_sample,
    "warnings": lambda r, f: [(type(one), str(one)) for one in r.warnings],
    "rankings": lambda r, f: r.rankings("sampled"),
    "answers": lambda r, f: r.answers("sampled"),
    "credit": lambda r, f: r.credit("sampled"),
    "notes": lambda r, f: r.notes("sampled"),
    "better": lambda r, f: [r.better(text) for text in (*r.measures, *SPELLINGS)],
    "info": lambda r, f: r.info("AWRF(groups='bank')@2").as_json(),
    "compare": lambda r, f: r.compare(margin={"AWRF@2": 0.1}),
    "compare with levels": lambda r, f: r.compare(levels=True),
    "queries_needed": lambda r, f: r.queries_needed(0.1),
    "clusters": lambda r, f: r.clusters,
    "with_clusters": lambda r, f: r.with_clusters(dict(zip(QIDS, "aabbc", strict=True))).compare(),
    "checked": lambda r, f: r.checked,
    "with_checked": lambda r, f: refusal(lambda: r.with_checked(r.qrels)),  # of ByGroup
    "corrected": lambda r, f: refusal(lambda: r.corrected),
    "sampling_bias": lambda r, f: r.sampling_bias(),
    "to_markdown": lambda r, f: r.to_markdown(),
    "to_latex": lambda r, f: r.to_latex(pairs=True),
    "to_csv": lambda r, f: r.to_csv(),
    "plot_trade_off": lambda r, f: svg_text(r.plot_trade_off("AWRF@2", EE_R @ 2)),
    "cite": lambda r, f: r.cite(),
    "answer_status": lambda r, f: r.answer_status,
    "report": _saved(lambda r, f: r.report(f / "page.html")),
    "save": _saved(lambda r, f: r.save(f)),
    "to_trec": _saved(lambda r, f: r.to_trec(f)),
    "to_ir_metadata": lambda r, f: r.to_ir_metadata("sampled"),
    "__repr__": lambda r, f: repr(r),
    "_repr_html_": lambda r, f: r._repr_html_(),
}
NEED_THE_MEASURE = {"per_sample", "compare with levels", "queries_needed", "with_checked"}
MADE_WITH = {"of", "load", "ARTIFACT_TYPE"}
"""What makes results."""


def assert_equal(one, other):
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    elif isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_each_public_name_is_called():
    names = {name for name in vars(Results) if not name.startswith("_")}
    names |= {one.name for one in fields(Results) if not one.name.startswith("_")}
    assert names - MADE_WITH == {name for name in CALLS if not name.startswith("_")} - {
        "compare with levels"
    }


@pytest.mark.parametrize("name", CALLS)
def test_loaded_results_answer_like_the_original(pair, name, tmp_path):
    live, loaded, _ = pair
    for folder in ("live", "loaded"):
        (tmp_path / folder).mkdir()
    first = CALLS[name](live, tmp_path / "live")
    assert_equal(CALLS[name](loaded, tmp_path / "loaded"), first)


@pytest.mark.parametrize("name", CALLS)
def test_without_the_plugin_values_and_tables_are_equal(without_plugin, name, tmp_path):
    live, loaded = without_plugin
    (tmp_path / "loaded").mkdir()
    if name in NEED_THE_MEASURE:
        with pytest.raises(MissingPluginError, match=r"Shown@2.*lab-measures 1\.2"):
            CALLS[name](loaded, tmp_path / "loaded")
        return
    after = CALLS[name](loaded, tmp_path / "loaded")
    (tmp_path / "live").mkdir()
    before = CALLS[name](live, tmp_path / "live")
    assert_equal(after, before)


def test_results_are_not_changed(pair):
    for results in pair[:2]:
        for one in fields(Results):
            with pytest.raises(FrozenInstanceError):
                setattr(results, one.name, None)


def test_a_plugin_that_is_missing_is_named_in_the_references(without_plugin):
    _, loaded = without_plugin
    assert "% no references of Shown@2: plugin lab-measures 1.2" in loaded.cite()


def test_measures_are_labels_with_what_tables_need(pair):
    for results in pair[:2]:
        info = results.measures[-1]
        assert isinstance(info, MeasureInfo) and info == "Shown@2" == info.label
        assert (info.better, info.full_name, info.bounds) == (
            "lower",
            "Documents shown",
            (None,) * 2,
        )
        assert (info.about, info.caveat) == (Shown.ABOUT, Shown.CAVEAT)
        assert info.owner == "plugin lab-measures 1.2"
        product = results.info("E(nDCG@2) * EE_R@2")
        assert [part.label for part in product.parts] == ["E(nDCG@2)", "EE_R@2"]
        assert [i.label for i in results.measures if i.has_sampling_bias] == ["EE_D@2"]
        assert [i.name for i in results.measures if i.compares_queries] == ["ByGroup"]
        assert [i.name for i in results.measures if i.reads_groups] == ["AWRF", "ByGroup"]


def test_a_label_that_several_measures_match_is_refused(groups):
    run = pd.DataFrame({"qid": "q0", "docno": ["q0-d0", "q0-d1"], "score": [2.0, 1.0]})
    qrels = run[["qid", "docno"]].assign(label=1)
    measures = [AWRF(groups=groups, target=Target.uniform(groups)) @ k for k in (1, 2)]
    results = fairtk.evaluate(qrels, run, measures)
    with pytest.raises(NotFoundError, match="AWRF"):
        results.better("AWRF")
    assert results.better("AWRF@1") == "higher"


def test_a_comparison_is_a_value(groups):
    run = pd.DataFrame({"qid": "q0", "docno": ["q0-d0", "q0-d1"], "score": [2.0, 1.0]})
    runs = {"one": pd.concat([run, run.assign(qid="q1")]), "other": run.assign(score=[1.0, 2.0])}
    qrels = pd.DataFrame({"qid": ["q0", "q1"], "docno": "q0-d0", "label": 1})
    comparison = fairtk.compare(qrels, runs, ["nDCG@2"], baseline="one")
    assert isinstance(comparison, Comparison) and isinstance(comparison.evaluation, Results)
    with pytest.raises(FrozenInstanceError):
        comparison.table = None
