"""What a study takes, before any call is made."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fairtk.frames.columns import QID
from fairtk.frames.content import digest
from fairtk.llm import Ledger
from fairtk.studies.fair_qr.cells import RANDOM, Cell
from fairtk.studies.fair_qr.layout import LEDGER, Layout

_AFTER_THE_LOOP = (
    "pool",
    "threshold",
    "k",
    "rerank",
    "reranker",
    "weight",
    "floor",
    "max_iterations",
    "qrels",
)
"""Settings that do not change which calls are made, or only how many of them."""


@dataclass(frozen=True)
class Plan:
    """What a study takes at most.

    Attributes:
        rows: one row per loop whose calls differ: ``attribute``, ``systems`` (that share its
            answers), ``topics`` (that are not done), ``calls``, ``prompt_tokens``,
            ``completion_tokens``, ``price`` (NaN: unknown): every topic refined as often as
            allowed, every answer as long as allowed. Only the tokens of prompts are no upper bound:
            refined keywords are longer than the original ones.
        recorded: answers that are in the ledger already; calls that they answer are counted.
        cells: how many cells the study has.
        done: how many of them are done.
    """

    rows: pd.DataFrame
    recorded: int
    cells: int
    done: int

    @property
    def total(self) -> Mapping[str, float]:
        """The sums: ``calls``, ``prompt_tokens``, ``completion_tokens``, ``price``."""
        names = ["calls", "prompt_tokens", "completion_tokens", "price"]
        return {name: float(self.rows[name].sum(skipna=False)) for name in names}


def plan(study: Layout, sides: Mapping[str, Layout]) -> Plan:
    """Return what a study takes at most, without any call and without a result.

    Args:
        study: the study.
        sides: the studies of other models and retrievers, by what their systems are called after.
    """
    path = study.folder / LEDGER
    ledger = study.ledger
    with contextlib.ExitStack() as stack:
        if ledger is None and path.exists():
            ledger = stack.enter_context(Ledger(path))
        stack.enter_context(study.opened())
        found = [_plan(study, ledger)]
        for name, side in sides.items():
            more = _plan(side, ledger)
            found.append(replace(more, rows=more.rows.assign(systems=more.rows["systems"] + name)))
    rows = [one.rows for one in found if len(one.rows)] or [found[0].rows]
    counts = {name: sum(getattr(one, name) for one in found) for name in ("cells", "done")}
    return replace(found[0], rows=pd.concat(rows, ignore_index=True), **counts)


def _plan(study: Layout, ledger: Ledger | None) -> Plan:
    loops: dict[str, list[tuple[Cell, Cell]]] = {}
    done = 0
    for cell in study.cells:
        if study.pending(cell).empty:
            done += 1
        elif cell.refines and cell.base != RANDOM:
            for tried in [cell.at(one) for one in cell.grid] or [cell]:
                loops.setdefault(_loop(tried), []).append((cell, tried))
    rows = [_row(study, same, ledger) for same in loops.values()]
    columns = ["attribute", "systems", "topics"]
    columns += ["calls", "prompt_tokens", "completion_tokens", "price"]
    return Plan(
        pd.DataFrame(rows, columns=columns),
        0 if ledger is None else len(ledger),
        len(study.cells),
        done,
    )


def _loop(cell: Cell) -> str:
    kept = {k: v for k, v in cell.options.items() if k not in _AFTER_THE_LOOP}
    return digest([cell.attribute, kept])


def _row(study: Layout, same: list[tuple[Cell, Cell]], ledger: Ledger | None) -> list[Any]:
    """Return the row of cells that make the same calls, some of them more of these.

    Args:
        study: the study.
        same: the cells, each with one that has the settings which are used, or tried in tuning.
        ledger: what has answers and prices.
    """
    llm = study.llm if ledger is None else ledger.wrap(study.llm)
    cells = list(dict.fromkeys(cell for cell, _ in same))
    # tuning ranks all topics, whatever is left of its own
    asked = [study.data.topics if cell.grid else study.pending(cell) for cell in cells]
    topics = study.data.topics[study.data.topics[QID].isin(pd.concat(asked)[QID])]
    # those of one loop differ in how often it goes round
    longest = {tried.options["max_iterations"]: tried for _, tried in same}
    estimates = [study.refiner(tried, llm).estimate(topics) for tried in longest.values()]
    found = max(estimates, key=lambda estimate: estimate.calls)
    price = math.nan if found.price is None else float(found.price)
    names = "; ".join(cell.label for cell in cells)
    counts = [found.calls, found.prompt_tokens, found.completion_tokens, price]
    return [cells[0].attribute, names, len(topics), *counts]
