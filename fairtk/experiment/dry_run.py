"""What an experiment would do: cells and prompts, there and missing. Nothing is run or written."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fairtk.experiment.engine import Engine
from fairtk.experiment.figures import as_texts
from fairtk.experiment.packing import unpack
from fairtk.files.renderings import Table, aligned_lines, html_text

CELLS = ["system", "queries", "there", "failed", "missing"]
PROMPTS = ["model", "prompts", "there", "missing", "unknown"]


@dataclass(frozen=True)
class DryRun:
    """What `fairtk.Experiment` with ``dry_run=True`` returns.

    Attributes:
        cells: ``system``, ``queries``, ``there`` (results in the store), ``failed`` (tried, and
            tried again by a run), ``missing``.
        prompts: ``model``, ``prompts`` (distinct ones, as far as rankings are there), ``there``
            (answered), ``missing``, ``unknown`` (rankings' queries whose prompts cannot be known
            before the rankings are made).
    """

    cells: pd.DataFrame
    prompts: pd.DataFrame

    def __repr__(self) -> str:
        shown = [aligned_lines(t, numbers=range(1, len(t.columns))) for t in self._tables]
        return "\n\n".join("\n".join(lines) for lines in shown)

    def _repr_html_(self) -> str:
        return "".join(map(html_text, self._tables))

    @property
    def _tables(self) -> list[Table]:
        filled = [table for table in (self.cells, self.prompts) if len(table)]
        return [as_texts(table) for table in filled]


def plan(engine: Engine) -> DryRun:
    """Return what an engine's run would do."""
    rows = []
    total = len(engine.topics.qids)
    for system, node in engine.tree.ends.items():
        cells = engine.cells(node).values()
        failed = sum(cell.error is not None for cell in cells)
        there = len(cells) - failed
        rows.append((system, total, there, failed, total - there - failed))
    return DryRun(pd.DataFrame(rows, columns=CELLS), _prompts(engine))


def _prompts(engine: Engine) -> pd.DataFrame:
    engine.prepare()
    texts: dict[str, set[str]] = {}
    unknown: dict[str, int] = {}
    askers = {}
    for node in engine.tree.nodes:
        generator = node.stage.generator
        if generator is None:
            continue
        asker = engine.wanted[node.number].asker
        askers[asker.key] = asker
        known = texts.setdefault(asker.key, set())
        if node.parent is None:
            known.update(generator.asked(engine.topics.frame).prompts)
            continue
        cells = [cell for cell in engine.cells(node.parent).values() if cell.error is None]
        lost = len(engine.topics.qids) - len(cells)
        unknown[asker.key] = unknown.get(asker.key, 0) + lost
        table = engine.store.read(cells)
        if table is not None:
            known.update(generator.asked(unpack(table)).prompts)
    rows = []
    for key, asker in askers.items():
        there = len(engine.store.answers.get(asker, texts[key]))
        total = len(texts[key])
        rows.append((asker.name, total, there, total - there, unknown.get(key, 0)))
    return pd.DataFrame(rows, columns=PROMPTS)
