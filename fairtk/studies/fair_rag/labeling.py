"""The labels of a task for a generator: published ones, or its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.frames.columns import DOCNO, GOLD_ANSWER, LABEL, QID
from fairtk.studies.fair_rag.labels import UtilityLabels, agreement, statistics, utility_labels
from fairtk.studies.fair_rag.settings import RagSettings
from fairtk.studies.fair_rag.tasks import LampTask
from fairtk.transformers import Candidates, Generator

AGREEMENT = ["task", "generator", "other", "pairs", "flipped", "share", "kappa"]
"""Columns of `label_agreement`."""


@dataclass(frozen=True)
class Labeled:
    """A task's labels for a generator.

    Attributes:
        qrels: of the queries that are kept: ``qid``, ``docno``, ``label``, ``gold_answer``.
        queries: how many were looked at.
        facts: where the labels are from, Tables 13 to 15, agreement with published ones.
        own: gains, answers and utilities; None for published labels.
    """

    qrels: pd.DataFrame
    queries: int
    facts: dict[str, Any]
    own: UtilityLabels | None


def label_task(
    task: LampTask,
    generator: Generator,
    settings: RagSettings,
    folder: Path,
    engine: Mapping[str, Any],
) -> Labeled:
    """Return a task's labels for a generator.

    Args:
        task: the task.
        generator: made for it.
        settings: whose labels, and by which utility.
        folder: of the store.
        engine: arguments of `fairtk.Experiment`.
    """
    topics = task.topics[: settings.limit]
    published = task.published
    if published is not None:
        published = published[published[QID].isin(set(topics[QID]))]
    if settings.labels == "published" and published is not None:
        useful = (published[LABEL] > 0).groupby(published[QID]).transform("sum")
        kept = published[useful >= settings.min_useful].reset_index(drop=True)
        golds = task.answers.set_index(QID)[GOLD_ANSWER]
        qrels = kept.assign(**{GOLD_ANSWER: kept[QID].map(golds)})
        return Labeled(qrels, len(topics), _facts("published", qrels, len(topics)), None)
    utility = settings.utility_of_labels(task.number)
    own = utility_labels(
        topics,
        Candidates(task.dataset),
        task.answers,
        generator,
        utility.name,
        upper_bound=utility.upper_bound,
        grades=settings.grades,
        save_dir=folder,
        **engine,
    )
    qrels = own.qrels(settings.min_useful)
    facts = _facts(f"gains in {utility.name}", qrels, len(topics))
    if published is not None:
        found = agreement(own.documents[[QID, DOCNO, LABEL]], published)
        facts |= {f"published: {key}": value for key, value in found.items()}
    return Labeled(qrels, len(topics), facts, own)


def _facts(source: str, qrels: pd.DataFrame, queries: int) -> dict[str, Any]:
    found = statistics(qrels)
    left_out = queries - int(found["queries"])
    return {"labels": source, "looked at": queries, "left out": left_out, **found}


def label_agreement(found: Mapping[tuple[str, str], Labeled]) -> pd.DataFrame:
    """Return how far generators' own labels agree, e.g. those of one model in two dtypes.

    Args:
        found: labels by task and generator.

    Returns:
        One row per task and pair of generators: ``task``, ``generator``, ``other``, ``pairs``
        (documents that both labeled), ``flipped`` (those that one alone finds useful), ``share``
        of equal labels, Cohen's ``kappa``.
    """
    own = {key: labeled.own.documents for key, labeled in found.items() if labeled.own is not None}
    rows = []
    for (task, first), (other_task, second) in combinations(own, 2):
        if task != other_task:
            continue
        sides = [own[task, name][[QID, DOCNO, LABEL]] for name in (first, second)]
        said = agreement(*sides)
        flipped = round(said["pairs"] * (1 - said["share"])) if said["pairs"] else 0
        rows.append((task, first, second, said["pairs"], flipped, said["share"], said["kappa"]))
    return pd.DataFrame(rows, columns=AGREEMENT)


def nothing_useful(task: LampTask, generator: str, labeled: Labeled, settings: RagSettings) -> str:
    """Return why a task cannot be measured with a generator, and what to do."""
    head = (
        f"{task.name}, {generator}: no query of {labeled.queries} has {settings.min_useful} useful"
    )
    if labeled.own is None:
        return (
            f"{head} documents by the published labels. Take more queries (limit), min_useful=1, "
            "or labels='own'"
        )
    useful = labeled.own.documents[labeled.own.documents[LABEL] > 0]
    return (
        f"{head} documents ({useful[QID].nunique()} have one or more): the generator answers no "
        "better with a document than without. Take a generator that was made for the task, more "
        "queries (limit), or min_useful=1"
    )
