"""The tasks and results of workers.

Functions get stages and models by key and everything else as data, so they run the same way in
this process, in a worker process and on a cluster. If a query fails, its batch is halved until the
failure is isolated. Stages are pickled with cloudpickle, with reducers for objects that
it does not support.
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

from fairtk import stage_context
from fairtk.errors import (
    ColumnError,
    FairtkError,
    IdentityError,
    InputError,
    MissingExtraError,
    ModelError,
    PluginError,
    StageError,
    StoreError,
    WorkerError,
)
from fairtk.experiment.identity import Identified, logs_of
from fairtk.experiment.packing import Span, Table, pack, spans_of, unpack
from fairtk.frames import DOCNO, QANSWER, QID, IntArray, identity_name
from fairtk.frames.schema import check_samples
from fairtk.interpreters import cores
from fairtk.llm import (
    Chat,
    ChatModel,
    Completion,
    DeferredError,
    Failure,
    LedgerModel,
    LLMError,
    OfflineError,
)
from fairtk.llm.chat import Outcome, Prompt, questions
from fairtk.measures.costs import COSTS
from fairtk.remarks import StageRemark, emit, remarks_of_stages
from fairtk.transformers.seen import TURNS
from fairtk.wording import format_list

RECORDING = "recording"
"""The key of the `stage_context.Recording` of the experiment among its stages."""

Remarks = Mapping[str, Sequence[StageRemark]]
"""The remarks of the stages of a chain by query."""


@dataclass(frozen=True)
class StageStep:
    """One stage over some queries."""

    node: int  # the chain that ends with the stage
    parent: int  # the chain of the input, -1 for the topics
    stage: str  # the key
    name: str  # for messages
    qids: tuple[str, ...]
    keep: bool  # whether to return the rows
    ask: bool  # whether to return the prompts of the stage instead of rows
    systems: tuple[str, ...]  # systems with the stage, for messages
    records_turns: bool = False  # whether there is a `fairtk.Seen` in the stage
    calls_model: bool = False  # whether there is a language model in the stage

    @property
    def who(self) -> str:
        """The stage and its systems, in words."""
        return f"the stage {self.name} of {format_list(self.systems)}"


@dataclass(frozen=True)
class StageTask:
    """Stages over one batch of queries."""

    inputs: Mapping[int, Table]  # available rows by node, -1 for the topics
    steps: Sequence[StageStep]  # parents before children
    errors: Mapping[int, Mapping[str, str]]  # earlier errors by node and query
    remarks: Mapping[int, Remarks]  # earlier remarks by node
    durable: bool  # whether the rows are stored in a file
    fail_fast: bool
    threads: int

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the stages, and that of the recording."""
        return (RECORDING, *dict.fromkeys(step.stage for step in self.steps))

    def who(self, key: str) -> str:
        """Return a stage and its systems, in words."""
        return next((step.who for step in self.steps if step.stage == key), "the ledger")


@dataclass(frozen=True)
class Prompts:
    """The prompts of some queries."""

    qids: list[str]
    texts: list[Prompt]
    rows: np.ndarray[Any, Any]  # index of the text for each row of the rankings
    in_prompt: np.ndarray[Any, Any] | None  # see `RowPrompts`
    remarks: Remarks


@dataclass
class TaskResult:
    """The result of a task by node: rows with spans of queries, prompts, errors, notes, remarks,
    and queries that wait for a batch of prompts.
    """

    tables: dict[int, tuple[Table, list[Span]]] = field(default_factory=dict)
    prompts: dict[int, Prompts] = field(default_factory=dict)
    errors: dict[int, dict[str, str]] = field(default_factory=dict)
    notes: dict[int, dict[str, str]] = field(default_factory=dict)  # JSON, by node and query
    remarks: dict[int, dict[str, Sequence[StageRemark]]] = field(default_factory=dict)
    deferred: dict[int, set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PromptBatch:
    """Prompts that are answered together."""

    model: str  # the key
    prompts: tuple[Prompt, ...]
    threads: int
    fail_fast: bool
    name: str  # the name of the model, for messages

    @property
    def needs(self) -> tuple[str, ...]:
        """The key of the model, and that of the recording."""
        return RECORDING, self.model

    def who(self, _: str) -> str:
        """Return the model, in words."""
        return f"the model {self.name}"


VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""The variables for numbers of threads, which libraries read on import."""


def allowed_threads() -> int:
    """Return OMP_NUM_THREADS, or the number of cores."""
    setting = os.environ.get(VARIABLES[0], "")
    return int(setting) if setting.isdecimal() and int(setting) else cores()


@contextlib.contextmanager
def limited_threads(number: int, llm: ChatModel | None = None) -> Iterator[None]:
    """Limit the threads of torch, which is imported if the model needs it."""
    model = llm.llm if isinstance(llm, LedgerModel) else llm
    if model is not None and model.local:
        with contextlib.suppress(ImportError):  # the model raises a better error
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
def _naming_exits(who: str) -> Iterator[None]:
    """Add the caller of ``sys.exit`` to its exception, for the error of a worker."""
    try:
        yield
    except SystemExit as error:
        error.add_note(who)
        raise


T = TypeVar("T")

# Errors that would occur for all queries.
FATAL = (
    *(ColumnError, IdentityError, LLMError, MissingExtraError, ModelError, OfflineError),
    *(PluginError, StoreError, MemoryError, Warning),
)


def run_batch(
    models: Mapping[str, Any], batch: PromptBatch
) -> tuple[dict[Prompt, Completion], dict[Prompt, Failure], tuple[Prompt, ...]]:
    """Return the answers and the failures of a batch of prompts, and the deferred prompts."""
    llm: ChatModel = models[batch.model]
    answers: dict[Prompt, Completion] = {}
    failures: dict[Prompt, Failure] = {}
    with (
        limited_threads(batch.threads, llm),
        _naming_exits(batch.who(batch.model)),
        stage_context.recorded(models[RECORDING]),
        stage_context.changed(generator=llm),
    ):
        try:
            outcomes = _outcomes(llm, questions(batch.prompts), batch.fail_fast)
        except DeferredError:
            return {}, {}, batch.prompts
    for index, prompt in enumerate(batch.prompts):
        answer = outcomes.get(index, Failure(f"{llm.name!r} gave no answer"))
        if isinstance(answer, Completion):
            answers[prompt] = answer
        else:
            failures[prompt] = answer
    return answers, failures, ()


def _outcomes(llm: ChatModel, chats: Sequence[Chat], fail_fast: bool) -> dict[int, Outcome]:
    """Return outcomes by index. If the model raises an error, chats are requested one by one.

    With `fail_fast`, up to the first failure.
    """
    try:
        return dict(llm.outcomes(chats))
    except FATAL:
        raise
    except Exception as error:
        if len(chats) == 1:
            name = "" if isinstance(error, FairtkError) else f"{llm.name!r}: "
            return {0: Failure(f"{name}{error_line(error)}")}
    outcomes: dict[int, Outcome] = {}
    for index, chat in enumerate(chats):
        for outcome in _outcomes(llm, [chat], fail_fast).values():
            outcomes[index] = outcome
            if fail_fast and isinstance(outcome, Failure):
                return outcomes
    return outcomes


def run_task(stages: Mapping[str, Any], task: StageTask) -> TaskResult:
    """Run stages over a batch of queries."""
    frames = {node: unpack(table) for node, table in task.inputs.items()}
    ordered: dict[int, list[str]] = {}  # the queries of frames with rows in their order
    outcome = TaskResult(
        errors={node: dict(errors) for node, errors in task.errors.items()},
        remarks={node: dict(remarks) for node, remarks in task.remarks.items()},
    )
    with limited_threads(task.threads), stage_context.recorded(stages[RECORDING]):
        for step in task.steps:
            failed = outcome.errors.get(step.parent, {})
            errors = {qid: failed[qid] for qid in step.qids if qid in failed}
            waiting = outcome.deferred.get(step.parent, set()) & set(step.qids)
            qids = [qid for qid in step.qids if qid not in failed and qid not in waiting]
            inp = frames.get(step.parent, _NO_ROWS)
            if ordered.get(step.parent) != qids:
                inp = _rows_of(inp, qids)
            notes: dict[str, Any] = {}
            remarks: dict[str, list[StageRemark]] = {}
            try:
                with _naming_exits(step.who):
                    parts = _stage_parts(
                        *(stages[step.stage], step, inp, qids, task.fail_fast),
                        *(errors, notes, remarks),
                    )
            except DeferredError:
                parts, waiting = [], waiting | set(qids) - errors.keys()
            outcome.errors.setdefault(step.node, {}).update(errors)
            _warn_of_others(remarks, qids)
            earlier = outcome.remarks.get(step.parent, {})
            together = {q: [*earlier.get(q, ()), *remarks.get(q, ())] for q in step.qids}
            outcome.remarks.setdefault(step.node, {}).update(
                {qid: of_query for qid, of_query in together.items() if of_query}
            )
            if waiting:
                outcome.deferred[step.node] = waiting
            if waiting and not parts:
                continue
            if notes:
                outcome.notes[step.node] = _notes_as_json(notes, qids, step.name)
            if step.ask:
                outcome.prompts[step.node] = _prompts(parts, outcome.remarks[step.node])
                continue
            results = [_ordered(part, of_part, step.name) for of_part, part in parts]
            rows = _concatenated([frame for frame, _ in results], inp)
            if step.keep:
                spans = spans_of([size for _, sizes in results for size in sizes])
                outcome.tables[step.node] = pack(rows, step.name, task.durable, spans), spans
            if step.node in frames:  # stored rows of other queries
                frames[step.node] = _concatenated([frames[step.node], rows], rows)
            else:
                frames[step.node] = rows
                ordered[step.node] = [qid for of_part, _ in parts for qid in of_part]
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
    remarks: dict[str, list[StageRemark]],
) -> list[tuple[list[str], Any]]:
    """Return the results of a stage, in several parts if queries fail.

    Queries in the ``missing`` of a stage (``qid``, ``reason``; see `fairtk.FairQR`) have failed,
    even if there are rows for them. Its notes and remarks are added to `notes` and
    `remarks`, including those of failed queries.
    """
    transformer = stage.transformer if isinstance(stage, Identified) else stage

    logs = logs_of(stage) if step.records_turns else []

    def attempt(part: list[str]) -> Any:
        rows = inp if part is qids else _rows_of(inp, part)
        for log in logs:
            log.take(part)  # of an earlier attempt
        new_notes: dict[str, Any] = {}
        new_remarks: dict[str, list[StageRemark]] = {}
        with stage_context.changed(remarks=new_remarks, notes=(transformer, new_notes)):
            out = stage.build_prompts(rows) if step.ask else stage.transform(rows)
        remarks.update(new_remarks)
        if step.ask:
            return out
        turns = [log.take(part) for log in logs]
        for qid in part if logs or step.calls_model else ():
            note = new_notes.get(qid, {})
            note = note if isinstance(note, dict) else {"note": note}
            unknown = dict.fromkeys(COSTS) if step.calls_model else {}
            seen = {TURNS: [of_log[qid] for of_log in turns]} if logs else {}
            new_notes[qid] = unknown | note | seen
        notes.update(new_notes)
        missing = getattr(stage, "missing", None)
        if isinstance(missing, pd.DataFrame):
            errors.update(zip(missing[QID], missing["reason"], strict=True))
        return out

    def blame(part: list[str], error: Exception) -> None:
        if fail_fast:
            others = f" or one of {len(part) - 1} others" if len(part) > 1 else ""
            raise StageError(
                f"{step.name} failed for qid {part[0]!r}{others}: {error_line(error)}"
            ) from error

    reasons: dict[str, str] = {}
    after: list[Callable[[], None]] = []
    with stage_context.changed(after_attempts=after):
        parts = _in_parts(qids, attempt, blame, reasons)
    for function in after:
        function()
    errors.update({qid: f"{step.name}: {reason}" for qid, reason in reasons.items()})
    return parts


def _warn_of_others(remarks: Remarks, qids: Sequence[str]) -> None:
    """Warn of remarks on other queries, e.g. those that a stage was trained on."""
    known = set(qids) if remarks else set()
    others = {qid: of_query for qid, of_query in remarks.items() if qid not in known}
    emit(remarks_of_stages("", others, len(others)))


def _notes_as_json(notes: Mapping[str, Any], qids: Sequence[str], name: str) -> dict[str, str]:
    unknown = notes.keys() - set(qids)
    if unknown:
        raise InputError(f"{name}: unknown qid {min(unknown)!r} in its notes")
    texts = {}
    for qid, note in notes.items():
        try:
            texts[qid] = json.dumps(note, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name}: the note of qid {qid!r} must be JSON ({error})") from None
    return texts


def _in_parts(
    items: list[str],
    attempt: Callable[[list[str]], T],
    blame: Callable[[list[str], Exception], None],
    errors: dict[str, str],
) -> list[tuple[list[str], T]]:
    """Return queries with their results, in several parts if queries fail.

    `blame` may raise an error. The errors of failed queries are added to `errors`.
    """
    done = []
    waiting = [items] if items else []
    while waiting:
        part = waiting.pop()
        try:
            done.append((part, attempt(part)))
        except FATAL:
            raise
        except Exception as error:
            blame(part, error)
            if len(part) > 1:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
            else:
                errors[part[0]] = error_line(error)
    return done


def _prompts(parts: Sequence[tuple[list[str], Any]], remarks: Remarks) -> Prompts:
    prompts: list[Prompt] = []
    rows = [np.zeros(0, dtype=np.int64)]
    masks = [built.in_prompt for _, built in parts if built.in_prompt is not None]
    for _, built in parts:
        rows.append(built.prompt_of_row + len(prompts))
        prompts.extend(built.prompts)
    qids = [qid for part, _ in parts for qid in part]
    in_prompt = np.concatenate(masks) if masks else None
    return Prompts(qids, prompts, np.concatenate(rows), in_prompt, remarks)


def _rows_of(frame: pd.DataFrame, qids: Sequence[str]) -> pd.DataFrame:
    """Return the rows of queries in the order of the qids."""
    index = _query_indices(frame, qids)
    if (index < 0).any():
        frame, index = frame[index >= 0], index[index >= 0]
    return _sorted_by(frame, index)


def _ordered(
    frame: Any, qids: Sequence[str], name: str
) -> tuple[pd.DataFrame, list[tuple[str, int]]]:
    """Return the rows of a stage in the order of queries, and the number of rows per query."""
    if not isinstance(frame, pd.DataFrame) or QID not in frame.columns:
        columns_or_type = (
            list(frame.columns) if isinstance(frame, pd.DataFrame) else type(frame).__name__
        )
        raise ColumnError(
            f"{name} must return a frame with the column {QID!r}, got {columns_or_type}"
        )
    if DOCNO in frame.columns or QANSWER in frame.columns:
        check_samples(frame, f"the output of {name}")
    index = _query_indices(frame, qids)
    if (index < 0).any():
        unknown = frame[QID].iloc[int(np.argmin(index))]
        raise InputError(f"{name} must return the queries of its input, got qid {unknown!r}")
    sizes = np.bincount(index, minlength=len(qids)).tolist()
    return _sorted_by(frame, index), list(zip(qids, sizes, strict=True))


def _query_indices(frame: pd.DataFrame, qids: Sequence[str]) -> IntArray:
    """Return the index of each row's qid, -1 if unknown."""
    index = {qid: i for i, qid in enumerate(qids)}
    column = frame[QID]
    if str(column.dtype) == "str":  # rows of a query are usually adjacent
        array = pa.Array.from_pandas(column)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        runs = pa.compute.run_end_encode(array)
        by_code = np.array([index.get(qid, -1) for qid in runs.values.to_pylist()], dtype=np.int64)
        code = np.arange(len(by_code)).repeat(np.diff(np.asarray(runs.run_ends), prepend=0))
    else:
        code, values = pd.factorize(column)
        by_code = np.array([*(index.get(qid, -1) for qid in values), -1], dtype=np.int64)
    indices: IntArray = by_code[code]  # a missing qid has the code -1
    return indices


def _sorted_by(frame: pd.DataFrame, index: IntArray) -> pd.DataFrame:
    if (index[1:] < index[:-1]).any():
        frame = frame.iloc[np.argsort(index, kind="stable")]
    return frame.reset_index(drop=True)


def _concatenated(frames: Sequence[pd.DataFrame], inp: pd.DataFrame) -> pd.DataFrame:
    """Return concatenated frames; without frames, an empty frame with the columns of the input."""
    filled = [frame for frame in frames if len(frame)] or frames[:1] or [inp.iloc[:0]]
    return filled[0] if len(filled) == 1 else pd.concat(filled, ignore_index=True)


def text_of(error: BaseException) -> str:
    """Return the message of an error, even if its `str` raises."""
    try:
        return str(error)
    except Exception as other:
        return f"no message ({type(other).__name__} in str())"


def error_line(error: BaseException) -> str:
    """Return an error as one line, with its class unless it is from fairtk."""
    text = " ".join(text_of(error).split())
    is_ours = type(error).__module__.startswith("fairtk")
    line = text if is_ours and text else f"{type(error).__name__}: {text}".removesuffix(": ")
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
            f"{type(stage).__name__} cannot be pickled for a worker ({text_of(error)}); use "
            "`executor='serial'`, or add a __getstate__ to the transformer that omits open "
            "resources"
        ) from error
    return sink.getvalue()


def from_parent(data: bytes) -> Any:
    """Return the stage from the bytes of `to_worker`, which are never from a file."""
    return pickle.loads(data)


def _pisa_index(index: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(index, name) for name in _INDEX}
    return _made, ("pyterrier_pisa", "PisaIndex", (str(index.path),), settings)


def _pisa_retriever(stage: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(stage, name) for name in _RETRIEVER} | stage.retr_args
    return _made, ("pyterrier_pisa", "PisaRetrieve", (stage.index,), settings)


def _openai(backend: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # a worker opens its own connection with the key from its environment
    settings = {name: getattr(backend, name) for name in _OPENAI} | {
        "generation_args": backend._generation_args,
        "base_url": str(backend.client.base_url),
        "max_retries": backend.client.max_retries,
        "parallel": backend.thread_pool._max_workers,
    }
    return _made, ("pyterrier_rag.backend", "OpenAIBackend", (backend.model_id,), settings)


def _template(template: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # a template has no source, only compiled code
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
"""Reducers of objects with open resources, by class."""
