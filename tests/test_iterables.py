"""Arguments with several values may be generators; a single string is one value, or is refused."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from api_exports import parameters
from ir_measures import nDCG

import fairtk
from fairtk import checks, errors, wording
from fairtk.frames import Qrels, require_columns
from fairtk.groups import Groups, Target
from fairtk.measures import LabeledRun, evaluate

ROWS = [(q, d, float(-i)) for q in ("q1", "q2") for i, d in enumerate(("d1", "d2", "d3"))]
RUN = pd.DataFrame(ROWS, columns=["qid", "docno", "score"])
OTHER = RUN.assign(score=-RUN["score"])
SAMPLED = pd.concat([RUN.assign(sample=0), OTHER.assign(sample=1)], ignore_index=True)
QRELS = RUN[["qid", "docno"]].assign(label=[1, 0, 1, 0, 1, 0])
TOPICS = pd.DataFrame({"qid": ["q1", "q2"], "query": ["a", "b"]})
GROUPS = Groups.from_frame(pd.DataFrame({"docno": ["d1", "d2", "d3"], "group": ["A", "B", "AB"]}))
WORK = {"d1": "Stub", "d2": "B", "d3": "FA"}
TARGET = Target.from_qrels(QRELS, GROUPS)


RESULTS = fairtk.Experiment({"AB": RUN}, TOPICS, QRELS, ["nDCG@2"])


def levels(values):
    frame = pd.DataFrame({"docno": ["d1", "d2"], "group": ["AB", "AB"]})
    return Groups.from_frame(frame, levels=values, unknown=None).levels


def table(results):
    return results.per_query


CALLS = {
    # (parameter): (a function of the values, the values)
    "fairtk.Experiment systems": (
        lambda v: table(fairtk.Experiment(v, TOPICS, QRELS, ["nDCG@2"])),
        [RUN],
    ),
    "fairtk.Experiment measures": (
        lambda v: table(fairtk.Experiment([RUN], TOPICS, QRELS, v)),
        ["nDCG@2"],
    ),
    "fairtk.Experiment names": (
        lambda v: fairtk.Experiment([RUN], TOPICS, QRELS, ["nDCG@2"], names=v).systems,
        ["AB"],
    ),
    "fairtk.cross_fit systems": (
        lambda v: fairtk.cross_fit(RESULTS, "nDCG@2", 2, systems=v).choices,
        ["AB"],
    ),
    "fairtk.plan systems": (lambda v: fairtk.plan(v, TOPICS).cells, [RUN]),
    "fairtk.plan measures": (lambda v: fairtk.plan([RUN], TOPICS, QRELS, v).cells, ["nDCG@2"]),
    "fairtk.evaluate runs": (lambda v: table(fairtk.evaluate(QRELS, v, ["nDCG@2"])), [RUN, OTHER]),
    "fairtk.evaluate measures": (lambda v: table(fairtk.evaluate(QRELS, RUN, v)), ["nDCG@2"]),
    "fairtk.measures.evaluate measures": (
        lambda v: [
            s.values.tolist() for s in evaluate(v, LabeledRun.of(QRELS, RUN, "test")).values()
        ],
        [fairtk.EE_D @ 2, fairtk.EE_R @ 2],
    ),
    "fairtk.evaluate groups": (
        lambda v: table(fairtk.evaluate(QRELS, RUN, ["AWRF@2"], groups=v, target=TARGET)),
        [GROUPS],
    ),
    "fairtk.compare runs": (lambda v: table(fairtk.compare(QRELS, v, ["nDCG@2"])), [RUN, OTHER]),
    "fairtk.compare measures": (
        lambda v: table(fairtk.compare(QRELS, [RUN, OTHER], v)),
        ["nDCG@2"],
    ),
    "fairtk.doctor measures": (lambda v: fairtk.doctor(QRELS, RUN, measures=v).ties, ["nDCG@2"]),
    "fairtk.precision measures": (
        lambda v: fairtk.precision(QRELS, SAMPLED, v).per_query,
        ["EE_D@2"],
    ),
    "fairtk.sensitivity runs": (
        lambda v: fairtk.sensitivity(QRELS, v, "EE_D@2", vary=["cutoff"], cutoffs=[1]).table,
        [RUN, OTHER],
    ),
    "fairtk.sensitivity measures": (
        lambda v: fairtk.sensitivity(QRELS, [RUN, OTHER], v, vary=["cutoff"], cutoffs=[1]).table,
        ["EE_D@2"],
    ),
    "fairtk.sensitivity vary": (
        lambda v: fairtk.sensitivity(QRELS, [RUN, OTHER], "EE_D@2", vary=v, cutoffs=[1]).table,
        ["cutoff"],
    ),
    "fairtk.sensitivity cutoffs": (
        lambda v: (
            fairtk.sensitivity(QRELS, [RUN, OTHER], "EE_D@2", vary=["cutoff"], cutoffs=v).table
        ),
        [1, 3],
    ),
    "fairtk.sensitivity groups": (
        lambda v: (
            fairtk.sensitivity(
                QRELS, [RUN, OTHER], "AWRF@2", vary=["cutoff"], cutoffs=[1], groups=v, target=TARGET
            ).table
        ),
        [GROUPS],
    ),
    "fairtk.frontier runs": (
        lambda v: fairtk.frontier(QRELS, v, resamples=9, alphas=[1]).curve,
        [RUN, OTHER],
    ),
    "fairtk.frontier alphas": (
        lambda v: fairtk.frontier(QRELS, [RUN], resamples=9, alphas=v).curve,
        [1, 2],
    ),
    "fairtk.frontier groups": (
        lambda v: (
            fairtk.frontier(
                QRELS, [RUN], x="AWRF@2", resamples=9, alphas=[1, 2], groups=v, target=TARGET
            ).curve
        ),
        [GROUPS],
    ),
    "fairtk.frontier levels": (
        lambda v: fairtk.frontier(QRELS, [RUN, OTHER], resamples=9, alphas=[1, 2], levels=v).equal,
        [0.5],
    ),
    "fairtk.explain bands": (
        lambda v: fairtk.explain(
            QRELS, RUN, "AWRF@3", groups=GROUPS, target=TARGET, bands=v
        ).to_frame(),
        [1, 3],
    ),
    "fairtk.Groups.from_frame levels": (levels, ["AB"]),
    "fairtk.Groups.from_frame unknown_values": (
        lambda v: Groups.from_frame(GROUPS.to_frame(), unknown_values=v).levels,
        ["A"],
    ),
    "fairtk.Groups.of unknown_values": (
        lambda v: Groups.of(GROUPS.to_frame(), unknown_values=v).levels,
        ["A"],
    ),
    "fairtk.credit.providers unknown_values": (
        lambda v: (
            fairtk.credit.providers(
                QRELS, RUN, GROUPS.to_frame(), unknown_values=v, resamples=9
            ).table
        ),
        ["A"],
    ),
    "fairtk.Groups.with_levels names": (lambda v: GROUPS.with_levels(v).levels, ["C"]),
    "fairtk.Groups.memberships docnos": (lambda v: GROUPS.memberships(v).level, ["d1"]),
    "fairtk.Target.for_qids qids": (lambda v: TARGET.for_qids(v).n_rows, ["q1"]),
    "fairtk.Target.drop_unknown qids": (
        lambda v: TARGET.drop_unknown(TARGET.for_qids(["q1"]), v).n_rows,
        ["q1"],
    ),
    "fairtk.Target.from_work_needed order": (
        lambda v: Target.from_work_needed(QRELS, GROUPS, WORK, order=v).to_frame(),
        ["Stub", "B", "FA"],
    ),
    "fairtk.PlackettLuceExposure alpha": (
        lambda v: fairtk.PlackettLuceExposure(v).transform(RUN.assign(query="a")),
        [1, 2],
    ),
    "fairtk.Results.queries_needed n_samples": (
        lambda v: fairtk.Experiment(
            [RUN, OTHER, RUN], TOPICS, QRELS, ["nDCG@2"], baseline=0, names=["a", "b", "c"]
        ).queries_needed(0.1, v),
        [1, 10],
    ),
    "fairtk.experiment.Comparison.queries_needed n_samples": (
        lambda v: fairtk.compare(
            QRELS, {"a": RUN, "b": OTHER, "c": RUN}, ["nDCG@2"]
        ).queries_needed(0.1, v),
        [1, 10],
    ),
    "fairtk.Results.queries_needed n_answers": (
        lambda v: fairtk.Experiment(
            [RUN, OTHER, RUN], TOPICS, QRELS, ["nDCG@2"], baseline=0, names=["a", "b", "c"]
        ).queries_needed(0.1, n_answers=v),
        [1, 10],
    ),
    "fairtk.experiment.Comparison.queries_needed n_answers": (
        lambda v: fairtk.compare(
            QRELS, {"a": RUN, "b": OTHER, "c": RUN}, ["nDCG@2"]
        ).queries_needed(0.1, n_answers=v),
        [1, 10],
    ),
    "fairtk.experiment.folds qids": (fairtk.experiment.folds, ["ab"]),
    "fairtk.frames.Qrels needs": (lambda v: Qrels(QRELS, "test", v).labels, ["label"]),
    "fairtk.frames.require_columns columns": (
        lambda v: require_columns(QRELS, v, "test"),
        ["label"],
    ),
    "fairtk.checks.choice choices": (lambda v: checks.choice("x", "ab", v), ["ab"]),
    "fairtk.wording.did_you_mean known": (lambda v: wording.did_you_mean("ac", v), ["ab"]),
    "fairtk.wording.format_list items": (wording.format_list, ["ab"]),
    "fairtk.display.csv_text columns": (lambda v: fairtk.display.csv_text(v, [[1]]), ["ab"]),
    "fairtk.display.csv_text rows": (lambda v: fairtk.display.csv_text(["a", "b"], v), [[1, 2]]),
    "fairtk.display.fitted_lines numbers": (
        lambda v: fairtk.display.fitted_lines(fairtk.display.Table(["a", "b"], [["x", "1"]]), v),
        [1],
    ),
    "fairtk.display.format_rows columns": (lambda v: fairtk.display.format_rows(v, [[1]]), ["ab"]),
    "fairtk.display.format_rows rows": (
        lambda v: fairtk.display.format_rows(["a", "b"], v),
        [[1, 2]],
    ),
    "fairtk.utilities.Utility.__call__ predictions": (
        lambda v: fairtk.utilities.get("em")(v, ["ab"]),
        ["ab"],
    ),
    "fairtk.utilities.Utility.__call__ golds": (
        lambda v: fairtk.utilities.get("em")(["ab"], v),
        ["ab"],
    ),
}


def outcome(call, values):
    """Return the result of a call as text, or None if it refuses the values."""
    with warnings.catch_warnings(), np.printoptions(threshold=10**6):
        warnings.simplefilter("ignore")
        try:
            result = call(values)
        except (errors.FairtkError, TypeError):
            return None
    frame = result if isinstance(result, pd.DataFrame) else None
    return repr(result) if frame is None else frame.to_csv()


@pytest.mark.parametrize("name", CALLS)
def test_a_generator_is_a_list(name):
    call, values = CALLS[name]
    expected = outcome(call, values)
    assert expected is not None
    assert outcome(call, (value for value in values)) in (expected, None)


@pytest.mark.parametrize("name", [n for n, (_, v) in CALLS.items() if isinstance(v[0], str)])
def test_a_string_is_one_name(name):
    call, values = CALLS[name]
    assert outcome(call, values[0]) in (outcome(call, values[:1]), None)


def test_a_measure_is_one_measure():
    for measures in (nDCG @ 2, [nDCG @ 2], (m for m in [nDCG @ 2])):
        assert fairtk.evaluate(QRELS, RUN, measures).measures == ["nDCG@2"]


@pytest.fixture
def store(tmp_path):
    """Return the folder of a store with the systems A, B and AB."""
    systems = {name: Named(name) for name in ("A", "B", "AB")}
    fairtk.Experiment(systems, TOPICS, save_dir=tmp_path)
    return tmp_path


class Named(fairtk.transformers.FairTransformer):
    """A system with a name."""

    SETTINGS = ("name",)

    def __init__(self, name):
        super().__init__()
        self.name = name

    def transform(self, inp):
        out = inp.merge(RUN, on="qid")
        return out.assign(rank=(-out["score"]).astype(int))


@pytest.mark.parametrize("names", ["AB", ["AB"], iter(["AB"])])
def test_prune_removes_one_system(store, names):
    fairtk.experiment.prune(store, systems=names)
    stored = fairtk.experiment.stored_results(store)
    assert {name for names in stored["systems"] for name in names.split(", ")} == {"A", "B"}


@pytest.mark.parametrize("measures", ["nDCG@2", ["nDCG@2"], iter(["nDCG@2"])])
def test_a_store_is_measured_with_one_measure(store, measures):
    results = fairtk.experiment.open_results(store, QRELS, measures)
    assert results.measures == ["nDCG@2"]


@pytest.mark.parametrize("make", [str, lambda chain: [chain], lambda chain: iter([chain])])
def test_a_store_is_opened_by_one_chain(store, make, tmp_path):
    stored = fairtk.experiment.stored_results(store).set_index("systems")["chain"]
    results = fairtk.experiment.open_results(store, QRELS, ["nDCG@2"], chains=make(stored["A"]))
    assert results.systems == ["A"]
    fairtk.experiment.export(store, tmp_path / "out", chains=make(stored["A"]))
    assert fairtk.Results.load(tmp_path / "out").systems == ["A"]


SEVERAL = re.compile(r"\b(Iterable|Sequence|Collection|list)\b")
TESTED_BELOW = {
    "fairtk.experiment.prune chains",
    "fairtk.experiment.prune systems",
    "fairtk.experiment.open_results measures",
    "fairtk.experiment.open_results chains",
    "fairtk.experiment.export measures",  # passed to `open_results`
    "fairtk.experiment.export chains",
}
EXEMPT = re.compile(
    # objects that fairtk makes and users read
    r"fairtk\.analysis\.(Frontier|Sensitivity) |fairtk\.batch\.ReadReport |.*\.(Qr|Rag)Results "
    r"|fairtk\.Results |fairtk\.experiment\.(Comparison |Diagnosis |DaskExecutor\.open )"
    r"|fairtk\.display\.Points "
    # what users implement, and fairtk calls with lists
    r"|.*\.(scores (texts|queries)|Prompt(Builder)?\.(join|__call__) .*)|fairtk\.testing\."
    r"|fairtk\.llm\.(\w*Model|KeywordRefiner|OpenAICompatible|HuggingFace\w+|CTranslate2\w+)\..*"
    r"|.*FairMeasure\.(combine|score_together) |.*\.Scores\.|.*\.check_inputs modes"
    # a function of several values, or one value or several
    r"|.* (function|documents)|.*StudySystemSpec grid"
    r"|fairtk\.transformers\.remark detail"
    # tested with their own files: tests/batch, tests/datasets, tests/report, plugins
    r"|fairtk\.batch\.Batches\.read |fairtk\.datasets\.trec_fair\.work_needed |.*_sections? .*"
    r"|fairtk\.report\.page_text |fairtk_papers\.|.*draw_trade_off "
    r"|fairtk\.llm\.Ledger\.(recorded|failures) "
    r"|fairtk\.Groups\.read (levels|unknown_values)|.* answers"
    r"|fairtk\.exposure\.draw_rankings "
    r"|fairtk\.(off_policy_utility alphas|frames\.Qrels\.without_labels qids|cli\.main args)"
)


def test_each_parameter_with_several_values_is_tested():
    names = {*parameters(SEVERAL)}
    assert len(names) > 80
    assert sorted(n for n in names - CALLS.keys() - TESTED_BELOW if not EXEMPT.match(n)) == []
    assert sorted((CALLS.keys() | TESTED_BELOW) - names) == []
