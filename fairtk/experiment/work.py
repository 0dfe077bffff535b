"""What an engine hands to workers, and what comes back: data, so that it can travel.

The functions get stages and backends by key and everything else as data, so that they run alike in
this process, in a worker process and on a cluster. A query or prompt that fails does not cost its
batch: the batch is halved until what fails stands alone. Stages travel by cloudpickle, with
reducers for what it cannot take.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from fairtk.errors import (
    ColumnError,
    IdentityError,
    InputError,
    MissingExtraError,
    ModelError,
    StageError,
    StoreError,
    WorkerError,
    format_list,
)
from fairtk.experiment.packing import Span, Table, pack, spans_of, unpack
from fairtk.frames import QID, IntArray, identity_name
from fairtk.interpreters import cores
from fairtk.llm import DeferredError, LLMError, NoAnswerError, OfflineError, PromptLengthError
from fairtk.llm.backends import texts
from fairtk.llm.hugging_face import HuggingFaceBackend
from fairtk.llm.prompts import counts


@dataclass(frozen=True)
class StageStep:
    """One stage over some queries."""

    node: int  # the chain that ends with the stage
    parent: int  # the chain whose rows it reads; -1: the topics
    stage: str  # its key
    name: str  # for messages
    qids: tuple[str, ...]
    keep: bool  # whether the rows are wanted
    ask: bool  # whether the stage's prompts are wanted instead of its rows
    systems: tuple[str, ...]  # those that have the stage, for messages

    @property
    def who(self) -> str:
        """The stage and its systems, in words."""
        return f"the stage {self.name} of {format_list(self.systems)}"


@dataclass(frozen=True)
class StageTask:
    """Stages over one batch of queries."""

    inputs: Mapping[int, Table]  # rows that are there already, by node; -1: the topics
    steps: Sequence[StageStep]  # parents before children
    errors: Mapping[int, Mapping[str, str]]  # why queries failed before, by node
    durable: bool  # whether the rows go into a file
    fail_fast: bool
    threads: int

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the stages."""
        return tuple(dict.fromkeys(step.stage for step in self.steps))

    def who(self, key: str) -> str:
        """Return a stage and its systems, in words."""
        return next(step.who for step in self.steps if step.stage == key)


@dataclass(frozen=True)
class Prompts:
    """The prompts of some queries."""

    qids: list[str]
    texts: list[str]
    lengths: list[int]  # tokens of each (characters where the backend has no tokenizer)
    rows: np.ndarray[Any, Any]  # place among `texts` for each row of the rankings


@dataclass
class TaskResult:
    """What a task made, by node: rows, query after query, and where each stands; prompts;
    failures; queries that wait for a batch of prompts.
    """

    tables: dict[int, tuple[Table, list[Span]]] = field(default_factory=dict)
    prompts: dict[int, Prompts] = field(default_factory=dict)
    errors: dict[int, dict[str, str]] = field(default_factory=dict)
    notes: dict[int, dict[str, str]] = field(default_factory=dict)  # JSON, by node and query
    deferred: dict[int, set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PromptBatch:
    """Prompts that are generated together."""

    backend: str  # its key
    prompts: tuple[str, ...]
    threads: int
    fail_fast: bool
    name: str  # of the backend, for messages

    @property
    def needs(self) -> tuple[str, ...]:
        """The key of the backend."""
        return (self.backend,)

    def who(self, _: str) -> str:
        """Return the backend, in words."""
        return f"the model {self.name}"


VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What libraries read when they are loaded."""


def allowed_threads() -> int:
    """Return the threads of a model that may use this whole machine: OMP_NUM_THREADS, or cores."""
    setting = os.environ.get(VARIABLES[0], "")
    return int(setting) if setting.isdecimal() and int(setting) else cores()


@contextlib.contextmanager
def limited_threads(number: int, backend: Any = None) -> Iterator[None]:
    """Let torch, which is loaded if the backend needs it, use so many threads within the block."""
    if isinstance(backend, HuggingFaceBackend):
        with contextlib.suppress(ImportError):  # said by the backend, better
            import torch  # noqa: F401
    torch_module: Any = sys.modules.get("torch")
    if not hasattr(torch_module, "set_num_threads"):
        yield
        return
    before = torch_module.get_num_threads()
    torch_module.set_num_threads(number)
    try:
        yield
    finally:
        torch_module.set_num_threads(before)


@contextlib.contextmanager
def _leaving(who: str) -> Iterator[None]:
    """Say who calls ``sys.exit`` within the block, for workers, where that ends no program."""
    try:
        yield
    except SystemExit as error:
        error.add_note(who)
        raise


T = TypeVar("T")

# What would fail for every other query as well is no failed query.
FATAL = (
    *(ColumnError, IdentityError, LLMError, MissingExtraError, ModelError, OfflineError),
    *(StoreError, MemoryError, Warning),
)


def run_batch(
    backends: Mapping[str, Any], batch: PromptBatch
) -> tuple[dict[str, str], dict[str, str], tuple[str, ...]]:
    """Return the answers to a batch of prompts, why there is none, by prompt, and the prompts
    that wait for others to answer them.
    """
    backend = backends[batch.backend]
    errors: dict[str, str] = {}

    def attempt(prompts: list[str]) -> list[str]:
        return texts(backend.generate(prompts), len(prompts), backend.name)

    def blame(_: list[str], error: Exception) -> int | None:
        if isinstance(error, PromptLengthError | NoAnswerError):
            if batch.fail_fast:
                raise error
            return error.index
        if batch.fail_fast:
            raise StageError(f"{backend.name}: {said(error)}") from error
        return None

    with limited_threads(batch.threads, backend), _leaving(batch.who(batch.backend)):
        try:
            parts = _in_parts(list(batch.prompts), attempt, blame, errors)
        except DeferredError:
            return {}, errors, batch.prompts
    answers = {p: a for some, given in parts for p, a in zip(some, given, strict=True)}
    return answers, errors, ()


def run_task(stages: Mapping[str, Any], task: StageTask) -> TaskResult:
    """Run stages over a batch of queries."""
    frames = {node: unpack(table) for node, table in task.inputs.items()}
    ordered: dict[int, list[str]] = {}  # the queries of frames whose rows stand in their order
    outcome = TaskResult(errors={node: dict(lost) for node, lost in task.errors.items()})
    with limited_threads(task.threads):
        for step in task.steps:
            lost = outcome.errors.get(step.parent, {})
            errors = {qid: lost[qid] for qid in step.qids if qid in lost}
            waiting = outcome.deferred.get(step.parent, set()) & set(step.qids)
            qids = [qid for qid in step.qids if qid not in lost and qid not in waiting]
            inp = frames.get(step.parent, _NO_ROWS)
            if ordered.get(step.parent) != qids:
                inp = _rows_of(inp, qids)
            notes: dict[str, Any] = {}
            try:
                with _leaving(step.who):
                    parts = _stage_parts(
                        stages[step.stage], step, inp, qids, task.fail_fast, errors, notes
                    )
            except DeferredError:
                parts, waiting = [], waiting | set(qids) - errors.keys()
            outcome.errors.setdefault(step.node, {}).update(errors)
            if waiting:
                outcome.deferred[step.node] = waiting
            if waiting and not parts:
                continue
            if notes:
                outcome.notes[step.node] = _notes_as_json(notes, qids, step.name)
            if step.ask:
                outcome.prompts[step.node] = _prompts(parts, stages[step.stage].backend.tokenizer)
                continue
            made = [_ordered(part, some, step.name) for some, part in parts]
            rows = _below([frame for frame, _ in made], inp)
            if step.keep:
                spans = spans_of([size for _, sizes in made for size in sizes])
                outcome.tables[step.node] = pack(rows, step.name, task.durable, spans), spans
            # beside what was there already of other queries
            if step.node in frames:
                frames[step.node] = _below([frames[step.node], rows], rows)
            else:
                frames[step.node] = rows
                ordered[step.node] = [qid for some, _ in parts for qid in some]
    return outcome


_NO_ROWS = pd.DataFrame({QID: pd.Series(dtype="str")})


def _stage_parts(
    stage: Any,
    step: StageStep,
    inp: pd.DataFrame,
    qids: list[str],
    fail_fast: bool,
    errors: dict[str, str],
    notes: dict[str, Any],
) -> list[tuple[list[str], Any]]:
    """Return what a stage makes of the queries, in parts where some of them fail.

    A stage says in ``missing`` (``qid``, ``reason``; as `fairtk.FairQR` does) which queries of its
    last call have no result: they failed, whatever rows about them it returns. One that has
    ``transform_with_notes`` gives rows and, by qid, what is to be kept beside them: `notes` gets
    it, of failed queries, too.
    """
    with_notes = getattr(stage, "transform_with_notes", None)

    def attempt(some: list[str]) -> Any:
        rows = inp if some is qids else _rows_of(inp, some)
        if step.ask:
            return stage.build_prompts(rows)
        if with_notes is None:
            out = stage.transform(rows)
        else:
            out, beside = with_notes(rows)
            notes.update(beside)
        missing = getattr(stage, "missing", None)
        if isinstance(missing, pd.DataFrame):
            errors.update(zip(missing[QID], missing["reason"], strict=True))
        return out

    def blame(some: list[str], error: Exception) -> None:
        if fail_fast:
            others = f" or one of {len(some) - 1} others" if len(some) > 1 else ""
            raise StageError(
                f"{step.name} failed for qid {some[0]!r}{others}: {said(error)}"
            ) from error

    reasons: dict[str, str] = {}
    parts = _in_parts(qids, attempt, blame, reasons)
    errors.update({qid: f"{step.name}: {reason}" for qid, reason in reasons.items()})
    return parts


def _notes_as_json(notes: Mapping[str, Any], qids: Sequence[str], name: str) -> dict[str, str]:
    """Return a stage's notes as JSON, by qid."""
    odd = notes.keys() - set(qids)
    if odd:
        raise InputError(f"{name} gave notes of the qid {min(odd)!r}, which is not in its input")
    texts = {}
    for qid, note in notes.items():
        try:
            texts[qid] = json.dumps(note, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name}: the note of qid {qid!r} is not JSON ({error})") from None
    return texts


def _in_parts(
    items: list[str],
    attempt: Callable[[list[str]], T],
    blame: Callable[[list[str], Exception], int | None],
    errors: dict[str, str],
) -> list[tuple[list[str], T]]:
    """Return what is made of queries or prompts, with them, in parts where some of them fail.

    `blame` returns the place of the item that an error is about (None: nobody knows), or raises
    what is to end the work. `errors` gets the reasons of failed items.
    """
    done = []
    waiting = [items] if items else []
    while waiting:
        some = waiting.pop()
        try:
            done.append((some, attempt(some)))
        except FATAL:
            raise
        except Exception as error:
            at = blame(some, error)
            if at is None and len(some) > 1:
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
                continue
            errors[some[at or 0]] = said(error)
            rest = [item for place, item in enumerate(some) if place != (at or 0)]
            waiting += [rest] if rest else []
    return done


def _prompts(parts: Sequence[tuple[list[str], Any]], tokenizer: Any) -> Prompts:
    prompts: list[str] = []
    rows = [np.zeros(0, dtype=np.int64)]
    for _, asked in parts:
        rows.append(asked.prompt_of_row + len(prompts))
        prompts.extend(asked.prompts)
    lengths = list(map(len, prompts)) if tokenizer is None else counts(prompts, tokenizer)
    qids = [qid for some, _ in parts for qid in some]
    return Prompts(qids, prompts, lengths, np.concatenate(rows))


def _rows_of(frame: pd.DataFrame, qids: Sequence[str]) -> pd.DataFrame:
    """Return the rows of some queries, query after query in the order of the qids."""
    place = _places(frame, qids)
    if (place < 0).any():
        frame, place = frame[place >= 0], place[place >= 0]
    return _sorted_by(frame, place)


def _ordered(
    frame: Any, qids: Sequence[str], name: str
) -> tuple[pd.DataFrame, list[tuple[str, int]]]:
    """Return a stage's rows query after query, and the number of rows of each query."""
    if not isinstance(frame, pd.DataFrame) or QID not in frame.columns:
        columns_or_type = (
            list(frame.columns) if isinstance(frame, pd.DataFrame) else type(frame).__name__
        )
        raise ColumnError(
            f"{name} must return a frame with the column {QID!r}; found {columns_or_type}"
        )
    place = _places(frame, qids)
    if (place < 0).any():
        odd = frame[QID].iloc[int(np.argmin(place))]
        raise InputError(f"{name} returned the qid {odd!r}, which is not in its input")
    sizes = np.bincount(place, minlength=len(qids)).tolist()
    return _sorted_by(frame, place), list(zip(qids, sizes, strict=True))


def _places(frame: pd.DataFrame, qids: Sequence[str]) -> IntArray:
    """Return the place among the qids of each row's; -1: none."""
    place = {qid: i for i, qid in enumerate(qids)}
    column = frame[QID]
    if str(column.dtype) == "str":  # rows of a query mostly stand together
        array = pa.Array.from_pandas(column)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        runs = pa.compute.run_end_encode(array)
        place_by_code = np.array(
            [place.get(qid, -1) for qid in runs.values.to_pylist()], dtype=np.int64
        )
        code = np.arange(len(place_by_code)).repeat(np.diff(np.asarray(runs.run_ends), prepend=0))
    else:
        code, values = pd.factorize(column)
        place_by_code = np.array([*(place.get(qid, -1) for qid in values), -1], dtype=np.int64)
    places: IntArray = place_by_code[code]  # a missing qid has the code -1, and is nobody's
    return places


def _sorted_by(frame: pd.DataFrame, place: IntArray) -> pd.DataFrame:
    if (place[1:] < place[:-1]).any():
        frame = frame.iloc[np.argsort(place, kind="stable")]
    return frame.reset_index(drop=True)


def _below(frames: Sequence[pd.DataFrame], inp: pd.DataFrame) -> pd.DataFrame:
    """Return frames below each other; with none of them, the input's columns without rows."""
    filled = [frame for frame in frames if len(frame)] or frames[:1] or [inp.iloc[:0]]
    return filled[0] if len(filled) == 1 else pd.concat(filled, ignore_index=True)


def text_of(error: BaseException) -> str:
    """Return the message of an error; that of a user's class may fail to be made."""
    try:
        return str(error)
    except Exception as other:
        return f"its message cannot be made ({type(other).__name__})"


def said(error: BaseException) -> str:
    """Return an error on one line, with its class unless it is one of ours."""
    text = " ".join(text_of(error).split())
    ours = type(error).__module__.startswith("fairtk")
    line = text if ours and text else f"{type(error).__name__}: {text}".removesuffix(": ")
    return line if len(line) <= 500 else line[:497] + "..."


_INDEX = ("text_field", "stemmer", "index_encoding", "batch_size", "stops", "threads")
_OPENAI = ("max_input_length", "max_new_tokens", "api", "timeout", "logprobs_topk", "verbose")
_RETRIEVER = (
    *("scorer", "num_results", "threads", "verbose", "stops", "query_algorithm"),
    *("query_weighted", "toks_scale", "precompute_impact"),
)


def to_worker(stage: Any) -> bytes:
    """Return a stage as bytes."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            reducer = _REDUCERS.get(identity_name(type(obj)))
            return super().reducer_override(obj) if reducer is None else reducer(obj)

    sink = io.BytesIO()
    try:
        Pickler(sink).dump(stage)
    except Exception as error:
        raise WorkerError(
            f"{type(stage).__name__} cannot travel to a worker ({text_of(error)}): use "
            "`executor='serial'`, "
            "or give the transformer a __getstate__ that leaves out what is open"
        ) from error
    return sink.getvalue()


def from_parent(data: bytes) -> Any:
    """Return the stage that `to_worker` packed: bytes of the run's own parent, never a file's."""
    return pickle.loads(data)


def _pisa_index(index: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(index, name) for name in _INDEX}
    return _made, ("pyterrier_pisa", "PisaIndex", (str(index.path),), settings)


def _pisa_retriever(stage: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(stage, name) for name in _RETRIEVER} | stage.retr_args
    return _made, ("pyterrier_pisa", "PisaRetrieve", (stage.index,), settings)


def _openai(backend: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # its connection stays here, and so does the key: a worker has its own in the environment
    settings = {name: getattr(backend, name) for name in _OPENAI} | {
        "generation_args": backend._generation_args,
        "base_url": str(backend.client.base_url),
        "max_retries": backend.client.max_retries,
        "parallel": backend.thread_pool._max_workers,
    }
    return _made, ("pyterrier_rag.backend", "OpenAIBackend", (backend.model_id,), settings)


def _template(template: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # its text is not kept, but what it was compiled to is
    parts = {
        "name": template.name,
        "__file__": template.filename,
        "root": template.root_render_func,
        "blocks": template.blocks,
        "debug_info": template._debug_info,
    }
    return _made_template, (template.environment, parts, template.globals)


def _made_template(environment: Any, parts: dict[str, Any], names: Any) -> Any:
    import jinja2

    return jinja2.Template._from_namespace(environment, parts, names)


def _made(module: str, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*args, **settings)


_REDUCERS: dict[str, Callable[[Any], Any]] = {
    "jinja2.environment.Template": _template,
    "pyterrier_pisa.PisaIndex": _pisa_index,
    "pyterrier_pisa.PisaRetrieve": _pisa_retriever,
    "pyterrier_rag.backend._openai.OpenAIBackend": _openai,
}
"""How objects that hold something open are made anew, by class."""
