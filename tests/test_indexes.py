"""Functions that accept frames give the same result whatever the index."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from api_exports import parameters

import fairtk
from fairtk import credit, io
from fairtk.frames import (
    Qrels,
    Run,
    require_columns,
    require_queries,
    require_texts,
    require_topics,
)
from fairtk.groups import Groups, Target
from fairtk.measures import LabeledRun
from fairtk.testing import toy_answers, toy_qrels, toy_run, toy_samples, toy_topics
from fairtk.testing.toys import with_other_indexes

RUN, QRELS, SAMPLES, ANSWERS, TOPICS = (
    toy_run(),
    toy_qrels(),
    toy_samples(),
    toy_answers(),
    toy_topics(),
)
DOCNOS = sorted({*QRELS["docno"]})
LEVELS = pd.DataFrame({"docno": DOCNOS, "group": [str(i % 3) for i in range(len(DOCNOS))]})
GROUPS = Groups.from_frame(LEVELS)
TARGET = Target.from_qrels(QRELS, GROUPS)
SHARES = pd.DataFrame({"group": ["0", "1", "2"], "weight": [0.5, 0.25, 0.25]})
GOLD = QRELS[["qid", "gold_answer"]].drop_duplicates("qid", ignore_index=True)
WORK = pd.DataFrame(
    {"docno": DOCNOS, "work": [["Stub", "B", "FA"][i % 3] for i in range(len(DOCNOS))]}
)
CREDIT = SAMPLES[["qid", "sample", "docno", "rank"]].assign(credit=1.0 / (1 + SAMPLES["rank"]))
BARE = QRELS.drop(columns="gold_answer")
EU = fairtk.measures.parse("EU(utility='em')")
QUIET = {"resamples": 9}
QIDS = sorted({*RUN["qid"]})
BY_QUERY = pd.DataFrame({"docno": QIDS, "group": [str(i % 2) for i in range(len(QIDS))]})
SUBSETS = credit.Subsets().transform(RUN)
SUBSETS["qanswer"] = SUBSETS["qid"] + SUBSETS["subset"].astype(str)
ECHO = fairtk.Generator(lambda prompts: [prompt[-9:] for prompt in prompts], prompt="rag", cutoff=2)


class ReversedRanking(pt.Transformer):
    """A reranker that reverses each ranking."""

    def transform(self, inp):
        last = inp.groupby("qid")["rank"].transform("max")
        return inp.assign(score=-inp["score"], rank=last - inp["rank"])


def written(write, suffix):
    """Return a function of a frame: the bytes that a writer writes."""

    def call(frame):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"file{suffix}"
            write(frame, path)
            if suffix == ".parquet":
                return pd.read_parquet(path)
            return path.read_bytes()

    return call


def calibrating(relevance):
    return fairtk.FairSampler(max_relevance_loss=0.1, cutoff=2, n_samples=2, relevance=relevance)


def judged(qrels, run):
    return fairtk.evaluate(qrels, run, ["EE_D@2", "E(nDCG@2)"]).per_query


TURN = {"session": [0], "query": "words", "rankings": [[None, ["a", "b"]]]}
CALLS = {
    # (parameter): (a function of the frame, the frame)
    "fairtk.Experiment topics": (
        lambda f: fairtk.Experiment({"x": Retriever()}, f, QRELS, ["nDCG@2"]).rankings("x"),
        TOPICS,
    ),
    "fairtk.Experiment qrels": (
        lambda f: fairtk.Experiment([RUN], TOPICS, f, ["nDCG@2"]).per_query,
        QRELS,
    ),
    "fairtk.Experiment systems": (
        lambda f: fairtk.Experiment({"x": f}, TOPICS, QRELS, ["nDCG@2"]).rankings("x"),
        RUN,
    ),
    "fairtk.plan topics": (lambda f: fairtk.plan([RUN], f).cells, TOPICS),
    "fairtk.plan qrels": (lambda f: fairtk.plan([RUN], TOPICS, f, ["nDCG@2"]).cells, QRELS),
    "fairtk.tune topics": (lambda f: tuned(f, QRELS), TOPICS),
    "fairtk.tune qrels": (lambda f: tuned(TOPICS, f), QRELS),
    "fairtk.Fitted topics": (lambda f: fitted(f, QRELS), TOPICS),
    "fairtk.Fitted qrels": (lambda f: fitted(TOPICS, f), QRELS),
    "fairtk.Seen.exposure notes": (
        lambda f: fairtk.Seen(Retriever()).exposure(notes=f),
        pd.DataFrame({"qid": ["q1", "q2"], "note": [{"seen": [[TURN]]}, {"seen": [[TURN, TURN]]}]}),
    ),
    "fairtk.Fitted.prepare topics": (lambda f: fitted(TOPICS, QRELS, f), TOPICS),
    "fairtk.FairSampler relevance": (
        lambda f: fairtk.FairSampler(
            max_relevance_loss=0.1, cutoff=2, n_samples=2, relevance=f
        ).calibrated(RUN),
        BARE,
    ),
    "fairtk.FairSampler.policy inp": (lambda f: fairtk.FairSampler(1).policy(f)[1:], RUN),
    "fairtk.FairSampler.calibrated inp": (
        lambda f: calibrating(BARE).calibrated(f),
        RUN,
    ),
    "fairtk.OracleSampler qrels": (
        lambda f: fairtk.OracleSampler(f, n_samples=2).transform(RUN),
        QRELS,
    ),
    "fairtk.OracleSampler.policy inp": (lambda f: fairtk.OracleSampler(QRELS).policy(f)[1:], RUN),
    "fairtk.transformers.OracleExposure qrels": (
        lambda f: fairtk.transformers.OracleExposure(f).transform(RUN),
        QRELS,
    ),
    "fairtk.Groups.from_frame df": (lambda f: Groups.from_frame(f).to_frame(), LEVELS),
    "fairtk.Groups.coverage run": (GROUPS.coverage, RUN),
    "fairtk.coverage run": (lambda f: fairtk.coverage(GROUPS, f), RUN),
    "fairtk.Target.from_qrels qrels": (lambda f: Target.from_qrels(f, GROUPS).to_frame(), QRELS),
    "fairtk.Target.from_work_needed qrels": (
        lambda f: Target.from_work_needed(f, GROUPS, WORK.set_index("docno")["work"]).to_frame(),
        QRELS,
    ),
    "fairtk.Target.from_frame frame": (lambda f: Target.from_frame(f, GROUPS).to_frame(), SHARES),
    "fairtk.Target.of qrels": (lambda f: Target.of("relevance", GROUPS, f).to_frame(), QRELS),
    "fairtk.evaluate qrels": (lambda f: judged(f, SAMPLES), QRELS),
    "fairtk.evaluate runs": (lambda f: judged(QRELS, f), SAMPLES),
    "fairtk.evaluate answers": (
        lambda f: fairtk.evaluate(QRELS, SAMPLES, [EU], answers=[f]).per_query,
        ANSWERS[["qid", "sample", "qanswer"]].drop_duplicates(ignore_index=True),
    ),
    "fairtk.evaluate checked": (
        lambda f: fairtk.evaluate(QRELS, {"x": SAMPLES}, ["EE_D@3"], checked=f).corrected,
        QRELS[QRELS["qid"].isin(QRELS["qid"].unique()[:2])].reset_index(drop=True),
    ),
    "fairtk.evaluate gold": (
        lambda f: fairtk.evaluate(BARE, ANSWERS, [EU], gold=f).per_query,
        GOLD,
    ),
    "fairtk.compare qrels": (
        lambda f: fairtk.compare(f, [RUN, SAMPLES], ["EE_D@2"]).compare(),
        QRELS,
    ),
    "fairtk.compare runs": (
        lambda f: fairtk.compare(QRELS, {"a": RUN, "b": f}, ["EE_D@2"]).compare("a"),
        SAMPLES,
    ),
    "fairtk.doctor qrels": (lambda f: fairtk.doctor(f, RUN, GROUPS).to_json(), QRELS),
    "fairtk.doctor run": (lambda f: fairtk.doctor(QRELS, f, GROUPS).to_json(), RUN),
    "fairtk.drop_undefined qrels": (fairtk.drop_undefined, QRELS),
    "fairtk.explain qrels": (
        lambda f: fairtk.explain(f, RUN, "AWRF@2", groups=GROUPS, target="relevance").to_frame(),
        QRELS,
    ),
    "fairtk.explain run": (
        lambda f: fairtk.explain(QRELS, f, "AWRF@2", groups=GROUPS, target=TARGET).to_frame(),
        RUN,
    ),
    "fairtk.explain baseline": (
        lambda f: fairtk.explain(QRELS, RUN, "EE_L@2", baseline=f, groups=GROUPS).to_frame(),
        SAMPLES,
    ),
    "fairtk.frontier qrels": (
        lambda f: fairtk.frontier(f, [RUN], alphas=[1, 2], **QUIET).curve,
        QRELS,
    ),
    "fairtk.frontier runs": (
        lambda f: fairtk.frontier(QRELS, {"a": f}, alphas=[1, 2], **QUIET).curve,
        RUN,
    ),
    "fairtk.join_answers qrels": (lambda f: fairtk.join_answers(f, GOLD), BARE),
    "fairtk.join_answers answers": (lambda f: fairtk.join_answers(BARE, f), GOLD),
    "fairtk.precision qrels": (lambda f: fairtk.precision(f, SAMPLES, "EE_D@2").per_query, QRELS),
    "fairtk.precision run": (lambda f: fairtk.precision(QRELS, f, "EE_D@2").per_query, SAMPLES),
    "fairtk.sensitivity qrels": (
        lambda f: (
            fairtk.sensitivity(f, {"a": RUN, "b": SAMPLES}, "EE_D@2", vary=["patience"]).table
        ),
        QRELS,
    ),
    "fairtk.sensitivity runs": (
        lambda f: fairtk.sensitivity(QRELS, {"a": RUN, "b": f}, "EE_D@2", vary=["patience"]).table,
        SAMPLES,
    ),
    "fairtk.off_policy_utility qrels": (lambda f: off_policy(f, RUN, ANSWERS), QRELS),
    "fairtk.off_policy_utility scores": (lambda f: off_policy(QRELS, f, ANSWERS), RUN),
    "fairtk.off_policy_utility answers": (lambda f: off_policy(QRELS, RUN, f), ANSWERS),
    "fairtk.credit.from_answers answers": (
        lambda f: credit.from_answers(f, "em", GOLD),
        SUBSETS,
    ),
    "fairtk.credit.from_answers gold": (lambda f: credit.from_answers(SUBSETS, "em", f), GOLD),
    "fairtk.credit.order_audit run": (
        lambda f: credit.order_audit(ECHO, f, 3, **QUIET).table,
        RUN,
    ),
    "fairtk.credit.order_audit qrels": (
        lambda f: credit.order_audit(ECHO, RUN, 3, qrels=f, measure=EU, **QUIET).table,
        QRELS,
    ),
    "fairtk.credit.order_audit groups": (
        lambda f: credit.order_audit(ReversedRanking(), RUN, 3, groups=f, **QUIET).preferences,
        LEVELS,
    ),
    "fairtk.credit.providers qrels": (
        lambda f: credit.providers(f, RUN, GROUPS, **QUIET).table,
        QRELS,
    ),
    "fairtk.credit.providers run": (
        lambda f: credit.providers(QRELS, f, GROUPS, **QUIET).table,
        RUN,
    ),
    "fairtk.credit.providers providers": (
        lambda f: credit.providers(QRELS, RUN, f, **QUIET).table,
        LEVELS,
    ),
    "fairtk.credit.query_gain qrels": (lambda f: gain(f, ANSWERS, WITHOUT, BY_QUERY), QRELS),
    "fairtk.credit.query_gain run": (lambda f: gain(QRELS, f, WITHOUT, BY_QUERY), ANSWERS),
    "fairtk.credit.query_gain without": (lambda f: gain(QRELS, ANSWERS, f, BY_QUERY), ANSWERS),
    "fairtk.credit.query_gain groups": (lambda f: gain(QRELS, ANSWERS, WITHOUT, f), BY_QUERY),
    "fairtk.frames.Qrels frame": (lambda f: [*Qrels(f, "test").labels], QRELS),
    "fairtk.frames.Run frame": (lambda f: [*Run(f, "test").order], RUN),
    "fairtk.frames.require_columns frame": (lambda f: require_columns(f, ["qid"], "test"), RUN),
    "fairtk.frames.require_texts inp": (lambda f: require_texts(f, "test"), RUN),
    "fairtk.frames.require_topics inp": (lambda f: require_topics(f, "test"), TOPICS),
    "fairtk.frames.require_queries inp": (
        lambda f: require_queries(f, Run(f, "test").frame_query, 4, "test"),
        RUN,
    ),
    "fairtk.io.add_answers run": (lambda f: io.add_answers(f, ANSWERS_ONLY), SAMPLES),
    "fairtk.io.add_answers answers": (
        lambda f: io.add_answers(SAMPLES, f),
        ANSWERS[["qid", "sample", "qanswer"]].drop_duplicates(ignore_index=True),
    ),
    "fairtk.io.write_answers frame": (written(io.write_answers, ".tsv"), ANSWERS),
    "fairtk.io.write_parquet frame": (written(io.write_parquet, ".parquet"), RUN),
    "fairtk.io.write_qrels qrels": (written(io.write_qrels, ".tsv"), QRELS),
    "fairtk.io.write_run run": (written(io.write_run, ".txt"), SAMPLES),
    "fairtk.io.write_task_run run": (written(io.write_task_run, ".tsv"), SAMPLES),
    "fairtk.measures.LabeledRun.of qrels": (lambda f: [*LabeledRun.of(f, RUN, "test").qids], QRELS),
    "fairtk.measures.LabeledRun.of run": (lambda f: [*LabeledRun.of(QRELS, f, "test").qids], RUN),
}
ANSWERS_ONLY = CALLS["fairtk.io.add_answers answers"][1]
WITHOUT = ANSWERS.assign(qanswer="nothing")


class Retriever(fairtk.transformers.FairTransformer):
    """A retriever that returns the toy run."""

    def transform(self, inp):
        return inp.merge(RUN.drop(columns="query"), on="qid")


def tuned(topics, qrels):
    return fairtk.tune(lambda k: Retriever() % k, {"k": [1, 2]}, topics, qrels, "nDCG@2", 2).table


class Learned(Retriever, pt.Estimator):
    """A retriever that adds the number of training labels to scores."""

    def fit(self, topics, qrels, *_):
        self.number = len(qrels.merge(topics, on="qid"))

    def transform(self, inp):
        rows = super().transform(inp)
        return rows.assign(score=rows["score"] + self.number)


def fitted(topics, qrels, prepared=TOPICS):
    folds = {qid: number for number, qid in enumerate(TOPICS["qid"])}
    stage = fairtk.Fitted(Learned(), topics, qrels, folds)
    stage.prepare(prepared)
    return stage(TOPICS)


def off_policy(qrels, scores, answers):
    return fairtk.off_policy_utility(qrels, {1.0: answers}, scores, [1.0, 2.0], "em", 2).means


def gain(qrels, run, without, groups):
    return credit.query_gain(qrels, run, without, groups, EU, **QUIET).table


def text_of(result):
    """Return a result as text, without its index."""
    if isinstance(result, pd.DataFrame):
        return result.to_csv(index=False)
    with np.printoptions(threshold=10**6):
        return repr(result)


@pytest.mark.parametrize("name", [n for n, (_, f) in CALLS.items() if len(f)])
@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
def test_the_index_does_not_matter(name):
    call, frame = CALLS[name]
    expected = text_of(call(frame))
    failed = {}
    for kind, indexed in with_other_indexes(frame).items():
        try:
            actual = text_of(call(indexed))
        except Exception as error:
            failed[kind] = repr(error)[:150]
        else:
            if actual != expected:
                failed[kind] = "another result"
    assert failed == {}


FRAMES = re.compile(r"\b(DataFrame|FileOrFrame)\b")
EXEMPT = re.compile(
    # objects that fairtk makes and users read
    r"fairtk\.(Results|.*\.(Comparison|Frontier|OffPolicyUtility|Precision|Sensitivity|FittedBrowsing|OrderAudit"
    r"|Providers|QueryGain|Plan|Tuned|Diagnosis|Explanation|FairQROutcome|DemoData)) "
    r"|fairtk_papers\."
    # all transformers and measures: TransformerContract and MeasureContract
    r"|.* (inp|trace|relevance)$|.*FairMeasure\.score_query |fairtk\.FairQR|fairtk\.testing\."
    # the same argument, by the same function as another that is tested
    r"|.* (gold|answers|baseline)$|.*\.(tune|plan|write_folder|fit_browsing) |fairtk\.Experiment "
)


def test_each_parameter_with_a_frame_is_tested():
    names = {*parameters(FRAMES)}
    assert len(names) > 80
    assert sorted(n for n in names - CALLS.keys() if not EXEMPT.match(n)) == []


def test_rows_of_concatenated_frames_are_written_once(tmp_path):
    parts = [pd.DataFrame({"qid": [qid], "qanswer": ["a"]}) for qid in ("q1", "q2")]
    io.write_answers(pd.concat(parts), tmp_path / "answers.tsv")
    assert (tmp_path / "answers.tsv").read_text() == "qid\tqanswer\nq1\ta\nq2\ta\n"
