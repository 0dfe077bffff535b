"""The loop of FAIR-QR: retrieve, measure, choose a group, refine, retrieve again."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairtk.fair_qr.asking import Refined
from fairtk.fair_qr.choosing import under_represented
from fairtk.fair_qr.parsing import same_words
from fairtk.fair_qr.progress import SHARE, Progress, Step
from fairtk.fair_qr.shares import ShareMeter, Shares
from fairtk.fair_qr.tokens import Tokens
from fairtk.frames.arrays import IntArray, ObjectArray
from fairtk.prompts.refine import Refinement

_ROUNDING = 1e-12  # a smaller fall of the divergence is none
_UNSEEN = "the index sees no new keywords: asked again"
AGAIN = 2
"""How often a query's refinement that the index does not see is asked for again."""


@dataclass
class Loop:
    """Refines many queries side by side: one retrieval and one round of calls per iteration.

    Attributes:
        retrieve: rankings (R, ranks from 0, qids as strings) for queries given by qid and text; and
            whether they are the original ones.
        refine: one outcome for each request.
        meter: measures rankings.
        threshold: a query whose divergence is not above it is done.
        max_iterations: the most refinements of a query.
        choose: how the group is chosen; see `under_represented`.
        tokens: what the index sees of a text; None: that is not known.
        keep_failed: whether a query whose call failed keeps the list it has, or is missing.
        waited: seconds that `refine` took so far.
    """

    retrieve: Callable[[Sequence[str], Sequence[str], bool], pd.DataFrame]
    refine: Callable[[Sequence[Refinement]], list[Refined]]
    meter: ShareMeter
    threshold: float
    max_iterations: int
    choose: str
    keep_failed: bool
    tokens: Tokens | None = None
    waited: float = 0.0

    def run(
        self, qids: Sequence[str], texts: Sequence[str]
    ) -> tuple[list[Progress], list[pd.DataFrame]]:
        """Return what was done for each query, and the rankings of each iteration."""
        queries = [Progress(q, t, t) for q, t in zip(qids, texts, strict=True)]
        for query in queries:
            query.steps.append(Step(0, query.original))
        runs = [self.retrieve(qids, texts, True)]
        self._first(queries, self._measured(queries, runs[0]))
        for iteration in range(1, self.max_iterations + 1):
            asked = self._ask(queries, iteration)
            if not asked:
                break
            texts = [q.steps[-1].query for q in asked]
            runs.append(self.retrieve([q.qid for q in asked], texts, False))
            self._judge(asked, self._measured(asked, runs[-1]))
        for query in queries:
            if query.active:
                query.stop("max_iterations reached")
        return queries, runs

    def _measured(self, queries: Sequence[Progress], run: pd.DataFrame) -> Shares:
        """Return what a run shows, written into the last steps of its queries, too."""
        found = self.meter.measure(run, _qids(queries))
        levels = label_texts(self.meter)
        for place, query in enumerate(queries):
            values = query.steps[-1].values
            values["divergence"] = found.divergence[place]
            values["AWRF"] = found.awrf[place]
            values["retrieved"] = int(found.retrieved[place])
            defined = found.share[place].any()
            for level, share in zip(levels, found.share[place].tolist(), strict=True):
                values[f"{SHARE}{level}"] = share if defined else math.nan
        return found

    def _first(self, queries: Sequence[Progress], found: Shares) -> None:
        has_target = self.meter.targets(_qids(queries)).sum(axis=1) > 0
        for place, query in enumerate(queries):
            query.steps[-1].kept = True
            query.kept.append(0)
            if not found.retrieved[place]:
                query.stop("nothing was retrieved")
            elif not has_target[place]:
                query.stop("there is no target")
            elif np.isnan(found.divergence[place]):
                query.stop(f"no document of the top {self.meter.depth} has a group")
            else:
                self._done(query, found.divergence[place])

    def _done(self, query: Progress, divergence: float) -> None:
        if divergence <= self.threshold:
            query.stop("divergence at most the threshold")

    def _ask(self, queries: Sequence[Progress], iteration: int) -> list[Progress]:
        """Refine the active queries; return those that are to be retrieved again."""
        active = [query for query in queries if query.active]
        cells = self._chosen(active)
        for query, cell in zip(active, cells.tolist(), strict=True):
            if cell < 0:
                query.stop("no known group has less than its target")
        asked = [(q, c) for q, c in zip(active, cells.tolist(), strict=True) if c >= 0]
        if not asked:
            return []
        open_ones = [(query, self._parts(cell)) for query, cell in asked]
        while open_ones:
            attribute = " and ".join(self.meter.groups.space.names)
            requests = [Refinement(q.original, q.keywords, g, attribute) for q, g in open_ones]
            begin = time.perf_counter()
            refined = self.refine(requests)
            self.waited += time.perf_counter() - begin
            for (query, group), answer in zip(open_ones, refined, strict=True):
                self._take(query, iteration, " & ".join(group), answer)
            open_ones = [(q, g) for q, g in open_ones if q.active and self._unseen(q)]
        return [query for query, _ in asked if query.active]

    def _unseen(self, query: Progress) -> bool:
        """Return whether to ask again, as the index sees nothing new; that is no iteration."""
        step = query.steps[-1]
        if self.tokens is None or Counter(self.tokens(step.query)) != Counter(
            self.tokens(step.before)
        ):
            return False
        query.keywords = step.query
        unseen = sum(s.note == _UNSEEN for s in query.steps)
        if unseen == AGAIN:
            query.stop("the index sees no new keywords")
            return False
        step.note = _UNSEEN
        return True

    def _chosen(self, active: Sequence[Progress]) -> IntArray:
        space = self.meter.groups.space
        levels = label_texts(self.meter)
        if not active:
            return np.zeros(0, dtype=np.int64)
        shares = np.array(
            [[q.at(q.kept[-1]).values[f"{SHARE}{level}"] for level in levels] for q in active]
        )
        known = space.known(np.arange(space.size))
        return under_represented(shares, self.meter.targets(_qids(active)), known, self.choose)

    def _parts(self, cell: int) -> tuple[str, ...]:
        label = self.meter.groups.space.label(cell)
        return (label,) if isinstance(label, str) else tuple(label)

    def _take(self, query: Progress, iteration: int, group: str, answer: Refined) -> None:
        step = Step(iteration, answer.query or "", query.keywords, group)
        step.values = {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "seconds": answer.seconds,
        }
        earlier = [s.query for s in query.steps if s.query]
        query.steps.append(step)
        if answer.query is None:
            query.stop(answer.reason)
            query.missing = "" if self.keep_failed else answer.reason
        elif any(same_words(text, answer.query) for text in earlier):
            query.stop("no new keywords")

    def _judge(self, asked: Sequence[Progress], found: Shares) -> None:
        for place, query in enumerate(asked):
            step = query.steps[-1]
            best = query.at(query.kept[-1]).values["divergence"]
            now = found.divergence[place]
            if not found.retrieved[place]:
                query.stop("nothing was retrieved; the earlier list is kept")
            elif np.isnan(now):
                query.stop(f"no document of the top {self.meter.depth} has a group")
            elif not now < best - _ROUNDING:
                query.stop("divergence did not fall; the earlier list is kept")
            else:
                step.kept = True
                query.kept.append(step.iteration)
                query.keywords = step.query
                self._done(query, now)


def label_texts(meter: ShareMeter) -> list[str]:
    """Return the levels as texts: parts of crossed ones are joined by ``&``."""
    labels = meter.groups.levels
    return [label if isinstance(label, str) else " & ".join(label) for label in labels]


def _qids(queries: Sequence[Progress]) -> ObjectArray:
    return np.array([query.qid for query in queries], dtype=object)
