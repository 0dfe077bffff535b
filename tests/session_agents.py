"""A retriever and agents for the tests of sessions, importable by workers."""

from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pyterrier as pt

from fairtk.transformers.base import FairTransformer

COLUMNS = ["qid", "query", "docno", "score", "rank", "text"]


class Catalog(FairTransformer):
    """Q -> R: the documents named in the query, in this order; "b,a" gives b and a."""

    SETTINGS = ()

    def transform(self, inp):
        self.check_inputs(inp, ["qid", "query"])
        rows = [
            (qid, query, docno, -float(rank), rank, f"text of {docno}")
            for qid, query in zip(inp["qid"], inp["query"], strict=True)
            for rank, docno in enumerate(filter(None, query.split(",")))
        ]
        return pd.DataFrame(rows, columns=COLUMNS)


class Scripted(FairTransformer):
    """Q -> A: an agent that searches for the parts of a question between semicolons."""

    SETTINGS = ("retriever",)

    def __init__(self, retriever):
        self.retriever = retriever

    def transform(self, inp):
        turns = {q: t.split(";") for q, t in zip(inp["qid"], inp["query"], strict=True)}
        for number in range(max(map(len, turns.values()), default=0)):
            pairs = [(q, t[number]) for q, t in turns.items() if number < len(t) and t[number]]
            if pairs:
                self.retriever.transform(pd.DataFrame(pairs, columns=["qid", "query"]))
        return inp.assign(qanswer="done")


class Drawn(pt.Transformer):
    """Q -> S: in turn j, the rankings of table[j], one per sample."""

    def __init__(self, *table):
        self.table = list(table)

    def transform(self, inp):
        rankings = self.table.pop(0)
        rows = [
            (qid, docno, -float(rank), rank, sample)
            for qid in inp["qid"]
            for sample, ranking in enumerate(rankings)
            for rank, docno in enumerate(ranking)
        ]
        return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank", "sample"])


class Threads(Scripted):
    """The same agent, whose searches run in threads, which have no context."""

    def transform(self, inp):
        rows = [inp.iloc[[i]].reset_index(drop=True) for i in range(len(inp))]
        with ThreadPoolExecutor(3) as pool:
            return pd.concat(pool.map(super().transform, rows), ignore_index=True)


class Repeated(Scripted):
    """The same agent, which answers each question in three sessions."""

    def transform(self, inp):
        for _ in range(3):
            self.retriever.new_session()
            answers = super().transform(inp)
        return answers
