"""Values of systems, and results in a folder: what was measured, rankings and answers, read when
asked for.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import ir_measures
import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype, is_string_dtype

from fairtk import errors
from fairtk.analysis import aggregated
from fairtk.errors import (
    DataWarning,
    FairtkError,
    FairtkWarning,
    FormatError,
    IdentityError,
    InputError,
    StoreError,
    listed,
)
from fairtk.experiment.identity import describe, environment, key_of
from fairtk.experiment.packing import pack, unpack
from fairtk.experiment.store import Store, StoredCell
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    LABEL,
    OF_EXPOSURE,
    QANSWER,
    QID,
    QUERY,
    RANK,
    SAMPLE,
    SCORE,
    TEXT,
    TO_IR_MEASURES,
    FloatArray,
    Run,
    as_strings,
    digest,
    require,
)
from fairtk.io import atomic_text, read_parquet, write_parquet
from fairtk.measures import (
    FairEvaluator,
    FairMeasure,
    parse,
    refuse_samples,
    undefined_warning,
    written,
)

COLUMNS = ["system", QID, "measure", "value"]
NOTES = [QID, "stage", "note"]
_OURS = {theirs: ours for ours, theirs in TO_IR_MEASURES.items()}
_listening = threading.RLock()  # who hears warnings is the process, not the thread


class Evaluation:
    """Measures and labels, ready for any number of systems.

    Args:
        measures: measures, or strings that `fairtk.measures.parse` reads.
        qrels: ``qid``, ``docno``, ``label``, ``gold_answer``: what the measures read.
        qids: the queries; labels of others are left out. None: those of the labels.

    Raises:
        ParameterError: a string is no measure.
        InputError: there are measures and no labels, or none for any of the queries.
    """

    def __init__(
        self, measures: Iterable[Any], qrels: pd.DataFrame | None, qids: Sequence[str] | None
    ) -> None:
        self.measures = list(dict.fromkeys(parse(measure) for measure in measures))
        self.labels = [written(measure) for measure in self.measures]
        self.qids: list[str] = []
        self.qrels: pd.DataFrame | None = None
        if not self.measures:
            return
        if qrels is None:
            raise InputError("Experiment: measures need qrels (or a dataset that has them)")
        require(qrels, [QID], "Experiment (qrels)")
        labels = qrels.assign(**{QID: as_strings(qrels[QID])})
        judged = dict.fromkeys(labels[QID].unique().tolist())
        if qids is None:
            qids = list(judged)
        else:
            labels = labels[labels[QID].isin(set(qids))]
        if labels.empty:
            raise InputError(
                "Experiment: no query of the topics has labels (qids of the topics look like "
                f"{listed(qids[:1])}, of the qrels like {listed(list(judged)[:1])})"
            )
        self.qids = [qid for qid in qids if qid in judged]
        _warn_of_unlabeled([qid for qid in qids if qid not in judged], len(qids))
        self.qrels = labels.reset_index(drop=True)
        place = {qid: i for i, qid in enumerate(self.qids)}
        # means are summed up in this order, whatever the order of the topics
        self._order = [place[qid] for qid in labels[QID].unique().tolist()]
        inputs = {_OURS.get(name, name) for name in ir_measures.run_inputs(self.measures)}
        self.inputs = inputs | {QID, DOCNO, SCORE, RANK, SAMPLE, EXPOSURE, *OF_EXPOSURE}
        self._evaluator = FairEvaluator(self.measures, self.qrels)

    @property
    def texts(self) -> dict[str, str]:
        """What `fairtk.measures.parse` makes each measure of, by its label."""
        return dict(zip(self.labels, map(repr, self.measures), strict=True))

    @property
    def directions(self) -> dict[str, str]:
        """``"higher"`` or ``"lower"``: what is better, by label."""
        ways = [str(getattr(measure, "better", "higher")) for measure in self.measures]
        return dict(zip(self.labels, ways, strict=True))

    def ready(self) -> Evaluation:
        """Return itself; that of saved results is made only when it is asked for."""
        return self

    def refuse_samples(self, system: str, run: pd.DataFrame) -> None:
        """Raise an `InputError` if a system's rows are sampled and a measure would read one
        ranking.
        """
        where = f"system {system!r}"
        refuse_samples(self.measures, Run(run, where), where)

    def all_values(
        self,
        content: dict[str, Any],
        frame: Callable[..., pd.DataFrame],
        store: Store,
    ) -> tuple[pd.DataFrame, dict[str, dict[str, float]]]:
        """Return the values of all systems, those of the store where it has them, and the means.

        Args:
            content: what tells a system's rows from others, by name.
            frame: returns the rows of a system, or of some queries alone, given after its name; a
                query that it lacks gets the worst values.
            store: keeps the values if it has a file.

        Returns:
            ``system``, ``qid``, ``measure``, ``value``, a row per system, measure and query; and by
            system and measure what the measure's own aggregator (a mean for nearly all) makes of
            the defined values, NaN without any.

        Raises:
            InputError: a run cannot be measured; names the system.
        """
        key = self._key(content) if store.path is not None else None
        entry = None if key is None else store.values(key)
        shape = (len(content), len(self.measures), len(self.qids))
        if entry is not None:
            values_by_system = entry[0].column("value").to_numpy().reshape(shape)
            for category, text in entry[1]:
                warnings.warn(text, getattr(errors, category), stacklevel=4)
        elif key is None:
            values_by_system = self._measured(list(content), frame)
        else:
            with _listening, warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                values_by_system = self._measured(list(content), frame)
            for one in heard:
                warnings.warn(one.message, one.category, stacklevel=4)
            if all(issubclass(one.category, FairtkWarning) for one in heard):
                warnings_heard = [(one.category.__name__, str(one.message)) for one in heard]
                table = pack(
                    pd.DataFrame({"value": values_by_system.ravel()}), "values", durable=True
                )
                store.keep_values(key, table, warnings_heard)
        tables = {
            system: self._tables(system, values_by_system[i]) for i, system in enumerate(content)
        }
        frames = [values for values, _ in tables.values()]
        return pd.concat(frames, ignore_index=True), {s: means for s, (_, means) in tables.items()}

    def _key(self, content: dict[str, Any]) -> str | None:
        """Return the digest of all that values depend on; None: a measure has no identity."""
        try:
            told = [describe(measure, repr(measure)) for measure in self.measures]
        except IdentityError:
            return None
        return digest([content, key_of(told), self.qids, self.qrels, environment()["packages"]], 16)

    def _measured(self, systems: list[str], frame: Callable[..., pd.DataFrame]) -> FloatArray:
        """Return the values of all systems; shape (n_systems, n_measures, n_queries).

        Many queries are measured in blocks, which need less memory.
        """
        values = None
        if len(self.qids) > _BLOCK and all(map(_by_query, self.measures)):
            values = self._in_blocks(systems, frame)
        if values is None:
            values = np.stack([self._values(system, frame(system)) for system in systems])
        return values

    def _in_blocks(
        self, systems: list[str], frame: Callable[..., pd.DataFrame]
    ) -> FloatArray | None:
        """Return the same; None if what is to be said can be said of all queries at once alone."""
        assert self.qrels is not None  # there are measures
        parts: list[list[FloatArray]] = []
        undefined: dict[tuple[int, str, str], list[str]] = {}
        for start in range(0, len(self.qids), _BLOCK):
            qids = self.qids[start : start + _BLOCK]
            with _listening, warnings.catch_warnings(action="ignore"):  # said of all of them
                block = Evaluation(self.measures, self.qrels[self.qrels[QID].isin(qids)], qids)
            parts.append([])
            for place, system in enumerate(systems):
                with _listening, warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    try:
                        parts[-1].append(block._values(system, frame(system, qids)))
                    except FairtkError:
                        return None
                for one in heard:
                    about = getattr(one.message, "about", None)
                    if about is None:
                        return None
                    measure, lost, reason = about
                    undefined.setdefault((place, measure, reason), []).extend(lost)
        order = {self.qids[place]: i for i, place in enumerate(self._order)}
        for (_, measure, reason), lost in sorted(undefined.items(), key=lambda item: item[0][0]):
            lost.sort(key=order.__getitem__)
            warning = undefined_warning(measure, lost, len(self.qids), reason)
            warnings.warn(warning, stacklevel=4)
        return np.concatenate(parts, axis=2)

    def _values(self, system: str, run: pd.DataFrame) -> FloatArray:
        """Return the values of a run; shape (n_measures, n_queries)."""
        table = np.full((len(self.measures), len(self.qids)), math.nan)
        row = {id(measure): i for i, measure in enumerate(self.measures)}
        try:
            checked = self._evaluator.checked(run)
            for measure, values in self._evaluator.values(checked):
                table[row[id(measure)], self._order] = values
        except FairtkError as error:
            raise InputError(f"system {system!r}: {error}") from error
        return table

    def _tables(self, system: str, values: FloatArray) -> tuple[pd.DataFrame, dict[str, float]]:
        n = len(self.qids)
        frame = pd.DataFrame(
            {
                "system": np.repeat(np.array([system], dtype=object), values.size),
                QID: np.tile(np.array(self.qids, dtype=object), len(values)),
                "measure": np.repeat(np.array(self.labels, dtype=object), n),
                "value": values.ravel(),
            }
        ).astype({"system": "str", QID: "str", "measure": "str"})
        qids = np.array(self.qids, dtype=object)[self._order]
        means = {
            label: aggregated(measure, own[self._order], qids)
            for measure, label, own in zip(self.measures, self.labels, values, strict=True)
        }
        return frame, means


_BLOCK = 500  # queries that are measured at once, of many


def _by_query(measure: Any) -> bool:
    """Return whether a measure's value of a query surely rests on nothing of other queries."""
    if isinstance(measure, FairMeasure):
        own = type(measure).__module__.startswith("fairtk.") and measure.NAME != "ByGroup"
        return own and all(map(_by_query, measure.parts))
    return bool(ir_measures.pytrec_eval.supports(measure))


def all_samples(
    systems: Sequence[str], rows: Callable[..., pd.DataFrame], evaluation: Evaluation
) -> pd.DataFrame:
    """Return the values of each sample of all systems, sorted; see `per_sample`."""
    parts = [
        part
        for system in systems
        if evaluation.measures
        for part in per_sample(system, rows(system, evaluation.inputs), evaluation)
    ]
    filled = [part for part in parts if len(part)]
    columns = ["system", QID, SAMPLE, "measure", "value"]
    table = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=columns)
    return table.sort_values(["system", QID, SAMPLE, "measure"], ignore_index=True)


def per_sample(system: str, run: pd.DataFrame, evaluation: Evaluation) -> Iterator[pd.DataFrame]:
    """Yield the values of each sample of a system, for measures that have any.

    ``E(m)`` is ``m`` of each ranking; EU is the utility of each ranking's answer. Exposure belongs
    to all samples together, so its measures are left out; a frame X has no samples.
    """
    of_samples = {
        label: measure.inner if measure.NAME == "E" else measure
        for label, measure in zip(evaluation.labels, evaluation.measures, strict=True)
        if measure.NAME in ("E", "EU") or SAMPLE not in run
    }
    if not of_samples or evaluation.qrels is None or EXPOSURE in run:
        return
    evaluator = ir_measures.evaluator(
        list(dict.fromkeys(of_samples.values())), evaluation.qrels.rename(columns=TO_IR_MEASURES)
    )
    samples: Any = run.get(SAMPLE, pd.Series(0, index=run.index)).to_numpy()
    order = np.argsort(samples, kind="stable")
    plain = run.drop(columns=SAMPLE, errors="ignore").rename(columns=TO_IR_MEASURES)
    numbers, start = np.unique(samples[order], return_index=True)
    for number, rows in zip(numbers.tolist(), np.split(order, start[1:]), strict=True):
        part = plain.iloc[rows]
        here = set(part[TO_IR_MEASURES[QID]])
        with warnings.catch_warnings():
            # said with the values of queries
            warnings.simplefilter("ignore", errors.UndefinedWarning)
            warnings.simplefilter("ignore", errors.UnmatchedWarning)
            metrics = [m for m in evaluator.iter_calc(part) if m.query_id in here]
        own: dict[int, list[Any]] = {}  # measures compare by their texts, which takes long
        for metric in metrics:
            own.setdefault(id(metric.measure), []).append(metric)
        for label, measure in of_samples.items():
            mine = [m for group in own.values() if group[0].measure == measure for m in group]
            yield pd.DataFrame(
                {
                    "system": system,
                    QID: [m.query_id for m in mine],
                    SAMPLE: number,
                    "measure": label,
                    "value": [float(m.value) for m in mine],
                }
            )


def _warn_of_unlabeled(qids: list[str], total: int) -> None:
    if qids:
        warnings.warn(
            f"Experiment: {len(qids)} of {total} topics have no labels and are not measured "
            f"({listed(qids)}); filter_by_qrels=True leaves them out altogether",
            DataWarning,
            stacklevel=2,
        )


_EMPTY = {QID: "str", DOCNO: "str", SCORE: "float64"}


SystemRows = Callable[..., pd.DataFrame]
"""Returns a system's rows, queries in the order of the topics.

It takes the system's name, ``columns`` (None: all; those that are not there are left out), and
``codes``: whether ids may be categories, where that is cheaper. Those of an experiment take
``qids``, too: whose rows are wanted.
"""


def stored_rows(
    store: Store, cells: Mapping[str, Mapping[str, StoredCell]], frames: Mapping[str, pd.DataFrame]
) -> SystemRows:
    """Return what gives the rows of a store's cells, and frames that the user gave as systems."""

    def rows(
        system: str,
        columns: Collection[str] | None = None,
        codes: bool = False,
        qids: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        if system in frames:
            frame = frames[system]
            return some_columns(frame if qids is None else frame[frame[QID].isin(qids)], columns)
        own = cells[system]
        some = own.values() if qids is None else [own[qid] for qid in qids if qid in own]
        table = store.read(some, None if columns is None else sorted(columns))
        if table is None:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _EMPTY.items()})
        return unpack(table, codes=codes)

    return rows


def stored_notes(
    store: Store,
    chains: Mapping[str, Sequence[tuple[str, int | None]]],
    topics: Mapping[str, str],
) -> Callable[[str], pd.DataFrame]:
    """Return what gives the notes of a system: ``qid``, ``stage``, ``note``.

    `chains` has the stages that leave some, with the chains that they end, by system; topics are
    digests by qid.
    """

    def notes(system: str) -> pd.DataFrame:
        rows = [
            (qid, stage, note)
            for stage, chain in chains.get(system, ())
            for qid, note in store.notes(chain, topics).items()
        ]
        return pd.DataFrame(rows, columns=NOTES)

    return notes


def some_columns(frame: pd.DataFrame, columns: Collection[str] | None) -> pd.DataFrame:
    """Return a copy with those of the columns that there are; None: all."""
    if columns is None:
        return frame.copy()
    return frame[[name for name in frame.columns if name in columns]]


FORM = 3
"""Version of the folder's form: 3 has a manifest, 2 (fairtk 0.2) none; a newer one is refused."""

CONFIG, ENVIRONMENT, MEANS = "config.json", "environment.json", "means.parquet"
_MANIFEST, _NOTES, _LABELS = "manifest.json", "notes.parquet", "qrels.parquet"
SETTINGS = "settings"
"""Where a study puts the results of each of its settings, by the setting's name."""


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
    environment: dict[str, Any],
    more: dict[str, Any],
) -> None:
    """Write results to a folder; each file appears in one step, the configuration last.

    Takes the notes of all systems, tidy frames by file name, and what more there is for the
    configuration.
    """
    files = {name: f"rankings/{i:03}.parquet" for i, name in enumerate(systems)}
    config = {
        "form": FORM,
        "systems": files,
        "measures": evaluation.texts,
        "better": evaluation.directions,
        **more,
    }
    frames = {f"{name}.parquet": table for name, table in tables.items()}
    if evaluation.qrels is not None:
        frames[_LABELS] = evaluation.qrels
    if len(notes):
        texts = [json.dumps(note, ensure_ascii=False) for note in notes["note"]]
        frames[_NOTES] = notes.assign(note=texts)
    try:
        (folder / "rankings").mkdir(parents=True, exist_ok=True)
        # that of an earlier save; without it nothing is opened until the last file is written
        (folder / _MANIFEST).unlink(missing_ok=True)
        for name, file in files.items():
            write_parquet(rows(name), folder / file)
        for file, frame in frames.items():
            write_parquet(frame, folder / file)
        _write_json(environment, folder / ENVIRONMENT)
        _write_json(config, folder / CONFIG)
        written_files = [*files.values(), *frames, ENVIRONMENT, CONFIG]
        digests = {file: _file_digest(folder / file) for file in written_files}
        _write_json({"form": FORM, "files": digests}, folder / _MANIFEST)
    except OSError as error:
        raise StoreError(
            f"{folder}: the results cannot be written ({error.strerror or error}); give a folder "
            "that can be written to and has room"
        ) from error


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
    "per_query.parquet": {**_TEXTS, "value": float},
    MEANS: {"system": str, "measure": str, "mean": float, **_COUNTS},
    "failures.parquet": {"system": str, QID: str, "error": str},
    _NOTES: {"system": str, QID: str, "stage": str, "note": str},
    _LABELS: {QID: str},
}
"""What is read of each table: texts, or numbers."""


def load(folder: Path) -> dict[str, Any]:
    """Return the arguments of `Results` for what `save` wrote, after a look at all its files.

    Raises:
        FormatError: a file is missing, damaged, not what was saved, outside of the folder, or of a
            newer version of fairtk; names it.
    """
    return _SavedFolder(folder).arguments()


class _SavedFolder:
    """The files of saved results; none is read that is not what the manifest says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.digests: dict[str, str] | None = None  # by name; None: of a form without a manifest
        config = self._json(CONFIG, dict)
        form = config.get("form")
        if form == FORM:
            self.digests = self._json(_MANIFEST, _Manifest)["files"]
        elif isinstance(form, int) and form > FORM:
            raise FormatError(
                f"results of form {form}, which is newer than this version of fairtk knows "
                f"({FORM}): use the version that saved them",
                folder / CONFIG,
            )
        elif form != FORM - 1 or (folder / _MANIFEST).exists():
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
        per_query, counts = self._table("per_query.parquet"), self._table(MEANS)
        means = counts.pivot(index="system", columns="measure", values="mean")
        notes = pd.DataFrame(columns=["system", *NOTES])
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
            "per_query": per_query,
            "means": means.rename_axis(columns=None).reindex(index=index, columns=measures),
            "failures": self._table("failures.parquet"),
            "baseline": config["baseline"],
            "config": config["experiment"],
            "environment": self._json(ENVIRONMENT, _Environment),
        }

    def rows(
        self, system: str, columns: Collection[str] | None = None, codes: bool = False
    ) -> pd.DataFrame:
        """Return the rows of a system; see `SystemRows`."""
        return some_columns(self._frame(self.files[system], {QID: str}), columns)

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
