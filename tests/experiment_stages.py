"""Stages for the tests of experiments, importable by workers and other processes."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk.transformers.base import FairTransformer, leave_notes


def world(n_queries=12, n_documents=8, seed=0):
    """Return topics and labels of an invented collection."""
    rng = np.random.default_rng(seed)
    qids = [f"q{i}" for i in range(n_queries)]
    topics = pd.DataFrame({"qid": qids, "query": [f"words of {q}" for q in qids]})
    rows = [
        (q, f"{q}-d{j}", int(rng.random() < 0.4 or j == 0))
        for q in qids
        for j in range(n_documents)
    ]
    return topics, pd.DataFrame(rows, columns=["qid", "docno", "label"])


class Retriever(FairTransformer):
    """Q -> R: a ranking with scores from (qid, seed); notes each call in a file, if any."""

    SETTINGS = ("n", "seed")

    def __init__(self, n=8, seed=0, log=None):
        self.n, self.seed, self.log = n, seed, log

    def transform(self, inp):
        note(self.log, inp["qid"])
        rows = []
        for qid, query in zip(inp["qid"], inp["query"], strict=True):
            rng = np.random.default_rng([self.seed, *qid.encode()])
            scores = np.sort(rng.random(self.n))[::-1]
            rows += [
                (qid, query, f"{qid}-d{j}", scores[j], j, f"text {j} of {qid}")
                for j in range(self.n)
            ]
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank", "text"])


class FailsFor(FairTransformer):
    """Fails while a file exists, for the queries that are named in it."""

    SETTINGS = ()

    def __init__(self, path, log=None):
        self.path, self.log = str(path), log

    def transform(self, inp):
        note(self.log, inp["qid"])
        path = Path(self.path)
        bad = path.read_text().split() if path.exists() else []
        for qid in inp["qid"]:
            if qid in bad:
                raise RuntimeError(f"no luck with {qid}")
        return inp


class DiesOnce(FairTransformer):
    """Kills its own process as long as it can remove the file."""

    SETTINGS = ()

    def __init__(self, path):
        self.path = str(path)

    def transform(self, inp):
        for path in sorted(Path(self.path).glob("life*")):
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return inp


class Echo:
    """A model that answers with the length of the prompt, and notes the prompts."""

    tokenizer = None
    name = "echo"

    def __init__(self, log=None, bad=""):
        self.log, self.bad = log, bad

    def generate(self, prompts):
        note(self.log, prompts)
        for prompt in prompts:
            if self.bad and self.bad in prompt:
                raise RuntimeError("the model choked")
        return [f"answer {len(p)}" for p in prompts]

    def digest(self):
        return "echo"


def note(log, lines):
    """Add lines to a file."""
    if log is not None:
        with open(log, "a", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in lines)


class Noting(FairTransformer):
    """Passes rows on, with a note of each query; those without a result say so, too."""

    SETTINGS = ()
    leaves_notes = True

    def __init__(self, lost=(), log=None, seconds=0.25):
        self.lost, self.log, self.seconds = lost, log, seconds

    def transform(self, inp):
        note(self.log, inp["qid"].unique())
        there = [qid for qid in self.lost if qid in set(inp["qid"])]
        self.missing = pd.DataFrame({"qid": there, "reason": "no result today"})
        notes = {}
        for qid, size in inp["qid"].value_counts().items():
            trace = [{"qid": qid, "size": int(size), "share": float("nan")}]
            notes[qid] = {"seconds": self.seconds, "trace": trace}
        leave_notes(self, notes)
        return inp[~inp["qid"].isin(there)]


class Waits(FairTransformer):
    """Notes its worker's name, and passes rows on once the file is there that this waits for."""

    SETTINGS = ()

    def __init__(self, folder=None):
        self.folder = None if folder is None else str(folder)

    def transform(self, inp):
        if self.folder is not None:
            note(f"{self.folder}/calls", [os.environ["WORKER"]])
            while not os.path.exists(f"{self.folder}/{os.environ['WAITS_FOR']}"):
                time.sleep(0.02)
        return inp


class Padded(FairTransformer):
    """Passes rows on; takes so many bytes."""

    SETTINGS = ("size",)

    def __init__(self, size):
        self.size = size
        self.filler = np.random.default_rng(0).bytes(size)

    def transform(self, inp):
        return inp


class Trained(Retriever, pt.Estimator):
    """A retriever whose seed depends on the number of training topics; notes its training."""

    def __init__(self, seed=0, log=None):
        super().__init__(seed=seed, log=log)
        self.n_trained = None

    def fit(self, topics, qrels, *_):
        self.n_trained = len(topics)
        note(self.log, ["fit"])

    def transform(self, inp):
        assert self.n_trained is not None
        return Retriever(self.n, self.seed + self.n_trained, self.log).transform(inp)
