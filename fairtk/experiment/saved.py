"""Results in a folder, in the form that ``results.schema.json`` describes: tables as Parquet, the
rest as JSON, read when asked for.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypedDict

import pandas as pd
from pandas.api.types import is_numeric_dtype, is_string_dtype

from fairtk.errors import DataWarning, FormatError, StoreError
from fairtk.experiment.values import (
    COLUMNS,
    NOTE_TYPES,
    NOTES,
    REASON,
    UNDEFINED,
    Evaluation,
    SystemRows,
    some_columns,
)
from fairtk.frames import (
    CREDIT,
    DOCNO,
    ERROR,
    EXPOSURE,
    LABEL,
    QANSWER,
    QID,
    QUERY,
    RANK,
    SAMPLE,
    SCORE,
    SOURCE_SAMPLE,
    TEXT,
)
from fairtk.io import atomic_text, locked, read_parquet, write_parquet

FORM = 4
"""Version of the folder's form. In 3, values were in ``per_query.parquet`` and rankings did not
name their system; 2 (fairtk 0.2) had no manifest either; a newer one is refused.
"""

CONFIG, ENVIRONMENT, MEANS = "config.json", "environment.json", "means.parquet"
_MANIFEST, _NOTES, _LABELS = "manifest.json", "notes.parquet", "qrels.parquet"
_VALUES, _FAILURES, _ANSWERS, _CREDIT = (
    *("values.parquet", "failures.parquet"),
    *("answers.parquet", "credit.parquet"),
)
_UNNAMED, _UNSIGNED = 3, 2
_RANKINGS, _SYSTEM = "rankings", "system"
_THEIRS = "system (of the rows)"
"""What a column of rankings that is called "system" is called in their file."""
_BEFORE = "per_query.parquet"
"""The values of forms before 4."""
_IN_CREDIT = (QID, SAMPLE, DOCNO, RANK, CREDIT, ERROR, SOURCE_SAMPLE)
SETTINGS, FACTS = "settings", "study.json"
"""Where a study puts the results of each of its settings, by the setting's name; and its facts."""


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of saved results.

    It describes a folder as one object: the content of each file by its name, tables as arrays of
    rows. Its ``version`` is the form of the folders that this version of fairtk writes.
    """
    text = files("fairtk.experiment").joinpath("results.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@dataclass(frozen=True)
class SavedEvaluation:
    """The measures of saved results, which may name groups that are not registered here."""

    texts: dict[str, str]  # what `fairtk.measures.parse` makes each of, by label
    directions: dict[str, str]  # ``"higher"`` or ``"lower"``: what is better, by label
    qrels: pd.DataFrame | None
    measures: tuple[Any, ...] | None = None  # if they are at hand

    def ready(self) -> Evaluation:
        """Return what measures; says which groups it lacks."""
        return Evaluation(self.measures or self.texts.values(), self.qrels, None)


def save(
    folder: Path,
    systems: Sequence[str],
    rows: SystemRows,
    evaluation: Evaluation | SavedEvaluation,
    notes: pd.DataFrame,
    tables: dict[str, pd.DataFrame],
    credits: Mapping[str, pd.DataFrame],
    environment: dict[str, Any],
    more: dict[str, Any],
) -> None:
    """Write results to a folder; each file appears in one step, the manifest last.

    Others who save to the folder, or open it, wait until then. Takes the notes of all systems,
    values, means and failures, credit that rankings do not have, by system, and what more there is
    for the configuration.
    """
    ranking_files = {name: f"{_RANKINGS}/{i:03}.parquet" for i, name in enumerate(systems)}
    config = {
        "form": FORM,
        "systems": ranking_files,
        "measures": evaluation.texts,
        "better": evaluation.directions,
        "credit": {name: list(frame.columns) for name, frame in credits.items()},
        **more,
    }
    frames = {
        file: _typed(file, tables[name])
        for name, file in (("values", _VALUES), ("means", MEANS), ("failures", _FAILURES))
    }
    if evaluation.qrels is not None:
        frames[_LABELS] = evaluation.qrels
    if len(notes):
        texts = [json.dumps(note, ensure_ascii=False) for note in notes["note"]]
        frames[_NOTES] = notes.assign(note=texts)[["system", *NOTES]]
    answers: dict[str, pd.DataFrame] = {}
    all_credit = dict(credits)
    try:
        (folder / _RANKINGS).mkdir(parents=True, exist_ok=True)
        with locked(folder / _RANKINGS):  # two that save to one folder would mix their files
            # that of an earlier save; without it nothing is opened until the last file is written
            (folder / _MANIFEST).unlink(missing_ok=True)
            for name, file in ranking_files.items():
                frame = rows(name)
                write_parquet(_of_system(name, frame), folder / file)
                if QANSWER in frame.columns:
                    answers[name] = answers_in(frame)
                if CREDIT in frame.columns:
                    all_credit.setdefault(name, credit_in(frame))
            for file, parts in ((_ANSWERS, answers), (_CREDIT, all_credit)):
                if parts:
                    frames[file] = _stacked(parts)
            for file, frame in frames.items():
                write_parquet(frame, folder / file)
            _write_json(environment, folder / ENVIRONMENT)
            _write_json(config, folder / CONFIG)
            written_files = [*ranking_files.values(), *frames, ENVIRONMENT, CONFIG]
            # tables of an earlier save, which who reads all rankings would read, too
            for path in [*folder.glob(f"{_RANKINGS}/*.parquet"), *folder.glob("*.parquet")]:
                if path.relative_to(folder).as_posix() not in written_files and _is_ours(path):
                    path.unlink()
            digests = {file: _file_digest(folder / file) for file in written_files}
            _write_json({"form": FORM, "files": digests}, folder / _MANIFEST)
    except OSError as error:
        raise StoreError(
            f"{folder}: the results cannot be written ({error.strerror or error}); give a folder "
            "that can be written to and has room"
        ) from error


def answers_in(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the answers of a system's rows: ``qid``, ``sample`` if sampled, ``qanswer``."""
    keys = [c for c in (QID, SAMPLE) if c in frame.columns]
    return frame.drop_duplicates(keys)[[*keys, QANSWER]].reset_index(drop=True)


def credit_in(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the credit in a system's rows: the columns of a frame C that they have."""
    return frame[[c for c in _IN_CREDIT if c in frame.columns]].reset_index(drop=True)


def _of_system(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows that name their system first."""
    named = frame.rename(columns={_SYSTEM: _THEIRS})
    named.insert(0, _SYSTEM, pd.Series(name, index=named.index, dtype="str"))
    return named


def _stacked(parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of systems below each other; whole numbers that some lack stay whole."""
    table = pd.concat([_of_system(n, frame) for n, frame in parts.items()], ignore_index=True)
    whole = [c for c in (SAMPLE, RANK, SOURCE_SAMPLE) if c in table.columns]
    first = [c for c in (_SYSTEM, QID, SAMPLE) if c in table.columns]
    return table.astype(dict.fromkeys(whole, "Int64"))[[*first, *table.columns.drop(first)]]


def _typed(file: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the types that its file has; without rows pandas knows none."""
    kinds = {**_TABLES[file], REASON: str}
    types = {c: "str" if kinds[c] is str else "float64" for c in table.columns}
    counts = [c for c in table.columns if c in _COUNTS]
    return table.astype({**types, **dict.fromkeys(counts, "int64")})


def _is_ours(path: Path) -> bool:
    if path.name.startswith("."):  # being written, where there are no locks
        return False
    return path.parent.name == _RANKINGS or path.name in {_ANSWERS, _CREDIT, *_TABLES}


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        content = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    return content.hexdigest()


def _write_json(value: Any, path: Path) -> None:
    with atomic_text(path) as stream:
        json.dump(value, stream, indent=2, ensure_ascii=False)
        stream.write("\n")


class _Run(TypedDict, total=False):
    """What is read of an experiment's configuration, which may say more."""

    title: str | None
    license: str | None
    command: str | None
    systems: dict[str, str]
    stages: dict[str, list[dict[str, Any] | None]]
    warnings: list[str]


class _Environment(TypedDict, total=False):
    """What is read of the environment, which says more."""

    packages: dict[str, str]


@dataclass(frozen=True)
class _Config:
    systems: dict[str, str]  # the file of each system's rows
    measures: dict[str, str]
    better: dict[str, Literal["higher", "lower"]]
    baseline: str | None
    experiment: _Run
    credit: dict[str, list[str]] = field(default_factory=dict)  # the columns of what rankings lack


@dataclass(frozen=True)
class _Manifest:
    form: int
    files: dict[str, str]


_TEXTS = {"system": str, QID: str, "measure": str}
_NUMBERS = dict.fromkeys((SCORE, RANK, SAMPLE, LABEL, EXPOSURE), float)
_OFTEN = {**dict.fromkeys((DOCNO, QUERY, TEXT, QANSWER), str), **_NUMBERS}
"""The kinds of columns that a table of a system or of labels may have."""
_COUNTS = dict.fromkeys(("n", "undefined", "failed"), float)
_TABLES: dict[str, dict[str, type]] = {
    _VALUES: {**_TEXTS, "value": float},
    MEANS: {"system": str, "measure": str, "mean": float, **_COUNTS},
    _FAILURES: {"system": str, QID: str, "error": str},
    _NOTES: {"system": str, QID: str, "stage": str, "note": str},
    _LABELS: {QID: str},
    _CREDIT: {"system": str, QID: str, DOCNO: str, CREDIT: float},
}
_TABLES[_BEFORE] = _TABLES[_VALUES]
"""What is read of each table: texts, or numbers."""


def load(folder: Path) -> dict[str, Any]:
    """Return the arguments of `Results` for what `save` wrote, after a look at all its files.

    Raises:
        FormatError: a file is missing, damaged, not what was saved, outside of the folder, or of a
            newer version of fairtk; names it.
    """
    with locked(folder / _RANKINGS, shared=True):  # another process may be saving
        return _SavedFolder(folder).arguments()


class _SavedFolder:
    """The files of saved results; none is read that is not what the manifest says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.digests: dict[str, str] | None = None  # by name; None: of a form without a manifest
        config = self._json(CONFIG, dict)
        form = self.form = config.get("form")
        if form in (FORM, _UNNAMED):
            self.digests = self._json(_MANIFEST, _Manifest)["files"]
        elif isinstance(form, int) and form > FORM:
            raise FormatError(
                f"results of form {form}, which is newer than this version of fairtk knows "
                f"({FORM}): use the version that saved them",
                folder / CONFIG,
            )
        elif form != _UNSIGNED or (folder / _MANIFEST).exists():
            raise FormatError(
                f"results of form {form!r}; this version of fairtk reads form {FORM}",
                folder / CONFIG,
            )
        else:
            warnings.warn(
                f"{folder}: these results were saved by an earlier version of fairtk, without "
                "digests: nobody would notice if a file were changed; save them again",
                DataWarning,
                stacklevel=6,
            )
        self.config = self._json(CONFIG, _Config)
        self.files = self.config["systems"]
        for name in (*(self.digests or ()), *self.files.values()):
            self._checked(name)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Results`."""
        config = self.config
        systems, measures = list(config["systems"]), list(config["measures"])
        per_query = self._table(_VALUES if self._names_systems else _BEFORE)
        undefined = None
        if REASON in per_query:
            undefined = per_query.loc[per_query["value"].isna(), UNDEFINED].astype("str")
        counts = self._table(MEANS)
        means = counts.pivot(index="system", columns="measure", values="mean")
        notes = pd.DataFrame(columns=["system", *NOTES]).astype(NOTE_TYPES)
        if _NOTES in self.digests if self.digests else (self.folder / _NOTES).exists():
            notes = self._table(_NOTES)
            try:
                notes["note"] = notes["note"].map(json.loads).astype(object)
            except (ValueError, RecursionError) as error:
                raise FormatError(f"a note is no JSON ({error})", self.folder / _NOTES) from None
        qrels = self._table(_LABELS) if measures else None
        index = pd.Index(systems, name="system")
        return {
            "rows": self.rows,
            "evaluation": SavedEvaluation(config["measures"], config["better"], qrels),
            "notes": lambda name: notes.loc[notes["system"] == name, NOTES].reset_index(drop=True),
            "per_query": per_query[COLUMNS],
            "undefined": undefined,
            "means": means.rename_axis(columns=None).reindex(index=index, columns=measures),
            "failures": self._table(_FAILURES),
            "credits": self._credits(),
            "baseline": config["baseline"],
            "config": config["experiment"],
            "environment": self._json(ENVIRONMENT, _Environment),
        }

    def rows(
        self, system: str, columns: Collection[str] | None = None, codes: bool = False
    ) -> pd.DataFrame:
        """Return the rows of a system; see `SystemRows`."""
        frame = self._frame(self.files[system], {QID: str})
        if self._names_systems:
            frame = frame.drop(columns=_SYSTEM).rename(columns={_THEIRS: _SYSTEM})
        return some_columns(frame, columns)

    @property
    def _names_systems(self) -> bool:
        return bool(self.form == FORM)

    def _credits(self) -> dict[str, pd.DataFrame]:
        """Return the credit that rankings do not have, by system."""
        columns = self.config.get("credit") or {}
        table = self._table(_CREDIT) if columns else pd.DataFrame()
        credits = {}
        for system, names in columns.items():
            part = table[table[_SYSTEM] == system].reset_index(drop=True)
            lost = sorted({*names} - {*part.columns})
            if lost:
                message = f"the column {lost[0]!r} is missing; found: {list(part.columns)}"
                raise FormatError(message, self.folder / _CREDIT)
            whole = [c for c in (SAMPLE, RANK, SOURCE_SAMPLE) if c in names]
            whole = [c for c in whole if not part[c].isna().any()]
            credits[system] = part[names].astype(dict.fromkeys(whole, "int64"))
        return credits

    def _checked(self, name: str) -> Path:
        """Return a file's path: it is in the folder, and what the manifest says."""
        path = self.folder / name
        try:
            inside = path.resolve().is_relative_to(self.folder.resolve())
            if not inside:
                raise FormatError(
                    "this file is outside of the folder of the saved results: copy it into the "
                    "folder, and save the results again",
                    path,
                )
            if not path.exists():
                what = "there are no saved results here" if name == CONFIG else (
                    "this file of the saved results is missing"
                )  # fmt: skip
                raise FormatError(f"{what}: save them again", path)
            if self.digests is not None and self.digests.get(name) != _file_digest(path):
                raise FormatError(
                    f"not what was saved: its digest is not that of {_MANIFEST}. The file was "
                    "changed or damaged since; save the results again",
                    path,
                )
        except (OSError, RuntimeError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            reason = getattr(error, "strerror", None) or error
            raise FormatError(f"this file cannot be read ({reason})", path) from None
        return path

    def _json(self, name: str, kind: type) -> Any:
        """Return a file's JSON, which must have the form of a class."""
        import msgspec

        path = self._checked(name)
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            msgspec.convert(value, kind)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            reason = " ".join(str(error).split())
            raise FormatError(f"damaged, or not of saved results ({reason})", path) from None
        return value

    def _table(self, name: str) -> pd.DataFrame:
        """Return a table that is about systems and measures of the configuration."""
        frame = self._frame(name, _TABLES[name])
        if "measure" in frame and frame.duplicated([c for c in frame if c in _TEXTS]).any():
            raise FormatError(
                "a system has two values of one measure where there is one", self.folder / name
            )
        for column, names in (("system", self.files), ("measure", self.config["measures"])):
            odd = set(frame.get(column, ())) - set(names)
            if odd:
                raise FormatError(f"{min(odd)!r} is no {column} of {CONFIG}", self.folder / name)
        return frame

    def _frame(self, name: str, columns: Mapping[str, type]) -> pd.DataFrame:
        """Return a table that has columns of these kinds."""
        path = self._checked(name)
        frame = read_parquet(path)[0]
        # what the manifest vouches for may have columns of any kind
        often = _OFTEN if self.digests is None else {}
        there = {name: kind for name, kind in often.items() if name in frame.columns}
        for column, kind in {**there, **columns}.items():
            if column not in frame.columns:
                raise FormatError(
                    f"the column {column!r} is missing; found: {list(frame.columns)}", path
                )
            values = frame[column]
            fits = is_string_dtype if kind is str else is_numeric_dtype
            gaps = kind is str and column in columns and values.isna().any()
            if (len(values) and not fits(values)) or gaps:
                what = "texts" if kind is str else "numbers"
                raise FormatError(f"the column {column!r} must have {what}", path)
        return frame
