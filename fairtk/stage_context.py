"""The context of stages: where their remarks, their notes and the answers of their models go.

Remarks on files and frames that are read have such a place, too.

An experiment runs stages within a context that collects them. Outside of one, a remark is a
warning, a note is dropped, and nobody but the caller of a model gets its answers. Threads that a
stage starts have no context; their calls belong to the only active experiment of the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairtk.errors import ParameterError, PluginError
from fairtk.remarks import KINDS, Remark, StageRemark, emit, remarks_of_stages


@dataclass(frozen=True)
class Recording:
    """How an experiment records the calls of models; workers get a copy.

    Attributes:
        ledger: the ledger for models that are not behind another one; `None` if there is no store.
        failed_since: prompts whose calls failed before this time are requested again.
    """

    ledger: Any = None
    failed_since: str = ""


@dataclass(frozen=True)
class StageContext:
    """The context of stages.

    Attributes:
        remarks: gets the remarks of stages by qid; `None` to warn.
        on_input: gets the remarks on files and frames that are read; `None` to warn.
        notes: the stage whose notes are kept, and a dict that gets them by qid; `None` to drop all.
        on_answers: is called with the outcomes of calls as they arrive from a server.
        recording: how calls are recorded; `None` outside of experiments.
        generator: a model whose answers are not recorded, because they are stored by its content.
        refuses_ledgers: whether opening the file of a ledger is an error, e.g. on another computer.
        collector: takes the calls that are not in a ledger, instead of the models, by its method
            ``take`` (`fairtk.batch`).
        ranking_of: returns the qid and the sample of a qid inside of `fairtk.PerSample`.
        after_attempts: gets functions that are called when a stage has ended for a batch of
            queries, which are run again in parts if one of them fails; `None` outside of batches.
    """

    remarks: dict[str, list[StageRemark]] | None = None
    on_input: list[Remark] | None = None
    notes: tuple[Any, dict[str, Any]] | None = None
    on_answers: Callable[[Sequence[Any]], None] | None = None
    recording: Recording | None = None
    generator: Any = None
    refuses_ledgers: bool = False
    collector: Any = None
    ranking_of: Callable[[str], tuple[str, int]] | None = None
    after_attempts: list[Callable[[], None]] | None = None


_OUTSIDE = StageContext()
_context: ContextVar[StageContext] = ContextVar("stage_context", default=_OUTSIDE)
_active: dict[int, StageContext] = {}  # of the running experiments of this process, by id


def current() -> StageContext:
    """Return the context of the running stage."""
    return _context.get()


@contextlib.contextmanager
def changed(**changes: Any) -> Iterator[None]:
    """Change some attributes of the context within the block."""
    token = _context.set(replace(_context.get(), **changes))
    try:
        yield
    finally:
        _context.reset(token)


@contextlib.contextmanager
def recorded(recording: Recording) -> Iterator[None]:
    """Record the calls of models within the block, also those of threads without a context."""
    with changed(recording=recording):
        context = current()
        _active[id(context)] = context
        try:
            yield
        finally:
            del _active[id(context)]


def experiments() -> list[StageContext]:
    """Return the contexts of experiments that a call may belong to.

    These are its own context or, in a thread that has no context, those of all active experiments.
    """
    own = current()
    if own.recording is not None or own.collector is not None:
        return [own]
    # a task, or an experiment inside a stage, has the ledger of the experiment around it
    by_ledger = {
        id(context.recording.ledger): context
        for context in list(_active.values())
        if context.recording is not None
    }
    return list(by_ledger.values())


def of_call() -> StageContext:
    """Return the context of a call; for threads that have none, that of the only experiment."""
    contexts = experiments()
    return contexts[0] if len(contexts) == 1 else current()


@contextlib.contextmanager
def with_qids(qids: Mapping[str, str]) -> Iterator[None]:
    """Replace temporary qids in the remarks that are made within the block."""
    sink = current().remarks
    if sink is None:
        yield
        return
    remarks: dict[str, list[StageRemark]] = {}
    with changed(remarks=remarks):
        yield
    for qid, of_query in remarks.items():
        sink.setdefault(qids.get(qid, qid), []).extend(of_query)


def remark(
    kind: str,
    stage: str,
    numbers: Any,
    qids: Any,
    detail: str | Sequence[Sequence[str]] = "",
    stacklevel: int = 2,
) -> None:
    """Remark on queries in the `transform` of a stage.

    Within an experiment the remark is stored with the results, also for later runs, and is in
    `Results.remarks`. Otherwise it is a warning of the class of its kind.

    Args:
        kind: a name of `fairtk.remarks.KINDS`; a plugin's transformer declares its own kinds,
            ``"plugin:kind"``, in `FairTransformer.REMARKS`.
        stage: the name of the stage.
        numbers: a mask of the queries, or how many things of each query it concerns; (n_queries,).
        qids: all queries of the input; shape (n_queries,).
        detail: the varying part of the text; or, for each query, a list of such parts.
        stacklevel: see `warnings.warn`.

    Raises:
        PluginError: the kind is unknown.
        ParameterError: `numbers` or `detail` has not one value per query.
    """
    if kind not in KINDS:
        raise PluginError(
            f"{stage}: unknown kind of remark {kind!r}; declare it in REMARKS of the transformer, "
            "with a name 'plugin:kind'"
        )
    numbers, qids = np.asarray(numbers), list(qids)
    detail = detail if isinstance(detail, str) else list(detail)
    for name, values in (("numbers", numbers), ("detail", detail)):
        if not isinstance(values, str) and len(values) != len(qids):
            raise ParameterError(
                f"remark {kind!r} of {stage}: `{name}` must have one value per query "
                f"({len(qids)}), got {len(values)}"
            )
    common = (detail,) if isinstance(detail, str) and detail else ()
    by_query = {
        str(qids[i]): StageRemark(
            stage, kind, int(numbers[i]), common if isinstance(detail, str) else tuple(detail[i])
        )
        for i in np.flatnonzero(numbers).tolist()
    }
    if not by_query:
        return
    sink = current().remarks
    if sink is None:
        pairs = ((qid, [one]) for qid, one in by_query.items())
        emit(remarks_of_stages("", dict(pairs), len(qids)), stacklevel + 1)
        return
    for qid, one in by_query.items():
        sink.setdefault(qid, []).append(one)


@contextlib.contextmanager
def reading() -> Iterator[list[Remark]]:
    """Collect the remarks on files and frames that are read within the block, without warnings."""
    remarks: list[Remark] = []
    with changed(on_input=remarks):
        yield remarks


def remark_on_input(remarks: Iterable[Remark], stacklevel: int = 2) -> None:
    """Add remarks on a file or frame to those that `reading` collects; outside of it, warn."""
    sink = current().on_input
    if sink is None:
        emit(remarks, stacklevel + 1)
    else:
        sink.extend(remarks)


def leave_notes(stage: Any, notes: Mapping[str, Any]) -> None:
    """Leave notes on queries in the `transform` of a stage: a JSON value each, e.g. a trace.

    Within an experiment they are stored with the results, also those on failed queries; see
    `Results.notes`. Otherwise, and if the stage runs inside another stage, they are dropped. The
    keys ``calls``, ``seconds`` and ``tokens`` of a dict are the costs of the query, which the
    measures of these names sum over the stages of a system.

    Args:
        stage: the stage, whose class has `leaves_notes = True`.
        notes: the notes by qid.

    Raises:
        ParameterError: the class does not say that it leaves notes.
    """
    if not getattr(stage, "leaves_notes", False):
        raise ParameterError(
            f"{type(stage).__name__}: a stage that leaves notes requires the attribute "
            "leaves_notes = True"
        )
    pair = current().notes
    if pair is not None and pair[0] is stage:
        pair[1].update(notes)
