"""Settings, tasks, models and configuration of a study of *Towards Fair RAG*."""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import pandas as pd
from pydantic import AfterValidator, Field, ValidationInfo

from fairtk import checks, prompts
from fairtk.credit.subsets import MOST_ASKED
from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.frames import digest
from fairtk.io import resolve_dataset
from fairtk.llm import ChatModel, Ledger, build_model, list_model_kinds, parse_model
from fairtk.llm.models import check_settings
from fairtk.measures import EU
from fairtk.plugins import BackendSpec
from fairtk.plugins.registry import refuse_unknown_options
from fairtk.transformers import BM25Scorer, ContrieverScorer, Generator, SpladeScorer
from fairtk_papers.fair_rag.tables import DETERMINISTIC, ORACLE, OVER
from fairtk_papers.studies import (
    NAMES,
    NUMBERS,
    PLACE,
    STRING,
    TABLES,
    Configuration,
    GivenRun,
    Kinds,
    labels_of,
    relative,
    repeated,
    with_nothing,
)


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
        self.number = lamp.get_task(self.dataset)
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
        return str(lamp.get_license(self.dataset))


def read_tasks(
    source: str | PathLike[str], numbers: tuple[int, ...] = (), split: str = "dev"
) -> list[LampTask]:
    """Return the tasks in a folder, or of a dataset's id.

    Args:
        source: an id such as ``lamp/4/dev``, or a folder with LaMP's files; for several tasks one
            with a folder ``LaMP_4`` each, or a folder of published labels.
        numbers: the tasks, for a folder.
        split: in the names of a folder's files.

    Raises:
        InputError: a folder without a task, or an id with one.
    """
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
            f"{place}: which of LaMP's tasks is it? Files do not say; give e.g. `tasks=[4]`"
        )
    if repeated(numbers):
        raise ParameterError(f"the study: a task is given twice; found {list(numbers)}")
    tasks = []
    for number in numbers:
        own = [p for p in (place / f"LaMP_{number}", place / f"lamp-{number}") if p.is_dir()]
        tasks.append(LampTask(lamp.from_folder(own[0] if own else place, task=number, split=split)))
    return tasks


Labels = Literal["published", "own"]
Truncation = Literal["keep-question", "published"]
Maker = Literal["none", "one-out", "shapley", "citations"]
LABELS: tuple[Labels, ...] = get_args(Labels)
GRADES = ("binary", "gain")
TRUNCATIONS = {"keep-question": "keep-question", "published": "fair-rag"}
"""How LaMP's prompts are cut, by what `fairtk.llm.prompts` calls it."""
NONE, CITATIONS = "none", "citations"
SUBSETS = {"one-out": "one-out", "shapley": "all"}
"""The kind of `fairtk.credit.Subsets` that each maker of credit asks for."""
MAKERS: tuple[Maker, ...] = get_args(Maker)
_CHOICES = {
    "labels": LABELS,
    "label_utility": ("paper", "code"),
    "grades": GRADES,
    "eu_over": OVER,
    "truncation": tuple(TRUNCATIONS),
    "credit": MAKERS,
}


@dataclass(frozen=True)
class RagSettings:
    """How the study is done; the defaults are the paper's.

    Attributes:
        alphas: the exponents of the sampler, each from 0 (uniform).
        n_samples: rankings per query and alpha (N).
        cutoff: documents that the generator reads (k).
        seed: the seed of the samplers.
        limit: how many queries of each task are used, the first ones. None: all.
        labels: labels that came with the data, if any did (``"published"``), or the generator's
            own gains (``"own"``).
        label_utility: ``"paper"``: gains in the utility of EU; ``"code"``: as the published code,
            which labels LaMP-3 by accuracy.
        grades: ``"binary"`` labels, or ``"gain"``: places among the query's distinct gains.
        min_useful: queries with fewer useful documents are left out.
        eu_over: the rankings whose best one EU is divided by: those of one ``"retriever"``, or
            all of the ``"generator"``.
        eu_deterministic: whether the deterministic ranking is among them.
        truncation: how prompts are cut that are longer than the generator reads: entries share what
            the question leaves (``"keep-question"``), or each has (window - question) // k tokens
            (``"published"``). The published code does the latter, and then cuts the whole.
        credit: what says how much of an answer depends on each document, next to its exposure:
            answers without each document (``"one-out"``, k + 1 prompts a ranking), answers from
            all its subsets (``"shapley"``, 2^k) or what answers cite (``"citations"``). With
            ``"shapley"`` k is at most 8. The oracle, which nobody can run, has no credit.
    """

    alphas: tuple[float, ...] = (1, 2, 4, 8)
    n_samples: int = 100
    cutoff: int = 5
    seed: int = 42
    limit: int | None = 1000
    labels: Labels = "published"
    label_utility: str = "paper"
    grades: str = "binary"
    min_useful: int = 2
    eu_over: str = "retriever"
    eu_deterministic: bool = False
    truncation: Truncation = "keep-question"
    credit: Maker = "none"

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "alphas", _alphas(self.alphas))
        for name in ("n_samples", "cutoff", "min_useful"):
            checks.integer(name, getattr(self, name), "the study")
        checks.integer("seed", self.seed, "the study", least=None)
        if self.limit is not None:
            checks.integer("limit", self.limit, "the study")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ParameterError(
                    f"the study: {name} must be one of {choices}; found {getattr(self, name)!r}"
                )
        if self.credit != NONE and self.n_samples < 2:
            raise ParameterError(
                f"the study: credit={self.credit!r} needs at least 2 rankings per query and alpha, "
                f"since sampling adds to its measures; found `n_samples={self.n_samples}`: use "
                "`n_samples=10`, or `credit='none'`"
            )
        if self.credit == "shapley" and self.cutoff > MOST_ASKED:
            raise ParameterError(
                f"the study: credit='shapley' takes a cutoff of at most {MOST_ASKED} "
                f"({1 << MOST_ASKED} prompts for a ranking); found {self.cutoff}: use 'one-out'"
            )

    @property
    def name(self) -> str:
        """A name for a folder: what is often varied, and a digest of all."""
        facts = self.as_json()
        for name in ("truncation", "credit"):
            if facts[name] == getattr(RagSettings, name):
                del facts[name]  # results from before there was a choice keep their folder
        return f"n{self.n_samples}-k{self.cutoff}-seed{self.seed}-{digest(facts, 3)}"

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
    if twice := repeated(values):
        raise ParameterError(f"the study: alpha {twice[0]:g} is given twice; found {alphas!r}")
    return values


RETRIEVERS: Mapping[str, Callable[..., Any]] = {
    "bm25": BM25Scorer,
    "contriever": ContrieverScorer,
    "splade": SpladeScorer,
}
MakeGenerator = Callable[..., Generator]
"""From the number of a LaMP task and the cutoff to its generator; ``truncation`` is given if it is
not the default.
"""


def make_retriever(text: str, **options: Any) -> Any:
    """Return the scorer for ``bm25``, ``contriever[:MODEL]`` or ``splade[:MODEL]``, or a run.

    Args:
        text: what the user wrote; ``NAME=RUNFILE`` for a run.
        **options: settings of the scorer.

    Raises:
        NotFoundError: there is no such retriever.
        ParameterError: a setting is wrong.
        FormatError, InputError: see `fairtk_papers.studies.GivenRun`.
    """
    name, _, model = text.partition(":")
    if path := _run_file(text):
        return GivenRun(path, **options)
    if name not in RETRIEVERS:
        raise NotFoundError("retriever", name, [*RETRIEVERS, "NAME=RUNFILE"])
    if model and name == "bm25":
        raise ParameterError(f"bm25 has no model; found {text!r}")
    settings = {**({"model": model} if model else {}), **options}
    refuse_unknown_options(f"the retriever {text!r}", RETRIEVERS[name], settings)
    return RETRIEVERS[name](**settings)


def _run_file(text: str) -> str:
    """Return the file of ``NAME=RUNFILE``; empty for anything else."""
    name, _, path = text.partition("=")
    return path if name and text.partition(":")[0] not in RETRIEVERS else ""


def _runs_relative(texts: list[str], info: ValidationInfo) -> tuple[str, ...]:
    """Return retrievers with the files of runs named from the folder of the configuration."""
    return tuple(
        f"{text.partition('=')[0]}={relative(path, info)}" if (path := _run_file(text)) else text
        for text in texts
    )


_RETRIEVERS = Annotated[
    list[str], AfterValidator(_runs_relative), Field(description="a list of names")
]


def make_generator(text: str, *, ledger: Ledger | None = None, **options: Any) -> MakeGenerator:
    """Return what makes a generator for a task, with LaMP's prompt of the task.

    Args:
        text: ``KIND:MODEL``, of the kinds that `fairtk.llm.list_model_kinds` lists, e.g.
            ``t5:google/flan-t5-small``. With a dtype, ``t5-bfloat16:MODEL``, a study can have the
            same model twice, and says how many labels differ.
        ledger: keeps the answers of chat models, and their budget; None: the study's store.
        **options: settings of the kind.

    Raises:
        NotFoundError: there is no such kind of generator, or it has no such setting.
        ParameterError: the model's name is missing, or a setting is wrong.
    """
    spec, chosen = parse_model(text, "answers", "generator")
    settings = {**chosen, **with_nothing(options)}
    if isinstance(spec, BackendSpec):
        settings = {**spec.exact, **settings}  # labels are signs of small differences
        if spec.stage is not None:
            check_settings(spec, settings)
            stage = pkgutil.resolve_name(spec.stage)
            return lambda task, cutoff, truncation="keep-question": stage(
                prompt=_prompt(task, truncation), cutoff=cutoff, **settings
            )
    model = build_model(spec, settings)
    if ledger is not None and isinstance(model, ChatModel):
        model = ledger.wrap(model)
    return lambda task, cutoff, truncation="keep-question": Generator(
        model, _prompt(task, truncation), cutoff
    )


def _prompt(task: int, truncation: str) -> prompts.PromptBuilder:
    return prompts.get(f"lamp-{task}", truncate=TRUNCATIONS[truncation])


@dataclass(frozen=True)
class RagConfiguration(Configuration):
    """What a study of *Towards Fair RAG* is made of.

    `data` has ``folder`` and ``tasks`` (their numbers) and ``split``, or ``datasets`` (ids);
    retrievers are as `make_retriever` takes them, models (generators) as `make_generator` does.
    """

    settings: RagSettings = field(default_factory=RagSettings)
    output: str = "fair-rag-study"
    models: Sequence[str] = ("t5:google/flan-t5-small",)
    retrievers: Sequence[str] = ("bm25",)

    DATA: ClassVar[Kinds] = {
        "folder": PLACE,
        "datasets": NAMES,
        "tasks": NUMBERS,
        "split": STRING,
    }
    EITHER: ClassVar[str] = "'folder' (and 'tasks') or 'datasets'"
    SETTINGS: ClassVar[Kinds] = dict.fromkeys((f.name for f in fields(RagSettings)), Any)
    FIELDS: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "generators": ("models", NAMES),
        "retrievers": ("retrievers", _RETRIEVERS),
        "options": ("options", TABLES),
    }

    @property
    def tasks(self) -> list[LampTask]:
        """The tasks; see `read_tasks`."""
        folder, ids = self.data.get("folder"), self.data.get("datasets", ())
        numbers = tuple(self.data.get("tasks", ()))
        if folder is None and numbers:
            raise InputError(
                f"{', '.join(ids)}: tasks are chosen for a folder, and there is none of "
                "that name; the ids of datasets name their task, e.g. lamp/4/dev"
            )
        own = () if folder is None else read_tasks(folder, numbers, self.data.get("split", "dev"))
        return [*(task for name in ids for task in read_tasks(name)), *own]

    def with_server(self, server: Mapping[str, Any]) -> RagConfiguration:
        """Return the configuration with a server's settings for its generators.

        Raises:
            InputError: there is a setting, and no generator is a server's.
        """
        served = self.served(server)
        more = {name: {**self.options.get(name, {}), **server} for name in served if server}
        return replace(self, options={**self.options, **more})

    def served(self, needed_by: Mapping[str, Any]) -> list[str]:
        """Return the generators that a server answers for.

        Raises:
            InputError: there are none, and something needs one.
        """
        names = [n for n in self.models if parse_model(n, "answers", "generator")[0].server]
        if needed_by and not names:
            specs = list_model_kinds("answers").items()
            kinds = ", ".join(f"{kind}:MODEL" for kind, spec in specs if spec.server)
            raise InputError(
                f"{', '.join(needed_by)}: for generators that a server answers for, {kinds}; "
                f"found {', '.join(self.models)}"
            )
        return names
