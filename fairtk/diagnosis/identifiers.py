"""Do run and labels name the same queries and documents?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import pandas as pd

from fairtk.diagnosis.findings import Finding
from fairtk.errors import listed
from fairtk.frames.columns import DOCNO, LABEL, QID

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


def documents(run: pd.DataFrame, qrels: pd.DataFrame, cutoff: int) -> Iterator[Finding]:
    """Yield what is wrong with the documents of the queries that both frames have."""
    common = set(run[QID].unique()) & set(qrels[QID].unique())
    shown = run.loc[run[QID].isin(common), [QID, DOCNO, "rank"]]
    labels = qrels.loc[qrels[QID].isin(common), [QID, DOCNO, LABEL]]
    if shown.empty or labels.empty:
        return
    pairs = shown[[QID, DOCNO]].drop_duplicates()
    both = pairs.merge(labels, on=[QID, DOCNO])
    judged = set(both[QID])
    strange = [qid for qid in dict.fromkeys(pairs[QID]) if qid not in judged]
    lost, found = (
        labels[~labels[DOCNO].isin(pairs[DOCNO])],
        pairs[~pairs[DOCNO].isin(labels[DOCNO])],
    )
    like = _respelled(found[DOCNO].unique(), lost[DOCNO].unique())
    if strange:
        level = "error" if both.empty else "warning"
        one = strange[0]
        text = (
            f"{len(strange)} of {len(common)} queries have no judged document in their rankings; "
            f"for qid {one!r} the run has docno {pairs.loc[pairs[QID] == one, DOCNO].iloc[0]!r}, "
            f"the qrels have docno {labels.loc[labels[QID] == one, DOCNO].iloc[0]!r}{like}"
        )
        yield Finding(level, "ids", "run, qrels", text, _ALIKE, len(strange))
    elif like:
        text = f"documents of run and qrels differ in how they are written{like}"
        yield Finding("warning", "ids", "run, qrels", text, _ALIKE, len(found))
    top = shown[shown["rank"] < cutoff][[QID, DOCNO]].drop_duplicates()
    known = len(top.merge(labels, on=[QID, DOCNO]))
    if known < len(top) and not both.empty:
        share = known / len(top)
        text = (
            f"{known} of {len(top)} documents in the first {cutoff} ranks are judged ({share:.0%})"
        )
        remedy = (
            "what is not judged counts as not useful: fairtk sensitivity shows whether the order "
            "of systems depends on that"
        )
        level = "warning" if share < _HALF else "note"
        yield Finding(level, "judged", "run, qrels", text, remedy, len(top) - known)


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
