"""The tasks of the study: LaMP data, and which utility scores its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import pandas as pd

from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.errors import InputError, ParameterError
from fairtk.io.dataset_ids import labels_of, resolve_dataset
from fairtk.measures import EU


@dataclass(frozen=True)
class TaskUtility:
    """How answers of a task are scored.

    Attributes:
        name: of the string utility.
        upper_bound: turns an error u into upper_bound - u; None: more is better already.
    """

    name: str
    upper_bound: float | None = None

    @property
    def measure(self) -> Any:
        """The expected utility over sampled rankings."""
        if self.upper_bound is None:
            return EU(utility=self.name)
        return EU(utility=self.name, upper_bound=self.upper_bound)


ACCURACY, ROUGE = TaskUtility("accuracy"), TaskUtility("rougeL")
UTILITIES: Mapping[int, TaskUtility] = {
    1: ACCURACY,
    2: ACCURACY,
    3: TaskUtility("mae", 4.0),
    **dict.fromkeys((4, 5, 6, 7), ROUGE),
}
"""What EU of each task is made of, and by default its labels: the measures of LaMP's paper."""

PUBLISHED_LABELS: Mapping[int, TaskUtility] = {**UTILITIES, 3: ACCURACY}
"""What the published code labels by: LaMP-3 by accuracy, though its EU takes the error."""


class LampTask:
    """One task of the study.

    Args:
        dataset: a LaMP dataset, or its id.
        name: how tables call it; None: ``LaMP-4``.

    Raises:
        NotFoundError: no dataset has the id.
        InputError: it is not of LaMP.
    """

    def __init__(self, dataset: Any, name: str | None = None) -> None:
        self.dataset = resolve_dataset(dataset, "the study")
        self.number = lamp.task_of(self.dataset)
        self.name = f"LaMP-{self.number}" if name is None else name

    @cached_property
    def topics(self) -> pd.DataFrame:
        """The questions: ``qid``, ``query``, ``question``."""
        return get_topics(self.dataset)

    @cached_property
    def answers(self) -> pd.DataFrame:
        """The gold answers: ``qid``, ``gold_answer``."""
        return get_answers(self.dataset)

    @cached_property
    def published(self) -> pd.DataFrame | None:
        """The labels that came with the data: ``qid``, ``docno``, ``label``; None: no labels."""
        return labels_of(self.dataset) if self.dataset.has_qrels() else None

    @property
    def license(self) -> str:
        """Under which license the data stand."""
        return str(lamp.license_of(self.dataset))


def read_tasks(
    source: str | PathLike[str], numbers: tuple[int, ...] = (), split: str = "dev"
) -> list[LampTask]:
    """Return the tasks in a folder, or of a dataset's id.

    Args:
        source: an id such as ``lamp/4/dev``, or a folder (or zip) with LaMP's files; for several
            tasks one with a folder ``LaMP_4`` each, or an archive of published labels.
        numbers: the tasks, for a folder.
        split: in the names of a folder's files.

    Raises:
        InputError: a folder without a task, or an id with one.
    """
    from pathlib import Path

    place = Path(source).expanduser()
    if not place.exists():
        if numbers:
            raise InputError(
                f"the id {str(source)!r} says which task it is; tasks are chosen for folders, and "
                "there is no such folder"
            )
        return [LampTask(str(source))]
    if not numbers:
        raise InputError(
            f"{place}: which of LaMP's tasks is it? Files do not say; give e.g. --task 4"
        )
    if len(set(numbers)) < len(numbers):
        raise ParameterError(f"the study: a task is given twice; found {list(numbers)}")
    found = []
    for number in numbers:
        own = [p for p in (place / f"LaMP_{number}", place / f"lamp-{number}") if p.is_dir()]
        found.append(LampTask(lamp.from_folder(own[0] if own else place, task=number, split=split)))
    return found
