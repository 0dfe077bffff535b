"""The study: tasks x retrievers x (alphas, oracle, deterministic) x generators, on the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
from ir_measures import nDCG
from pyterrier._ops import RankCutoff

from fairtk import measures
from fairtk.errors import InputError, ParameterError
from fairtk.experiment import Experiment, Results
from fairtk.frames.columns import QID, SAMPLE
from fairtk.measures import E
from fairtk.studies.fair_rag.labeling import (
    Labeled,
    label_agreement,
    label_task,
    nothing_useful,
)
from fairtk.studies.fair_rag.labels import names_repeat
from fairtk.studies.fair_rag.normalizing import normalized_utility
from fairtk.studies.fair_rag.points import (
    ALPHA,
    DETERMINISTIC,
    EE_D,
    EE_R,
    EU,
    GENERATOR,
    MEASURE,
    MODEL,
    ORACLE,
    RETRIEVER,
    TASK,
    VALUE,
    sizes,
)
from fairtk.studies.fair_rag.results import NDCG, UTILITY, RagResults, model_folder
from fairtk.studies.fair_rag.settings import RagSettings
from fairtk.studies.fair_rag.specs import MakeGenerator
from fairtk.studies.fair_rag.stage_clock import StageClock
from fairtk.studies.fair_rag.tasks import UTILITIES, LampTask
from fairtk.studies.kept import hearing
from fairtk.transformers import Candidates, FairSampler, Generator, OracleSampler


class RagStudy:
    """The experiment of *Towards Fair RAG* (Kim and Diaz 2024, sections 3 to 5).

    Per task and generator, documents are labeled by what they gain the generator; per retriever,
    rankings are sampled at each alpha, by an oracle, and taken as they are; the generator answers
    from each. All answers are in one store in `folder`, so that labels, alphas and systems share
    them and a run that was killed goes on where it stopped.

    Args:
        tasks: the tasks.
        retrievers: name to scorer of candidates, e.g. ``{"BM25": BM25Scorer()}``.
        generators: name to what makes a task's generator: called with the number of the task and
            the cutoff, e.g. `fairtk.studies.fair_rag.make_generator("t5:my/model")`.
        folder: where store and results go; may be shared with studies of other settings.
        settings: how the study is done.
        **engine: arguments of `fairtk.Experiment`: ``executor``, ``workers``, ``threads``,
            ``batch_size``.

    Raises:
        ParameterError: there is nothing to do, or two tasks have one name.
    """

    def __init__(
        self,
        tasks: Sequence[LampTask],
        retrievers: Mapping[str, Any],
        generators: Mapping[str, MakeGenerator],
        folder: str | PathLike[str],
        settings: RagSettings | None = None,
        **engine: Any,
    ) -> None:
        for what, given in (("task", tasks), ("retriever", retrievers), ("generator", generators)):
            if not given:
                raise ParameterError(f"the study needs at least one {what}")
        names = [task.name for task in tasks]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ParameterError(
                f"the study: two tasks are called {twice[0]!r}; give LampTask(..., name=...)"
            )
        self.tasks = list(tasks)
        self.retrievers = dict(retrievers)
        self.generators = dict(generators)
        self.folder = Path(folder)
        self.settings = RagSettings() if settings is None else settings
        self.engine = engine

    def run(
        self,
        say: Callable[[str], None] = lambda text: None,
        keep_rankings: bool = False,
        command: str | None = None,
    ) -> RagResults:
        """Run the study, or what is missing of it.

        Args:
            say: told what is begun.
            keep_rankings: whether each model's results are saved with rankings and answers, as
                reports show them; large for large studies.
            command: that runs the study, for reports to say.

        Raises:
            InputError: no query of any task has enough useful documents.
        """
        values: list[pd.DataFrame] = []
        counts: list[pd.DataFrame] = []
        facts: list[dict[str, Any]] = []
        notes: list[str] = []
        labels: dict[tuple[str, str], Labeled] = {}
        clock = StageClock()
        self.check()
        for task in self.tasks:
            for name, make in self.generators.items():
                generator = make(task.number, self.settings.cutoff)
                say(f"{task.name}, {name}: labels")
                with hearing() as of_labels, clock.stage("labels"):
                    labeled = self.labeled(task, generator)
                labels[task.name, name] = labeled
                facts.append({"task": task.name, "generator": name, **labeled.facts})
                if labeled.qrels.empty:
                    notes.append(nothing_useful(task, name, labeled, self.settings))
                    continue
                counts.append(sizes(labeled.qrels, task.name, name))
                utilities = []
                for retriever in self.retrievers:
                    say(f"{task.name}, {name}, {retriever}: rankings, answers, measures")
                    with hearing() as heard, clock.stage("rankings, answers, measures"):
                        results = self.experiment(task, retriever, generator, labeled.qrels)
                        own, drawn = self._values(task, results)
                    model = {TASK: task.name, RETRIEVER: retriever, GENERATOR: name}
                    if keep_rankings:
                        place = model_folder(self.folder, self.settings.name, tuple(model.values()))
                        results.config |= {
                            "title": "Fair RAG: " + ", ".join(model.values()),
                            "license": task.license,
                            "study": self.settings.as_json(),
                            "warnings": list(dict.fromkeys([*of_labels, *heard])),
                            **({} if command is None else {"command": command}),
                        }
                        results.save(place)
                    values.append(own.assign(**model))
                    utilities.append(drawn.assign(**model))
                normalized = normalized_utility(
                    pd.concat(utilities, ignore_index=True),
                    over=self.settings.eu_over,
                    deterministic=self.settings.eu_deterministic,
                )
                values.append(normalized.assign(**{MEASURE: EU})[list(values[-1].columns)])
        if not values:
            raise InputError("; ".join(notes))
        return RagResults(
            values=pd.concat(values, ignore_index=True)[[*MODEL, ALPHA, QID, MEASURE, VALUE]],
            sizes=pd.concat(counts, ignore_index=True),
            collections=pd.DataFrame(facts),
            agreement=label_agreement(labels),
            notes=notes,
            seconds=clock.seconds,
            settings=self.settings,
            licenses=sorted({task.license for task in self.tasks}),
        )

    def check(self) -> None:
        """Use each retriever and each generator's tokenizer once, so that models that cannot be
        loaded are said before hours of work.

        Raises:
            FairtkError: data or a model cannot be read.
        """
        for make in self.generators.values():
            _ = make(self.tasks[0].number, self.settings.cutoff).backend.tokenizer
        topics = self.tasks[0].topics
        document = Candidates(self.tasks[0].dataset)(topics.head(1)).head(1)
        for retriever in self.retrievers.values():
            retriever(document)

    # One group --------------------------------------------------------------------------------

    def systems(
        self, task: LampTask, retriever: str, qrels: pd.DataFrame, last: Sequence[Any] = ()
    ) -> dict[str, Any]:
        """Return the systems of a group by name: rankings, and what comes behind them.

        Args:
            task: the task.
            retriever: name of the retriever.
            qrels: what the oracle knows.
            last: stages behind the rankings: the generator.
        """
        settings = self.settings
        drawn: dict[str, Any] = {
            "n_samples": settings.n_samples,
            "cutoff": settings.cutoff,
            "seed": settings.seed,
        }
        policies: dict[str, Any] = {
            name: FairSampler(alpha=alpha, **drawn)
            for name, alpha in settings.systems.items()
            if not isinstance(alpha, str)
        }
        policies[ORACLE] = OracleSampler(qrels, **drawn)
        policies[DETERMINISTIC] = RankCutoff(settings.cutoff)
        found = {}
        for name, policy in policies.items():
            pipeline = Candidates(task.dataset) >> self.retrievers[retriever] >> policy
            for stage in last:
                pipeline = pipeline >> stage
            found[name] = pipeline
        return found

    def experiment(
        self, task: LampTask, retriever: str, generator: Generator, qrels: pd.DataFrame, **more: Any
    ) -> Any:
        """Run one group: the results of its systems.

        Args:
            task: the task.
            retriever: name of the retriever.
            generator: of the task.
            qrels: of the queries that are measured.
            **more: further arguments of `fairtk.Experiment`, e.g. ``dry_run``.
        """
        k = self.settings.cutoff
        exposure = [measures.EE_D @ k, measures.EE_R @ k]
        quality = [E(nDCG @ k), UTILITIES[task.number].measure]
        with names_repeat():
            return Experiment(
                self.systems(task, retriever, qrels, [generator]),
                task.topics[task.topics[QID].isin(set(qrels[QID]))],
                qrels,
                [*exposure, *quality],
                save_dir=self.folder,
                baseline=DETERMINISTIC,
                **{**self.engine, **more},
            )

    def labeled(self, task: LampTask, generator: Generator) -> Labeled:
        """Return a task's labels for a generator: published ones, or the generator's own."""
        return label_task(task, generator, self.settings, self.folder, self.engine)

    def _values(self, task: LampTask, results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the values of each query, and the utility of each answer."""
        names = dict(zip(results.measures, (EE_D, EE_R, NDCG, UTILITY), strict=True))
        values = results.per_query.assign(
            **{
                ALPHA: results.per_query["system"].map(self.settings.systems),
                MEASURE: results.per_query[MEASURE].map(names),
            }
        )
        drawn = results.per_sample
        drawn = drawn[drawn[MEASURE].map(names) == UTILITY]
        drawn = drawn.assign(**{ALPHA: drawn["system"].map(self.settings.systems)})
        return values.drop(columns="system"), drawn[[ALPHA, QID, SAMPLE, VALUE]]
