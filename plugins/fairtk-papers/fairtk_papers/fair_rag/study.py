"""The *Towards Fair RAG* study: rankings, answers, measures and credit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
from ir_measures import nDCG
from pyterrier._ops import RankCutoff

from fairtk import measures
from fairtk.credit import Citations, Subsets, from_answers
from fairtk.errors import FormatError, InputError, NotFoundError, ParameterError, StageError
from fairtk.experiment import Experiment, Results
from fairtk.frames import DOCNO, QID, SAMPLE
from fairtk.llm import DeferredError, Ledger
from fairtk.measures import E
from fairtk.transformers import Candidates, FairSampler, Generator, OracleSampler
from fairtk.wording import format_list
from fairtk_papers.fair_rag.credit import credit_values
from fairtk_papers.fair_rag.labels import (
    TaskLabels,
    explain_no_labels,
    label_agreement,
    label_task,
)
from fairtk_papers.fair_rag.planning import study_plan, study_status
from fairtk_papers.fair_rag.results import ANSWERS, NDCG, RagResults, model_folder
from fairtk_papers.fair_rag.settings import (
    CITATIONS,
    NONE,
    SUBSETS,
    LampTask,
    MakeGenerator,
    RagConfiguration,
    RagSettings,
    make_generator,
    make_retriever,
)
from fairtk_papers.fair_rag.tables import (
    DETERMINISTIC,
    EE_D,
    EE_R,
    EU,
    MODEL,
    NORMALIZED_EU,
    ORACLE,
    normalized_utility,
    sizes,
)
from fairtk_papers.studies import RunRetriever, StudyPlan, duplicates, study_remark

quiet_experiment = partial(Experiment, warn=False)
"""Studies share a folder, and issue the warnings of results that they use."""
ONE_SAMPLE = (
    "EE_D of sampled policies is undefined, because its unbiased estimate requires at least two "
    "samples per query; use `n_samples=2` or more."
)
_SYSTEMS = (
    "All systems rank the same documents: alpha 0 in random order (uniform), larger alphas closer "
    "to the retriever's order, deterministic in that order, oracle with the useful documents first."
)
_NAMES = {"bm25": "BM25", "contriever": "Contriever", "splade": "SPLADE"}


class RagStudy:
    """The experiment of *Towards Fair RAG* (Kim and Diaz 2024, sections 3 to 5).

    Documents are labeled by their gain in utility for each generator. For each retriever, the
    generator answers from rankings that are sampled at each alpha and by an oracle, and from the
    deterministic ranking, the baseline. All answers are stored in `folder`: equal prompts are
    answered once, and a stopped run continues where it stopped.

    Args:
        tasks: the tasks.
        retrievers: scorers of candidates by name, e.g. ``{"BM25": BM25Scorer()}``, or
            `fairtk_papers.studies.RunRetriever`.
        generators: functions by name that build the generator of a task, e.g.
            `fairtk_papers.fair_rag.make_generator("t5:my/model")`. Their arguments are the number
            of the task, the cutoff and, unless it is the default, ``truncation``.
        folder: the folder for the store and the results; studies with other settings can share it.
        settings: the settings of the study.
        **engine: arguments of `fairtk.Experiment`: ``executor``, ``workers``, ``scheduler``,
            ``threads``, ``batch_size``.

    Raises:
        ParameterError: `tasks`, `retrievers` or `generators` is empty, or tasks share a name.
        InputError: a run has topics or documents that are not in the tasks.
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
        for kind, values in (("task", tasks), ("retriever", retrievers), ("generator", generators)):
            if not values:
                raise ParameterError(f"the study requires at least one {kind}")
        if repeated := duplicates(task.name for task in tasks):
            raise ParameterError(
                f"the study: duplicate task name {repeated[0]!r}; set LampTask(..., name=...)"
            )
        self.tasks = list(tasks)
        self.retrievers = dict(retrievers)
        self.generators = dict(generators)
        self.folder = Path(folder)
        self.settings = RagSettings() if settings is None else settings
        self.engine = engine
        for retriever in self.retrievers.values():
            if isinstance(retriever, RunRetriever):
                self.check_run(retriever)

    @classmethod
    def from_configuration(
        cls, configuration: RagConfiguration, ledger: Ledger | None = None
    ) -> RagStudy:
        """Return the study of a configuration.

        Args:
            configuration: the configuration.
            ledger: stores the answers of servers and limits their cost; `None` to store them in
                the study's store, without a limit.

        Raises:
            ParameterError: a setting is out of range, or there is a duplicate.
            NotFoundError: a dataset, retriever, generator or name in [options] is unknown.
            InputError: see `RagStudy`.
        """
        retrievers, models = configuration.retrievers, configuration.models
        names = [*retrievers, *models]
        for name in configuration.options:
            if name not in names:
                error = NotFoundError("retriever or generator with [options]", name, names)
                source = configuration.source
                raise FormatError(str(error), source) if source else error
        generate = partial(make_generator, ledger=ledger)
        return cls(
            configuration.tasks,
            _build_by_name("retriever", retrievers, make_retriever, configuration),
            _build_by_name("generator", models, generate, configuration),
            configuration.output,
            configuration.settings,
            **configuration.engine,
        )

    def run(
        self,
        on_progress: Callable[[str], None] = lambda text: None,
        keep_rankings: bool = False,
        command: str | None = None,
    ) -> RagResults:
        """Run the missing parts of the study and return the results.

        Args:
            on_progress: called with a line of text at the start of each part.
            keep_rankings: whether to save rankings and answers, which reports require.
            command: the command line of the study, for reports.

        Raises:
            InputError: no query of any task has enough useful documents.
            DeferredError: answers of a batch are missing. All other results are stored.
            StageError: a system failed for all queries.
        """
        self.check()
        notes = [ONE_SAMPLE] if self.settings.n_samples == 1 else []
        labels: dict[tuple[str, str], TaskLabels] = {}
        values: list[pd.DataFrame] = []
        statuses: list[pd.DataFrame] = []
        deferred: list[str] = []
        for task, name in product(self.tasks, self.generators):
            generator, where = self.generator(task, name), f"{task.name}, {name}"
            on_progress(f"{where}: labels")
            try:
                labels[task.name, name] = of_task = self.label(task, generator)
            except DeferredError:
                deferred.append(f"{where}: labels")
                continue
            if of_task.qrels.empty:
                notes.append(explain_no_labels(task, name, of_task, self.settings))
                continue
            utilities = []
            for retriever in self.retrievers:
                on_progress(f"{where}, {retriever}: rankings, answers, measures")
                model = (task.name, retriever, name)
                try:
                    results, of_credit = self._run(task, retriever, generator, of_task.qrels, model)
                except DeferredError:
                    deferred.append(f"{where}: {retriever}")
                    continue
                if keep_rankings:
                    texts = [*of_task.warnings, *of_credit]
                    self._save(results, model, task.license, texts, command)
                columns = dict(zip(MODEL, model, strict=True))
                per_query, per_sample = self._values(retriever, results, of_task.qrels)
                values.append(per_query.assign(**columns))
                utilities.append(per_sample.assign(**columns))
                status = results.answer_status.reset_index(names="alpha").assign(**columns)
                status["alpha"] = status["alpha"].map(self.settings.systems)
                statuses.append(status[[*ANSWERS, *results.answer_status.columns]])
            if utilities:
                normalized = normalized_utility(
                    pd.concat(utilities, ignore_index=True),
                    over=self.settings.eu_over,
                    deterministic=self.settings.eu_deterministic,
                )
                values.append(normalized.assign(measure=NORMALIZED_EU)[list(values[-1].columns)])
        if deferred:
            raise DeferredError(
                f"waiting for answers of a batch ({format_list(deferred, 3)}); run again after "
                "reading them"
            )
        if not values:
            raise InputError("; ".join(notes))
        of_queries = [sizes(part.qrels, *key) for key, part in labels.items() if len(part.qrels)]
        facts = [{"task": t, "generator": g, **part.facts} for (t, g), part in labels.items()]
        return RagResults(
            values=pd.concat(values, ignore_index=True)[[*MODEL, "alpha", QID, "measure", "value"]],
            sizes=pd.concat(of_queries, ignore_index=True),
            collections=pd.DataFrame(facts),
            agreement=label_agreement(labels),
            answer_status=pd.concat(statuses, ignore_index=True),
            notes=notes,
            settings=self.settings,
            licenses=sorted({task.license for task in self.tasks}),
        )

    def _run(
        self,
        task: LampTask,
        retriever: str,
        generator: Generator,
        qrels: pd.DataFrame,
        model: tuple[str, ...],
    ) -> tuple[Results, list[Warning]]:
        """Return the results of a model, with its credit, and the warnings about credit.

        Raises:
            DeferredError: answers of a batch are missing.
            StageError: a system failed for all queries, because tables compare systems.
        """
        inputs = (task, retriever, generator, qrels)
        method = self.settings.credit
        try:
            results = self.experiment(*inputs)
        except DeferredError:
            if method in SUBSETS:
                self.credited(*inputs)  # adds its prompts to the batch
            raise
        n_queries = results.per_query[QID].nunique()
        for system, failures in results.failures.groupby("system", sort=False):
            if len(failures) == n_queries:
                raise StageError(
                    f"{task.name}, {model[2]}, {retriever}: {system} failed for all {n_queries} "
                    f"queries ({failures['error'].iloc[0]}); run again to retry them"
                )
        credits, of_credit = {}, []
        if method != NONE:
            answers = self.credited(*inputs)
            of_credit = answers.warnings
            credits = {name: answers.rankings(name) for name in answers.systems}
        if method in SUBSETS:
            utility = self.settings.get_utility(task.number).name
            credits = {name: from_answers(rows, utility, qrels) for name, rows in credits.items()}
        for warning in (*results.warnings, *of_credit):
            warnings.warn(warning, stacklevel=3)
        return replace(results, credits=credits), of_credit

    def _save(
        self,
        results: Results,
        model: tuple[str, ...],
        license_text: str,
        texts: Sequence[Warning],
        command: str | None,
    ) -> None:
        """Save the rankings and answers of a model, for ``fairtk report``."""
        remarks = [study_remark("study warning", text) for text in dict.fromkeys(map(str, texts))]
        config = {
            **results.config,
            "title": "Fair RAG: " + ", ".join(model),
            "description": _SYSTEMS,
            "license": license_text,
            "study": self.settings.as_json(),
            **({} if command is None else {"command": command}),
        }
        saved = replace(results, config=config, remarks=(*remarks, *results.remarks))
        saved.save(model_folder(self.folder, self.settings.name, model))

    def check(self) -> None:
        """Use each retriever, tokenizer and prompt once, to find errors before hours of work.

        Raises:
            FairtkError: data or a model cannot be read, or the window of a model is unknown.
        """
        for name in self.generators:
            generator = self.generator(self.tasks[0], name)
            generator.prompt("", [], generator.llm.tokenizer)
        topics = self.tasks[0].topics
        document = Candidates(self.tasks[0].dataset)(topics.head(1)).head(1)
        for retriever in self.retrievers.values():
            retriever(document)

    def check_run(self, run: RunRetriever) -> None:
        """Raise an `InputError` if a run has topics or documents that are not in the tasks."""
        limit = self.settings.limit
        topics = pd.concat([task.topics[QID] for task in self.tasks])
        for task in self.tasks:
            run.check_topics(task.topics[QID][:limit], topics)
            candidates = Candidates(task.dataset)(task.topics[:limit][[QID]])
            rows = run.run[run.run[QID].isin(candidates[QID])]
            known = pd.MultiIndex.from_frame(candidates[[QID, DOCNO]])
            is_known = pd.MultiIndex.from_frame(rows[[QID, DOCNO]]).isin(known)
            run.refuse_unknown("document", rows[DOCNO][~is_known].tolist())

    def plan(self) -> StudyPlan:
        """Return the cost of the study, without answering prompts.

        There is one row for the labels of a task and generator, one per retriever, and with credit
        another one for its additional prompts. The columns are ``queries``, ``rankings`` and the
        number of distinct ``prompts``, estimated from the first 20 queries (for the oracle an upper
        bound). For generators on servers, ``calls`` is the number of unanswered prompts,
        ``prompt_tokens`` assumes prompts as long as those of the first 20 queries, and
        ``completion_tokens`` and ``price`` (NaN if unknown) assume answers of the maximum length.
        `StudyPlan.total` has the sums of these four and the number of unanswered ``prompts``.
        """
        return study_plan(self)

    def status(self) -> pd.DataFrame:
        """Return the progress of each system.

        The columns are ``task``, ``generator``, ``stage``, ``queries``, ``done``, ``failed`` (the
        next run retries these) and ``missing``.
        """
        return study_status(self)[0].drop(columns="kind")

    def generator(self, task: LampTask, name: str) -> Generator:
        """Return the generator for a task."""
        truncation = self.settings.truncation
        options = {} if truncation == RagSettings.truncation else {"truncation": truncation}
        return self.generators[name](task.number, self.settings.cutoff, **options)

    # One task, retriever and generator --------------------------------------------------------

    def systems(
        self, task: LampTask, retriever: str, qrels: pd.DataFrame, *stages: Any
    ) -> dict[str, Any]:
        """Return the systems by name.

        Args:
            task: the task.
            retriever: the name of the retriever.
            qrels: the labels for the oracle.
            *stages: the stages after the rankings, e.g. the generator.
        """
        settings = self.settings
        sampling: dict[str, Any] = {
            "n_samples": settings.n_samples,
            "cutoff": settings.cutoff,
            "seed": settings.seed,
        }
        policies: dict[str, Any] = {
            f"alpha {alpha:g}": FairSampler(alpha=alpha, **sampling) for alpha in settings.alphas
        }
        policies[ORACLE] = OracleSampler(qrels, **sampling)
        policies[DETERMINISTIC] = RankCutoff(settings.cutoff)
        pipelines = {}
        for name, policy in policies.items():
            pipeline = Candidates(task.dataset) >> self.retrievers[retriever] >> policy
            for stage in stages:
                pipeline = pipeline >> stage
            pipelines[name] = pipeline
        return pipelines

    def experiment(
        self,
        task: LampTask,
        retriever: str,
        generator: Generator,
        qrels: pd.DataFrame,
        run: Callable[..., Any] = quiet_experiment,
    ) -> Any:
        """Run the systems of a task, retriever and generator.

        Args:
            task: the task.
            retriever: the name of the retriever.
            generator: the task's generator.
            qrels: the labels of the queries to measure.
            run: `fairtk.Experiment`, by default without warnings, or `fairtk.plan`.
        """
        k = self.settings.cutoff
        # with one sample, _values leaves EE_D undefined
        disparity = measures.EE_D(estimator="unbiased" if self.settings.n_samples > 1 else "plain")
        exposure = [disparity @ k, measures.EE_R @ k]
        quality = [E(nDCG @ k), self.settings.get_utility(task.number).measure]
        systems = self.systems(task, retriever, qrels, generator)
        options = {**self.engine, "save_dir": self.folder, "baseline": DETERMINISTIC}
        topics = task.topics[task.topics[QID].isin(set(qrels[QID]))]
        return run(systems, topics, qrels, [*exposure, *quality], **options)

    def credited(
        self,
        task: LampTask,
        retriever: str,
        generator: Generator,
        qrels: pd.DataFrame,
        run: Callable[..., Any] = quiet_experiment,
    ) -> Any:
        """Answer from subsets of the rankings, except the oracle's, or read citations, for credit.

        The arguments are those of `experiment`.
        """
        method, cutoff = self.settings.credit, self.settings.cutoff
        if method == CITATIONS:
            stages = [generator, Citations(cutoff=cutoff)]
        else:
            stages = [Subsets(SUBSETS[method], cutoff=cutoff), generator]
        systems = self.systems(task, retriever, qrels, *stages)
        del systems[ORACLE]
        topics = task.topics[task.topics[QID].isin(set(qrels[QID]))]
        return run(systems, topics, save_dir=self.folder, **self.engine)

    def uses_published_labels(self, task: LampTask) -> bool:
        """Return whether the study uses the labels in a task's dataset."""
        return self.settings.labels == "published" and task.published is not None

    def label(self, task: LampTask, generator: Generator) -> TaskLabels:
        """Return a task's labels for a generator."""
        return label_task(task, generator, self.settings, self.folder, self.engine)

    def _values(
        self, retriever: str, results: Results, qrels: pd.DataFrame
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the values per query, and the utility of each answer."""
        names = dict(zip(results.measures, (EE_D, EE_R, NDCG, EU), strict=True))
        values = results.per_query.assign(
            **{
                "alpha": results.per_query["system"].map(self.settings.systems),
                "measure": results.per_query["measure"].map(names),
            }
        )
        if self.settings.n_samples == 1:  # the plain estimate is 1 for each policy
            is_estimate = (values["measure"] == EE_D) & (values["alpha"] != DETERMINISTIC)
            values["value"] = values["value"].mask(is_estimate)
        run = self.retrievers[retriever]
        if isinstance(run, RunRetriever):  # missing queries have no answers to normalize
            missing = values[(values["measure"] == EU) & ~values[QID].isin(run.run[QID])]
            missing = missing.assign(measure=NORMALIZED_EU, value=0.0)
            values = pd.concat([values, missing], ignore_index=True)
        values = values.drop(columns="system")
        if results.credits:
            frames = {self.settings.systems[name]: c for name, c in results.credits.items()}
            credit = credit_values(frames, qrels, self.settings.cutoff)
            values = pd.concat([values, credit], ignore_index=True)
        answers = results.per_sample
        answers = answers[answers["measure"].map(names) == EU]
        answers = answers.assign(alpha=answers["system"].map(self.settings.systems))
        return values, answers[["alpha", QID, SAMPLE, "value"]]


def _build_by_name(
    kind: str, names: Sequence[str], make: Callable[..., Any], configuration: RagConfiguration
) -> dict[str, Any]:
    """Return retrievers or generators by the names in tables, short ones unless ambiguous."""
    if repeated := duplicates(names):
        raise ParameterError(f"the study: duplicate {kind} {repeated[0]!r}")
    labels, source = [_short_name(name) for name in names], configuration.source
    built = {}
    for name, label in zip(names, labels, strict=True):
        options = configuration.options.get(name, {})
        try:
            built[label if labels.count(label) == 1 else name] = make(name, **options)
        except (TypeError, InputError) as error:
            if isinstance(error, InputError) and not (options and source):
                raise
            raise FormatError(f"settings of the {kind} {name!r}: {error}", source) from None
    return built


def _short_name(name: str) -> str:
    kind, _, model = name.partition(":")
    if "=" in kind:  # a run
        return kind.partition("=")[0]
    if kind in _NAMES:
        return _NAMES[kind]  # the name in the paper, to look up its numbers
    return Path(model).name or name
