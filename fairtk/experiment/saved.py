"""Results in a folder: tidy Parquet, and JSON that says what was run with what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import FormatError, StoreError
from fairtk.experiment.evaluation import Evaluation
from fairtk.experiment.rows import SystemRows, saved_rows
from fairtk.files import atomic_text, read_parquet, write_parquet

FORM = 2
"""Version of the folder's form."""

CONFIG, ENVIRONMENT, MEANS = "config.json", "environment.json", "means.parquet"
SETTINGS = "settings"
"""Where a study puts the results of each of its settings, by the setting's name."""


@dataclass(frozen=True)
class SavedEvaluation:
    """The measures of saved results, which may name groups that are not registered here."""

    texts: dict[str, str]  # what `fairtk.measures.parse` makes each of, by label
    directions: dict[str, str]  # ``"higher"`` or ``"lower"``: what is better, by label
    qrels: pd.DataFrame | None

    def ready(self) -> Evaluation:
        """Return what measures; says which groups it lacks."""
        return Evaluation(self.texts.values(), self.qrels, None)


def save(
    folder: Path,
    systems: Sequence[str],
    rows: SystemRows,
    evaluation: Evaluation | SavedEvaluation,
    tables: dict[str, pd.DataFrame],
    environment: dict[str, Any],
    notes: dict[str, Any],
) -> None:
    """Write results to a folder; each file appears in one step, the configuration last.

    Takes tidy frames by file name, and further parts of the configuration as notes.
    """
    files = {name: f"rankings/{i:03}.parquet" for i, name in enumerate(systems)}
    try:
        (folder / "rankings").mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            write_parquet(rows(name), folder / file)
        for name, table in tables.items():
            write_parquet(table, folder / f"{name}.parquet")
        if evaluation.qrels is not None:
            write_parquet(evaluation.qrels, folder / "qrels.parquet")
        _write_json(environment, folder / ENVIRONMENT)
        config = {
            "form": FORM,
            "systems": files,
            "measures": evaluation.texts,
            "better": evaluation.directions,
            **notes,
        }
        _write_json(config, folder / CONFIG)
    except OSError as error:
        raise StoreError(
            f"{folder}: the results cannot be written ({error.strerror or error}); give a folder "
            "that can be written to and has room"
        ) from error


def load(folder: Path) -> dict[str, Any]:
    """Return the arguments of `Results` for what `save` wrote.

    Raises:
        FormatError: a file is missing or damaged; names it.
    """
    config = _read_json(folder / CONFIG)
    try:
        return _arguments(folder, config)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"damaged, or not of saved results ({error!r})", folder / CONFIG
        ) from None


def _arguments(folder: Path, config: Any) -> dict[str, Any]:
    if config.get("form") != FORM:
        raise FormatError(
            f"results of form {config.get('form')!r}; this version of fairtk reads form {FORM}",
            folder / CONFIG,
        )
    systems = list(config["systems"])
    per_query = _read(folder / "per_query.parquet")
    counts = _read(folder / MEANS)
    measures = list(config["measures"])
    means = counts.pivot(index="system", columns="measure", values="mean").rename_axis(columns=None)
    qrels = _read(folder / "qrels.parquet") if measures else None
    return {
        "rows": saved_rows({name: folder / file for name, file in config["systems"].items()}),
        "evaluation": SavedEvaluation(config["measures"], config["better"], qrels),
        "per_query": per_query,
        "means": means.reindex(index=pd.Index(systems, name="system"), columns=measures),
        "failures": _read(folder / "failures.parquet"),
        "baseline": config["baseline"],
        "config": config["experiment"],
        "environment": _read_json(folder / ENVIRONMENT),
    }


def _read(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise FormatError("this file of the saved results is missing", path)
    return read_parquet(path)[0]


def _write_json(value: Any, path: Path) -> None:
    with atomic_text(path) as stream:
        json.dump(value, stream, indent=2, ensure_ascii=False)
        stream.write("\n")


def _read_json(path: Path) -> Any:
    if not path.exists():
        raise FormatError("there are no saved results here: this file is missing", path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"not JSON ({error})", path) from None
