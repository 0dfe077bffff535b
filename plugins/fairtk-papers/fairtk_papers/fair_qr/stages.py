"""A system of the study as a stage of an experiment, and what the store has of it."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.errors import FairtkError, FairtkWarning, InputError, format_list
from fairtk.experiment.engine import Topics
from fairtk.experiment.identity import Tree
from fairtk.experiment.packing import unpack
from fairtk.experiment.store import Store
from fairtk.experiment.tuning import Tuner
from fairtk.frames import DOCNO, QID, RANK, SCORE, Run, require_columns
from fairtk.transformers import FairQR, FairTransformer
from fairtk_papers.fair_qr.systems import Cell
from fairtk_papers.fair_qr.values import PRODUCT, measures
from fairtk_papers.studies import plain

if TYPE_CHECKING:
    from fairtk_papers.fair_qr.study import QrStudy

RUN = [QID, DOCNO, SCORE, RANK]
CHOSEN = ["fold", "settings", "value", "topics", "seconds", "calls"]
"""What tuning notes of a fold; ``calls`` are answers newly recorded."""
_COUNTS = ["retrieved", "prompt_tokens", "completion_tokens", "seconds"]
_VARYING = re.compile(r"'[^']*'|\d+")


class StudySystem(FairTransformer):
    """A system of the study for one attribute: Q -> R, with a note of each query.

    A note has ``seconds`` and ``waited`` (of them for the model) of the query, ``training``
    (seconds of training, indexing or choosing settings, at the query before which it was done),
    ``chosen`` (by tuning, likewise), ``warnings`` and the rows of the ``trace``.

    A system that is trained or tuned is made anew for each fold of the topics, on those of the
    other folds; it is held until a topic of another fold comes.

    Args:
        study: the study.
        cell: which of its systems.
        llm: the model, behind a ledger, if the system asks one.
        alias: the cell as the tables and errors call it; None: as it is.

    Attributes:
        missing: the queries of the last call without a result: ``qid``, ``reason``.
    """

    identity_name = "fairtk.StudySystem"
    output_version = 1

    def __init__(
        self, study: QrStudy, cell: Cell, llm: Any = None, alias: Cell | None = None
    ) -> None:
        super().__init__()
        self.study = study
        self.cell = cell
        self.alias = alias or cell
        self.llm = llm
        self.missing: pd.DataFrame | None = None
        self._system: Any = None
        self._fold: int | None = None

    def settings(self) -> dict[str, Any]:
        """Return what decides the results."""
        return self.study.identity(self.cell)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query."""
        return self.transform_with_notes(inp)[0]

    def transform_with_notes(
        self, inp: pd.DataFrame
    ) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
        """Return rankings, and the note of each query by qid."""
        runs: list[pd.DataFrame] = []
        notes: dict[str, dict[str, Any]] = {}
        missing: list[pd.DataFrame] = []
        with naming(self.alias), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            for fold, topics in self._by_fold(inp):
                training, choice = self._prepare(fold)
                first = topics[QID].iloc[0]
                run, trace, lost, note = self._rank(topics)
                rows = dict(iter(trace.groupby(QID, sort=False)))
                for qid in topics[QID]:
                    notes[qid] = {
                        **note,
                        "training": training if qid == first else 0.0,
                        "chosen": choice if qid == first else None,
                        "trace": rows[qid].to_dict("records") if qid in rows else [],
                    }
                runs.append(run)
                missing += [] if lost is None else [lost]
            run = pd.concat(runs, ignore_index=True)
            require_columns(run, RUN, "the study")
            Run(run.drop(columns=RANK), "the study").checked()  # broken rankings are not kept
        for warning in heard:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        texts = [str(w.message) for w in heard if issubclass(w.category, FairtkWarning)]
        # what is missing now may be there after the next run, and is kept by name
        texts = [text for text in texts if "have no result" not in text]
        for note in notes.values():
            note["warnings"] = texts
        self.missing = pd.concat(missing, ignore_index=True) if missing else None
        names = {name: run[name].map(str).astype(object) for name in (QID, DOCNO)}
        return run[RUN].assign(**names), notes

    # Parts ------------------------------------------------------------------------------------

    def _by_fold(self, topics: pd.DataFrame) -> Iterator[tuple[int | None, pd.DataFrame]]:
        if not self.study.folded(self.cell):
            yield None, topics
            return
        for fold, part in topics.groupby(topics[QID].map(self.study.folds), sort=False):
            yield int(str(fold)), part

    def _prepare(self, fold: int | None) -> tuple[float, dict[str, Any] | None]:
        """Make the system for a fold unless it is there; return the seconds, and the choice."""
        if self._system is not None and fold == self._fold:
            return 0.0, None
        study, cell, choice = self.study, self.cell, None
        begin = time.perf_counter()
        if cell.grid:
            assert fold is not None  # tuned systems come by fold
            calls = len(self.llm.ledger)
            best = self._tuner.choose(fold)
            self._system = None  # the last fold's goes before this one comes
            self._system = self._tuner.made(best.settings, fold)
            choice = _row(best, len(self.llm.ledger) - calls)
        elif cell.refines:
            self._system = study.refiner(cell, self.llm)
            begin = time.perf_counter()
        elif study.trained(cell):
            self._system = None
            self._system = self._fitted(fold)
        else:
            self._system = study.build(cell)
            begin = time.perf_counter()
            if hasattr(self._system, "prepare"):  # an index
                self._system.prepare()
        self._fold = fold
        return (0.0 if cell.refines and not cell.grid else time.perf_counter() - begin), choice

    def _fitted(self, fold: int | None) -> Any:
        every, qrels = self.study.data.topics, self.study.data.qrels
        if len(every) < 2:
            raise InputError("training and testing on different topics needs two topics at least")
        train = every[every[QID].map(self.study.folds) != fold].sort_values(QID, ignore_index=True)
        system = self.study.build(self.cell)
        system.fit(train, qrels[qrels[QID].isin(train[QID])])
        return system

    @cached_property
    def _tuner(self) -> Tuner:
        study, cell = self.study, self.cell
        trained = study.trained(cell)
        least = 3 if trained else 2
        if len(set(study.folds.values())) < least:
            raise InputError(
                f"tuning needs {least} folds and topics at least: some to choose settings on, "
                f"others to show{', others to train on' * trained}; leave it out by `tuning={{}}`"
            )

        def build(**settings: Any) -> Any:
            own = cell.at(settings)
            return study.refiner(own, self.llm) if cell.refines else study.build(own)

        return Tuner(
            build,
            cell.grid,
            study.data.topics,
            study.data.qrels,
            measures(
                *study.data.attributes[cell.attribute], study.settings.cutoff, study.settings.ndcg
            )[PRODUCT],
            study.folds,
            trained,
            cell.system,
        )

    def _rank(
        self, topics: pd.DataFrame
    ) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame | None, dict[str, Any]]:
        """Return rankings, trace, what is missing, and what all notes have."""
        count = len(topics)
        begin = time.perf_counter()
        if not isinstance(self._system, FairQR):
            run = self._system.transform(topics)
            note = {"seconds": (time.perf_counter() - begin) / count, "waited": 0.0}
            return run, pd.DataFrame(columns=[QID]), None, note
        outcome = self._system.refine(topics)
        # counts are integers only where no other query of the same call lacks one
        numbers = outcome.trace[_COUNTS].apply(pd.to_numeric).astype(float)
        trace = outcome.trace.assign(**dict(numbers.items()))
        note = {
            "seconds": (time.perf_counter() - begin) / count,
            "waited": outcome.waited / count,
        }
        return outcome.run, trace, outcome.missing, note


@contextmanager
def naming(cell: Cell) -> Iterator[None]:
    """Put the system's name before the errors of what plugins give."""
    try:
        yield
    except Exception as error:
        if cell.refines:
            raise
        kind = InputError if isinstance(error, InputError) else FairtkError
        what = str(error) if isinstance(error, FairtkError) else f"{type(error).__name__}: {error}"
        raise kind(f"system {cell.system!r} for {cell.attribute!r}: {what}") from error


def _row(choice: Any, calls: int) -> dict[str, Any]:
    settings = json.dumps({name: plain(value) for name, value in choice.settings.items()})
    row = (choice.fold, settings, choice.value, choice.topics, choice.seconds, calls)
    return dict(zip(CHOSEN, row, strict=True))


@dataclass(frozen=True)
class SystemResults:
    """What the store has of one system.

    Attributes:
        rankings: R, in the order of the topics.
        notes: by qid what `StudySystem` noted, of queries that failed, too.
        errors: by qid why there is no result.
    """

    rankings: pd.DataFrame
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> set[str]:
        """The queries with a result."""
        return self.notes.keys() - self.errors.keys()

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The rows of all traces."""
        rows = [row for note in self.notes.values() for row in note["trace"]]
        return pd.DataFrame(rows) if rows else pd.DataFrame(columns=[QID])

    @property
    def choices(self) -> pd.DataFrame:
        """What tuning chose for each fold: `CHOSEN`."""
        rows = [note["chosen"] for note in self.notes.values() if note.get("chosen")]
        # a fold that was stopped in between was chosen for twice, alike
        frame = pd.DataFrame(rows, columns=CHOSEN).drop_duplicates("fold")
        return frame.sort_values("fold", ignore_index=True)

    @property
    def warnings(self) -> list[str]:
        """What was warned of; see `gathered`."""
        return gathered(((q,), text) for q, note in self.notes.items() for text in note["warnings"])

    def total(self, name: str) -> float:
        """Return the sum of a number over all notes."""
        return float(sum(note[name] for note in self.notes.values()))


def done(store: Store, system: Any, topics: Topics) -> set[str]:
    """Return the queries that a store has a system's results of."""
    _, cells = _cells(store, system, topics)
    return {qid for qid, cell in cells.items() if cell.error is None}


def stored_results(store: Store, system: Any, topics: Topics) -> SystemResults:
    """Return what a store has of a system, queries in the order of the topics."""
    chain, cells = _cells(store, system, topics)
    table = store.read(cells.values())
    return SystemResults(
        pd.DataFrame(columns=RUN) if table is None else unpack(table)[RUN],
        store.notes(chain, topics.digests),
        {qid: cell.error for qid, cell in cells.items() if cell.error},
    )


def _cells(store: Store, system: Any, topics: Topics) -> tuple[int | None, Mapping[str, Any]]:
    [node] = Tree({"system": system}, durable=True).ends.values()
    chain = store.number_of(node.key)
    return chain, store.cells(chain, topics.digests)


def gathered(texts: Iterable[tuple[Sequence[str], str]]) -> list[str]:
    """Return warnings, each once; those that differ in ids and numbers alone become one.

    Systems rank query by query, and warn so: each text comes with the queries ranked meanwhile.
    """
    alike: dict[str, tuple[str, dict[str, None]]] = {}
    several: set[str] = set()
    for qids, text in texts:
        shape = _VARYING.sub("#", text)
        first, so_far = alike.setdefault(shape, (text, {}))
        so_far.update(dict.fromkeys(qids))
        if text != first:
            several.add(shape)
    return [
        f"{first} (alike for {len(qids)} topics: {format_list(list(qids))})"
        if shape in several
        else first
        for shape, (first, qids) in alike.items()
    ]
