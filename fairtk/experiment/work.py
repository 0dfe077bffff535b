"""What a worker does: stages over a batch of queries, prompts from rankings, answers to prompts.

The functions get the stages by key and everything else as data, so that they run alike in this
process, in a worker process and on a cluster. A query that fails does not cost its batch: the batch
is halved until the query stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from fairtk.errors import (
    ColumnError,
    IdentityError,
    InputError,
    MissingExtraError,
    ModelError,
    StageError,
    StoreError,
)
from fairtk.experiment.packing import Table, pack, unpack
from fairtk.experiment.threads import limited_threads
from fairtk.frames.columns import QID
from fairtk.llm.errors import LLMError, OfflineError
from fairtk.prompts.tokens import count

T = TypeVar("T")

# What would fail for every other query as well is no failed query.
FATAL = (
    *(ColumnError, IdentityError, LLMError, MissingExtraError, ModelError, OfflineError),
    *(StoreError, MemoryError, Warning),
)


@dataclass(frozen=True)
class StageStep:
    """One stage over some queries.

    Attributes:
        node: the chain that ends with the stage.
        parent: the chain whose rows it reads; -1: the topics.
        stage: the stage's key.
        name: the stage's name, for messages.
        qids: the queries.
        keep: whether the rows are wanted.
        ask: whether the stage's prompts are wanted instead of its rows.
    """

    node: int
    parent: int
    stage: str
    name: str
    qids: tuple[str, ...]
    keep: bool
    ask: bool


@dataclass(frozen=True)
class StageTask:
    """Stages over one batch of queries.

    Attributes:
        inputs: rows that are there already, by node; -1: the topics.
        steps: what to do, parents before children.
        errors: why queries failed before, by node.
        durable: whether the rows go into a file.
        fail_fast: whether the first failure ends the work.
        threads: the threads to use.
    """

    inputs: Mapping[int, Table]
    steps: Sequence[StageStep]
    errors: Mapping[int, Mapping[str, str]]
    durable: bool
    fail_fast: bool
    threads: int

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the stages."""
        return tuple(dict.fromkeys(step.stage for step in self.steps))


@dataclass(frozen=True)
class Prompts:
    """The prompts of a batch of queries.

    Attributes:
        texts: the prompts.
        lengths: tokens of each (characters where the backend has no tokenizer).
        rows: place among `texts` for each row of the rankings.
    """

    texts: list[str]
    lengths: list[int]
    rows: np.ndarray[Any, Any]


@dataclass
class TaskResult:
    """What a task made.

    Attributes:
        tables: rows of each node that was to be kept, query after query.
        spans: qid, first row and number of rows of each query of these.
        prompts: of the nodes that were asked for prompts.
        asked: the queries that `prompts` are for.
        errors: why queries failed, by node.
    """

    tables: dict[int, Table] = field(default_factory=dict)
    spans: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    prompts: dict[int, Prompts] = field(default_factory=dict)
    asked: dict[int, list[str]] = field(default_factory=dict)
    errors: dict[int, dict[str, str]] = field(default_factory=dict)


def run_task(stages: Mapping[str, Any], task: StageTask) -> TaskResult:
    """Run stages over a batch of queries.

    Args:
        stages: the transformers, by key.
        task: what to do.

    Raises:
        StageError: a stage failed, and the first failure is to end the work.
        FairtkError: what would fail for every query.
    """
    frames = {node: unpack(table) for node, table in task.inputs.items()}
    ordered: dict[int, list[str]] = {}  # the queries of frames whose rows stand in their order
    outcome = TaskResult(errors={node: dict(lost) for node, lost in task.errors.items()})
    with limited_threads(task.threads):
        for step in task.steps:
            lost = outcome.errors.get(step.parent, {})
            errors = outcome.errors.setdefault(step.node, {})
            errors |= {qid: lost[qid] for qid in step.qids if qid in lost}
            qids = [qid for qid in step.qids if qid not in lost]
            inp = frames.get(step.parent, _NO_ROWS)
            if ordered.get(step.parent) != qids:
                inp = _rows_of(inp, qids)
            stage = stages[step.stage]
            if step.ask:
                _ask(stage, step, inp, qids, task, outcome)
                continue
            parts = _parts(_naming_failures(stage, errors), step, inp, qids, task, errors)
            made = [_ordered(part, some, step.name) for some, part in parts]
            rows = _below([frame for frame, _ in made], inp)
            if step.keep:
                sizes = [size for _, counts in made for size in counts.items()]
                outcome.spans[step.node] = _spans(sizes)
                outcome.tables[step.node] = pack(rows, step.name, task.durable)
            # beside what was there already of other queries
            if step.node in frames:
                frames[step.node] = _below([frames[step.node], rows], rows)
            else:
                frames[step.node] = rows
                ordered[step.node] = [qid for some, _ in parts for qid in some]
    return outcome


_NO_ROWS = pd.DataFrame({QID: pd.Series(dtype="str")})


def _naming_failures(stage: Any, errors: dict[str, str]) -> Callable[[pd.DataFrame], Any]:
    """Return a stage's `transform`, after which `errors` has the queries that it gave up.

    A stage says in ``missing`` (``qid``, ``reason``; as `fairtk.FairQR` does) which queries of its
    last call have no result: they failed, whatever rows about them it returns.
    """

    def transform(inp: pd.DataFrame) -> Any:
        out = stage.transform(inp)
        missing = getattr(stage, "missing", None)
        if isinstance(missing, pd.DataFrame):
            errors.update(zip(missing[QID], missing["reason"], strict=True))
        return out

    return transform


def _ask(
    stage: Any,
    step: StageStep,
    inp: pd.DataFrame,
    qids: list[str],
    task: StageTask,
    outcome: TaskResult,
) -> None:
    parts = _parts(stage.asked, step, inp, qids, task, outcome.errors[step.node])
    tokenizer = stage.backend.tokenizer
    texts_of: list[str] = []
    rows = [np.zeros(0, dtype=np.int64)]
    for _, asked in parts:
        rows.append(asked.prompt_of_row + len(texts_of))
        texts_of.extend(asked.prompts)
    lengths = [len(t) if tokenizer is None else count(t, tokenizer) for t in texts_of]
    outcome.prompts[step.node] = Prompts(texts_of, lengths, np.concatenate(rows))
    outcome.asked[step.node] = [qid for some, _ in parts for qid in some]


def _parts(
    function: Callable[[pd.DataFrame], T],
    step: StageStep,
    inp: pd.DataFrame,
    qids: list[str],
    task: StageTask,
    errors: dict[str, str],
) -> list[tuple[list[str], T]]:
    """Return what a function makes of the queries, in parts where some of them fail.

    Args:
        function: from rows to a result.
        step: for messages.
        inp: the rows of the queries, in their order.
        qids: the queries.
        task: says whether a failure ends the work.
        errors: gets the reasons of failed queries.
    """
    done = []
    waiting = [qids] if qids else []
    while waiting:
        some = waiting.pop()
        try:
            done.append((some, function(inp if some is qids else _rows_of(inp, some))))
        except FATAL:
            raise
        except Exception as error:
            if task.fail_fast:
                raise StageError(f"{step.name} failed for {_these(some)}: {said(error)}") from error
            if len(some) == 1:
                errors[some[0]] = f"{step.name}: {said(error)}"
            else:
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
    return done


def _rows_of(frame: pd.DataFrame, qids: Sequence[str]) -> pd.DataFrame:
    """Return the rows of some queries, query after query in the order of the qids."""
    place = _places(frame, qids)
    if (place < 0).any():
        frame, place = frame[place >= 0], place[place >= 0]
    if (place[1:] < place[:-1]).any():
        frame = frame.iloc[np.argsort(place, kind="stable")]
    return frame.reset_index(drop=True)


def _places(frame: pd.DataFrame, qids: Sequence[str]) -> np.ndarray[Any, Any]:
    code, values = pd.factorize(frame[QID])
    known = pd.Index(list(qids), dtype=object).get_indexer(pd.Index(values, dtype=object))
    # a missing qid has the code -1, and is nobody's
    place: np.ndarray[Any, Any] = np.append(known, -1)[code]
    return place


def _ordered(frame: Any, qids: Sequence[str], name: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return a stage's rows query after query, and the number of rows of each query."""
    if not isinstance(frame, pd.DataFrame) or QID not in frame.columns:
        found = list(frame.columns) if isinstance(frame, pd.DataFrame) else type(frame).__name__
        raise ColumnError(f"{name} must return a frame with the column {QID!r}; found {found}")
    place = _places(frame, qids)
    if (place < 0).any():
        odd = frame[QID].iloc[int(np.argmin(place))]
        raise InputError(f"{name} returned the qid {odd!r}, which is not in its input")
    if (place[1:] < place[:-1]).any():
        frame = frame.iloc[np.argsort(place, kind="stable")]
    sizes = np.bincount(place, minlength=len(qids)).tolist()
    return frame.reset_index(drop=True), dict(zip(qids, sizes, strict=True))


def _below(frames: Sequence[pd.DataFrame], inp: pd.DataFrame) -> pd.DataFrame:
    """Return frames below each other; with none of them, the input's columns without rows."""
    filled = [frame for frame in frames if len(frame)] or frames[:1] or [inp.iloc[:0]]
    return filled[0] if len(filled) == 1 else pd.concat(filled, ignore_index=True)


def _spans(sizes: Sequence[tuple[str, int]]) -> list[tuple[str, int, int]]:
    spans, first = [], 0
    for qid, size in sizes:
        spans.append((qid, first, size))
        first += size
    return spans


def said(error: BaseException) -> str:
    """Return an error on one line, with its class unless it is one of ours."""
    text = " ".join(str(error).split())
    ours = type(error).__module__.startswith("fairtk")
    shown = text if ours and text else f"{type(error).__name__}: {text}".removesuffix(": ")
    return shown if len(shown) <= 500 else shown[:497] + "..."


def _these(qids: Sequence[str]) -> str:
    return f"qid {qids[0]!r}" + (f" or one of {len(qids) - 1} others" if len(qids) > 1 else "")
