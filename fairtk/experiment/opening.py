"""Results from a folder: those that were saved, or what a store holds."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import InputError, NotFoundError
from fairtk.evaluation.reading import as_labels
from fairtk.experiment.database import FILE
from fairtk.experiment.entry import Experiment
from fairtk.experiment.results import Results
from fairtk.experiment.saved import CONFIG, MEANS, SETTINGS
from fairtk.experiment.upkeep import stored_systems
from fairtk.frames.columns import QID
from fairtk.measures import parse


def open_results(
    folder: str | PathLike[str],
    qrels: Any = None,
    measures: Iterable[Any] = (),
    *,
    gold: Any = None,
) -> Results:
    """Return the results in a folder of `Results.save`, or of ``Experiment(save_dir=...)``.

    A store holds what systems gave, and not what was measured: labels and measures are given here,
    or the results have rankings only. Two systems of one name are told apart by their key.

    Args:
        folder: the folder.
        qrels: labels, for a store: a frame, a file or the id of a dataset.
        measures: measures, for a store.
        gold: gold answers, if the qrels have none: a frame or a file.

    Raises:
        InputError: there are no results here, or saved results are to be measured anew.
        StoreError: the store is damaged.
    """
    place, wanted = results_folder(folder), [parse(measure) for measure in measures]
    if (place / CONFIG).exists():
        if wanted or qrels is not None:
            raise InputError(
                f"{place}: these saved results have measures and labels of their own; give "
                "measures and qrels with the folder of a store only"
            )
        return Results.load(place)
    frames, stages, failures = _stored(place)
    if not frames:
        raise InputError(f"{place / FILE}: no system has finished a query yet; run it again")
    qids = dict.fromkeys(qid for frame in frames.values() for qid in frame[QID])
    topics = pd.DataFrame({QID: list(dict.fromkeys([*qids, *failures[QID]]))})
    labels = None if qrels is None else as_labels(qrels, gold, wanted)
    results: Results = Experiment(frames, topics, labels, wanted)
    results.failures = failures
    results.config = {"stages": stages, "queries": len(topics), "store": FILE}
    return results


def _of_setting(place: Path, setting: str | None) -> Path:
    """Return the folder of a study's setting; without one, the study's, if there are not two."""
    there = sorted(
        {path.relative_to(place).parts[1] for path in place.glob(f"{SETTINGS}/*/**/{MEANS}")}
    )
    if setting is None and len(there) > 1:
        raise InputError(
            f"{place}: there are results of {len(there)} settings; choose one with --setting: "
            + ", ".join(there)
        )
    if setting is None:
        return place
    if setting not in there:
        raise NotFoundError("setting", setting, there)
    return place / SETTINGS / setting


def _stored(folder: Path) -> tuple[dict[str, pd.DataFrame], dict[str, Any], pd.DataFrame]:
    """Return the rows and the stages of each system, and the queries that failed."""
    frames, stages, lost = {}, {}, []
    systems = list(stored_systems(folder))
    names = [system.name for system in systems]
    for name, chain, said, rows, errors in systems:
        if rows is not None:
            shown = name if names.count(name) == 1 else f"{name} ({chain})"
            frames[shown], stages[shown] = rows.reset_index(drop=True), said
            lost += [(shown, qid, error) for qid, error in errors]
    return frames, stages, pd.DataFrame(lost, columns=["system", QID, "error"], dtype="str")


def results_folder(folder: str | PathLike[str], setting: str | None = None) -> Path:
    """Return the folder with results: this one, or the only one below, as of a study.

    Args:
        folder: of saved results, of a store, or of a study that saved its results below.
        setting: the name of the study's settings, if it has results of several.

    Raises:
        InputError: there are none, or several, which are listed.
        NotFoundError: there are no results of that setting.
    """
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    place = _of_setting(place, setting)
    if (place / CONFIG).exists():
        return place
    below = sorted({path.parent for path in place.rglob(MEANS) if (path.parent / CONFIG).exists()})
    if not below and (place / FILE).exists():
        return place
    if len(below) == 1:
        return below[0]
    if not below:
        raise InputError(
            f"{folder}: neither saved results ({CONFIG} of Results.save) nor a store ({FILE} of "
            "Experiment(save_dir=...)) is in this folder"
        )
    raise InputError(
        f"{folder}: there are results in {len(below)} folders; give one of them: "
        + ", ".join(str(path) for path in below)
    )
