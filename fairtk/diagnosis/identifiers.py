"""Do run and labels name the same queries and documents?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd

from fairtk.diagnosis.findings import Finding
from fairtk.errors import listed
from fairtk.frames.columns import LABEL, QID
from fairtk.frames.ids import Ids
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import Rankings

SPELLINGS: dict[str, Callable[[str], str]] = {
    "letters are compared in lower case": str.lower,
    "leading zeros are dropped": lambda name: name.lstrip("0") or "0",
    "a '.0' at the end is dropped": lambda name: name.removesuffix(".0"),
    "the part up to the last '/' is dropped": lambda name: name.rpartition("/")[2],
    "letters in front of a number are dropped": lambda name: re.sub(r"^\D+(?=\d+$)", "", name),
    "a suffix such as .txt or .html is dropped": lambda name: re.sub(r"\.[A-Za-z]{2,5}$", "", name),
    "signs other than letters and digits are dropped": lambda name: re.sub(r"\W|_", "", name),
}
"""How the same id is often written in two ways."""
SPELLINGS["only the number at the end counts"] = lambda name: re.sub(
    r"^.*?0*(\d+)(\.0)?$", r"\1", name.lower()
)

_HALF = 0.5


def queries(run: pd.DataFrame, qrels: pd.DataFrame) -> Iterator[Finding]:
    """Yield what is wrong with the queries of two frames that have some."""
    ran, labeled = list(run[QID].unique()), list(qrels[QID].unique())
    lacking = [qid for qid in labeled if qid not in set(ran)]
    extra = [qid for qid in ran if qid not in set(labeled)]
    like = _respelled(extra, lacking)
    if len(lacking) == len(labeled):
        text = f"no query of the qrels is in the run (qrels: {listed(labeled, 3)}; run: "
        text += f"{listed(ran, 3)}){like}"
        yield Finding("error", "ids", "run, qrels", text, "write ids alike in both", len(labeled))
        return
    if lacking:
        text = f"{len(lacking)} of {len(labeled)} queries of the qrels are missing in the run: "
        text += f"{listed(lacking, 3)}{like}"
        remedy = "run them; every measure gives them its worst value" if not like else _ALIKE
        yield Finding("warning", "queries-missing", "run", text, remedy, len(lacking))
    if extra:
        text = f"{len(extra)} of {len(ran)} queries of the run have no label: {listed(extra, 3)}"
        text += like
        remedy = "nothing is measured for them; are these the qrels of this run?"
        level = "warning" if like or len(extra) > _HALF * len(ran) else "note"
        yield Finding(level, "queries-extra", "run, qrels", text, remedy, len(extra))


_ALIKE = "write ids alike in both files"


def documents(ranked: Rankings, qrels: Qrels, cutoff: int) -> Iterator[Finding]:
    """Yield what is wrong with the documents of the queries that run and labels both have."""
    common = qrels.queries.find(Ids(ranked.qids)) >= 0
    rows = np.flatnonzero(common[ranked.query])
    if not len(rows):
        return
    judged = ~np.isnan(qrels.labels_of(ranked))
    known = np.zeros(len(ranked.qids), dtype=bool)
    known[ranked.query[judged]] = True
    strange = np.flatnonzero(common & ~known)
    here = qrels.documents.find(ranked.documents)
    shown = np.zeros(qrels.documents.size, dtype=bool)
    shown[here[here >= 0]] = True
    found, lost = ranked.docnos[here < 0], qrels.docnos[~shown]
    like = _respelled(found, lost)
    if len(strange):
        level = "warning" if known.any() else "error"
        qid = str(ranked.qids[strange[0]])
        row = int(np.flatnonzero(ranked.query == strange[0])[0])
        of_qrels = qrels.docnos[qrels.doc[qrels.query == qrels.qids.tolist().index(qid)][0]]
        text = (
            f"{len(strange)} of {int(common.sum())} queries have no judged document in their "
            f"rankings; for qid {qid!r} the run has docno {ranked.docno(row)!r}, the qrels have "
            f"docno {str(of_qrels)!r}{like}"
        )
        yield Finding(level, "ids", "run, qrels", text, _ALIKE, len(strange))
    elif like:
        text = f"documents of run and qrels differ in how they are written{like}"
        yield Finding("warning", "ids", "run, qrels", text, _ALIKE, len(found))
    top = rows[ranked.position[rows] < cutoff]
    pair = ranked.query[top] * np.int64(max(1, ranked.documents.size)) + ranked.doc[top]
    _, first = np.unique(pair, return_index=True)
    n, n_judged = len(first), int(judged[top[first]].sum())
    if n_judged < n and known.any():
        share = n_judged / n
        text = f"{n_judged} of {n} documents in the first {cutoff} ranks are judged ({share:.0%})"
        remedy = (
            "what is not judged counts as not useful: fairtk sensitivity shows whether the order "
            "of systems depends on that"
        )
        level = "warning" if share < _HALF else "note"
        yield Finding(level, "judged", "run, qrels", text, remedy, n - n_judged)


def labels(qrels: pd.DataFrame) -> Iterator[Finding]:
    """Yield what is wrong with labels alone."""
    useful = set(qrels.loc[qrels[LABEL] > 0, QID])
    without = [qid for qid in qrels[QID].unique() if qid not in useful]
    n = qrels[QID].nunique()
    if without:
        text = f"{len(without)} of {n} queries have no useful document: {listed(without, 3)}"
        remedy = "EE_R and EE_L are undefined there: leave them out with fairtk.drop_undefined"
        yield Finding("warning", "useless", "qrels", text, remedy, len(without))
    if bool((qrels[LABEL] > 0).all()):
        text = "every label is useful: nothing is known to be not useful"
        remedy = "n, the number of documents of a query, is then that of useful and retrieved ones"
        yield Finding("note", "labels", "qrels", text, remedy, n)
    negative = int((qrels[LABEL] < 0).sum())
    if negative:
        text = f"{negative} labels are negative"
        remedy = "they count as not useful; where they mean 'not judged', leave them out"
        yield Finding("note", "labels", "qrels", text, remedy, negative)


def _respelled(ran: Iterable[str], labeled: Iterable[str]) -> str:
    """Return in words which spelling makes most of two lists of ids the same, or ``""``."""
    first, second = list(ran), list(labeled)
    fewer = min(len(first), len(second))
    for words, spell in SPELLINGS.items():
        ours, theirs = {spell(name) for name in first}, {spell(name) for name in second}
        if fewer and len(ours & theirs) >= max(1, _HALF * fewer):
            return f"; {len(ours & theirs)} of them agree if {words}"
    return ""
