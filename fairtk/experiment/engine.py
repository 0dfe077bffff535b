"""The engine of experiments: run stages over batches of topics, and generate answers.

The logits of a model depend slightly on the batch and on the number of threads. So the prompts of
all systems are collected, sorted by (length, digest) and cut into batches before generation, and a
batch is committed as a whole. An interrupted run continues with the same batches. Stored answers
are never replaced.

The tree of chains runs level by level: all stages up to the first generators, over batches of
queries; then all their prompts; then the next stages, and so on. Only this process writes results,
and it commits each batch before using it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from fairtk import stage_context
from fairtk.datasets import get_answers, get_topics, join_answers
from fairtk.datasets.lamp import get_license
from fairtk.errors import InputError, StageError
from fairtk.experiment.executors import DaskExecutor, Executor, Session
from fairtk.experiment.identity import (
    Node,
    Tree,
    describe,
    described_model,
    key_of,
    logs_of,
    models_of,
)
from fairtk.experiment.packing import (
    Span,
    Table,
    pack,
    spans_of,
    unpack,
    with_cells,
    with_mask,
)
from fairtk.experiment.store import (
    Answers,
    ChainResult,
    ModelKey,
    Store,
    StoredCell,
    remarks_of,
)
from fairtk.experiment.work import (
    RECORDING,
    PromptBatch,
    Prompts,
    StageStep,
    StageTask,
    TaskResult,
    run_batch,
    run_task,
)
from fairtk.frames import DOCNO, GOLD_ANSWER, QID, RANK, SAMPLE, require_columns
from fairtk.frames.columns import IN_PROMPT
from fairtk.frames.digests import digest
from fairtk.frames.ids import as_strings
from fairtk.frames.texts import qids_of
from fairtk.io import resolve_dataset
from fairtk.io.qrels import dataset_qrels
from fairtk.llm import ChatModel, Failure, Ledger, LedgerModel
from fairtk.llm.chat import Prompt, cost_of, now, questions
from fairtk.llm.progress import progress_bar
from fairtk.llm.reading import Reading
from fairtk.stage_context import Recording
from fairtk.transformers.generator import CONTENT_MODELS, answer_columns
from fairtk.transformers.seen import TURNS, Log
from fairtk.wording import format_list

MOST_BATCHES, MOST_QUERIES = 16, 64
"""The default batches: 16, or more if a batch would have more than 64 queries.

Scores of some models depend on the batch, so it depends on nothing but the number of topics.
"""


class Topics:
    """The input of pipelines: topics (Q) or candidates (R).

    With `durable`, for results that outlive this run, queries have digests of their rows.

    Raises:
        InputError: a qid is missing, or there are no topics.
        DuplicateError: topics without documents have a duplicate qid.
    """

    def __init__(self, frame: pd.DataFrame, durable: bool) -> None:
        require_columns(frame, [QID], "Experiment (topics)")
        if frame.empty:
            raise InputError("Experiment (topics): no rows")
        if frame[QID].isna().any():
            raise InputError("Experiment (topics): qid is missing (NaN)")
        if DOCNO not in frame.columns:
            qids_of(frame, "Experiment")
        named = frame.assign(**{QID: as_strings(frame[QID])})
        code, qids = pd.factorize(named[QID])
        self.frame = named.iloc[np.argsort(code, kind="stable")].reset_index(drop=True)
        self.qids: list[str] = qids.tolist()
        self.durable = durable

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each query's rows by qid, empty if results are not saved."""
        if not self.durable:
            return dict.fromkeys(self.qids, "")
        columns = sorted(str(c) for c in self.frame.columns)
        rows: dict[str, list[Any]] = {qid: [columns] for qid in self.qids}
        values = [self.frame[column].tolist() for column in columns]
        for qid, *row in zip(self.frame[QID].tolist(), *values, strict=True):
            rows[qid].append(row)
        return {qid: digest(row, 16) for qid, row in rows.items()}

    def batches(self, size: int) -> list[list[str]]:
        """Return all queries in batches."""
        return [self.qids[start : start + size] for start in range(0, len(self.qids), size)]

    def table(self, qids: Sequence[str], durable: bool = False) -> Table:
        """Return the rows of queries; with `durable`, for a file."""
        rows = self.frame
        if len(qids) < len(self.qids):
            rows = rows[rows[QID].isin(qids)].reset_index(drop=True)
        return pack(rows, "topics", durable)


def from_dataset(
    dataset: Any, topics: pd.DataFrame | None, qrels: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return topics and labels; those not given are read from the dataset.

    The dataset is an id, an ``ir_datasets.Dataset`` or a PyTerrier dataset.
    """
    source = resolve_dataset(dataset, "Experiment")
    if topics is None:
        topics = _plain_query(get_topics(source))
    if qrels is None and source.has("qrels"):
        qrels = dataset_qrels(source)
        if GOLD_ANSWER in source.queries_cls()._fields:
            qrels = join_answers(qrels, get_answers(source))
    return topics, qrels


def about_dataset(dataset: Any) -> dict[str, str]:
    """Return the id of a dataset, and the license of its data if known."""
    source = resolve_dataset(dataset, "Experiment")
    license_text = get_license(source)
    name = str(source.dataset_id()).partition(":")[0]  # without the path of a folder
    return {"dataset": name, **({"license": license_text} if license_text else {})}


def _plain_query(topics: pd.DataFrame) -> pd.DataFrame:
    """Return topics with the column ``query``, which ir_datasets often calls ``text``."""
    if "query" in topics.columns:
        return topics
    for name in ("text", "title"):
        if name in topics.columns:
            return topics.rename(columns={name: "query"})
    raise InputError(
        "Experiment: expected topics with the field 'query', 'text' or 'title', got "
        f"{format_list(topics.columns)}; pass `topics`"
    )


@dataclass
class PromptSet:
    """The distinct prompts for one model, those of one level of the tree at a time."""

    model: ModelKey
    llm: ChatModel
    prompts: dict[Prompt, None] = field(default_factory=dict)  # in the order of their building
    errors: dict[Prompt, str] = field(default_factory=dict)  # by prompt without an answer
    deferred: set[Prompt] = field(default_factory=set)  # prompts that wait for a batch

    @property
    def batches(self) -> list[list[Prompt]]:
        """The prompts in the model's batches, made from all prompts, also those with answers."""
        prompts = list(self.prompts)
        return [[prompts[i] for i in batch] for batch in self.llm.batches(questions(prompts))]


def generate(
    prompt_sets: Iterable[PromptSet],
    answers: Answers,
    session: Session,
    threads: int,
    fail_fast: bool,
    retry_failed: bool,
    on_progress: Callable[[int], None],
) -> None:
    """Generate missing answers; each prompt then has an answer, an error, or is deferred.

    Stored failures, which cannot pass, are errors, unless `retry_failed`. With `fail_fast`, it ends
    after the first batch with a failure.

    `on_progress` is called with the number of finished prompts.
    """
    by_key = {prompt_set.model.key: prompt_set for prompt_set in prompt_sets}

    def missing() -> Iterator[PromptBatch]:
        for key, prompt_set in by_key.items():
            for prompts in prompt_set.batches:
                # checked when a worker is free: another process may have generated them
                stored = answers.get(prompt_set.model, prompts)
                todo = tuple(prompt for prompt in prompts if prompt not in stored)
                failed = {} if retry_failed else answers.failures(prompt_set.model, todo)
                prompt_set.errors.update(failed)
                todo = tuple(prompt for prompt in todo if prompt not in failed)
                on_progress(len(prompts) - len(todo))
                if todo:
                    name = prompt_set.model.name
                    yield PromptBatch(key, todo, threads, fail_fast, name)

    for batch, (completions, failures, deferred) in session.map(run_batch, missing()):
        prompt_set = by_key[batch.model]
        answers.put(prompt_set.model, completions)
        answers.put_failures(prompt_set.model, failures)
        prompt_set.errors.update({prompt: f.reason for prompt, f in failures.items()})
        prompt_set.deferred.update(deferred)
        on_progress(len(batch.prompts))
        if fail_fast and failures:
            return


def _is_paid(llm: ChatModel) -> bool:
    """Return whether calls of a model are paid for, or are behind a ledger."""
    return isinstance(llm, LedgerModel) or not (llm.free or llm.local)


TOPICS = -1
"""The number of the parent node of first stages."""


class Engine:
    """Computes the results of a tree that are missing from a store.

    `check_rows` gets the name and first rows of each system before answers are generated, and may
    raise. The other settings are those of `fairtk.Experiment`.

    Attributes:
        deferred: queries that wait for a batch of prompts, by chain.
    """

    def __init__(
        self,
        tree: Tree,
        topics: Topics,
        store: Store,
        executor: Executor,
        threads: int,
        batch_size: int | None,
        fail_fast: bool,
        check_rows: Callable[[str, pd.DataFrame], None] | None = None,
        retry_failed: bool = False,
    ) -> None:
        self.tree = tree
        self.topics = topics
        self.store = store
        self.executor = executor
        self.threads = threads
        self.fail_fast = fail_fast
        self.retry_failed = retry_failed
        self.durable = store.path is not None
        default = min(MOST_QUERIES, -(-len(topics.qids) // MOST_BATCHES))
        self.batch_size = batch_size or default
        self.batches = topics.batches(self.batch_size)
        self.chains = {node.number: store.number_of(node.key) for node in tree.nodes}
        self.systems: dict[int, list[str]] = {}  # by number of a chain
        for name, end in tree.ends.items():
            for node in end.chain:
                self.systems.setdefault(node.number, []).append(name)
        self.prompt_sets: dict[int, list[PromptSet]] = {}  # one for each answer to a prompt
        self.check_rows = check_rows
        self._unchecked: dict[int, list[str]] = {}
        for name, node in tree.ends.items() if check_rows else ():
            while node.stage.generator is not None and node.parent is not None:
                node = node.parent  # a generator only adds answers to these rows
            self._unchecked.setdefault(node.number, []).append(name)
        self._prompts: dict[int, list[Prompts]] = {}
        self._models: dict[str, ChatModel] = {}  # as workers get them
        self.deferred: dict[int, set[str]] = {}

    def cells(self, node: Node) -> dict[str, StoredCell]:
        """Return the stored cells of a chain, including failed queries."""
        return self.store.cells(self.chains[node.number], self.topics.digests)

    def run(self) -> dict[str, dict[str, StoredCell]]:
        """Compute missing results, and return the cells of each system by query.

        Only deferred queries have no cell. Committed results are kept if this raises.
        """
        ends = self.tree.ends
        for node in self.tree.nodes:
            self.chains[node.number] = self.store.chain(
                node.key,
                [n.stage.description for n in node.chain],
                node.systems,
                self.topics.digests,
            )
        cells = {
            number: self.store.cells(self.chains[number], self.topics.digests)
            for number in {*self._unchecked, *(node.number for node in ends.values())}
        }
        for number in list(self._unchecked):
            self._check(number, self.store.read(list(cells[number].values())[:1]))
        stored = {name: cells[node.number] for name, node in ends.items()}
        due = len(self.topics.qids)
        if all(sum(c.error is None for c in of.values()) == due for of in stored.values()):
            return stored
        outer = stage_context.current().recording  # of an experiment with this one in a stage
        ledger = Ledger(self.store.path) if self.store.path else outer and outer.ledger
        recording = Recording(ledger, now() if self.retry_failed else "")
        with stage_context.recorded(recording):
            self._compute(recording)
        return {name: self.cells(node) for name, node in ends.items()}

    def return_turns(self) -> None:
        """Give the turns of all queries, as they are stored, to the `fairtk.Seen` of systems."""
        places: dict[int, tuple[Log, dict[tuple[int, int], list[str]]]] = {}
        for name, end in self.tree.ends.items():
            for transformer, node in zip(self.tree.transformers[name], end.chain, strict=True):
                for index, log in enumerate(logs_of(transformer)):
                    _, users = places.setdefault(id(log), (log, {}))
                    users.setdefault((node.number, index), []).append(name)
        for log, users in places.values():
            if len(users) > 1:
                log.clear()
                log.users = list(chain.from_iterable(users.values()))
                continue
            [(number, index)] = users
            notes = self.store.notes(self.chains[number], self.topics.digests)
            log.restore({qid: note[TURNS][index] for qid, note in notes.items()})

    def _compute(self, recording: Recording) -> None:
        """Compute missing results."""
        self._models = {
            key: llm if isinstance(llm, CONTENT_MODELS) else llm.recorded()
            for key, llm in self.prepare().items()
        }
        stages = {node.stage.key: node.stage.runnable for node in self.tree.nodes}
        callers: dict[str, list[ChatModel]] = {}  # models by the key of the stage that calls them
        for node in self.tree.nodes:
            is_generator = node.number in self.prompt_sets  # whose stage only builds prompts
            keys = [node.stage.key]
            if is_generator:
                keys = [prompt_set.model.key for prompt_set in self.prompt_sets[node.number]]
            for key in keys:
                callers.setdefault(key, []).extend(models_of(node.stage.runnable))
        # problems of a server should not occur after hours
        for llm in {repr(llm): llm for llm in chain.from_iterable(callers.values())}.values():
            llm.recorded().check()
        options: dict[str, Any] = {}
        if isinstance(self.executor, DaskExecutor):
            options["here"] = [key for key, models in callers.items() if any(map(_is_paid, models))]
        everything = {**stages, **self._models, RECORDING: recording}
        with self.executor.open(everything, self.threads, **options) as session:
            for level in range(1 + max(node.level for node in self.tree.nodes)):
                if level:
                    self._answer(level, session)
                self._run_stages(level, session)

    def prepare(self) -> dict[str, ChatModel]:
        """Return the models of all generators by key, and fill `prompt_sets`."""
        prompt_sets: list[PromptSet] = []
        for node in self.tree.nodes:
            generator = node.stage.generator
            if generator is None:
                continue
            of_node = self.prompt_sets[node.number] = []
            for llm in generator.models:
                equal = (one for one in prompt_sets if one.llm is llm or one.llm == llm)
                prompt_set = next(equal, None)
                if prompt_set is None:
                    prompt_set = PromptSet(self._model_key(node, llm, len(prompt_sets)), llm)
                    prompt_sets.append(prompt_set)
                elif isinstance(prompt_set.llm, LedgerModel):
                    prompt_set.llm = prompt_set.llm.read_by(generator.answer)
                of_node.append(prompt_set)
        return {prompt_set.model.key: prompt_set.llm for prompt_set in prompt_sets}

    def _model_key(self, node: Node, llm: ChatModel, number: int) -> ModelKey:
        if not isinstance(llm, CONTENT_MODELS):  # the identity in its ledger
            has_ledger = isinstance(llm, LedgerModel)
            return ModelKey(f"model {number}", llm.name, llm.parameters(), has_ledger)
        if not self.durable:
            return ModelKey(f"model {number}", llm.name, {"number": number})
        stage = node.stage.description or {}
        if "identified" in stage:  # the user's name of the stage also identifies its model
            identity: Any = {"model of": stage}  # the key must differ from that of the stage
        else:
            identity = describe(described_model(llm), f"{node.stage.name}.llm")
        key = key_of(identity)
        return ModelKey(key, llm.name, {"identity": key, "threads": self.threads})

    # Stages -----------------------------------------------------------------------------------

    def _run_stages(self, level: int, session: Session) -> None:
        """Run the stages of a level, and build the prompts of the generators after them."""
        nodes = [n for n in self.tree.nodes if n.level == level and n.stage.generator is None]
        generators = [
            n for n in self.tree.nodes if n.level == level + 1 and n.stage.generator is not None
        ]
        with progress_bar("stages", len(self.batches), "batch") as progress:
            tasks = self._tasks(nodes, generators, progress)
            for task, outcome in session.map(run_task, tasks):
                self._commit(task, outcome)
                progress(1)

    def _tasks(
        self, nodes: Sequence[Node], generators: Sequence[Node], progress: Callable[[int], None]
    ) -> Iterator[StageTask]:
        for batch in self.batches:
            task = self._task(nodes, generators, batch)
            if task is None:
                progress(1)
            else:
                yield task

    def _task(
        self, nodes: Sequence[Node], generators: Sequence[Node], batch: list[str]
    ) -> StageTask | None:
        """Return the missing work of a batch, `None` if another run has done it."""
        topics = {qid: self.topics.digests[qid] for qid in batch}
        involved = [*nodes, *generators]
        involved += [n.parent for n in involved if n.parent is not None]
        cells = {
            number: self.store.cells(self.chains[number], topics)
            for number in {n.number for n in involved if n.keep}
        }
        stored = {
            number: {qid for qid, cell in node_cells.items() if cell.error is None}
            for number, node_cells in cells.items()
        }
        needed: dict[int, set[str]] = {}  # rows that a child reads
        steps: list[StageStep] = []
        for node in [*reversed(generators), *reversed(nodes)]:
            missing = set(batch) - stored[node.number] if node.keep else set()
            missing -= self._waiting(node)
            missing |= needed.get(node.number, set()) - stored.get(node.number, set())
            if not missing:
                continue
            parent = TOPICS if node.parent is None else node.parent.number
            needed.setdefault(parent, set()).update(missing)
            qids = tuple(qid for qid in batch if qid in missing)
            ask = node.stage.generator is not None
            steps.insert(
                0,
                StageStep(
                    node.number,
                    parent,
                    node.stage.key,
                    node.stage.name,
                    qids,
                    node.keep,
                    ask,
                    tuple(self.systems[node.number]),
                    node.stage.records_turns,
                    node.stage.calls_model,
                ),
            )
        if not steps:
            return None
        running = {step.node for step in steps}
        inputs, errors, remarks = {}, {}, {}
        for number, needed_qids in needed.items():
            if number == TOPICS:
                inputs[number] = self.topics.table(batch)
                continue
            node_cells = cells.get(number, {})
            ready = needed_qids & stored.get(number, set())
            table = self.store.read([cell for qid, cell in node_cells.items() if qid in ready])
            if table is not None:
                inputs[number] = table
            if number not in running:  # failures of generators are final in this run
                errors[number] = {q: cell.error for q, cell in node_cells.items() if cell.error}
            remarks[number] = {
                qid: remarks_of(cell)
                for qid, cell in node_cells.items()
                if cell.remarks is not None and (qid in ready or number not in running)
            }
        return StageTask(inputs, steps, errors, remarks, self.durable, self.fail_fast, self.threads)

    def _waiting(self, node: Node) -> set[str]:
        """Return the queries for which a stage of a chain waits for answers."""
        return set().union(*(self.deferred.get(n.number, ()) for n in node.chain))

    def _commit(self, task: StageTask, outcome: TaskResult) -> None:
        results = []
        for number, qids in outcome.deferred.items():
            self.deferred.setdefault(number, set()).update(qids)
        for step in task.steps:
            errors = outcome.errors[step.node]
            table, spans = outcome.tables.get(step.node, (None, []))
            if step.keep and (spans or errors):
                notes, remarks = outcome.notes.get(step.node, {}), outcome.remarks[step.node]
                number = self._chain(step.node)
                results.append(ChainResult(number, table, spans, errors, notes, remarks))
            if step.ask and step.node in outcome.prompts:
                prompts = outcome.prompts[step.node]
                self._prompts.setdefault(step.node, []).append(prompts)
                for prompt_set in self.prompt_sets[step.node]:
                    prompt_set.prompts.update(dict.fromkeys(prompts.texts))
        self.store.commit(results, self.topics.digests)
        for number, (table, _) in outcome.tables.items():
            self._check(number, table)

    def _check(self, node: int, table: Table | None) -> None:
        if table is not None and len(table):
            for system in self._unchecked.pop(node, ()):
                assert self.check_rows is not None
                self.check_rows(system, unpack(table, [QID, DOCNO, SAMPLE, RANK]))

    def _chain(self, node: int) -> int:
        chain = self.chains[node]
        assert chain is not None  # set in `run`
        return chain

    # Answers ----------------------------------------------------------------------------------

    def _answer(self, level: int, session: Session) -> None:
        """Generate the answers of a level's generators, and add them to their rankings."""
        nodes = [n for n in self.tree.nodes if n.level == level and n.number in self._prompts]
        prompt_sets = {id(one): one for node in nodes for one in self.prompt_sets[node.number]}
        total = sum(len(prompt_set.prompts) for prompt_set in prompt_sets.values())
        for prompt_set in prompt_sets.values():  # before the first call
            llm = self._models[prompt_set.model.key]
            if isinstance(llm, LedgerModel):
                llm.check_temperature(questions(prompt_set.prompts))
        with progress_bar("answers", total, "prompt") as progress:
            generate(
                prompt_sets.values(),
                self.store.answers,
                session,
                self.threads,
                self.fail_fast,
                self.retry_failed,
                progress,
            )
        if self.fail_fast:
            self._raise_first_error(nodes)
        for prompt_set in prompt_sets.values():
            # a resumed run has no prompts of finished levels, and must cut the same batches
            prompt_set.prompts.clear()
        for node in nodes:
            for prompts in self._prompts.pop(node.number):
                self._put_answers(node, prompts)

    def _raise_first_error(self, nodes: Sequence[Node]) -> None:
        """Raise a `StageError` for the first query with a prompt that failed, if there is one."""
        for node in nodes:
            reasons: dict[Prompt, str] = {}
            for prompt_set in self.prompt_sets[node.number]:
                reasons |= prompt_set.errors
            for prompts in self._prompts[node.number] if reasons else ():
                spans, _ = self._input(node, prompts.qids)
                for qid, first, size in spans:
                    for index in prompts.rows[first : first + size].tolist():
                        if (reason := reasons.get(prompts.texts[index])) is not None:
                            raise StageError(f"{node.stage.name} failed for qid {qid!r}: {reason}")

    def _put_answers(self, node: Node, prompts: Prompts) -> None:
        """Commit the rows of a generator: its input with answers."""
        prompt_sets = self.prompt_sets[node.number]
        generator = node.stage.generator
        assert generator is not None
        readings: list[list[Reading] | None] = []
        unanswered: dict[int, Failure] = {}
        numbered = [self.store.answers.get(one.model, prompts.texts) for one in prompt_sets]
        for index, text in enumerate(prompts.texts):
            of_text = []
            for prompt_set, completions in zip(prompt_sets, numbered, strict=True):
                outcome = completions.get(text) or self._failure(prompt_set, text)
                reading = generator.read(text, outcome)
                if isinstance(reading, Failure):
                    unanswered.setdefault(index, reading)
                else:
                    of_text.append(reading)
            readings.append(None if index in unanswered else of_text)
        deferred = set().union(*(prompt_set.deferred for prompt_set in prompt_sets))
        spans, table = self._input(node, prompts.qids)
        errors, waiting = {}, set()
        for qid, first, size in spans if unanswered else ():
            of_query = unanswered.keys() & set(prompts.rows[first : first + size].tolist())
            if any(prompts.texts[index] in deferred for index in of_query):
                waiting.add(qid)
            elif of_query:
                reason = unanswered[min(of_query)].reason
                if self.fail_fast:
                    raise StageError(f"{node.stage.name} failed for qid {qid!r}: {reason}")
                errors[qid] = f"{node.stage.name}: {reason}"
        if table is not None:  # otherwise no query has a ranking
            for name, cells in answer_columns(generator, prompts.texts, readings).items():
                table = with_cells(table, name, cells, prompts.rows)
            if prompts.in_prompt is not None:
                table = with_mask(table, IN_PROMPT, prompts.in_prompt)
        spans = [span for span in spans if span[0] not in errors and span[0] not in waiting]
        if waiting:
            self.deferred.setdefault(node.number, set()).update(waiting)
        notes = {}
        for qid, first, size in spans:
            texts = {prompts.texts[i] for i in prompts.rows[first : first + size].tolist()}
            calls = [completions[text] for completions in numbered for text in texts]
            notes[qid] = json.dumps(cost_of(calls))
        number = self._chain(node.number)
        result = ChainResult(number, table, spans, errors, notes, prompts.remarks)
        self.store.commit([result], self.topics.digests)

    @staticmethod
    def _failure(prompt_set: PromptSet, prompt: Prompt) -> Failure:
        return Failure(prompt_set.errors.get(prompt, "no answer"))

    def _input(self, node: Node, qids: list[str]) -> tuple[list[Span], Table | None]:
        """Return the spans of queries in a generator's input, and the input."""
        if node.parent is None:
            table = self.topics.table(qids, self.durable)
            column = table.column("qid").to_pylist()
            return spans_of([(qid, column.count(qid)) for qid in qids]), table
        assert node.parent.keep  # the input of generators is always stored
        topics = {qid: self.topics.digests[qid] for qid in qids}
        cells = self.store.cells(self.chains[node.parent.number], topics)
        sizes = [(qid, cell.size) for qid, cell in cells.items()]
        return spans_of(sizes), self.store.read(cells.values())
