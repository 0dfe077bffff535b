"""The study: rankings, answers and measures of each group, what it takes and what is done."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import nDCG
from pyterrier._ops import RankCutoff

from fairtk import measures
from fairtk.credit import AE_D, AE_R, Citations, CreditGap, Subsets, from_answers
from fairtk.errors import (
    FairtkWarning,
    FormatError,
    InputError,
    NotFoundError,
    ParameterError,
    format_list,
)
from fairtk.experiment import Experiment, Results, plan
from fairtk.frames import CREDIT, DOCNO, LABEL, QID, RANK, SAMPLE, FloatArray
from fairtk.llm import DeferredError, Ledger
from fairtk.measures import E
from fairtk.transformers import (
    Candidates,
    FairSampler,
    Generator,
    OracleSampler,
    SingleDocumentSampler,
)
from fairtk_papers.fair_rag.labels import (
    Labeled,
    label_agreement,
    label_systems,
    label_task,
    nothing_useful,
)
from fairtk_papers.fair_rag.results import NDCG, RagResults, model_folder
from fairtk_papers.fair_rag.settings import (
    CITATIONS,
    NONE,
    SUBSETS,
    UTILITIES,
    LampTask,
    MakeGenerator,
    RagConfiguration,
    RagSettings,
    make_generator,
    make_retriever,
)
from fairtk_papers.fair_rag.tables import (
    ALPHA,
    BELOW,
    CREDIT_MEASURES,
    DETERMINISTIC,
    EE_D,
    EE_R,
    EU,
    GAP,
    GENERATOR,
    MEASURE,
    MODEL,
    NORMALIZED_EU,
    OF_EXPOSURE,
    ORACLE,
    PLACE,
    RETRIEVER,
    SUM,
    TASK,
    UNDEFINED,
    VALUE,
    normalized_utility,
    sizes,
)
from fairtk_papers.studies import (
    COUNTS,
    GivenRun,
    StudyPlan,
    collect_warnings,
    names_repeat,
    repeated,
)


class RagStudy:
    """The experiment of *Towards Fair RAG* (Kim and Diaz 2024, sections 3 to 5).

    Per task and generator, documents are labeled by what they gain the generator; per retriever,
    rankings are sampled at each alpha, by an oracle, and taken as they are; the generator answers
    from each. All answers are in one store in `folder`, so that labels, alphas and systems share
    them and a run that was killed goes on where it stopped.

    Args:
        tasks: the tasks.
        retrievers: name to scorer of candidates, e.g. ``{"BM25": BM25Scorer()}``, or to
            `fairtk_papers.studies.GivenRun`.
        generators: name to what makes a task's generator: called with the number of the task, the
            cutoff, and ``truncation`` if the settings change it, e.g.
            `fairtk_papers.fair_rag.make_generator("t5:my/model")`.
        folder: where store and results go; may be shared with studies of other settings.
        settings: how the study is done.
        **engine: arguments of `fairtk.Experiment`: ``executor``, ``workers``, ``scheduler``,
            ``threads``, ``batch_size``.

    Raises:
        ParameterError: there is nothing to do, or two tasks have one name.
        InputError: a run has topics or documents that the tasks do not have.
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
        for what, values in (("task", tasks), ("retriever", retrievers), ("generator", generators)):
            if not values:
                raise ParameterError(f"the study needs at least one {what}")
        if twice := repeated(task.name for task in tasks):
            raise ParameterError(
                f"the study: two tasks are called {twice[0]!r}; give LampTask(..., name=...)"
            )
        self.tasks = list(tasks)
        self.retrievers = dict(retrievers)
        self.generators = dict(generators)
        self.folder = Path(folder)
        self.settings = RagSettings() if settings is None else settings
        self.engine = engine
        for retriever in self.retrievers.values():
            if isinstance(retriever, GivenRun):
                self.check_run(retriever)

    @classmethod
    def of(cls, configuration: RagConfiguration, ledger: Ledger | None = None) -> RagStudy:
        """Return the study of a configuration.

        Args:
            configuration: the configuration.
            ledger: of a server's answers; None: the study's store, without a budget.

        Raises:
            ParameterError: a setting is out of its range, or something is given twice.
            NotFoundError: there is no such dataset, retriever, generator, or option's owner.
            InputError: see `RagStudy`.
        """
        retrievers, models = configuration.retrievers, configuration.models
        for owner in configuration.options:
            if owner not in (*retrievers, *models):
                names = [*retrievers, *models]
                error = NotFoundError("retriever or generator with [options]", owner, names)
                source = configuration.source
                raise FormatError(str(error), source) if source else error
        generate = partial(make_generator, ledger=ledger)
        return cls(
            configuration.tasks,
            _made("retriever", retrievers, make_retriever, configuration),
            _made("generator", models, generate, configuration),
            configuration.output,
            configuration.settings,
            **configuration.engine,
        )

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
            DeferredError: answers are to come from a batch of prompts; all else is kept.
        """
        deferred: list[str] = []
        values: list[pd.DataFrame] = []
        counts: list[pd.DataFrame] = []
        facts: list[dict[str, Any]] = []
        notes: list[str] = []
        labels: dict[tuple[str, str], Labeled] = {}
        self.check()
        for task in self.tasks:
            for name in self.generators:
                generator = self.generator(task, name)
                say(f"{task.name}, {name}: labels")
                try:
                    with collect_warnings() as of_labels:
                        labeled = self.labeled(task, generator)
                except DeferredError:
                    deferred.append(f"{task.name}, {name}: labels")
                    continue
                labels[task.name, name] = labeled
                facts.append({"task": task.name, "generator": name, **labeled.facts})
                if labeled.qrels.empty:
                    notes.append(nothing_useful(task, name, labeled, self.settings))
                    continue
                counts.append(sizes(labeled.qrels, task.name, name))
                utilities = []
                for retriever in self.retrievers:
                    say(f"{task.name}, {name}, {retriever}: rankings, answers, measures")
                    group = (task, retriever, generator, labeled.qrels)
                    try:
                        with collect_warnings() as heard:
                            results = self.experiment(*group)
                            own, drawn = self._values(retriever, results)
                        with collect_warnings() as of_credit:
                            frames = self.credit(*group, results)
                    except DeferredError:
                        deferred.append(f"{task.name}, {name}: {retriever}")
                        with contextlib.suppress(DeferredError):  # its prompts can be known as well
                            if self.settings.credit in SUBSETS:
                                self.subsets(*group)
                        continue
                    model = {TASK: task.name, RETRIEVER: retriever, GENERATOR: name}
                    if keep_rankings:
                        place = model_folder(self.folder, self.settings.name, tuple(model.values()))
                        results.config |= {
                            "title": "Fair RAG: " + ", ".join(model.values()),
                            "description": _SYSTEMS,
                            "license": task.license,
                            "study": self.settings.as_json(),
                            "warnings": list(dict.fromkeys([*of_labels, *heard, *of_credit])),
                            **({} if command is None else {"command": command}),
                        }
                        results.credits = frames
                        results.save(place)
                    if frames:
                        alphas = {self.settings.systems[s]: f for s, f in frames.items()}
                        credit = credit_values(alphas, labeled.qrels, self.settings.cutoff)
                        own = pd.concat([own, credit], ignore_index=True)
                    values.append(own.assign(**model))
                    utilities.append(drawn.assign(**model))
                if not utilities:
                    continue
                normalized = normalized_utility(
                    pd.concat(utilities, ignore_index=True),
                    over=self.settings.eu_over,
                    deterministic=self.settings.eu_deterministic,
                )
                values.append(
                    normalized.assign(**{MEASURE: NORMALIZED_EU})[list(values[-1].columns)]
                )
        if deferred:
            raise DeferredError(
                f"these wait for answers from a batch of prompts: {format_list(deferred, 3)}; run "
                "again when they were read"
            )
        if not values:
            raise InputError("; ".join(notes))
        return RagResults(
            values=pd.concat(values, ignore_index=True)[[*MODEL, ALPHA, QID, MEASURE, VALUE]],
            sizes=pd.concat(counts, ignore_index=True),
            collections=pd.DataFrame(facts),
            agreement=label_agreement(labels),
            notes=notes,
            settings=self.settings,
            licenses=sorted({task.license for task in self.tasks}),
        )

    def check(self) -> None:
        """Use each retriever and each generator's tokenizer and prompt once, so that models that
        cannot be loaded, or have no window to cut prompts to, are said before hours of work.

        Raises:
            FairtkError: data or a model cannot be read.
        """
        for name in self.generators:
            generator = self.generator(self.tasks[0], name)
            generator.prompt("", [], generator.backend.tokenizer)
        topics = self.tasks[0].topics
        document = Candidates(self.tasks[0].dataset)(topics.head(1)).head(1)
        for retriever in self.retrievers.values():
            retriever(document)

    def check_run(self, run: GivenRun) -> None:
        """Raise an `InputError` if a run has topics or documents that the tasks do not have."""
        limit = self.settings.limit
        topics = pd.concat([task.topics[QID] for task in self.tasks])
        for task in self.tasks:
            run.check_topics(task.topics[QID][:limit], topics)
            candidates = Candidates(task.dataset)(task.topics[:limit][[QID]])
            rows = run.run[run.run[QID].isin(candidates[QID])]
            known = pd.MultiIndex.from_frame(candidates[[QID, DOCNO]])
            is_known = pd.MultiIndex.from_frame(rows[[QID, DOCNO]]).isin(known)
            run.refuse("document", rows[DOCNO][~is_known].tolist())

    def plan(self) -> StudyPlan:
        """Return what the study takes, without a prompt being answered.

        One row per task, generator and retriever, labels first: ``queries``, ``rankings``,
        distinct ``prompts`` (estimated from the first 20 queries, exact if there are no more; the
        oracle's at most), and one of credit: the prompts that it asks beyond these. For generators
        that a server answers for, ``calls`` (prompts still to be answered), ``prompt_tokens`` (of
        prompts as long as those of the first 20 queries), ``completion_tokens`` and ``price``
        (answers as long as allowed; NaN: unknown). `StudyPlan.total` has the sums of these four,
        and the approximate number of ``prompts`` still to be answered.
        """
        rows: list[tuple[Any, ...]] = []
        per_prompt: list[FloatArray] = []
        for task in self.tasks:
            topics, candidates = task.topics[: self.settings.limit], Candidates(task.dataset)
            first = topics[:LOOKED_AT]
            n_topics, n_documents = len(topics), len(candidates(topics[[QID]]))
            for name in self.generators:
                generator = self.generator(task, name)
                if not self.takes_published(task):
                    rows.append((task.name, LABELS, name, n_topics, 0, n_topics + n_documents))
                    alone = SingleDocumentSampler()(candidates(first))
                    per_prompt.append(_cost_of_prompts(generator, [first, alone]))
                for retriever in self.retrievers:
                    rankings = n_topics * (
                        self.settings.n_samples * (len(self.settings.alphas) + 1) + 1
                    )
                    frames, *numbers = _distinct(self, task, retriever, first)
                    distinct, *of_credit = (round(n * n_topics) for n in numbers)
                    rows.append((task.name, retriever, name, n_topics, rankings, distinct))
                    cost = _cost_of_prompts(generator, frames)
                    per_prompt.append(cost)
                    if self.settings.credit in SUBSETS:
                        kind = f"{retriever}{OF_CREDIT}"
                        rows.append((task.name, kind, name, n_topics, *of_credit))
                        per_prompt.append(cost)
        work = pd.DataFrame(rows, columns=PLAN)
        counts = _status(self).groupby([TASK, GENERATOR, "kind"])[["queries", "missing"]].sum()
        share = counts["missing"] / counts["queries"].clip(lower=1)
        keys = zip(work[TASK], work[GENERATOR], work[RETRIEVER], strict=True)
        left = work[["prompts"]].to_numpy() * [[share[key]] for key in keys]
        work[COUNTS] = np.where(left > 0, per_prompt * left, 0.0)
        work = work.round({"completion_tokens": 0})
        work = work.astype(dict.fromkeys(("calls", "prompt_tokens"), np.int64))
        note = (
            f"\nAbout {left.sum():,.0f} prompts are still to be answered. Equal prompts of all "
            "systems count once; the oracle's are counted at most."
        )
        if work["calls"].any():
            note += (
                " Calls go to servers; recorded answers are not paid for again. Tokens and price "
                "are rough: answers as long as allowed, prompts as long as those of the first "
                f"{LOOKED_AT} queries."
            )
        total = {"prompts": float(left.sum()), **work[COUNTS].sum(skipna=False)}
        return StudyPlan(work, total, note)

    def status(self) -> pd.DataFrame:
        """Return what of each system is done: ``task``, ``generator``, ``stage``, ``queries``,
        ``done``, ``failed`` (tried again by a run), ``missing``; what waits for labels is missing.
        """
        return _status(self).drop(columns="kind")

    def generator(self, task: LampTask, name: str) -> Generator:
        """Return a generator for a task, whose prompts are cut as the settings say."""
        settings = self.settings
        own = {} if settings.truncation == "keep-question" else {"truncation": settings.truncation}
        return self.generators[name](task.number, settings.cutoff, **own)

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
        pipelines = {}
        for name, policy in policies.items():
            pipeline = Candidates(task.dataset) >> self.retrievers[retriever] >> policy
            for stage in last:
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
        """Run one group: the results of its systems.

        Args:
            task: the task.
            retriever: name of the retriever.
            generator: of the task.
            qrels: of the queries that are measured.
            run: `fairtk.Experiment`, or `fairtk.plan`, which runs nothing.
            **more: further arguments of `fairtk.Experiment`.
        """
        k = self.settings.cutoff
        exposure = [measures.EE_D @ k, measures.EE_R @ k]
        quality = [E(nDCG @ k), UTILITIES[task.number].measure]
        with names_repeat():
            return run(
                self.systems(task, retriever, qrels, [generator]),
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
        """Run what credit asks: answers from subsets of the rankings of all systems but the oracle.

        Args:
            task: the task.
            retriever: name of the retriever.
            generator: of the task.
            qrels: of the queries that are measured.
            run: `fairtk.Experiment`, or `fairtk.plan`, which runs nothing.
            **more: further arguments of `fairtk.Experiment`.
        """
        lists = Subsets(SUBSETS[self.settings.credit], cutoff=self.settings.cutoff)
        systems = self.systems(task, retriever, qrels, [lists, generator])
        del systems[ORACLE]
        topics = task.topics[task.topics[QID].isin(set(qrels[QID]))]
        with names_repeat():
            return run(systems, topics, save_dir=self.folder, **{**self.engine, **more})

    def credit(
        self,
        task: LampTask,
        retriever: str,
        generator: Generator,
        qrels: pd.DataFrame,
        results: Results,
    ) -> dict[str, pd.DataFrame]:
        """Return the credit of each document in each ranking, C by system; none without a maker.

        Args:
            task: the task.
            retriever: name of the retriever.
            generator: of the task.
            qrels: of the queries that are measured, with gold answers.
            results: of `experiment`.
        """
        maker = self.settings.credit
        names = [name for name in self.settings.systems if name != ORACLE]
        if maker == NONE:
            return {}
        if maker == CITATIONS:
            read = Citations(cutoff=self.settings.cutoff)
            return {name: read(results.rankings(name)) for name in names}
        answers = self.subsets(task, retriever, generator, qrels)
        utility = UTILITIES[task.number].name
        return {name: from_answers(answers.rankings(name), utility, qrels) for name in names}

    def takes_published(self, task: LampTask) -> bool:
        """Return whether the labels of a task are those that came with its data."""
        return self.settings.labels == "published" and task.published is not None

    def labeled(self, task: LampTask, generator: Generator) -> Labeled:
        """Return a task's labels for a generator: published ones, or the generator's own."""
        return label_task(task, generator, self.settings, self.folder, self.engine)

    def _values(self, retriever: str, results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the values of each query, and the utility of each answer."""
        names = dict(zip(results.measures, (EE_D, EE_R, NDCG, EU), strict=True))
        values = results.per_query.assign(
            **{
                ALPHA: results.per_query["system"].map(self.settings.systems),
                MEASURE: results.per_query[MEASURE].map(names),
            }
        )
        run = self.retrievers[retriever]
        if isinstance(run, GivenRun):  # a missing query has no answer to normalize
            missing = values[(values[MEASURE] == EU) & ~values[QID].isin(run.run[QID])]
            missing = missing.assign(**{MEASURE: NORMALIZED_EU, VALUE: 0.0})
            values = pd.concat([values, missing], ignore_index=True)
        drawn = results.per_sample
        drawn = drawn[drawn[MEASURE].map(names) == EU]
        drawn = drawn.assign(**{ALPHA: drawn["system"].map(self.settings.systems)})
        return values.drop(columns="system"), drawn[[ALPHA, QID, SAMPLE, VALUE]]


def credit_values(
    frames: Mapping[float | str, pd.DataFrame], qrels: pd.DataFrame, cutoff: int
) -> pd.DataFrame:
    """Return what credit is like under each policy, query by query.

    Exposure is measured as credit is: each document of a prompt gets an equal share, in the
    rankings whose credit is defined. So both have one scale and one floor, and for sampled systems
    the unbiased estimate. The ranking of a deterministic system is its policy, so that the plain
    value is exact.

    Args:
        frames: C with ``rank`` and ``sample``, by alpha.
        qrels: labels.
        cutoff: k, documents that are read.

    Returns:
        ``alpha``, ``qid``, ``measure``, ``value``. Measures: `AE_D`, `AE_R` (also `OF_EXPOSURE`),
        `GAP`; ``credit sum``: mean sum of a ranking's credit, in the utility's units;
        ``credit undefined``: share of rankings whose credit is NaN or has no positive part, which
        all but these three leave out; ``credit below 0``: share of documents whose negative
        credit counts as 0; ``credit at place 1`` to k: mean share of the credit.
    """
    parts = []
    labels = qrels[[QID, DOCNO, LABEL]]
    asked = [
        AE_D(estimator="unbiased") @ cutoff,
        AE_R @ cutoff,
        CreditGap(estimator="unbiased") @ cutoff,
    ]
    names = dict(zip(asked, CREDIT_MEASURES, strict=True))
    for alpha, credit in frames.items():
        frame = credit.reset_index(drop=True)
        ranking = frame.groupby([QID, SAMPLE], sort=False)
        whole = ~frame[CREDIT].isna().groupby([frame[QID], frame[SAMPLE]]).transform("any")
        positive = frame[CREDIT].clip(lower=0)
        total = positive.groupby([frame[QID], frame[SAMPLE]]).transform("sum")
        defined = whole & (total > 0)
        even = frame.assign(**{CREDIT: np.where(defined, 1.0, np.nan)})
        with warnings.catch_warnings():  # the table has the counts that they tell
            warnings.simplefilter("ignore", FairtkWarning)
            rows = [
                (metric.query_id, names[metric.measure] + ending, metric.value)
                for ending, run in (("", frame), (OF_EXPOSURE, even))
                for metric in ir_measures.iter_calc(
                    asked, labels, run.drop(columns=SAMPLE) if alpha == DETERMINISTIC else run
                )
                if not ending or names[metric.measure] != GAP  # of exposure that is 0
            ]
        parts.append(pd.DataFrame(rows, columns=[QID, MEASURE, VALUE]).assign(**{ALPHA: alpha}))
        share = (positive / total.where(defined)).groupby([frame[QID], frame[RANK]]).mean()
        places = share.rename(VALUE).reset_index()
        places[MEASURE] = PLACE + (places.pop(RANK) + 1).astype(str)
        first = ~frame.duplicated([QID, SAMPLE])
        per_query = pd.DataFrame(
            {
                SUM: ranking[CREDIT].sum(min_count=1).groupby(QID).mean(),
                UNDEFINED: (~defined[first]).groupby(frame[QID]).mean(),
                BELOW: (frame[CREDIT] < 0).groupby(frame[QID]).mean(),
            }
        ).rename_axis(QID)
        long = per_query.reset_index().melt(QID, var_name=MEASURE, value_name=VALUE)
        parts += [part.assign(**{ALPHA: alpha}) for part in (places, long)]
    return pd.concat(parts, ignore_index=True)[[ALPHA, QID, MEASURE, VALUE]]


_SYSTEMS = (
    "Each system orders the same documents: alpha 0 at random (uniform), a larger alpha closer to "
    "the retriever's order, deterministic in that order, and oracle with useful documents first."
)
_NAMES = {"bm25": "BM25", "contriever": "Contriever", "splade": "SPLADE"}


def _made(
    what: str, names: Sequence[str], make: Callable[..., Any], configuration: RagConfiguration
) -> dict[str, Any]:
    """Return what is made of each name, by a short name for tables."""
    if twice := repeated(names):
        raise ParameterError(f"the study: the {what} {twice[0]!r} is given twice")
    short, source = [_short(name) for name in names], configuration.source
    made = {}
    for name, label in zip(names, short, strict=True):
        options = configuration.options.get(name, {})
        try:
            made[label if short.count(label) == 1 else name] = make(name, **options)
        except (TypeError, InputError) as error:
            if isinstance(error, InputError) and not (options and source):
                raise
            raise FormatError(f"settings of the {what} {name!r}: {error}", source) from None
    return made


def _short(name: str) -> str:
    kind, _, model = name.partition(":")
    if "=" in kind:  # a run
        return kind.partition("=")[0]
    if kind in _NAMES:
        return _NAMES[kind]  # as the paper calls it, so that its numbers are found
    return Path(model).name or name


LOOKED_AT = 20
"""From so many queries the number of distinct rankings is estimated."""
LABELS = "labels"
OF_CREDIT = ", credit"
"""Behind a retriever: the stage that answers from subsets of its rankings."""
PLAN = [TASK, RETRIEVER, GENERATOR, "queries", "rankings", "prompts"]
STATUS = [TASK, GENERATOR, "stage", "queries", "done", "failed", "missing"]


def _cost_of_prompts(generator: Generator, frames: Sequence[pd.DataFrame]) -> FloatArray:
    """Return `COUNTS` per prompt, in the mean over the prompts of some frames."""
    calls, _, *rest = np.sum([generator.estimate(frame) for frame in frames], axis=0)
    per_prompt: FloatArray = np.array([calls, *rest]) / max(calls, 1)
    return per_prompt


def _distinct(
    study: RagStudy, task: LampTask, retriever: str, topics: pd.DataFrame
) -> tuple[list[pd.DataFrame], float, float, float]:
    """Return the rankings of some queries, how many distinct ones a query has in the mean, how
    many lists its credit asks for, and how many of these are asked for nothing else.

    What the oracle draws is unknown before documents are labeled: all of its rankings count.
    """
    nothing = pd.DataFrame({QID: topics[QID].iloc[:1], DOCNO: ["none"], LABEL: [0]})
    systems = study.systems(task, retriever, nothing)
    del systems[ORACLE]
    maker = study.settings.credit
    rankings: set[tuple[str, tuple[str, ...]]] = set()
    n_lists = 0
    results = Experiment(systems, topics)
    frames = {name: results.rankings(name).sort_values(RANK) for name in systems}
    for name, frame in frames.items():
        keys = [QID] if name == DETERMINISTIC else [QID, SAMPLE]
        lists = frame.groupby(keys)[DOCNO].agg(tuple)
        qids = lists.index.get_level_values(QID)
        rankings.update(zip(qids, lists, strict=True))
        if maker in SUBSETS:
            has_all = SUBSETS[maker] == "all"
            n_lists += sum(1 << len(d) if has_all else len(d) + 1 for d in lists)
    of_credit = subsets_of(rankings, maker) - rankings if maker in SUBSETS else set()
    if not study.takes_published(task):  # labels are answers from no document and from each
        of_credit = {part for part in of_credit if len(part[1]) > 1}
    n = len(topics)
    distinct = len(rankings) / n + study.settings.n_samples
    return list(frames.values()), distinct, n_lists / n, len(of_credit) / n


def subsets_of(
    rankings: Iterable[tuple[str, tuple[str, ...]]], maker: str
) -> set[tuple[str, tuple[str, ...]]]:
    """Return the distinct lists that credit asks for, as pairs of qid and docnos in order.

    Args:
        rankings: qid and docnos of each.
        maker: ``"one-out"`` or ``"shapley"``.
    """
    lists: set[tuple[str, tuple[str, ...]]] = set()
    for qid, docnos in rankings:
        k = len(docnos)
        lengths = range(k + 1) if SUBSETS[maker] == "all" else (k - 1, k)
        lists.update((qid, part) for n in lengths for part in combinations(docnos, n))
    return lists


def _status(study: RagStudy) -> pd.DataFrame:
    """Return the rows of `RagStudy.status`, and of which ``kind`` each stage is."""
    rows: list[list[Any]] = []
    for task in study.tasks:
        topics = task.topics[: study.settings.limit]
        for name in study.generators:
            generator = study.generator(task, name)
            labeled = study.takes_published(task)
            if not labeled:
                systems = label_systems(Candidates(task.dataset), generator)
                work = plan(systems, topics, save_dir=study.folder)
                rows += _cells(task, name, LABELS, work.cells)
                labeled = not work.cells["missing"].any()
            rows += _groups(study, task, name, generator, labeled)
    return pd.DataFrame(rows, columns=[*STATUS, "kind"])


def _groups(
    study: RagStudy, task: LampTask, name: str, generator: Generator, labeled: bool
) -> list[list[Any]]:
    qrels = study.labeled(task, generator).qrels if labeled else None
    rows: list[list[Any]] = []
    for retriever in study.retrievers:
        if qrels is None:
            n = len(task.topics[: study.settings.limit])
            for system in study.settings.systems:
                rows.append([task.name, name, f"{retriever}, {system}", n, 0, 0, n, retriever])
                if study.settings.credit in SUBSETS and system != ORACLE:
                    kind = f"{retriever}{OF_CREDIT}"
                    rows.append([task.name, name, f"{kind}, {system}", n, 0, 0, n, kind])
        elif len(qrels):
            work = study.experiment(task, retriever, generator, qrels, plan)
            rows += _cells(task, name, retriever, work.cells)
            if study.settings.credit in SUBSETS:
                work = study.subsets(task, retriever, generator, qrels, plan)
                rows += _cells(task, name, f"{retriever}{OF_CREDIT}", work.cells)
    return rows


def _cells(task: LampTask, generator: str, kind: str, cells: pd.DataFrame) -> list[list[Any]]:
    rows = cells[["system", "queries", "stored", "failed", "missing"]].to_numpy(object).tolist()
    return [
        [task.name, generator, f"{kind}, {system}", *numbers, kind] for system, *numbers in rows
    ]
