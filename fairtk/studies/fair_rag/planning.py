"""What a study takes, and what of it is done; nothing is generated or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairtk.errors import ParameterError
from fairtk.experiment import Experiment
from fairtk.frames.columns import DOCNO, LABEL, QID, RANK, SAMPLE
from fairtk.studies.fair_rag.labels import label_systems
from fairtk.studies.fair_rag.points import DETERMINISTIC, GENERATOR, ORACLE, RETRIEVER, TASK
from fairtk.studies.fair_rag.study import RagStudy
from fairtk.studies.fair_rag.tasks import LampTask
from fairtk.transformers import Candidates, Generator

LOOKED_AT = 20
"""From so many queries the number of distinct rankings is estimated."""
LABELS = "labels"
PLAN = [TASK, RETRIEVER, GENERATOR, "queries", "rankings", "prompts"]
STATUS = [TASK, GENERATOR, "stage", "queries", "done", "failed", "missing"]


@dataclass(frozen=True)
class RagPlan:
    """What a study takes.

    Attributes:
        rows: per task, generator and retriever, labels first: ``queries``, ``rankings``,
            distinct ``prompts`` (estimated from the first queries; the oracle's at most).
        status: per task, generator and stage: ``queries``, ``done``, ``failed`` (tried again by a
            run), ``missing``; what waits for labels is missing.
        speed: prompts per second; None: unknown.
    """

    rows: pd.DataFrame
    status: pd.DataFrame
    speed: float | None

    @property
    def missing(self) -> float:
        """How many prompts are still to be answered, about."""
        total = self.status.groupby([TASK, GENERATOR, "kind"])[["queries", "missing"]].sum()
        share = total["missing"] / total["queries"].clip(lower=1)
        kind = self.rows[RETRIEVER]
        keys = zip(self.rows[TASK], self.rows[GENERATOR], kind, strict=True)
        return float(sum(n * share[key] for n, key in zip(self.rows["prompts"], keys, strict=True)))

    @property
    def hours(self) -> float | None:
        """How long generation takes, about; None where the speed is unknown."""
        return None if self.speed is None else self.missing / self.speed / 3600


def make_plan(study: RagStudy, speed: float | None = None) -> RagPlan:
    """Return what a study takes.

    Args:
        study: the study.
        speed: prompts per second; None: unknown.

    Raises:
        ParameterError: the speed is not above 0.
    """
    if speed is not None and not speed > 0:
        raise ParameterError(
            f"the study: speed (prompts per second) must be above 0; found {speed}"
        )
    rows: list[tuple[Any, ...]] = []
    for task in study.tasks:
        topics = task.topics[: study.settings.limit]
        frame = Candidates(task.dataset)(topics[[QID]])
        published = study.settings.labels == "published" and task.published is not None
        for generator in study.generators:
            if not published:
                asked = len(topics) + len(frame)
                rows.append((task.name, LABELS, generator, len(topics), 0, asked))
            for retriever in study.retrievers:
                per_query = study.settings.n_samples * (len(study.settings.alphas) + 1) + 1
                distinct = _distinct(study, task, retriever, topics[:LOOKED_AT])
                rows.append(
                    (task.name, retriever, generator, len(topics), per_query * len(topics),
                     round(distinct * len(topics)))
                )  # fmt: skip
    return RagPlan(pd.DataFrame(rows, columns=PLAN), status(study), speed)


def _distinct(study: RagStudy, task: LampTask, retriever: str, topics: pd.DataFrame) -> float:
    """Return how many distinct rankings a query has, in the mean of some queries.

    What the oracle draws is unknown before documents are labeled: all of its rankings count.
    """
    nothing = pd.DataFrame({QID: topics[QID].iloc[:1], DOCNO: [""], LABEL: [0]})
    systems = study.systems(task, retriever, nothing)
    del systems[ORACLE]
    found: set[tuple[str, ...]] = set()
    results = Experiment(systems, topics)
    for name in systems:
        frame = results.rankings(name).sort_values(RANK)
        keys = [QID] if name == DETERMINISTIC else [QID, SAMPLE]
        found.update(frame.groupby(keys)[DOCNO].agg(tuple))
    return len(found) / len(topics) + study.settings.n_samples


def status(study: RagStudy) -> pd.DataFrame:
    """Return what of a study is done, as `RagPlan.status`."""
    rows: list[list[Any]] = []
    for task in study.tasks:
        topics = task.topics[: study.settings.limit]
        for name, make in study.generators.items():
            generator = make(task.number, study.settings.cutoff)
            published = study.settings.labels == "published" and task.published is not None
            labeled = published
            if not published:
                plan = Experiment(
                    label_systems(Candidates(task.dataset), generator),
                    topics,
                    save_dir=study.folder,
                    dry_run=True,
                )
                rows += _cells(task, name, LABELS, plan.cells)
                labeled = not plan.cells["missing"].any()
            rows += _groups(study, task, name, generator, labeled)
    return pd.DataFrame(rows, columns=[*STATUS, "kind"])


def _groups(
    study: RagStudy, task: LampTask, name: str, generator: Generator, labeled: bool
) -> list[list[Any]]:
    qrels = study.labeled(task, generator).qrels if labeled else None
    rows: list[list[Any]] = []
    for retriever in study.retrievers:
        if qrels is None:
            n = len(task.topics[: study.settings.limit])
            for system in study.settings.systems:
                rows.append([task.name, name, f"{retriever}, {system}", n, 0, 0, n, retriever])
        elif len(qrels):
            plan = study.experiment(task, retriever, generator, qrels, dry_run=True)
            rows += _cells(task, name, retriever, plan.cells)
    return rows


def _cells(task: LampTask, generator: str, kind: str, cells: pd.DataFrame) -> list[list[Any]]:
    rows = cells[["system", "queries", "there", "failed", "missing"]].to_numpy(object).tolist()
    return [
        [task.name, generator, f"{kind}, {system}", *numbers, kind] for system, *numbers in rows
    ]
