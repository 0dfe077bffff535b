"""What FAIR-QR returns: rankings, the trace of the loop, and the queries without a result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from fairtk.errors import DataWarning, listed
from fairtk.fair_qr.progress import Progress
from fairtk.fair_qr.tokens import Tokens, dropped_words
from fairtk.files.renderings import frame_html


@dataclass(frozen=True)
class Outcome:
    """The result of one call.

    Attributes:
        run: one ranking per query (R); queries that are missing have none.
        missing: the queries without a result: ``qid``, ``iteration``, ``reason``.
        waited: seconds of waiting for the model; calls overlap.
        look: measures what was done: who does not ask for the trace does not wait for it.
    """

    run: pd.DataFrame
    missing: pd.DataFrame
    waited: float
    look: Callable[[], pd.DataFrame]

    @cached_property
    def trace(self) -> pd.DataFrame:
        """What was done; see `fairtk.FairQR.trace`."""
        return self.look()

    def __repr__(self) -> str:
        n, lost = self.trace["qid"].nunique(), len(self.missing)
        return f"<FAIR-QR of {n} queries, {lost} of them missing: .run, .trace, .missing>"

    def _repr_html_(self) -> str:
        return frame_html(self.trace, repr(self))


def missing_frame(queries: Sequence[Progress]) -> pd.DataFrame:
    """Return the queries without a result, and why."""
    rows = [(q.qid, q.steps[-1].iteration, q.missing) for q in queries if q.missing]
    return pd.DataFrame(rows, columns=["qid", "iteration", "reason"])


def warn_of_dropped(queries: Sequence[Progress], tokens: Tokens | None) -> None:
    """Warn of added words that the retriever drops."""
    if tokens is None:
        return
    found: dict[str, list[str]] = {}
    for query in queries:
        texts = " ".join(step.query for step in query.steps if step.iteration)
        original = set(dropped_words(query.original, tokens))
        for word in dropped_words(texts, tokens):
            if word not in original:
                found.setdefault(word, []).append(query.qid)
    if found:
        qids = {qid for own in found.values() for qid in own}
        warnings.warn(
            f"FairQR: the retriever drops words that were added for {len(qids)} of {len(queries)} "
            f"queries, mostly as stop words: {listed(sorted(found))}; they find nothing, so leave "
            "them out of the table of terms or the prompt",
            DataWarning,
            stacklevel=4,
        )


def warn_of_gaps(queries: Sequence[Progress], missing: pd.DataFrame, depth: int) -> None:
    """Warn of queries without a result, and of those that could not be measured."""
    told = []
    if len(missing):
        reasons = [f"{q}: {r}" for q, r in zip(missing["qid"], missing["reason"], strict=True)]
        told.append(
            f"{len(missing)} of {len(queries)} queries have no result, because they could not be "
            f"refined ({listed(reasons, 5)}); see .missing"
        )
    for what, who, ids in (
        (f"no document of the top {depth} has a group", "groups and retriever", "docnos"),
        ("there is no target", "target and topics", "qids"),
    ):
        kept = [q.qid for q in queries if len(q.steps) == 1 and q.steps[0].note == what]
        if kept:
            told.append(
                f"{what} for {len(kept)} of {len(queries)} queries ({listed(kept)}), which keep "
                f"their first ranking; check that {who} use the same {ids}"
            )
    for text in told:
        warnings.warn(f"FairQR: {text}", DataWarning, stacklevel=5)
