"""Valid calls of the public classes and functions with settings; tests change one setting each."""

import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np

import fairtk
from fairtk import EU, FairSampler, Groups, Target, credit, io, llm, statistics, transformers
from fairtk.experiment import ProcessExecutor, folds
from fairtk.groups import js_divergence, kl_divergence, log_base
from fairtk.testing import toy_answers, toy_groups, toy_qrels, toy_run, toy_samples, toy_topics


class Echo:
    """A model that answers with a constant."""

    name, tokenizer = "echo", None

    def generate(self, prompts):
        return ["bread" for _ in prompts]


class Trained:
    """A system that is trained."""

    def fit(self, topics, qrels):
        """Learn nothing."""


def chat(messages):
    return "bread"


@cache
def calls():
    """Return each callable by name, with the arguments of a valid call."""
    import pyterrier as pt

    qrels, run, samples, answers = toy_qrels(), toy_run(), toy_samples(), toy_answers()
    groups = Groups.from_frame(toy_groups(), name="toy")
    target = Target.uniform(groups)
    drawn = FairSampler(alpha=1, n_samples=6, cutoff=2, seed=1)
    answered = drawn(run).assign(qanswer="bread")
    source = pt.Transformer.from_df(run)
    pairs = {"x": [0.1, 0.5, 0.7, 0.3], "y": [0.2, 0.1, 0.4, 0.4]}
    folder = Path(tempfile.mkdtemp())
    shares = np.array([[0.5, 0.5]])
    data = {"qrels": qrels, "run": run}
    return {
        "FairSampler": (fairtk.FairSampler, {}),
        "OracleSampler": (fairtk.OracleSampler, {"qrels": qrels}),
        "PerSample": (fairtk.PerSample, {"transformer": fairtk.BM25Scorer()}),
        "Seen": (fairtk.Seen, {"retriever": fairtk.BM25Scorer()}),
        "PlackettLuceExposure": (fairtk.PlackettLuceExposure, {}),
        "DeterministicExposure": (transformers.DeterministicExposure, {}),
        "OracleExposure": (transformers.OracleExposure, {"qrels": qrels}),
        "BM25Scorer": (fairtk.BM25Scorer, {}),
        "Generator": (fairtk.Generator, {"llm": Echo(), "prompt": "rag"}),
        "FairQR": (
            fairtk.FairQR,
            {"retriever": source, "groups": groups, "target": target, "llm": chat},
        ),
        "Subsets": (credit.Subsets, {"kind": "sampled"}),
        "Citations": (credit.Citations, {}),
        "frontier": (
            fairtk.frontier,
            {"qrels": qrels, "runs": {"a": run}, "alphas": [1], "resamples": 9},
        ),
        "sensitivity": (
            fairtk.sensitivity,
            {"qrels": qrels, "runs": {"a": run, "b": samples}, "measures": "EE_D@3"},
        ),
        "precision": (fairtk.precision, {**data, "run": samples, "measures": "EE_D@3"}),
        "off_policy_utility": (
            fairtk.off_policy_utility,
            {
                **{"qrels": qrels, "answers": {1.0: answered}, "scores": run, "alphas": [1]},
                **{"utility": EU(utility="f1"), "cutoff": 2},
            },
        ),
        "compare": (
            fairtk.compare,
            {"qrels": qrels, "runs": {"a": run, "b": answers}, "measures": ["EE_D@3"]},
        ),
        "evaluate": (fairtk.evaluate, {"qrels": qrels, "runs": run, "measures": ["EE_D@3"]}),
        "doctor": (fairtk.doctor, data),
        "explain": (fairtk.explain, {**data, "measure": "EE_L@3"}),
        "coverage": (fairtk.coverage, {"groups": groups, "run": run}),
        "Experiment": (
            fairtk.Experiment,
            {
                **{"systems": [source], "topics": toy_topics(), "qrels": qrels},
                **{"measures": ["EE_D@3"], "names": ["a"]},
            },
        ),
        "folds": (folds, {"qids": ["q1", "q2", "q3", "q4"]}),
        "Fitted": (
            fairtk.Fitted,
            {
                **{"system": Trained(), "topics": toy_topics(), "qrels": qrels},
                **{"folds": {"q1": 1, "q2": 2, "q3": 1, "q4": 1}},
            },
        ),
        "cross_fit": (
            fairtk.cross_fit,
            {
                "results": fairtk.Experiment({"a": source}, toy_topics(), qrels, ["RR"]),
                **{"measure": "RR", "folds": 2},
            },
        ),
        "tune": (
            fairtk.tune,
            {
                **{"build": lambda alpha: source >> FairSampler(alpha, 2), "grid": {"alpha": [1]}},
                **{"topics": toy_topics(), "qrels": qrels, "measure": "EE_R@3", "folds": 2},
            },
        ),
        "QueryRefiner": (fairtk.QueryRefiner, {"llm": chat}),
        "FlanT5": (fairtk.FlanT5, {}),
        "ContrieverScorer": (fairtk.ContrieverScorer, {}),
        "SpladeScorer": (fairtk.SpladeScorer, {}),
        "HuggingFaceSeq2Seq": (llm.HuggingFaceSeq2Seq, {"model": "t5"}),
        "HuggingFaceCausal": (llm.HuggingFaceCausal, {"model": "gpt2"}),
        "OpenAICompatible": (llm.OpenAICompatible, {"model": "m", "base_url": "http://x"}),
        "FunctionModel": (llm.FunctionModel, {"function": chat}),
        "KeywordRefiner": (llm.KeywordRefiner, {}),
        "Ledger": (llm.Ledger, {"path": folder / "ledger.sqlite"}),
        "write_run": (io.write_run, {"run": run, "path": folder / "a.run"}),
        "from_answers": (
            credit.from_answers,
            {
                "answers": credit.Subsets("one-out", cutoff=2)(run).assign(qanswer="bread"),
                **{"utility": "f1", "gold": qrels},
            },
        ),
        "ProcessExecutor": (ProcessExecutor, {}),
        "identified": (fairtk.identified, {"transformer": source, "name": "mine"}),
        "kl_divergence": (kl_divergence, {"p": shares, "q": shares}),
        "js_divergence": (js_divergence, {"p": shares, "q": shares}),
        "log_base": (log_base, {"base": 2}),
        "bootstrap_counts": (
            statistics.bootstrap_counts,
            {"n": 3, "resamples": 20, "seed": 1},
        ),
        "mean_intervals": (statistics.mean_intervals, {"values": [[0.1, 0.5, 0.7]]}),
        "corrected_mean": (
            statistics.corrected_mean,
            {"checked": [0.1, 0.5, 0.7], "values": [0.2, 0.4, 0.7], "others": [0.3, 0.1]},
        ),
        "percentile_interval": (
            partial(statistics.percentile_interval, 0.5, [0.1, 0.5, 0.7]),
            {"confidence": 0.9},
        ),
        "paired_test": (statistics.paired_test, {**pairs, "test": "randomization"}),
        "curve_values": (
            statistics.curve_values,
            {"x": [[0.0, 0.5, 1.0]] * 3, "y": [[0.0, 0.4, 1.0]] * 3, "resamples": 20},
        ),
        "two_level_mean": (
            statistics.two_level_mean,
            {"values": [0.1, 0.5, 0.7], "variances": [0.0, 0.1, 0.1]},
        ),
        "power_of_test": (statistics.power_of_test, {"n": 20, "difference": 0.1, "deviation": 0.2}),
        "queries_needed": (statistics.queries_needed, {"difference": 0.1, "deviation": 0.2}),
        "non_inferiority_test": (statistics.non_inferiority_test, {**pairs, "margin": 0.1}),
        "equivalence_test": (statistics.equivalence_test, {**pairs, "margin": 0.1}),
        "correct_p_values": (statistics.correct_p_values, {"p": [0.1, 0.2]}),
        "providers": (credit.providers, {**data, "providers": toy_groups(), "resamples": 20}),
        "plot_shares": (
            credit.plot_shares,
            {
                "results": {
                    "a": credit.providers(**data, providers=toy_groups(), cutoff=1, resamples=20)
                }
            },
        ),
        "order_audit": (
            credit.order_audit,
            {"transformer": fairtk.BM25Scorer(), "run": run, "n": 2, "resamples": 20},
        ),
        "fit_browsing": (
            credit.fit_browsing,
            {"credit": drawn(run).assign(credit=1.0), "candidates": run, "sampler": drawn},
        ),
    }
