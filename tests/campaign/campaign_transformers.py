"""Transformers as doors: what they return for a frame, by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from campaign_doors import LABELS, MEMBERS, RUN, TERMS, Door, groups_of
from campaign_frame_world import Frames

TEXTS = (*RUN, "query", "text")


class Echo:
    """A backend whose answers are its prompts."""

    name = "echo"
    tokenizer = None

    def generate(self, prompts: list[str]) -> list[str]:
        """Return the prompts."""
        return list(prompts)

    def __repr__(self) -> str:
        return "Echo()"


def transformer_doors() -> list[Door]:
    """Return a door for each transformer."""
    plain = {"run": RUN}
    return [
        Door("FairSampler", ("FairSampler",), plain, _rows("run", _fair_sampler), unsampled=True),
        Door("OracleSampler", ("OracleSampler",), {**plain, "qrels": LABELS},
             _rows("run", _oracle_sampler), unsampled=True),
        Door("PerSample", ("PerSample", "_Reverse"), {"run": ("qid", "sample")},
             _rows("run", _per_sample), sampled=True),
        Door("Candidates", ("Candidates",), {"topics": ("qid",)}, _rows("topics", _candidates)),
        Door("BM25Scorer", ("BM25Scorer",), {"run": ("qid", "docno", "query", "text")},
             _rows("run", _bm25), unsampled=True),
        Door("Generator", ("Generator",), {"run": TEXTS}, _rows("run", _generator, ("qanswer",))),
        Door("QueryRefiner", ("QueryRefiner",), {"topics": ("qid", "query")},
             _rows("topics", _query_refiner)),
        Door("FairQR", ("FairQR", "Groups 'kind'"),
             {"topics": ("qid", "query"), "groups": MEMBERS}, _rows("topics", _fair_qr)),
    ]  # fmt: skip


SHOWN = ("rank", "score", "qanswer", "query", "query_0")


def _rows(
    name: str, make: Callable[[Frames], Any], shown: tuple[str, ...] = SHOWN
) -> Callable[[Frames, int], dict[Any, Any]]:
    def call(frames: Frames, k: int) -> dict[Any, Any]:
        return by_row(make(frames).transform(frames[name]), shown)

    return call


def by_row(frame: pd.DataFrame, columns: tuple[str, ...]) -> dict[Any, Any]:
    """Return some columns' cells by query, sample and document."""
    frame = frame.reset_index(drop=True)  # which may be named like a column
    if "sample" in frame.columns:  # its numbers have no meaning
        ranks = frame.groupby("qid")["sample"].rank("dense") if len(frame) else frame["sample"]
        frame = frame.assign(sample=ranks)
    keys = [c for c in ("qid", "sample", "docno") if c in frame.columns]
    cells: dict[Any, Any] = {}
    shown = [c for c in columns if c in frame.columns]
    for row in frame[[*keys, *shown]].to_dict("records"):
        key = tuple(str(row[c]) for c in keys)
        while key in cells:  # a document twice, where nobody said that it must not be
            key = (*key, "again")
        for column in shown:
            value = row[column]
            cells[(*key, column)] = str(value) if isinstance(value, str) else float(value)
        cells[key] = 0.0
    return cells


def _fair_sampler(frames: Frames) -> Any:
    from fairtk import FairSampler

    return FairSampler(alpha=2, n_samples=3, cutoff=5)


def _oracle_sampler(frames: Frames) -> Any:
    from fairtk import OracleSampler

    return OracleSampler(frames["qrels"], n_samples=3)


def _per_sample(frames: Frames) -> Any:
    import pyterrier as pt

    from fairtk import PerSample
    from fairtk.frames import Run, as_strings, require

    class _Reverse(pt.Transformer):
        def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
            require(inp, ["docno", "score"], "_Reverse")
            Run(inp, "_Reverse")  # what has no samples is passed on as it is
            out = inp.assign(docno=as_strings(inp["docno"]), score=-inp["score"].astype(float))
            out = out.sort_values(["qid", "score", "docno"], ascending=[True, False, True])
            return out.assign(rank=out.groupby("qid").cumcount())

    return PerSample(_Reverse())


def _candidates(frames: Frames) -> Any:
    import ir_datasets
    from ir_datasets.formats import (
        BaseDocs,
        BaseQueries,
        BaseScoredDocs,
        GenericDoc,
        GenericQuery,
        GenericScoredDoc,
    )

    rows = frames["run"].drop_duplicates(["qid", "docno"]).to_dict("records")

    class _Docs(BaseDocs):
        def docs_iter(self) -> Any:
            return iter({r["docno"]: GenericDoc(r["docno"], r["text"]) for r in rows}.values())

        def docs_cls(self) -> Any:
            return GenericDoc

        def docs_store(self) -> Any:
            return self

        def get_many_iter(self, docnos: list[str]) -> Any:
            wanted = set(docnos)
            return (doc for doc in self.docs_iter() if doc.doc_id in wanted)

    class _Queries(BaseQueries):
        def queries_iter(self) -> Any:
            return iter({r["qid"]: GenericQuery(r["qid"], r["query"]) for r in rows}.values())

        def queries_cls(self) -> Any:
            return GenericQuery

    class _Scored(BaseScoredDocs):
        def scoreddocs_iter(self) -> Any:
            return iter([GenericScoredDoc(r["qid"], r["docno"], r["score"]) for r in rows])

    from fairtk import Candidates

    return Candidates(ir_datasets.Dataset(_Docs(), _Queries(), _Scored()))


def _bm25(frames: Frames) -> Any:
    from fairtk import BM25Scorer

    return BM25Scorer()


def _generator(frames: Frames) -> Any:
    from fairtk import Generator, prompts

    template = prompts.get("template", template="{question}: {documents}", joiner=" ")
    return Generator(Echo(), template, cutoff=3)


def _query_refiner(frames: Frames) -> Any:
    from fairtk import QueryRefiner
    from fairtk.llm import KeywordRefiner

    return QueryRefiner(KeywordRefiner(TERMS), group="a")


def _fair_qr(frames: Frames) -> Any:
    import pyterrier as pt

    from fairtk import FairQR, Target
    from fairtk.llm import KeywordRefiner

    groups = groups_of(frames)
    documents = frames["run"][["docno", "text"]].drop_duplicates("docno").to_dict("records")

    class _Search(pt.Transformer):
        def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
            rows = []
            for topic in inp.to_dict("records"):
                for place, document in enumerate(documents):
                    score = 1.0 + place / 64 + sum(w in document["text"].split()
                                                   for w in topic["query"].split())  # fmt: skip
                    rows.append((topic["qid"], topic["query"], document["docno"], score,
                                 document["text"]))  # fmt: skip
            out = pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "text"])
            out = out.sort_values(["qid", "score", "docno"], ascending=[True, False, True])
            return out.assign(rank=out.groupby("qid").cumcount().astype("int64"))

        def __repr__(self) -> str:
            return "_Search()"

    terms = {str(level): ["fox"] for level in groups.levels if level != "@UNKNOWN"}
    return FairQR(
        _Search(), groups, Target.uniform(groups), KeywordRefiner(terms), depth=3, max_iterations=2
    )
