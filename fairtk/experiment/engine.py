"""The engine: what is missing, who does it, and where it is kept.

The tree of chains is done level by level: all stages up to the first generators, over batches of
queries; then the prompts of all of them; then the stages behind, and so on. Only this process
writes results; each batch is committed before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from fairtk.experiment.answers import Asker, Recording
from fairtk.experiment.chains import Node, Tree
from fairtk.experiment.executors import Executor, Session
from fairtk.experiment.generation import Wanted, generate
from fairtk.experiment.identity import describe, key_of
from fairtk.experiment.packing import Span, Table, spans_of, unpack, with_answers
from fairtk.experiment.progress import progress_bar
from fairtk.experiment.store import Made, Store, StoredCell
from fairtk.experiment.tasks import Prompts, StageStep, StageTask, TaskResult
from fairtk.experiment.topics import BATCH, Topics
from fairtk.experiment.work import run_task
from fairtk.frames.columns import DOCNO, QID, RANK, SAMPLE
from fairtk.llm import ChatBackend, Recorded

TOPICS = -1
"""The number of the node that the first stages read."""


class Engine:
    """Makes the results of all chains of a tree that a store lacks.

    `look` is shown the first rows of each system, by name, and may refuse them, before answers are
    generated. The other settings are those of `fairtk.Experiment`.
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
        look: Callable[[str, pd.DataFrame], None] | None = None,
    ) -> None:
        self.tree = tree
        self.topics = topics
        self.store = store
        self.executor = executor
        self.threads = threads
        self.fail_fast = fail_fast
        self.durable = store.path is not None
        self.batch_size = batch_size or BATCH
        self.batches = topics.batches(self.batch_size)
        self.chains = {node.number: store.number_of(node.key) for node in tree.nodes}
        self.wanted: dict[int, Wanted] = {}
        self.look = look
        self._unseen: dict[int, list[str]] = {}
        for name, node in tree.ends.items() if look else ():
            while node.stage.generator is not None and node.parent is not None:
                node = node.parent  # whose rows are those of the generator, but for the answers
            self._unseen.setdefault(node.number, []).append(name)
        self._prompts: dict[int, list[Prompts]] = {}

    # What there is ----------------------------------------------------------------------------

    def cells(self, node: Node) -> dict[str, StoredCell]:
        """Return what the store has of a chain, failed queries too."""
        return self.store.cells(self.chains[node.number], self.topics.digests)

    def done(self, node: Node) -> set[str]:
        """Return the queries that a chain has results for."""
        return {qid for qid, cell in self.cells(node).items() if cell.error is None}

    # Making what is missing -------------------------------------------------------------------

    def run(self) -> None:
        """Make what is missing; afterwards each query has a result or an error in each chain.

        What was committed is kept, whatever is raised.
        """
        for node in self.tree.nodes:
            self.chains[node.number] = self.store.chain(
                node.key, [n.stage.description for n in node.chain], node.systems
            )
        for number in list(self._unseen):
            cells = self.store.cells(self.chains[number], self.topics.digests)
            self._show(number, self.store.read(list(cells.values())[:1]))
        if all(len(self.done(node)) == len(self.topics.qids) for node in self.tree.ends.values()):
            return
        stages = {node.stage.key: node.stage.working for node in self.tree.nodes}
        backends = self.prepare()
        if self.store.path is not None:
            recorded = Recording(self.store.path)
            stages = {key: recorded.behind(stage) for key, stage in stages.items()}
            backends = {key: recorded.behind(backend) for key, backend in backends.items()}
        levels = 1 + max(node.level for node in self.tree.nodes)
        with self.executor.open({**stages, **backends}, self.threads) as session:
            for level in range(levels):
                if level:
                    self._answer(level, session)
                self._run_stages(level, session)

    def prepare(self) -> dict[str, Any]:
        """Return the backends of all generators by key, and note in `wanted` who asks which."""
        known: list[Wanted] = []
        for node in self.tree.nodes:
            generator = node.stage.generator
            if generator is None:
                continue
            backend = generator.backend
            equal = (w for w in known if w.backend is backend or w.backend == backend)
            wanted = next(equal, None)
            if wanted is None:
                wanted = Wanted(self._asker(node, backend, len(known)), backend)
                known.append(wanted)
            self.wanted[node.number] = wanted
        return {wanted.asker.key: wanted.backend for wanted in known}

    def _asker(self, node: Node, backend: Any, number: int) -> Asker:
        name = str(getattr(backend, "name", type(backend).__name__))
        if isinstance(backend, ChatBackend):  # as the ledger that records its calls knows it
            recorded = isinstance(backend.model, Recorded)
            return Asker(f"model {number}", name, backend.model.parameters(), recorded)
        if not self.durable:
            return Asker(f"model {number}", name, {"number": number})
        told = node.stage.description or {}
        by_hand = "identified" in told  # what the user calls the stage stands for its model, too
        identity = told if by_hand else describe(backend, f"{node.stage.name}.backend")
        key = key_of(identity)
        return Asker(key, name, {"identity": key, "threads": self.threads})

    # Stages -----------------------------------------------------------------------------------

    def _run_stages(self, level: int, session: Session) -> None:
        """Run the stages of a level, and ask the generators behind them for their prompts."""
        nodes = [n for n in self.tree.nodes if n.level == level and n.stage.generator is None]
        asking = [
            n for n in self.tree.nodes if n.level == level + 1 and n.stage.generator is not None
        ]
        with progress_bar("stages", len(self.batches), "batch") as progress:
            tasks = self._tasks(nodes, asking, progress)
            for task, outcome in session.map(run_task, tasks):
                self._keep(task, outcome)
                progress(1)

    def _tasks(
        self, nodes: Sequence[Node], asking: Sequence[Node], progress: Callable[[int], None]
    ) -> Iterator[StageTask]:
        for batch in self.batches:
            task = self._task(nodes, asking, batch)
            if task is None:
                progress(1)
            else:
                yield task

    def _task(
        self, nodes: Sequence[Node], asking: Sequence[Node], batch: list[str]
    ) -> StageTask | None:
        """Return what is missing of a batch, or None; looked up anew, another run may have it."""
        topics = {qid: self.topics.digests[qid] for qid in batch}
        looked_up = [*nodes, *asking]
        looked_up += [n.parent for n in looked_up if n.parent is not None]
        cells = {
            number: self.store.cells(self.chains[number], topics)
            for number in {n.number for n in looked_up if n.keep}
        }
        there = {
            number: {qid for qid, cell in found.items() if cell.error is None}
            for number, found in cells.items()
        }
        needed: dict[int, set[str]] = {}  # rows that a child reads
        steps: list[StageStep] = []
        for node in [*reversed(asking), *reversed(nodes)]:
            missing = set(batch) - there[node.number] if node.keep else set()
            missing |= needed.get(node.number, set()) - there.get(node.number, set())
            if not missing:
                continue
            parent = TOPICS if node.parent is None else node.parent.number
            needed.setdefault(parent, set()).update(missing)
            qids = tuple(qid for qid in batch if qid in missing)
            ask = node.stage.generator is not None
            steps.insert(
                0,
                StageStep(
                    node.number, parent, node.stage.key, node.stage.name, qids, node.keep, ask
                ),
            )
        if not steps:
            return None
        made = {step.node for step in steps}
        inputs, errors = {}, {}
        for number, wanted in needed.items():
            if number == TOPICS:
                inputs[number] = self.topics.table(batch)
                continue
            found = cells.get(number, {})
            ready = wanted & there.get(number, set())
            table = self.store.read([cell for qid, cell in found.items() if qid in ready])
            if table is not None:
                inputs[number] = table
            if number not in made:  # a generator's, whose failures are final in this run
                errors[number] = {q: cell.error for q, cell in found.items() if cell.error}
        return StageTask(inputs, steps, errors, self.durable, self.fail_fast, self.threads)

    def _keep(self, task: StageTask, outcome: TaskResult) -> None:
        made = []
        for step in task.steps:
            errors = outcome.errors[step.node]
            table, spans = outcome.tables.get(step.node, (None, []))
            if step.keep and (spans or errors):
                made.append(Made(self._chain(step.node), table, spans, errors))
            if step.ask:
                prompts = outcome.prompts[step.node]
                self._prompts.setdefault(step.node, []).append(prompts)
                lengths = self.wanted[step.node].lengths
                lengths.update(zip(prompts.texts, prompts.lengths, strict=True))
        self.store.commit(made, self.topics.digests)
        for number, (table, _) in outcome.tables.items():
            self._show(number, table)

    def _show(self, node: int, table: Table | None) -> None:
        """Show the first rows of systems to who may refuse them."""
        if table is not None and len(table):
            for system in self._unseen.pop(node, ()):
                assert self.look is not None  # else nothing is unseen
                self.look(system, unpack(table, [QID, DOCNO, SAMPLE, RANK]))

    def _chain(self, node: int) -> int:
        chain = self.chains[node]
        assert chain is not None  # set when the run begins
        return chain

    # Answers ----------------------------------------------------------------------------------

    def _answer(self, level: int, session: Session) -> None:
        """Generate the answers of a level's generators, and put them onto their rankings."""
        nodes = [n for n in self.tree.nodes if n.level == level and n.number in self._prompts]
        wanted = {id(self.wanted[n.number]): self.wanted[n.number] for n in nodes}
        total = sum(len(one.lengths) for one in wanted.values())
        with progress_bar("answers", total, "prompt") as progress:
            generate(
                wanted.values(), self.store.answers, session, self.threads, self.fail_fast, progress
            )
        for node in nodes:
            for prompts in self._prompts.pop(node.number):
                self._put_answers(node, prompts)

    def _put_answers(self, node: Node, prompts: Prompts) -> None:
        """Commit the rows of a generator: those that it read, and the answers."""
        wanted = self.wanted[node.number]
        found = self.store.answers.get(wanted.asker, prompts.texts)
        spans, table = self._input(node, prompts.qids)
        lost = {i: text for i, text in enumerate(prompts.texts) if text not in found}
        errors = {}
        for qid, first, size in spans if lost else ():
            asked = lost.keys() & set(prompts.rows[first : first + size].tolist())
            if asked:
                reason = wanted.errors.get(lost[min(asked)], "the model gave no answer")
                errors[qid] = f"{node.stage.name}: {reason}"
        table = with_answers(table, [found.get(text) for text in prompts.texts], prompts.rows)
        spans = [span for span in spans if span[0] not in errors]
        made = Made(self._chain(node.number), table, spans, errors)
        self.store.commit([made], self.topics.digests)

    def _input(self, node: Node, qids: list[str]) -> tuple[list[Span], Table]:
        """Return where the rows of queries are that a generator read, and the rows."""
        if node.parent is None:
            table = self.topics.table(qids, self.durable)
            column = table.column("qid").to_pylist()
            return spans_of([(qid, column.count(qid)) for qid in qids]), table
        assert node.parent.keep  # a generator's input always is
        topics = {qid: self.topics.digests[qid] for qid in qids}
        cells = self.store.cells(self.chains[node.parent.number], topics)
        sizes = [(qid, cell.size) for qid, cell in cells.items()]
        return spans_of(sizes), self.store.read(cells.values())
