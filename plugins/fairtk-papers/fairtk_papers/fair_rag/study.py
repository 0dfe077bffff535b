"""The *Towards Fair RAG* study: rankings, answers, measures, cost and progress."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ir_measures import nDCG
from pyterrier._ops import RankCutoff
from tqdm import tqdm

from fairtk import measures
from fairtk.credit import AE_D, AE_R, Citations, CreditGap, Subsets, from_answers
from fairtk.errors import (
    FormatError,
    InputError,
    NotFoundError,
    ParameterError,
    StageError,
)
from fairtk.experiment import Experiment, Results, plan
from fairtk.experiment.store import Store
from fairtk.frames import CREDIT, DOCNO, LABEL, QID, RANK, SAMPLE, FloatArray
from fairtk.llm import DeferredError, Ledger
from fairtk.measures import E, LabeledRun, evaluate
from fairtk.transformers import (
    Candidates,
    FairSampler,
    Generator,
    OracleSampler,
    SingleDocumentSampler,
)
from fairtk.wording import format_list
from fairtk_papers.fair_rag.labels import (
    TaskLabels,
    explain_no_labels,
    label_agreement,
    label_systems,
    label_task,
)
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
    BELOW,
    CREDIT_MEASURES,
    DETERMINISTIC,
    EE_D,
    EE_R,
    EU,
    EXPOSURE_SUFFIX,
    GAP,
    MODEL,
    NORMALIZED_EU,
    ORACLE,
    POSITION,
    SUM,
    UNDEFINED,
    normalized_utility,
    sizes,
)
from fairtk_papers.studies import (
    COUNTS,
    STORE,
    RunRetriever,
    StudyPlan,
    allow_name_reuse,
    collect_warnings,
    duplicates,
    study_remark,
)


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
        deferred: list[str] = []
        values: list[pd.DataFrame] = []
        counts: list[pd.DataFrame] = []
        facts: list[dict[str, Any]] = []
        statuses = []
        notes: list[str] = []
        if self.settings.n_samples == 1:
            notes.append(ONE_SAMPLE)
        labels: dict[tuple[str, str], TaskLabels] = {}
        self.check()
        for task in self.tasks:
            for name in self.generators:
                generator = self.generator(task, name)
                on_progress(f"{task.name}, {name}: labels")
                try:
                    with collect_warnings() as label_warnings:
                        task_labels = self.label(task, generator)
                except DeferredError:
                    deferred.append(f"{task.name}, {name}: labels")
                    continue
                labels[task.name, name] = task_labels
                facts.append({"task": task.name, "generator": name, **task_labels.facts})
                qrels = task_labels.qrels
                if qrels.empty:
                    notes.append(explain_no_labels(task, name, task_labels, self.settings))
                    continue
                counts.append(sizes(qrels, task.name, name))
                utilities = []
                for retriever in self.retrievers:
                    on_progress(f"{task.name}, {name}, {retriever}: rankings, answers, measures")
                    inputs = (task, retriever, generator, qrels)
                    try:
                        with collect_warnings():  # an error replaces them
                            results = self.experiment(*inputs)
                            _refuse_failed_systems(results, ", ".join((task.name, name, retriever)))
                            per_query, per_sample = self._values(retriever, results)
                        with collect_warnings() as credit_warnings:
                            frames = self.credit(*inputs, results)
                    except DeferredError:
                        deferred.append(f"{task.name}, {name}: {retriever}")
                        with contextlib.suppress(DeferredError):  # adds its prompts to the batch
                            if self.settings.credit in SUBSETS:
                                self.subsets(*inputs)
                        continue
                    model = {"task": task.name, "retriever": retriever, "generator": name}
                    if keep_rankings:
                        saved = model_folder(self.folder, self.settings.name, tuple(model.values()))
                        texts = dict.fromkeys([*label_warnings, *credit_warnings])
                        remarks = [study_remark("study warning", text) for text in texts]
                        config = {
                            **results.config,
                            "title": "Fair RAG: " + ", ".join(model.values()),
                            "description": _SYSTEMS,
                            "license": task.license,
                            "study": self.settings.as_json(),
                            **({} if command is None else {"command": command}),
                        }
                        results = replace(
                            results,
                            config=config,
                            credits=frames,
                            remarks=(*remarks, *results.remarks),
                        )
                        results.save(saved)
                    if frames:
                        alphas = {self.settings.systems[s]: f for s, f in frames.items()}
                        credit = credit_values(alphas, qrels, self.settings.cutoff)
                        per_query = pd.concat([per_query, credit], ignore_index=True)
                    values.append(per_query.assign(**model))
                    status = results.answer_status.reset_index(names="alpha").assign(**model)
                    status["alpha"] = status["alpha"].map(self.settings.systems)
                    statuses.append(status[[*ANSWERS, *results.answer_status.columns]])
                    utilities.append(per_sample.assign(**model))
                if not utilities:
                    continue
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
        return RagResults(
            values=pd.concat(values, ignore_index=True)[[*MODEL, "alpha", QID, "measure", "value"]],
            sizes=pd.concat(counts, ignore_index=True),
            collections=pd.DataFrame(facts),
            agreement=label_agreement(labels),
            answer_status=pd.concat(statuses, ignore_index=True),
            notes=notes,
            settings=self.settings,
            licenses=sorted({task.license for task in self.tasks}),
        )

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
        rows: list[tuple[Any, ...]] = []
        per_prompt: list[FloatArray] = []
        paces: dict[str, float] = {}
        for task in self.tasks:
            topics, candidates = task.topics[: self.settings.limit], Candidates(task.dataset)
            first = topics[:N_ESTIMATED]
            n_topics, n_documents = len(topics), len(candidates(topics[[QID]]))
            for name in self.generators:
                generator = self.generator(task, name)
                if generator.llm.local and name not in paces:
                    paces[name] = self._pace(generator.llm.name)
                if not self.uses_published_labels(task):
                    rows.append((task.name, LABELS, name, n_topics, 0, n_topics + n_documents))
                    alone = SingleDocumentSampler()(candidates(first))
                    per_prompt.append(_estimate_per_prompt(generator, [first, alone]))
                for retriever in self.retrievers:
                    rankings = n_topics * (
                        self.settings.n_samples * (len(self.settings.alphas) + 1) + 1
                    )
                    frames, *numbers = _distinct_prompts(self, task, retriever, first)
                    distinct, *credit_counts = (round(n * n_topics) for n in numbers)
                    rows.append((task.name, retriever, name, n_topics, rankings, distinct))
                    cost = _estimate_per_prompt(generator, frames)
                    per_prompt.append(cost)
                    if self.settings.credit in SUBSETS:
                        kind = f"{retriever}{CREDIT_SUFFIX}"
                        rows.append((task.name, kind, name, n_topics, *credit_counts))
                        per_prompt.append(cost)
        work = pd.DataFrame(rows, columns=PLAN)
        counts = _status(self).groupby(["task", "generator", "kind"])[["queries", "missing"]].sum()
        share = counts["missing"] / counts["queries"].clip(lower=1)
        keys = zip(work["task"], work["generator"], work["retriever"], strict=True)
        n_unanswered = work[["prompts"]].to_numpy() * [[share[key]] for key in keys]
        work[COUNTS] = np.where(n_unanswered > 0, per_prompt * n_unanswered, 0.0)
        work = work.round({"completion_tokens": 0})
        work = work.astype(dict.fromkeys(("calls", "prompt_tokens"), np.int64))
        note = (
            f"About {n_unanswered.sum():,.0f} prompts are unanswered. Equal prompts count once; "
            "the number for the oracle is an upper bound."
        )
        if work["calls"].any():
            note += " Calls go to servers; recorded answers cost nothing."
        if work["prompt_tokens"].any():
            note += (
                " Tokens and price are rough estimates: answers of the maximum length, prompts as "
                f"long as those of the first {N_ESTIMATED} queries."
            )
        unanswered = pd.Series(n_unanswered[:, 0]).groupby(work["generator"]).sum()
        seconds = {name: pace * unanswered[name] for name, pace in paces.items()}
        total = {
            "prompts": float(n_unanswered.sum()),
            **work[COUNTS].sum(skipna=False),
            "seconds": sum(seconds.values()),
        }
        for name, time in seconds.items():
            note += _time_text(name, paces[name], time) if unanswered[name] else ""
        return StudyPlan(work, total, note)

    def _pace(self, model: str) -> float:
        """Return the mean time of a model's stored answers in seconds; NaN without answers."""
        has_store = (self.folder / STORE).exists()
        with closing(Store(self.folder if has_store else None)) as store:
            return store.answers.seconds_per_answer(model)

    def status(self) -> pd.DataFrame:
        """Return the progress of each system.

        The columns are ``task``, ``generator``, ``stage``, ``queries``, ``done``, ``failed`` (the
        next run retries these) and ``missing``.
        """
        return _status(self).drop(columns="kind")

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
        run: Callable[..., Any] = Experiment,
        **more: Any,
    ) -> Any:
        """Run the systems of a task, retriever and generator.

        Args:
            task: the task.
            retriever: the name of the retriever.
            generator: the task's generator.
            qrels: the labels of the queries to measure.
            run: `fairtk.Experiment`, or `fairtk.plan` for the progress alone.
            **more: further arguments of `fairtk.Experiment`.
        """
        k = self.settings.cutoff
        # with one sample, _values leaves EE_D undefined
        disparity = measures.EE_D(estimator="unbiased" if self.settings.n_samples > 1 else "plain")
        exposure = [disparity @ k, measures.EE_R @ k]
        quality = [E(nDCG @ k), self.settings.get_utility(task.number).measure]
        with allow_name_reuse():
            return run(
                self.systems(task, retriever, qrels, generator),
                task.topics[task.topics[QID].isin(set(qrels[QID]))],
                qrels,
                [*exposure, *quality],
                save_dir=self.folder,
                baseline=DETERMINISTIC,
                **{**self.engine, **more},
            )

    def subsets(
        self,
        task: LampTask,
        retriever: str,
        generator: Generator,
        qrels: pd.DataFrame,
        run: Callable[..., Any] = Experiment,
        **more: Any,
    ) -> Any:
        """Answer from subsets of the rankings, except the oracle's, for credit.

        The arguments are those of `experiment`.
        """
        lists = Subsets(SUBSETS[self.settings.credit], cutoff=self.settings.cutoff)
        systems = self.systems(task, retriever, qrels, lists, generator)
        del systems[ORACLE]
        topics = task.topics[task.topics[QID].isin(set(qrels[QID]))]
        with allow_name_reuse():
            return run(systems, topics, save_dir=self.folder, **{**self.engine, **more})

    def credit(
        self,
        task: LampTask,
        retriever: str,
        generator: Generator,
        qrels: pd.DataFrame,
        results: Results,
    ) -> dict[str, pd.DataFrame]:
        """Return credit frames (C) by system; empty if the settings have no credit.

        The arguments are those of `experiment` and its result.
        """
        method = self.settings.credit
        names = [name for name in self.settings.systems if name != ORACLE]
        if method == NONE:
            return {}
        if method == CITATIONS:
            citations = Citations(cutoff=self.settings.cutoff)
            return {name: citations(results.rankings(name)) for name in names}
        answers = self.subsets(task, retriever, generator, qrels)
        utility = self.settings.get_utility(task.number).name
        return {name: from_answers(answers.rankings(name), utility, qrels) for name in names}

    def uses_published_labels(self, task: LampTask) -> bool:
        """Return whether the study uses the labels in a task's dataset."""
        return self.settings.labels == "published" and task.published is not None

    def label(self, task: LampTask, generator: Generator) -> TaskLabels:
        """Return a task's labels for a generator."""
        return label_task(task, generator, self.settings, self.folder, self.engine)

    def _values(self, retriever: str, results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
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
        answers = results.per_sample
        answers = answers[answers["measure"].map(names) == EU]
        answers = answers.assign(alpha=answers["system"].map(self.settings.systems))
        return values.drop(columns="system"), answers[["alpha", QID, SAMPLE, "value"]]


def _refuse_failed_systems(results: Results, where: str) -> None:
    """Raise a `StageError` if a system failed for all queries, because tables compare systems."""
    n_queries = results.per_query[QID].nunique()
    for system, failures in results.failures.groupby("system", sort=False):
        if len(failures) == n_queries:
            raise StageError(
                f"{where}: {system} failed for all {n_queries} queries "
                f"({failures['error'].iloc[0]}); run again to retry them"
            )


def credit_values(
    frames: Mapping[float | str, pd.DataFrame], qrels: pd.DataFrame, cutoff: int
) -> pd.DataFrame:
    """Return the credit measures of each policy per query.

    Exposure is measured like credit, as an equal share for each document of a prompt, over the
    rankings whose credit is defined. So both have the same scale and the same minimum. Values of
    sampled systems are unbiased estimates; those of the deterministic system are exact.

    Args:
        frames: credit frames (C) with ``rank`` and ``sample``, by alpha.
        qrels: the labels.
        cutoff: k, the number of documents in a prompt.

    Returns:
        ``alpha``, ``qid``, ``measure``, ``value``. The measures are ``AE_D`` and ``AE_R``, both
        also ``of exposure``; ``CreditGap``; ``credit sum``, the mean total credit of a ranking, in
        units of the utility; ``credit undefined``, the share of rankings whose credit is NaN or
        nowhere positive, which the other measures exclude; ``credit below 0``, the share of
        documents with negative credit, which counts as 0; ``credit at place 1`` to k, the mean
        share of the credit at a position.
    """
    parts = []
    labels = qrels[[QID, DOCNO, LABEL]]
    credit_measures = [
        AE_D(estimator="unbiased") @ cutoff,
        AE_R @ cutoff,
        CreditGap(estimator="unbiased") @ cutoff,
    ]
    names = dict(zip(credit_measures, CREDIT_MEASURES, strict=True))
    for alpha, credit in frames.items():
        frame = credit.reset_index(drop=True)
        ranking = frame.groupby([QID, SAMPLE], sort=False)
        complete = ~frame[CREDIT].isna().groupby([frame[QID], frame[SAMPLE]]).transform("any")
        positive = frame[CREDIT].clip(lower=0)
        total = positive.groupby([frame[QID], frame[SAMPLE]]).transform("sum")
        defined = complete & (total > 0)
        even = frame.assign(**{CREDIT: np.where(defined, 1.0, np.nan)})
        rows: list[tuple[str, str, float]] = []
        for suffix, run in (("", frame), (EXPOSURE_SUFFIX, even)):
            run = run.drop(columns=SAMPLE) if alpha == DETERMINISTIC else run
            labeled = LabeledRun.of(labels, run, f"credit of {alpha}")
            scores = evaluate(credit_measures, labeled)
            for measure, name in names.items():
                if not suffix or name != GAP:  # always 0 for exposure
                    values = scores[measure].values.tolist()
                    pairs = zip(labeled.qids, values, strict=True)
                    rows += [(qid, name + suffix, value) for qid, value in pairs]
        parts.append(pd.DataFrame(rows, columns=[QID, "measure", "value"]).assign(alpha=alpha))
        share = (positive / total.where(defined)).groupby([frame[QID], frame[RANK]]).mean()
        positions = share.rename("value").reset_index()
        positions["measure"] = POSITION + (positions.pop(RANK) + 1).astype(str)
        first = ~frame.duplicated([QID, SAMPLE])
        per_query = pd.DataFrame(
            {
                SUM: ranking[CREDIT].sum(min_count=1).groupby(QID).mean(),
                UNDEFINED: (~defined[first]).groupby(frame[QID]).mean(),
                BELOW: (frame[CREDIT] < 0).groupby(frame[QID]).mean(),
            }
        ).rename_axis(QID)
        long = per_query.reset_index().melt(QID, var_name="measure", value_name="value")
        parts += [part.assign(alpha=alpha) for part in (positions, long)]
    return pd.concat(parts, ignore_index=True)[["alpha", QID, "measure", "value"]]


ONE_SAMPLE = (
    "EE_D of sampled policies is undefined, because its unbiased estimate requires at least two "
    "samples per query; use `n_samples=2` or more."
)
_SYSTEMS = (
    "All systems rank the same documents: alpha 0 in random order (uniform), larger alphas closer "
    "to the retriever's order, deterministic in that order, oracle with the useful documents first."
)
_NAMES = {"bm25": "BM25", "contriever": "Contriever", "splade": "SPLADE"}


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


N_ESTIMATED = 20
"""The number of queries from which the number of distinct rankings is estimated."""
LABELS = "labels"
CREDIT_SUFFIX = ", credit"
"""Suffix of a retriever, for the stage that answers from subsets of its rankings."""
PLAN = ["task", "retriever", "generator", "queries", "rankings", "prompts"]
STATUS = ["task", "generator", "stage", "queries", "done", "failed", "missing"]


def _estimate_per_prompt(generator: Generator, frames: Sequence[pd.DataFrame]) -> FloatArray:
    """Return the mean of each of `COUNTS` over the prompts of some frames."""
    calls, _, *rest = np.sum([generator.estimate(frame) for frame in frames], axis=0)
    n_prompts = sum(len(set(generator.build_prompts(frame).prompts)) for frame in frames)
    per_prompt: FloatArray = np.array([calls, *rest]) / max(n_prompts * generator.answers, 1)
    return per_prompt


def _time_text(generator: str, pace: float, seconds: float) -> str:
    if math.isnan(pace):
        return f" The time of {generator} is unknown until some answers are stored."
    rate = f"{1 / max(pace, 1e-6):,.2g} prompts a second, the rate of its stored answers"
    return f" {generator} needs about {tqdm.format_interval(seconds)} at {rate}."


def _distinct_prompts(
    study: RagStudy, task: LampTask, retriever: str, topics: pd.DataFrame
) -> tuple[list[pd.DataFrame], float, float, float]:
    """Return rankings, and three mean numbers of prompts per query.

    The numbers are distinct rankings, lists of documents for credit (with repetitions), and
    distinct lists that only credit requires. All rankings of the oracle count as distinct, because
    they depend on labels.
    """
    nothing = pd.DataFrame({QID: topics[QID].iloc[:1], DOCNO: ["none"], LABEL: [0]})
    systems = study.systems(task, retriever, nothing)
    del systems[ORACLE]
    method = study.settings.credit
    rankings: set[tuple[str, tuple[str, ...]]] = set()
    n_lists = 0
    results = Experiment(systems, topics)
    frames = {name: results.rankings(name).sort_values(RANK) for name in systems}
    for name, frame in frames.items():
        keys = [QID] if name == DETERMINISTIC else [QID, SAMPLE]
        lists = frame.groupby(keys)[DOCNO].agg(tuple)
        qids = lists.index.get_level_values(QID)
        rankings.update(zip(qids, lists, strict=True))
        if method in SUBSETS:
            has_all = SUBSETS[method] == "all"
            n_lists += sum(1 << len(d) if has_all else len(d) + 1 for d in lists)
    credit_lists = list_subsets(rankings, method) - rankings if method in SUBSETS else set()
    if not study.uses_published_labels(task):
        # labels require the answers without documents and with each document alone
        credit_lists = {pair for pair in credit_lists if len(pair[1]) > 1}
    n = len(topics)
    distinct = len(rankings) / n + study.settings.n_samples
    return list(frames.values()), distinct, n_lists / n, len(credit_lists) / n


def list_subsets(
    rankings: Iterable[tuple[str, tuple[str, ...]]], method: str
) -> set[tuple[str, tuple[str, ...]]]:
    """Return the distinct lists of documents that credit requires, as (qid, docnos) pairs.

    Args:
        rankings: pairs of qid and docnos.
        method: ``"one-out"`` or ``"shapley"``.
    """
    lists: set[tuple[str, tuple[str, ...]]] = set()
    for qid, docnos in rankings:
        k = len(docnos)
        lengths = range(k + 1) if SUBSETS[method] == "all" else (k - 1, k)
        lists.update((qid, part) for n in lengths for part in combinations(docnos, n))
    return lists


def _status(study: RagStudy) -> pd.DataFrame:
    """Return the rows of `RagStudy.status` with the ``kind`` of each stage."""
    rows: list[list[Any]] = []
    for task in study.tasks:
        topics = task.topics[: study.settings.limit]
        for name in study.generators:
            generator = study.generator(task, name)
            has_labels = study.uses_published_labels(task)
            if not has_labels:
                systems = label_systems(Candidates(task.dataset), generator)
                work = plan(systems, topics, save_dir=study.folder)
                rows += _status_rows(task, name, LABELS, work.cells)
                has_labels = not work.cells["missing"].any()
            rows += _retriever_status(study, task, name, generator, has_labels)
    return pd.DataFrame(rows, columns=[*STATUS, "kind"])


def _retriever_status(
    study: RagStudy, task: LampTask, name: str, generator: Generator, has_labels: bool
) -> list[list[Any]]:
    qrels = study.label(task, generator).qrels if has_labels else None
    rows: list[list[Any]] = []
    for retriever in study.retrievers:
        if qrels is None:
            n = len(task.topics[: study.settings.limit])
            for system in study.settings.systems:
                rows.append([task.name, name, f"{retriever}, {system}", n, 0, 0, n, retriever])
                if study.settings.credit in SUBSETS and system != ORACLE:
                    kind = f"{retriever}{CREDIT_SUFFIX}"
                    rows.append([task.name, name, f"{kind}, {system}", n, 0, 0, n, kind])
        elif len(qrels):
            work = study.experiment(task, retriever, generator, qrels, plan)
            rows += _status_rows(task, name, retriever, work.cells)
            if study.settings.credit in SUBSETS:
                work = study.subsets(task, retriever, generator, qrels, plan)
                rows += _status_rows(task, name, f"{retriever}{CREDIT_SUFFIX}", work.cells)
    return rows


def _status_rows(task: LampTask, generator: str, kind: str, cells: pd.DataFrame) -> list[list[Any]]:
    rows = cells[["system", "queries", "stored", "failed", "missing"]].to_numpy(object).tolist()
    return [
        [task.name, generator, f"{kind}, {system}", *numbers, kind] for system, *numbers in rows
    ]
