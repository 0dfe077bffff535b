"""Stages that hold a model in every way, importable by workers."""

import asyncio
import inspect
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, NamedTuple

import pyterrier as pt
from experiment_stages import Retriever
from pyterrier import _ops

import fairtk
from fairtk import FairSampler, Generator, PerSample, QueryRefiner
from fairtk.llm.chat import questions
from fairtk.transformers.base import FairTransformer


def completed(llm, chats):
    """Return the outcomes of chats."""
    return llm.complete(chats)


def asked(llm, label, inp, way=completed):
    """Ask about each query, and return the rows with scores by the answers."""
    queries = inp["query"].unique()
    answers = way(llm, questions(f"{label}: {query}" for query in queries))
    score = {q: float(a.text) for q, a in zip(queries, answers, strict=True)}
    return inp.assign(score=inp["query"].map(score) - inp["rank"])


class Paid(FairTransformer):
    """R -> R: a setting is a model."""

    SETTINGS = ("llm", "label")

    def __init__(self, llm, label):
        self.llm, self.label = llm, label

    def transform(self, inp):
        return asked(self.llm, self.label, inp)


@dataclass
class Pair:
    """A model and its label."""

    llm: Any
    label: str


class Named(NamedTuple):
    """A model and its label."""

    llm: Any
    label: str


class Holder(pt.Transformer):
    """R -> R: any attribute has a model; `path` are the keys that lead to it."""

    def __init__(self, value, path, label):
        self.value, self.path, self.label = value, path, label

    def transform(self, inp):
        llm = self.value
        for key in self.path:
            llm = getattr(llm, key) if isinstance(key, str) and hasattr(llm, key) else llm[key]
        return asked(llm, self.label, inp)


def operators(llm):
    """Return a pipeline for each operator of PyTerrier, and its labels."""
    pipelines = {}
    for name, cls in inspect.getmembers(_ops, inspect.isclass):
        is_base = cls is _ops.NAryTransformerBase or not issubclass(cls, pt.Transformer)
        if is_base or cls.__module__ != _ops.__name__:
            continue
        parameters = inspect.signature(cls).parameters.values()
        stages = [p for p in parameters if p.annotation is pt.Transformer]
        labels = [f"{name} {part}" for part in "ab"]
        if stages:
            operator = cls(*(Paid(llm, label) for label in labels))
        else:
            operator, labels = Paid(llm, name) >> cls(2), [name]
        pipelines[name] = Retriever(n=3) >> operator, labels
    return pipelines


def holders(llm):
    """Return a pipeline for each other way to hold a model, and its labels."""
    values = {
        "attribute": (llm, []),
        "list": ([1, llm], [1]),
        "tuple": ((llm, 2), [0]),
        "dict": ({"a": None, "b": llm}, ["b"]),
        "nested": ({"a": [({"b": llm},)]}, ["a", 0, 0, "b"]),
        "dataclass": (Pair(llm, "x"), ["llm"]),
        "named tuple": (Named(llm, "x"), [0]),
        "transformer": (Paid(llm, "x"), ["llm"]),
    }
    stages = {name: Holder(value, path, name) for name, (value, path) in values.items()}
    stages["bound method"] = pt.apply.generic(Paid(llm, "bound method").transform)
    pipelines = {
        name: (Retriever(n=3) >> fairtk.identified(stage, f"{name}, v1"), [name])
        for name, stage in stages.items()
    }
    sampler = Retriever(n=3) >> FairSampler(n_samples=2, cutoff=2)
    pipelines["per sample"] = sampler >> PerSample(Paid(llm, "per sample")), ["per sample"]
    deep = Retriever(n=3) >> (2 * (Paid(llm, "deep a") + (Paid(llm, "deep b") ^ Retriever(n=2))))
    pipelines["deep"] = deep, ["deep a", "deep b"]
    return pipelines


def of_outcomes(llm, chats):
    """Return the outcomes by the method that yields them."""
    return [outcome for _, outcome in sorted(llm.outcomes(iter(chats)))]


def of_arrivals(llm, chats):
    """Return the outcomes by the method that yields lists."""
    return [outcome for _, outcome in sorted(pair for each in llm.arrivals(chats) for pair in each)]


def in_a_thread(llm, chats):
    """Return the outcomes by a thread."""
    outcomes = []
    thread = Thread(target=lambda: outcomes.extend(llm.complete(chats)))
    thread.start()
    thread.join()
    return outcomes


def in_a_pool(llm, chats):
    """Return the outcomes by threads that call the model at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return [outcome for [outcome] in pool.map(lambda chat: llm.complete([chat]), chats)]


async def _as_coroutine(llm, chats):
    return await asyncio.to_thread(llm.complete, chats)


def in_a_loop(llm, chats):
    """Return the outcomes by a loop of this thread."""
    return asyncio.run(_as_coroutine(llm, chats))


def in_a_loop_of_a_thread(llm, chats):
    """Return the outcomes by a loop of another thread, as in a notebook."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(in_a_loop, llm, chats).result()


def in_a_fork(llm, chats):
    """Return the outcomes by a forked process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(completed, llm, chats).result()


WAYS = (
    *(completed, of_outcomes, of_arrivals, in_a_thread, in_a_pool, in_a_loop),
    *(in_a_loop_of_a_thread, in_a_fork),
)
"""Ways to call a model."""


def _hidden(llm, label, way, inp):
    return asked(llm, label, inp, way)


def hidden(llm, way):
    """Return a pipeline whose model is in a function, where no walk finds it, and its label."""
    label = f"hidden {way.__name__}"
    stage = pt.apply.generic(partial(_hidden, llm, label, way))
    return Retriever(n=3) >> fairtk.identified(stage, f"{label}, v1"), [label]


def others(llm):
    """Return pipelines with fairtk's own stages in operators; their prompts have no label."""
    answered = Retriever(n=3) >> Generator(llm, prompt="rag", cutoff=2)
    refined = QueryRefiner(llm, group="g") >> Retriever(n=3)
    return {"answered": answered ^ Retriever(n=2), "refined": Retriever(n=2) + refined}
