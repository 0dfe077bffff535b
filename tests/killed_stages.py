"""Systems that end their process.

A stage and a model end their process by the signal that the environment has as KILL_BY, when they
reach the step that it has as KILL_AT. Their outputs depend on the batch, as scores and answers of
some models do.
"""

import os
import signal
from pathlib import Path

import pandas as pd
from experiment_stages import Echo, Retriever, note

import fairtk
from fairtk import Generator
from fairtk.transformers.base import FairTransformer

TOPICS = pd.DataFrame({"qid": [f"q{i}" for i in range(24)], "query": [f"w{i}" for i in range(24)]})


def step(log, what):
    """Note a step, or end this process."""
    path = Path(log)
    number = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
    if os.environ.get("KILL_AT") == str(number):
        signal.raise_signal(getattr(signal, os.environ["KILL_BY"]))
    note(log, [what])


class Slow(FairTransformer):
    """R -> R: adds the queries of its batch, which it processes one by one."""

    SETTINGS = ()

    def __init__(self, log):
        self.log = log

    def transform(self, inp):
        qids = inp["qid"].unique()
        for qid in qids:
            step(self.log, qid)
        return inp.assign(batch=" ".join(qids))


class Model(Echo):
    """Answers with the number of the prompt in its batch; does 32 prompts at a time."""

    def generate(self, prompts):
        step(self.log, f"{len(prompts)} prompts")
        return [f"w{i} of {len(prompts)}" for i in range(len(prompts))]


class Search(FairTransformer):
    """Answers -> R: two rankings for each query, of its answer."""

    SETTINGS = ()

    def transform(self, inp):
        rankings = Retriever(n=4).transform(inp[["qid", "query"]].drop_duplicates())
        answer = inp.drop_duplicates("qid").set_index("qid")["qanswer"]
        return rankings.assign(text=rankings["qid"].map(answer) + " " + rankings["docno"])


def systems(log):
    model = Model(log)
    generators = [Generator(model, prompt="rag", cutoff=cutoff) for cutoff in (1, 2)]
    return {
        "stage": {"a": Retriever(n=2) >> Slow(log)},
        "model": {str(g.cutoff): Retriever(n=3) >> g >> Search() >> g for g in generators},
    }


def run(folder, name, log):
    return fairtk.Experiment(systems(log)[name], TOPICS, save_dir=folder)
