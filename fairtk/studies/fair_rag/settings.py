"""Settings, tasks, models and labels of a study of *Towards Fair RAG*."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk import checks
from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.frames import DOCNO, GOLD_ANSWER, LABEL, QID, digest
from fairtk.io import labels_of, resolve_dataset
from fairtk.llm import ANSWERS, ChatModel, Ledger, build_model, check_settings, parse_model
from fairtk.measures import EU
from fairtk.plugins import BackendSpec, load_target, refuse_unknown_options
from fairtk.studies.fair_rag.labels import (
    GRADES,
    UtilityLabels,
    agreement,
    statistics,
    utility_labels,
)
from fairtk.studies.fair_rag.tables import DETERMINISTIC, ORACLE, OVER
from fairtk.studies.frame import with_nothing
from fairtk.transformers import BM25Scorer, Candidates, ContrieverScorer, Generator, SpladeScorer


@dataclass(frozen=True)
class TaskUtility:
    """How answers of a task are scored.

    Attributes:
        name: of the string utility.
        upper_bound: turns an error u into upper_bound - u; None: more is better already.
    """

    name: str
    upper_bound: float | None = None

    @property
    def measure(self) -> Any:
        """The expected utility over sampled rankings."""
        if self.upper_bound is None:
            return EU(utility=self.name)
        return EU(utility=self.name, upper_bound=self.upper_bound)


ACCURACY, ROUGE = TaskUtility("accuracy"), TaskUtility("rougeL")
UTILITIES: Mapping[int, TaskUtility] = {
    1: ACCURACY,
    2: ACCURACY,
    3: TaskUtility("mae", 4.0),
    **dict.fromkeys((4, 5, 6, 7), ROUGE),
}
"""What EU of each task is made of, and by default its labels: the measures of LaMP's paper."""

PUBLISHED_LABELS: Mapping[int, TaskUtility] = {**UTILITIES, 3: ACCURACY}
"""What the published code labels by: LaMP-3 by accuracy, though its EU takes the error."""


class LampTask:
    """One task of the study.

    Args:
        dataset: a LaMP dataset, or its id.
        name: how tables call it; None: ``LaMP-4``.

    Raises:
        NotFoundError: no dataset has the id.
        InputError: it is not of LaMP.
    """

    def __init__(self, dataset: Any, name: str | None = None) -> None:
        self.dataset = resolve_dataset(dataset, "the study")
        self.number = lamp.task_of(self.dataset)
        self.name = f"LaMP-{self.number}" if name is None else name

    @cached_property
    def topics(self) -> pd.DataFrame:
        """The questions: ``qid``, ``query``, ``question``."""
        return get_topics(self.dataset)

    @cached_property
    def answers(self) -> pd.DataFrame:
        """The gold answers: ``qid``, ``gold_answer``."""
        return get_answers(self.dataset)

    @cached_property
    def published(self) -> pd.DataFrame | None:
        """The labels that came with the data: ``qid``, ``docno``, ``label``; None: no labels."""
        return labels_of(self.dataset) if self.dataset.has_qrels() else None

    @property
    def license(self) -> str:
        """Under which license the data stand."""
        return str(lamp.license_of(self.dataset))


def read_tasks(
    source: str | PathLike[str], numbers: tuple[int, ...] = (), split: str = "dev"
) -> list[LampTask]:
    """Return the tasks in a folder, or of a dataset's id.

    Args:
        source: an id such as ``lamp/4/dev``, or a folder (or zip) with LaMP's files; for several
            tasks one with a folder ``LaMP_4`` each, or an archive of published labels.
        numbers: the tasks, for a folder.
        split: in the names of a folder's files.

    Raises:
        InputError: a folder without a task, or an id with one.
    """
    from pathlib import Path

    place = Path(source).expanduser()
    if not place.exists():
        if numbers:
            raise InputError(
                f"the id {str(source)!r} says which task it is; tasks are chosen for folders, and "
                "there is no such folder"
            )
        return [LampTask(str(source))]
    if not numbers:
        raise InputError(
            f"{place}: which of LaMP's tasks is it? Files do not say; give e.g. --task 4"
        )
    if len(set(numbers)) < len(numbers):
        raise ParameterError(f"the study: a task is given twice; found {list(numbers)}")
    found = []
    for number in numbers:
        own = [p for p in (place / f"LaMP_{number}", place / f"lamp-{number}") if p.is_dir()]
        found.append(LampTask(lamp.from_folder(own[0] if own else place, task=number, split=split)))
    return found


LABELS = ("published", "own")
LABEL_UTILITIES = ("paper", "code")


@dataclass(frozen=True)
class RagSettings:
    """How the study is done; the defaults are the paper's.

    Attributes:
        alphas: of the sampler, each from 0 (uniform).
        n_samples: N, rankings per query and alpha.
        cutoff: k, documents that the generator reads.
        seed: of the samplers.
        limit: queries of a task that are looked at, the first ones; None: all.
        labels: ``"published"``: those that came with the data, if any did, else own ones;
            ``"own"``: those that the generator's gains give.
        label_utility: ``"paper"``: gains in the utility of EU; ``"code"``: as the published code,
            which labels LaMP-3 by accuracy.
        grades: ``"binary"`` labels, or places among the query's distinct ``"gain"``s.
        min_useful: queries with fewer useful documents are left out.
        eu_over: whose best ranking EU is divided by: one ``"retriever"``'s or all of the
            ``"generator"``.
        eu_deterministic: whether the deterministic ranking is among them.
    """

    alphas: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    n_samples: int = 100
    cutoff: int = 5
    seed: int = 42
    limit: int | None = 1000
    labels: str = "published"
    label_utility: str = "paper"
    grades: str = "binary"
    min_useful: int = 2
    eu_over: str = "retriever"
    eu_deterministic: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "alphas", _alphas(self.alphas))
        for name in ("n_samples", "cutoff", "min_useful"):
            checks.whole(name, getattr(self, name), "the study")
        checks.whole("seed", self.seed, "the study", least=None)
        if self.limit is not None:
            checks.whole("limit", self.limit, "the study")
        for name, known in (
            ("labels", LABELS),
            ("label_utility", LABEL_UTILITIES),
            ("grades", GRADES),
            ("eu_over", OVER),
        ):
            if getattr(self, name) not in known:
                raise ParameterError(
                    f"the study: {name} must be one of {known}; found {getattr(self, name)!r}"
                )

    @property
    def name(self) -> str:
        """A name for a folder: what is often varied, and a digest of all."""
        return f"n{self.n_samples}-k{self.cutoff}-seed{self.seed}-{digest(self.as_json(), 3)}"

    @property
    def systems(self) -> dict[str, float | str]:
        """The systems, with the alpha of each; the two without have a word instead."""
        sampled: dict[str, float | str] = {f"alpha {alpha:g}": alpha for alpha in self.alphas}
        return {**sampled, ORACLE: ORACLE, DETERMINISTIC: DETERMINISTIC}

    def utility_of_labels(self, task: int) -> TaskUtility:
        """Return by which utility a task's documents are labeled."""
        return (UTILITIES if self.label_utility == "paper" else PUBLISHED_LABELS)[task]

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {**asdict(self), "alphas": list(self.alphas)}


def _alphas(alphas: Any) -> tuple[float, ...]:
    right = isinstance(alphas, Sequence) and not isinstance(alphas, str) and len(alphas) > 0
    numbers = right and all(isinstance(a, int | float) and not isinstance(a, bool) for a in alphas)
    if not numbers or not all(math.isfinite(a) and a >= 0 for a in alphas):
        raise ParameterError(
            f"the study: alphas must be a list of numbers from 0; found {alphas!r}"
        )
    values = tuple(sorted(float(a) for a in alphas))
    twice = sorted({a for a in values if values.count(a) > 1})
    if twice:
        raise ParameterError(f"the study: alpha {twice[0]:g} is given twice; found {alphas!r}")
    return values


AGREEMENT = ["task", "generator", "other", "pairs", "flipped", "share", "kappa"]
"""Columns of `label_agreement`."""


@dataclass(frozen=True)
class Labeled:
    """A task's labels for a generator.

    Attributes:
        qrels: of the queries that are kept: ``qid``, ``docno``, ``label``, ``gold_answer``.
        queries: how many were looked at.
        facts: where the labels are from, Tables 13 to 15, agreement with published ones.
        own: gains, answers and utilities; None for published labels.
    """

    qrels: pd.DataFrame
    queries: int
    facts: dict[str, Any]
    own: UtilityLabels | None


def label_task(
    task: LampTask,
    generator: Generator,
    settings: RagSettings,
    folder: Path,
    engine: Mapping[str, Any],
) -> Labeled:
    """Return a task's labels for a generator.

    Args:
        task: the task.
        generator: made for it.
        settings: whose labels, and by which utility.
        folder: of the store.
        engine: arguments of `fairtk.Experiment`.
    """
    topics = task.topics[: settings.limit]
    published = task.published
    if published is not None:
        published = published[published[QID].isin(set(topics[QID]))]
    if settings.labels == "published" and published is not None:
        useful = (published[LABEL] > 0).groupby(published[QID]).transform("sum")
        kept = published[useful >= settings.min_useful].reset_index(drop=True)
        golds = task.answers.set_index(QID)[GOLD_ANSWER]
        qrels = kept.assign(**{GOLD_ANSWER: kept[QID].map(golds)})
        return Labeled(qrels, len(topics), _facts("published", qrels, len(topics)), None)
    utility = settings.utility_of_labels(task.number)
    own = utility_labels(
        topics,
        Candidates(task.dataset),
        task.answers,
        generator,
        utility.name,
        upper_bound=utility.upper_bound,
        grades=settings.grades,
        save_dir=folder,
        **engine,
    )
    qrels = own.qrels(settings.min_useful)
    facts = _facts(f"gains in {utility.name}", qrels, len(topics))
    if published is not None:
        found = agreement(own.documents[[QID, DOCNO, LABEL]], published)
        facts |= {f"published: {key}": value for key, value in found.items()}
    return Labeled(qrels, len(topics), facts, own)


def _facts(source: str, qrels: pd.DataFrame, queries: int) -> dict[str, Any]:
    found = statistics(qrels)
    left_out = queries - int(found["queries"])
    return {"labels": source, "looked at": queries, "left out": left_out, **found}


def label_agreement(found: Mapping[tuple[str, str], Labeled]) -> pd.DataFrame:
    """Return how far generators' own labels agree, e.g. those of one model in two dtypes.

    Args:
        found: labels by task and generator.

    Returns:
        One row per task and pair of generators: ``task``, ``generator``, ``other``, ``pairs``
        (documents that both labeled), ``flipped`` (those that one alone finds useful), ``share``
        of equal labels, Cohen's ``kappa``.
    """
    own = {key: labeled.own.documents for key, labeled in found.items() if labeled.own is not None}
    rows = []
    for (task, first), (other_task, second) in combinations(own, 2):
        if task != other_task:
            continue
        sides = [own[task, name][[QID, DOCNO, LABEL]] for name in (first, second)]
        said = agreement(*sides)
        flipped = round(said["pairs"] * (1 - said["share"])) if said["pairs"] else 0
        rows.append((task, first, second, said["pairs"], flipped, said["share"], said["kappa"]))
    return pd.DataFrame(rows, columns=AGREEMENT)


def nothing_useful(task: LampTask, generator: str, labeled: Labeled, settings: RagSettings) -> str:
    """Return why a task cannot be measured with a generator, and what to do."""
    head = (
        f"{task.name}, {generator}: no query of {labeled.queries} has {settings.min_useful} useful"
    )
    if labeled.own is None:
        return (
            f"{head} documents by the published labels. Take more queries (limit), min_useful=1, "
            "or labels='own'"
        )
    useful = labeled.own.documents[labeled.own.documents[LABEL] > 0]
    return (
        f"{head} documents ({useful[QID].nunique()} have one or more): the generator answers no "
        "better with a document than without. Take a generator that was made for the task, more "
        "queries (limit), or min_useful=1"
    )


RETRIEVERS: Mapping[str, Callable[..., Any]] = {
    "bm25": BM25Scorer,
    "contriever": ContrieverScorer,
    "splade": SpladeScorer,
}
MakeGenerator = Callable[[int, int], Generator]
"""From the number of a LaMP task and the cutoff to its generator."""


def make_retriever(text: str, **options: Any) -> Any:
    """Return the scorer for ``bm25``, ``contriever[:MODEL]`` or ``splade[:MODEL]``.

    Args:
        text: what the user wrote.
        **options: settings of the scorer.

    Raises:
        NotFoundError: there is no such retriever.
        ParameterError: a setting is wrong.
    """
    name, _, model = text.partition(":")
    if name not in RETRIEVERS:
        raise NotFoundError("retriever", name, RETRIEVERS)
    if model and name == "bm25":
        raise ParameterError(f"bm25 has no model; found {text!r}")
    settings = {**({"model": model} if model else {}), **options}
    refuse_unknown_options(f"the retriever {text!r}", RETRIEVERS[name], settings)
    return RETRIEVERS[name](**settings)


def make_generator(text: str, *, ledger: Ledger | None = None, **options: Any) -> MakeGenerator:
    """Return what makes a generator for a task, with LaMP's prompt of the task.

    Args:
        text: ``KIND:MODEL``, of the kinds that `fairtk.llm.kinds_of_models` lists, e.g.
            ``t5:google/flan-t5-small``. With a dtype, ``t5-bfloat16:MODEL``, a study can have the
            same model twice, and says how many labels differ.
        ledger: keeps the answers of chat models, and their budget; None: the study's store.
        **options: settings of the kind.

    Raises:
        NotFoundError: there is no such kind of generator, or it has no such setting.
        ParameterError: the model's name is missing, or a setting is wrong.
    """
    spec, chosen = parse_model(text, ANSWERS, "generator")
    settings = {**chosen, **with_nothing(options)}
    if isinstance(spec, BackendSpec):
        settings = {**spec.exact, **settings}  # labels are signs of small differences
        if spec.stage is not None:
            check_settings(spec, settings)
            stage = load_target(spec.stage)
            return lambda task, cutoff: stage(prompt=f"lamp-{task}", cutoff=cutoff, **settings)
    model = build_model(spec, settings)
    if ledger is not None and isinstance(model, ChatModel):
        model = ledger.wrap(model)
    return lambda task, cutoff: Generator(model, f"lamp-{task}", cutoff)


def is_served(text: str) -> bool:
    """Return whether a server answers for a generator, ``KIND:MODEL``."""
    return parse_model(text, ANSWERS, "generator")[0].server
