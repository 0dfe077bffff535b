"""Everything that reads the column ``sample`` refuses samples that are not integers from 0."""

import math
import tempfile
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import P, nDCG
from settings_calls import Echo

import fairtk
from fairtk import EE_D, EE_R, EU, E, Groups, Target, credit, io
from fairtk.errors import InputError
from fairtk.plugins import registry
from fairtk.testing import toy_answers, toy_groups, toy_qrels, toy_run, toy_samples, toy_topics

QRELS, ANSWERS = toy_qrels(), toy_answers()
CREDIT = ANSWERS.assign(credit=1.0 / (1 + ANSWERS["rank"]))
ONE = ANSWERS[ANSWERS["sample"] == 0]
BY_SAMPLE = ANSWERS[["qid", "sample", "qanswer"]].drop_duplicates()
GROUPS = Groups.from_frame(toy_groups(), name="toy")
PARAMETERS = {
    **{"groups": GROUPS, "target": Target.uniform(GROUPS), "protected": "sea", "group": "sea"},
    **{"measure": EE_D @ 2, "left": EE_R @ 2, "right": EE_R @ 3, "utility": "rougeL"},
    **{"smoothing": 0.1, "max_label": 2, "step": 2, "cutoff": 3},
}
ONE_GROUP = Groups.from_frame(toy_groups().drop_duplicates("docno"), name="one")
OTHER_PARAMETERS = {"PEER": {"groups": ONE_GROUP}}  # one language per document
OPTIONAL = ("EE_D", "EE_R", "EE_L", "FAIR_prefix", "rND", "rKL", "rRD")
NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}


def bad(frame):
    """Yield the frame with samples that are not valid."""
    sample = frame["sample"]
    yield frame.assign(sample=sample + 0.2)
    yield frame.assign(sample=sample.astype(str))
    yield frame.assign(sample=pd.Timestamp("2020-01-01"))
    yield frame.assign(sample=[[1] for _ in sample])
    for value in (1.9, math.nan, -1, math.inf, None, "0"):
        values = sample.tolist()
        yield frame.assign(sample=pd.Series([value, *values[1:]], frame.index))
    yield frame.assign(sample=pd.array([pd.NA, *sample.tolist()[1:]], dtype="Int64"))


def measures():
    """Return every registered measure, those of installed plugins too, with its parameters."""
    for entry in registry.measures.entries():
        names = set(entry.value.SUPPORTED_PARAMS)
        if entry.name in OPTIONAL:
            names -= {"target", "groups"} if entry.name.startswith("EE") else {"target"}
        given = {**PARAMETERS, **OTHER_PARAMETERS.get(entry.name, {})}
        yield entry.value(**{n: v for n, v in given.items() if n in names})
    yield E(nDCG @ 3)


def measured(measure):
    qrels = QRELS.rename(columns=NAMES)
    return lambda run: ir_measures.calc_aggregate([measure], qrels, run.rename(columns=NAMES))


def readers():
    """Return each reader of a frame with a valid frame."""
    folder = Path(tempfile.mkdtemp())
    subsets = credit.Subsets("one-out", cutoff=2)(toy_run()).assign(qanswer="fox")
    sampler = fairtk.FairSampler(alpha=1, n_samples=6, cutoff=2, seed=1)
    drawn = sampler(toy_run()).assign(qanswer="fox", credit=1.0)
    generator = fairtk.Generator(Echo(), prompt="rag", cutoff=2)
    answers = ONE[["qid", "sample", "qanswer"]].drop_duplicates()

    def experiment(frame, measures=()):
        systems = [pt.Transformer.from_df(frame)]
        return fairtk.Experiment(systems, toy_topics(), QRELS, measures, names=["a"]).means

    return {
        **{repr(measure): (measured(measure), CREDIT) for measure in measures()},
        "EU without docno": (measured(EU(utility="rougeL")), BY_SAMPLE),
        "nDCG of one sample": (measured(nDCG @ 3), ONE),
        "P without ranks": (measured(P @ 3), ONE[["qid", "docno", "score", "sample"]]),
        "write_answers": (lambda f: io.write_answers(f, folder / "a.tsv"), BY_SAMPLE),
        "write_run": (lambda f: io.write_run(f, folder / "a.run"), ANSWERS),
        "write_run, Parquet": (lambda f: io.write_run(f, folder / "a.parquet"), ANSWERS),
        "write_task_run": (lambda f: io.write_task_run(f, folder / "b.tsv"), ANSWERS),
        "add_answers, run": (lambda f: io.add_answers(f, BY_SAMPLE), ANSWERS),
        "add_answers, answers": (lambda f: io.add_answers(ANSWERS, f), BY_SAMPLE),
        "add_answers, one sample": (
            lambda f: io.add_answers(ONE.drop(columns="sample"), f),
            answers,
        ),
        "evaluate": (lambda f: fairtk.evaluate(QRELS, f, ["EE_D@3"]), ANSWERS),
        "compare": (lambda f: fairtk.compare(QRELS, [f, ANSWERS], ["EE_D@3"]), ANSWERS),
        "explain": (lambda f: fairtk.explain(QRELS, f, "EE_L@3"), ANSWERS),
        "precision": (lambda f: fairtk.precision(QRELS, f, "EE_D@3"), ANSWERS),
        "sensitivity": (
            lambda f: fairtk.sensitivity(QRELS, {"a": f, "b": ANSWERS}, "EE_D@3", vary=["cutoff"]),
            ANSWERS,
        ),
        "frontier": (
            lambda f: fairtk.frontier(QRELS, {"a": f, "b": toy_run()}, alphas=[1], resamples=9),
            ANSWERS,
        ),
        "coverage": (lambda f: fairtk.coverage(GROUPS, f), ANSWERS),
        "providers": (
            lambda f: credit.providers(QRELS, f, toy_groups(), cutoff=3, resamples=20),
            ANSWERS,
        ),
        "fit_browsing": (lambda f: credit.fit_browsing(f, toy_run(), sampler), drawn),
        "from_answers": (lambda f: credit.from_answers(f, "rougeL", QRELS), subsets),
        "from_answers, source_sample": (
            lambda f: credit.from_answers(
                f.rename(columns={"sample": "source_sample", "of list": "sample"}), "f1", QRELS
            ),
            subsets.rename(columns={"sample": "of list", "source_sample": "sample"}),
        ),
        "off_policy_utility": (
            lambda f: fairtk.off_policy_utility(
                QRELS, {1.0: f}, toy_run(), [1, 2], EU(utility="f1"), cutoff=2
            ),
            drawn,
        ),
        "PerSample": (fairtk.PerSample(fairtk.BM25Scorer()), toy_samples()),
        "Citations": (credit.Citations(), ANSWERS),
        "Subsets": (credit.Subsets("one-out", cutoff=2), toy_samples()),
        "Generator": (generator, toy_samples()),
        "Generator, topics": (generator, toy_topics().assign(sample=0)),
        "Experiment": (experiment, ANSWERS),
        "Experiment, EE_D": (lambda f: experiment(f, ["EE_D@3"]), ANSWERS),
    }


READERS = readers()


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("name", READERS)
def test_samples(name):
    read, frame = READERS[name]
    read(frame)
    for other in bad(frame):
        with pytest.raises(InputError, match="sample"):
            read(other)


def test_expected_utility_of_samples():
    """Samples 0.2 and 1.9 were cut to 0 and 1; with 0 and 1, EU is (1 + 0) / 2."""
    qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["a"], "gold_answer": ["fox"]})
    run = pd.DataFrame({"query_id": ["q", "q"], "sample": [0, 1], "qanswer": ["fox", "sea"]})
    measure = EU(utility="em")
    assert ir_measures.calc_aggregate([measure], qrels, run) == {measure: 0.5}
    for samples in ([0.2, 1.9], [0, np.nan], [0, -1], ["0", "1"], [0, "1"]):
        with pytest.raises(InputError, match="sample"):
            ir_measures.calc_aggregate([measure], qrels, run.assign(sample=samples))
