"""How many rankings the queries have, how long they are, and whether a file was cut off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fairtk.diagnosis.findings import Finding
from fairtk.errors import listed
from fairtk.frames.columns import QID
from fairtk.frames.rankings import Rankings

_SAMPLE_AGAIN = "draw all queries with the same n_samples and cutoff"


def rankings(run: pd.DataFrame, ranked: Rankings, cutoff: int) -> Iterator[Finding]:
    """Yield what is wrong with the number and the length of rankings."""
    length, n = np.diff(ranked.ranking_start), ranked.n_samples
    if ranked.sampled:
        yield from _samples(ranked, n, length)
    short = _queries(ranked, length < cutoff)
    if short:
        text = (
            f"{len(short)} of {len(n)} queries have rankings of fewer than {cutoff} documents: "
            f"{listed(short, 3)}"
        )
        remedy = "if they have no more candidates, all is well; else the run was cut off"
        yield Finding("note", "short", "run", text, remedy, len(short))
    last = str(run[QID].iloc[-1])
    of_last = ranked.qids[ranked.ranking_query] == last
    others = length[~of_last]
    if len(others) > 1 and (others == others[0]).all() and length[of_last].min() < others[0]:
        text = (
            f"the last query of the run, {last!r}, has {length[of_last].min()} documents, all "
            f"others have {others[0]}"
        )
        yield Finding(
            "warning", "truncated", "run", text, "was the file cut off? write it again", 1
        )


def _samples(ranked: Rankings, n: np.ndarray, length: np.ndarray) -> Iterator[Finding]:
    if len(np.unique(n)) > 1:
        most = int(n.max())
        fewer = [str(qid) for qid in ranked.qids[n < most]]
        text = (
            f"queries have unequal numbers of samples, {n.min()} to {most}: {len(fewer)} of "
            f"{len(n)} have fewer than {most}: {listed(fewer, 3)}"
        )
        remedy = f"{_SAMPLE_AGAIN}: EE_D is too large by (1 - EE_D) / N"
        yield Finding("warning", "samples", "run", text, remedy, len(fewer))
    most_of = np.zeros(len(n), dtype=np.int64)
    np.maximum.at(most_of, ranked.ranking_query, length)
    uneven = _queries(ranked, length < most_of[ranked.ranking_query])
    if uneven:
        text = f"{len(uneven)} of {len(n)} queries have samples of unequal length: "
        text += listed(uneven, 3)
        yield Finding("warning", "lengths", "run", text, _SAMPLE_AGAIN, len(uneven))
    if n.max(initial=0) > 1:
        fixed = _fixed(ranked)
        if len(fixed):
            text = f"{len(fixed)} of {len(n)} queries have one ranking in all their samples: "
            text += listed(fixed, 3)
            remedy = "is alpha as large as you want it? one sample says the same"
            yield Finding("note", "samples", "run", text, remedy, len(fixed))


def _fixed(ranked: Rankings) -> list[str]:
    """Return the queries with several samples that are all the same ranking."""
    rows = pd.DataFrame({"query": ranked.query, "position": ranked.position, "doc": ranked.doc})
    places = rows.groupby(["query", "position"])["doc"]
    varied = set(rows.loc[places.transform("nunique") > 1, "query"])
    several = np.flatnonzero(ranked.n_samples > 1)
    return [str(ranked.qids[query]) for query in several if query not in varied]


def _queries(ranked: Rankings, wrong: np.ndarray) -> list[str]:
    return [str(qid) for qid in ranked.qids[np.unique(ranked.ranking_query[wrong])]]
