"""Saved results: a folder of Parquet and JSON files, as described in ``results.schema.json``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import infer_dtype

from fairtk.errors import FormatError, StoreError
from fairtk.experiment.results import Results, answers_in, credit_in
from fairtk.experiment.store import FILE
from fairtk.experiment.values import (
    COLUMNS,
    NOTE_TYPES,
    NOTES,
    UNDEFINED,
    Values,
    some_columns,
)
from fairtk.frames import CREDIT, QANSWER, QID, QUERY, RANK, SAMPLE
from fairtk.frames.columns import ANSWER, SOURCE_SAMPLE
from fairtk.io import file_lock, read_parquet, write_parquet
from fairtk.io.artifacts import METADATA
from fairtk.io.atomic import put_in_place
from fairtk.io.manifest import MANIFEST, checked_file, file_digest, read_manifest
from fairtk.io.qrels import a_row_per_answer
from fairtk.io.tables import listed_evenly
from fairtk.measures.info import MeasureInfo
from fairtk.remarks import read_remark

FORM = 5
"""The version of the folder's format; other versions are rejected."""

CONFIG, ENVIRONMENT, MEANS = "config.json", "environment.json", "means.parquet"
_NOTES, _LABELS = "notes.parquet", "qrels.parquet"
_VALUES, _FAILURES, _ANSWERS, _CREDIT = (
    *("values.parquet", "failures.parquet"),
    *("answers.parquet", "credit.parquet"),
)
_TOPICS, _CHECKED = "topics.parquet", "checked.parquet"
_TABLES = {_VALUES, MEANS, _FAILURES, _NOTES, _LABELS, _ANSWERS, _CREDIT, _TOPICS, _CHECKED}
_SIMPLE = ("string", "integer", "floating", "boolean")
"""The types of columns of topics that are saved."""
_COUNTS = ("n", "undefined", "failed")
_RANKINGS, _SYSTEM = "rankings", "system"
_THEIRS = "system (of the rows)"
"""The name in files of a column "system" of rankings."""
_NEW = ".new"
"""The folder of new files until the manifest names them."""
_CONTENT = "saved results"
"""A part of errors."""
SETTINGS, FACTS = "settings", "study.json"
"""The folder of a study's results by setting, and the file of its facts."""


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of saved results.

    It describes a folder as one object from file name to content, with tables as arrays of rows.
    Its ``version`` is the format that this version of fairtk writes.
    """
    text = files("fairtk.experiment").joinpath("results.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def save(results: Results, folder: Path) -> None:
    """Write results to a folder; if this fails or is killed, an earlier save stays as it was.

    New files have other names until the manifest, which names them by their digests, is replaced.
    Other processes that save to the folder or open it wait until then.
    """
    ranking_files = {name: f"{_RANKINGS}/{i:03}.parquet" for i, name in enumerate(results.systems)}
    config = {
        "form": FORM,
        "systems": ranking_files,
        "measures": [info.as_json() for info in results.measures],
        "credit": {name: list(frame.columns) for name, frame in results.credits.items()},
        "baseline": results.baseline,
        "cluster": None if results.clusters is None else results.clusters.name,
        "remarks": [asdict(remark) for remark in results.remarks],
        "experiment": dict(results.config),
    }
    values = results.values.per_query.merge(results.undefined, how="left", on=UNDEFINED[:-1])
    tables = {_VALUES: values, MEANS: results.counts, _FAILURES: results.failures}
    if results.checked is not None:
        tables[_CHECKED] = results.checked
    frames = {file: _typed(table) for file, table in tables.items()}
    if results.qrels is not None:
        frames[_LABELS] = results.qrels
    topics = _topics(results)
    if len(topics.columns) > 1:
        frames[_TOPICS] = topics
    notes = pd.concat(
        [results.notes(name).assign(system=name) for name in results.systems], ignore_index=True
    )
    if len(notes):
        texts = [json.dumps(note, ensure_ascii=False) for note in notes["note"]]
        frames[_NOTES] = notes.assign(note=texts)[["system", *NOTES]]
    try:
        (folder / _RANKINGS).mkdir(parents=True, exist_ok=True)
        with file_lock(folder / _RANKINGS):  # concurrent saves would mix their files
            _finish_save(folder)
            try:
                digests = _write_new(results, ranking_files, frames, config, folder)
            except BaseException:
                shutil.rmtree(folder / _NEW, ignore_errors=True)
                raise
            if not (folder / MANIFEST).exists():  # no older save needs its files
                _publish(folder, digests)
            put_in_place(folder / _NEW / MANIFEST, folder / MANIFEST)
            _publish(folder, digests)
            shutil.rmtree(folder / _NEW)
            # remove tables of an earlier save, so that nobody reads them
            for path in [*folder.glob(f"{_RANKINGS}/*.parquet"), *folder.glob("*.parquet")]:
                if path.relative_to(folder).as_posix() not in digests and _is_ours(path):
                    path.unlink()
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot write the results ({error.strerror or error}); give a writable "
            "folder with enough free space"
        ) from error


def _topics(results: Results) -> pd.DataFrame:
    """Return the columns of the topics with one text or number per query, and the clusters."""
    topics = pd.DataFrame({QID: results.per_query[QID].unique()})
    if results._topics is not None:
        names = results._topics.columns.drop([QID, QUERY], errors="ignore")
        simple = [n for n in names if infer_dtype(results._topics[n], skipna=True) in _SIMPLE]
        topics = results._topics[[QID, *simple]].drop_duplicates()
        is_single = topics.groupby(QID)[simple].nunique(dropna=False).le(1).all()
        topics = topics[[QID, *is_single.index[is_single]]].drop_duplicates()
    if results.clusters is not None:
        topics = topics.assign(**{results.clusters.name: topics[QID].map(results.clusters)})
    return topics.reset_index(drop=True)


def _write_new(
    results: Results,
    ranking_files: Mapping[str, str],
    frames: dict[str, pd.DataFrame],
    config: dict[str, Any],
    folder: Path,
) -> dict[str, str]:
    """Write the files of a save next to those of an earlier one; return the digest of each."""
    digests = {}
    part = folder / _NEW / "part"
    part.parent.mkdir()

    def write(name: str, content: pd.DataFrame | dict[str, Any]) -> None:
        with part.open("wb") as stream:
            if isinstance(content, dict):
                stream.write(_json_text(content).encode())
            else:
                write_parquet(listed_evenly(content), stream)
        digests[name] = file_digest(part)
        put_in_place(part, _new_path(folder, name, digests[name]))

    answers: dict[str, pd.DataFrame] = {}
    all_credit = dict(results.credits)
    for name, file in ranking_files.items():
        frame = results.rankings(name)
        write(file, _with_system(name, frame))
        if QANSWER in frame.columns:
            answers[name] = a_row_per_answer(answers_in(frame))
        if CREDIT in frame.columns:
            all_credit.setdefault(name, credit_in(frame))
    for file, parts in ((_ANSWERS, answers), (_CREDIT, all_credit)):
        if parts:
            frames[file] = _stacked(parts)
    for file, content in {**frames, ENVIRONMENT: results.environment, CONFIG: config}.items():
        write(file, content)
    manifest = _json_text({"form": FORM, "files": digests})
    (folder / _NEW / MANIFEST).write_text(manifest, encoding="utf-8")
    return digests


def _new_path(folder: Path, name: str, digest: str) -> Path:
    """Return the path of a new file before it replaces the one of an earlier save."""
    return folder / _NEW / f"{digest}.{Path(name).name}"


def _publish(folder: Path, digests: Mapping[str, str]) -> None:
    """Move the new files of a manifest to their names."""
    for name, digest in digests.items():
        path = _new_path(folder, name, digest)
        if path.exists():
            put_in_place(path, folder / name)


def _finish_save(folder: Path) -> None:
    """Finish, or else undo, an earlier save whose process was killed."""
    if (folder / _NEW).exists():
        try:
            digests = _manifest(folder)
        except FormatError:
            digests = {}
        _publish(folder, digests)
        shutil.rmtree(folder / _NEW)


def artifact_metadata(path: str, names: list[str]) -> dict[str, str] | None:
    """Return the type of saved results for PyTerrier, `None` for other folders."""
    return Results.metadata() if {CONFIG, MANIFEST, _VALUES} <= set(names) else None


def _with_system(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    named = frame.rename(columns={_SYSTEM: _THEIRS})
    named.insert(0, _SYSTEM, pd.Series(name, index=named.index, dtype="str"))
    return named


def _stacked(parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the concatenated rows of systems; integers with missing values stay integers."""
    table = pd.concat([_with_system(n, frame) for n, frame in parts.items()], ignore_index=True)
    integers = [c for c in (SAMPLE, ANSWER, RANK, SOURCE_SAMPLE) if c in table.columns]
    first = [c for c in (_SYSTEM, QID, SAMPLE) if c in table.columns]
    return table.astype(dict.fromkeys(integers, "Int64"))[[*first, *table.columns.drop(first)]]


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the types of its file; pandas cannot infer them without rows."""
    numbers = {"value": "float64", "mean": "float64", **dict.fromkeys(_COUNTS, "int64")}
    return table.astype({column: numbers.get(column, "str") for column in table.columns})


def _is_ours(path: Path) -> bool:
    if path.name.startswith("."):  # temporary, on file systems without locks
        return False
    return path.parent.name == _RANKINGS or path.name in _TABLES


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def load(folder: Path) -> dict[str, Any]:
    """Check all files that `save` wrote and return the arguments of `Results`.

    Raises:
        FormatError: a file is missing, damaged, changed, or of another version.
    """
    with file_lock(folder / _RANKINGS, shared=True):  # another process may be saving
        digests = _manifest(folder)

        def checked(name: str) -> Path:
            # a killed process may have replaced only the manifest
            new = _new_path(folder, name, digests.get(name, ""))
            path = new if new.exists() else folder / name
            return checked_file(path, digests.get(name), _CONTENT, _remedy(folder))

        def table(name: str) -> pd.DataFrame:
            return read_parquet(checked(name))[0]

        def rows(
            system: str, columns: Collection[str] | None = None, codes: bool = False
        ) -> pd.DataFrame:
            frame = table(config["systems"][system]).drop(columns=_SYSTEM)
            return some_columns(frame.rename(columns={_THEIRS: _SYSTEM}), columns)

        for name in digests:
            checked(name)
        config, environment = (
            json.loads(checked(name).read_text(encoding="utf-8")) for name in (CONFIG, ENVIRONMENT)
        )
        measures = [MeasureInfo.read(record) for record in config["measures"]]
        per_query = table(_VALUES)
        undefined = per_query.loc[per_query["value"].isna(), UNDEFINED].astype("str")
        means = table(MEANS).pivot(index="system", columns="measure", values="mean")
        means = means.rename_axis(columns=None).reindex(
            index=pd.Index(config["systems"], name="system"),
            columns=[info.label for info in measures],
        )
        notes = pd.DataFrame(columns=["system", *NOTES]).astype(NOTE_TYPES)
        if _NOTES in digests:
            notes = table(_NOTES)
            notes["note"] = notes["note"].map(json.loads).astype(object)
        remarks = tuple(map(read_remark, config.get("remarks", [])))
        topics = table(_TOPICS) if _TOPICS in digests else None
        cluster = config.get("cluster")
        clusters = None
        if topics is not None and cluster is not None:
            clusters = topics.set_index(QID)[cluster].dropna()
        return {
            "_rows": rows,
            "values": Values(per_query[COLUMNS], means, undefined, remarks),
            "remarks": remarks,
            "measures": measures,
            "_labels": table(_LABELS) if measures else None,
            "_notes": lambda name: notes.loc[notes["system"] == name, NOTES].reset_index(drop=True),
            "failures": table(_FAILURES),
            "credits": _credits(table(_CREDIT), config["credit"]) if config["credit"] else {},
            "baseline": config["baseline"],
            "_topics": topics,
            "clusters": clusters,
            "checked": table(_CHECKED) if _CHECKED in digests else None,
            "config": config["experiment"],
            "environment": environment,
        }


def _manifest(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise FormatError("no such folder", folder)
    if (folder / FILE).exists():
        raise FormatError(
            "expected saved results, got a store (save_dir): use fairtk.experiment.open_results, "
            "or fairtk export",
            folder,
        )
    if not (folder / CONFIG).exists():
        raise FormatError(f"missing file of {_CONTENT}; {_remedy(folder)}", folder / CONFIG)
    return read_manifest(folder, FORM, _CONTENT, _remedy(folder))


def _remedy(folder: Path) -> str:
    """Return what to do if a file is missing or was changed."""
    is_package = (folder / METADATA).exists()
    return "download the package again" if is_package else "save the results again"


def _credits(table: pd.DataFrame, columns: Mapping[str, list[str]]) -> dict[str, pd.DataFrame]:
    """Return the credit that is not in rankings, by system."""
    credits = {}
    for system, names in columns.items():
        part = table[table[_SYSTEM] == system].reset_index(drop=True)
        integers = [c for c in (SAMPLE, RANK, SOURCE_SAMPLE) if c in names]
        integers = [c for c in integers if not part[c].isna().any()]
        credits[system] = part[names].astype(dict.fromkeys(integers, "int64"))
    return credits
