"""Systems of a plugin: small, and some of them broken."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyterrier as pt

from fairtk.errors import DataWarning, InputError
from fairtk.measures import RemarkKind
from fairtk.transformers import FairTransformer, remark

FITTED = []
"""The topics that each trained system saw, and the qrels: (qids, qids of the qrels)."""
APPLIED = []
"""(qids that it was trained on, qids that it ranked) of each call of a trained system."""
STOPPED = {"at": None, "asked": []}
"""The query at which `Stops` is stopped, and the queries it was asked."""
BUILT = []
"""The settings that systems were built from."""


class Reverse(pt.Transformer):
    """BM25's first documents, the other way round."""

    def __init__(self, setting):
        BUILT.append(setting)
        self.first = setting.retriever % setting.candidates

    def transform(self, inp):
        run = self.first.transform(inp)
        return run.assign(score=-run["score"], rank=run.groupby("qid").cumcount(ascending=False))


class Memory(pt.Estimator):
    """BM25; remembers what it was trained on."""

    def __init__(self, setting, depth=None):
        self.first = setting.retriever % (depth or setting.candidates)
        self.seen = None

    def fit(self, topics, qrels, *_):
        self.seen = tuple(topics["qid"])
        FITTED.append((self.seen, tuple(sorted(set(qrels["qid"])))))
        return self

    def transform(self, inp):
        APPLIED.append((self.seen, tuple(inp["qid"])))
        return self.first.transform(inp)


class Raises(pt.Transformer):
    def __init__(self, error):
        self.error = error

    def transform(self, inp):
        raise self.error


class Stops(pt.Transformer):
    """BM25, until it is asked for a query at which it is stopped."""

    def __init__(self, setting):
        self.first = setting.retriever % setting.candidates

    def transform(self, inp):
        STOPPED["asked"] += inp["qid"].tolist()
        if STOPPED["at"] in set(inp["qid"]):
            raise KeyboardInterrupt
        return self.first.transform(inp)


class Few(pt.Transformer):
    """Finds one document for each query but "1", for which it finds none."""

    def __init__(self, setting):
        self.first = setting.retriever % 1

    def transform(self, inp):
        return self.first.transform(inp[inp["qid"] != "1"])


def depth(setting):
    """Return as many of BM25's documents as the option says."""
    return setting.retriever % setting.options.get("depth", 1)


def memory_depth(setting):
    return Memory(setting, setting.options.get("depth", 1))


def reverse(setting):
    return Reverse(setting)


def same(setting):
    return setting.retriever % setting.candidates


def memory(setting):
    return Memory(setting)


def stops(setting):
    return Stops(setting)


def stops_at_three(setting):
    """Return a system that can be stopped if its depth is 3."""
    return (Stops if setting.options.get("depth") == 3 else Reverse)(setting)


def fails_at_three(setting):
    is_broken = setting.options.get("depth") == 3
    return Raises(RuntimeError("too deep")) if is_broken else Reverse(setting)


class FailsOnce(pt.Transformer):
    """BM25's first documents; fails for query "5" if there are three."""

    def __init__(self, setting):
        self.depth = setting.options.get("depth", 1)
        self.first = setting.retriever % self.depth

    def transform(self, inp):
        if self.depth == 3 and "5" in set(inp["qid"]):
            raise RuntimeError("no luck")
        return self.first.transform(inp)


def fails_once(setting):
    return FailsOnce(setting)


def few(setting):
    return Few(setting)


def broken(setting):
    return Raises(RuntimeError("no luck\nat all"))


def refuses(setting):
    return Raises(InputError("the toy needs an option"))


def unbuilt(setting):
    raise KeyError(f"option {sorted(setting.options)}")


class Doubts(FairTransformer):
    """BM25's first documents, with a remark on each query."""

    REMARKS: ClassVar = {"toys:doubts": RemarkKind(DataWarning, "the toy has *doubts*")}

    def __init__(self, setting):
        super().__init__()
        self.first = setting.retriever % setting.candidates

    def transform(self, inp):
        remark("toys:doubts", "Doubts", np.ones(len(inp)), inp["qid"])
        return self.first.transform(inp)


def doubts(setting):
    return Doubts(setting)
