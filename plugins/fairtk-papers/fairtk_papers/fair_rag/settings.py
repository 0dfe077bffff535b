"""Settings, tasks, models and configuration of the *Towards Fair RAG* study."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd
from pydantic import AfterValidator, Field, ValidationInfo

from fairtk import prompts
from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.frames import digest
from fairtk.io import dataset_qrels, resolve_dataset
from fairtk.llm import (
    FunctionModel,
    Ledger,
    build_model,
    check_settings,
    list_model_kinds,
    parse_model,
)
from fairtk.measures import EU
from fairtk.plugins import ChatModelSpec
from fairtk.transformers import BM25Scorer, ContrieverScorer, Generator, SpladeScorer
from fairtk.utilities import get
from fairtk.wording import did_you_mean
from fairtk_papers.fair_rag.tables import DETERMINISTIC, ORACLE
from fairtk_papers.studies import (
    AMOUNT,
    COUNT,
    FLAG,
    NAMES,
    NUMBERS,
    PATH,
    POSITIVE,
    STRING,
    TABLES,
    Configuration,
    Kinds,
    RunRetriever,
    Settings,
    duplicates,
    resolve_path,
    with_none,
)


@dataclass(frozen=True)
class TaskUtility:
    """The utility that scores the answers of a task.

    Attributes:
        name: the name of the string utility.
        upper_bound: turns an error u into upper_bound - u; `None` if higher is better.
    """

    name: str
    upper_bound: float | None = None

    @property
    def measure(self) -> Any:
        """The measure: expected utility over sampled rankings."""
        if self.upper_bound is None:
            return EU(utility=self.name)
        return EU(utility=self.name, upper_bound=self.upper_bound)


UTILITIES: Mapping[int, TaskUtility] = {
    **dict.fromkeys((1, 2), TaskUtility("accuracy")),
    3: TaskUtility("mae", 4.0),
    **dict.fromkeys((4, 5, 6, 7), TaskUtility("rougeL")),
}
"""The utility of each task, for EU and, by default, for labels: the measures of the LaMP paper."""


class LampTask:
    """One task of the study.

    Args:
        dataset: a LaMP dataset, or its id.
        name: the name in tables; `None` for the default, e.g. ``LaMP-4``.

    Raises:
        NotFoundError: no dataset has the id.
        InputError: the dataset is not a LaMP dataset.
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
        """The labels in the dataset: ``qid``, ``docno``, ``label``; `None` if it has no labels."""
        return dataset_qrels(self.dataset) if self.dataset.has_qrels() else None

    @property
    def license(self) -> str:
        """The license of the data."""
        return str(lamp.get_license(self.dataset))


def read_tasks(
    folder: str | PathLike[str], numbers: Sequence[int], split: str = "dev"
) -> list[LampTask]:
    """Return the tasks of a folder.

    Args:
        folder: a folder with LaMP's files; for several tasks, a folder with one subfolder per task
            (``LaMP_4``), or the folder of published labels.
        numbers: the task numbers.
        split: the split in the folder's file names.

    Raises:
        InputError: `numbers` is empty.
        ParameterError: a task number is a duplicate.
        FormatError: a file is missing or malformed.
    """
    folder = Path(folder).expanduser()
    if not numbers:
        raise InputError(
            f"{folder}: `tasks` is required for a folder, e.g. `tasks=[4]`, because LaMP's files "
            "do not name their task"
        )
    if duplicates(numbers):
        raise ParameterError(f"the study: duplicate task {duplicates(numbers)[0]}")
    tasks = []
    for number in numbers:
        names = (f"LaMP_{number}", f"lamp-{number}")
        data = next((folder / name for name in names if (folder / name).is_dir()), folder)
        tasks.append(LampTask(lamp.from_folder(data, task=number, split=split)))
    return tasks


Alphas = Annotated[
    tuple[AMOUNT, ...],
    Field(min_length=1, strict=False, description="a list of numbers of at least 0"),
]
Grades = Literal["binary", "gain"]
Truncation = Literal["keep-question", "published"]
TRUNCATIONS = {"keep-question": "keep-question", "published": "fair-rag"}
"""The name in `fairtk.prompts` of each way to truncate LaMP's prompts."""
NONE, CITATIONS = "none", "citations"
SUBSETS = {"one-out": "one-out", "shapley": "all"}
"""The kind of `fairtk.credit.Subsets` for each credit method."""


@dataclass(frozen=True)
class RagSettings(Settings):
    """The settings of the study; the defaults are those of the paper.

    Attributes:
        alphas: the exponents of the sampler, each at least 0 (0: uniform).
        n_samples: rankings per query and alpha (N).
        cutoff: number of documents in a prompt (k).
        seed: the seed of the samplers.
        limit: maximum number of queries per task, from the start of the file; `None` for all.
        labels: ``"published"`` for the labels in the dataset if it has any, ``"own"`` for labels
            from the generator's gains.
        label_utility: the utility whose gains are the labels: ``"paper"`` for that of EU,
            ``"code"`` for that of the published code, which labels LaMP-3 by accuracy.
        grades: ``"binary"`` for labels 0 and 1, or ``"gain"`` for the rank of a gain among the
            query's distinct gains.
        min_useful: queries with fewer useful documents are excluded.
        eu_over: EU is normalized by the utility of the best ranking of one ``"retriever"``, or of
            all retrievers with the same ``"generator"``.
        eu_deterministic: whether the deterministic ranking can be that best ranking.
        truncation: how prompts longer than the generator's window are truncated.
            ``"keep-question"``: the documents share the tokens that the question leaves.
            ``"published"``: each document gets (window - question) // k tokens, then the end of
            the prompt is cut, as in the published code.
        credit: how credit, the dependence of an answer on each document, is computed:
            ``"one-out"`` leaves out one document at a time (k + 1 prompts per ranking),
            ``"shapley"`` uses all subsets (2^k prompts, k at most 8), ``"citations"`` reads the
            citations in the answer. The oracle has no credit.
        utility: the name of the string utility of all tasks, where higher is better, e.g.
            ``"contains"`` for models that answer in sentences; `None` for that of each task in the
            LaMP paper.
    """

    alphas: Alphas = (1, 2, 4, 8)
    n_samples: POSITIVE = 100
    cutoff: POSITIVE = 5
    seed: COUNT = 42
    limit: POSITIVE | None = 1000
    labels: Literal["published", "own"] = "published"
    label_utility: Literal["paper", "code"] = "paper"
    grades: Grades = "binary"
    min_useful: POSITIVE = 2
    eu_over: Literal["retriever", "generator"] = "retriever"
    eu_deterministic: FLAG = False
    truncation: Truncation = "keep-question"
    credit: Literal["none", "one-out", "shapley", "citations"] = "none"
    utility: STRING | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if repeated := duplicates(self.alphas):
            raise ParameterError(f"the study: duplicate alpha {repeated[0]:g}")
        object.__setattr__(self, "alphas", tuple(sorted(self.alphas)))
        if self.credit != NONE and self.n_samples < 2:
            raise ParameterError(
                f"the study: credit={self.credit!r} requires at least 2 rankings per query, "
                f"got `n_samples={self.n_samples}`; use `n_samples=10`, or `credit='none'`"
            )
        if self.utility is not None and not get(self.utility).higher_is_better:
            raise ParameterError(
                f"the study: utility must be a utility where higher is better, got {self.utility!r}"
            )
        if self.credit == "shapley" and self.cutoff > 8:
            raise ParameterError(
                "the study: cutoff must be at most 8 with credit='shapley' (256 prompts per "
                f"ranking), got {self.cutoff}; use 'one-out'"
            )

    @property
    def name(self) -> str:
        """The name of the results' folder: the main settings and a digest of all."""
        facts = self.as_json()
        for name in ("truncation", "credit", "utility"):
            if facts[name] == getattr(RagSettings, name):
                del facts[name]  # the defaults keep the folder of older results
        return f"n{self.n_samples}-k{self.cutoff}-seed{self.seed}-{digest(facts, 3)}"

    @property
    def systems(self) -> dict[str, float | str]:
        """The systems, each with its alpha, ``"oracle"`` or ``"deterministic"``."""
        sampled: dict[str, float | str] = {f"alpha {alpha:g}": alpha for alpha in self.alphas}
        return {**sampled, ORACLE: ORACLE, DETERMINISTIC: DETERMINISTIC}

    def get_utility(self, task: int) -> TaskUtility:
        """Return the utility of a task's answers."""
        return UTILITIES[task] if self.utility is None else TaskUtility(self.utility)

    def get_label_utility(self, task: int) -> TaskUtility:
        """Return the utility that labels a task's documents."""
        if self.label_utility == "code" and task == 3:
            return TaskUtility("accuracy")  # as in the published code, although EU uses MAE
        return self.get_utility(task)

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {**asdict(self), "alphas": list(self.alphas)}


RETRIEVERS: Mapping[str, Callable[..., Any]] = {
    "bm25": BM25Scorer,
    "contriever": ContrieverScorer,
    "splade": SpladeScorer,
}
MakeGenerator = Callable[..., Generator]
"""Builds a generator from a task number, a cutoff and, unless it is the default, ``truncation``."""


def make_retriever(text: str, **options: Any) -> Any:
    """Return a retriever: a scorer of candidates, or a run.

    Args:
        text: ``bm25``, ``contriever[:MODEL]``, ``splade[:MODEL]``, or ``NAME=RUNFILE``.
        **options: settings of the scorer.

    Raises:
        NotFoundError: the retriever is unknown.
        ParameterError: a setting is invalid.
        FormatError, InputError: see `fairtk_papers.studies.RunRetriever`.
    """
    name, _, model = text.partition(":")
    if path := _run_file(text):
        return RunRetriever(path, **options)
    if name not in RETRIEVERS:
        raise NotFoundError("retriever", name, [*RETRIEVERS, "NAME=RUNFILE"])
    if model and name == "bm25":
        raise ParameterError(f"a model is not supported for bm25, got {text!r}")
    settings = {**({"model": model} if model else {}), **options}
    known = inspect.signature(RETRIEVERS[name]).parameters
    if unknown := [option for option in settings if option not in known]:
        hint = did_you_mean(unknown[0], known)
        raise ParameterError(f"the retriever {text!r}: unknown parameter {unknown[0]!r}{hint}")
    return RETRIEVERS[name](**settings)


def _run_file(text: str) -> str:
    """Return the file of ``NAME=RUNFILE``, or an empty string."""
    name, _, path = text.partition("=")
    return path if name and text.partition(":")[0] not in RETRIEVERS else ""


def _runs_relative(texts: list[str], info: ValidationInfo) -> tuple[str, ...]:
    """Resolve the files of runs against the folder of the configuration."""
    return tuple(
        f"{text.partition('=')[0]}={resolve_path(path, info)}"
        if (path := _run_file(text))
        else text
        for text in texts
    )


_RETRIEVERS = Annotated[
    list[str], AfterValidator(_runs_relative), Field(description="a list of names")
]


def make_generator(text: str, *, ledger: Ledger | None = None, **options: Any) -> MakeGenerator:
    """Return a function that builds the generator of a task, with LaMP's prompt.

    Args:
        text: ``KIND:MODEL`` with a kind from `fairtk.llm.list_model_kinds`, e.g.
            ``t5:google/flan-t5-small``. To use one model with two dtypes, add the dtype to the
            kind, ``t5-bfloat16:MODEL``; the study then reports how many labels differ.
        ledger: stores the answers of chat models and limits their cost; `None` to store them in
            the study's store, without a limit.
        **options: settings of the model.

    Raises:
        NotFoundError: the kind of model or a setting is unknown.
        ParameterError: the model's name is missing, or a setting is invalid.
    """
    spec, text_settings = parse_model(text, "answers", "generator")
    # labels depend on small differences
    settings = {**spec.exact, **text_settings, **with_none(options)}
    if spec.stage is not None:
        check_settings(spec, settings)
        stage = spec.load(spec.stage)
        return lambda task, cutoff, truncation="keep-question": stage(
            prompt=_prompt(task, truncation), cutoff=cutoff, **settings
        )
    model = build_model(spec, settings)
    if ledger is not None and not (model.local or isinstance(model, FunctionModel)):
        model = ledger.wrap(model)
    return lambda task, cutoff, truncation="keep-question": Generator(
        model, _prompt(task, truncation), cutoff
    )


def _prompt(task: int, truncation: str) -> prompts.PromptBuilder:
    return prompts.get(f"lamp-{task}", truncate=TRUNCATIONS[truncation])


@dataclass(frozen=True)
class RagConfiguration(Configuration):
    """The configuration of the *Towards Fair RAG* study.

    `data` has ``folder``, ``tasks`` (numbers) and ``split``, or ``datasets`` (ids). `retrievers`
    are arguments of `make_retriever`, `models` of `make_generator`.
    """

    settings: RagSettings = field(default_factory=RagSettings)
    output: str = "fair-rag-study"
    models: Sequence[str] = ("t5:google/flan-t5-small",)
    retrievers: Sequence[str] = ("bm25",)

    DATA: ClassVar[Kinds] = {
        "folder": PATH,
        "datasets": NAMES,
        "tasks": NUMBERS,
        "split": STRING,
    }
    SETTINGS: ClassVar[Kinds] = RagSettings.kinds()
    FIELDS: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "generators": ("models", NAMES),
        "retrievers": ("retrievers", _RETRIEVERS),
        "options": ("options", TABLES),
    }

    @property
    def tasks(self) -> list[LampTask]:
        """The tasks of the folder or the datasets."""
        numbers = self.data.get("tasks", ())
        if "folder" in self.data:
            return read_tasks(self.data["folder"], numbers, self.data.get("split", "dev"))
        ids = self.data["datasets"]
        if numbers:
            raise InputError(
                f"{', '.join(ids)}: `tasks` is only valid for a folder; a dataset id names its "
                "task, e.g. lamp/4/dev"
            )
        return [LampTask(name) for name in ids]

    def with_server(self, settings: Mapping[str, Any]) -> RagConfiguration:
        """Return a copy with settings for the generators that have them.

        Raises:
            InputError: a setting is for servers, but no generator is on a server.
            NotFoundError: no generator has a setting.
        """
        options = dict(self.options)
        for name, spec in self._specs.items():
            if own := {s: value for s, value in settings.items() if spec.has_setting(s)}:
                options[name] = {**options.get(name, {}), **own}
        for setting, value in settings.items():
            if not any(spec.has_setting(setting) for spec in self._specs.values()):
                check_settings(next(iter(self._specs.values())), {setting: value})
                self.require_server([setting])
        return replace(self, options=options)

    @property
    def _specs(self) -> dict[str, ChatModelSpec]:
        """The kind of each generator."""
        return {name: parse_model(name, "answers", "generator")[0] for name in self.models}

    def require_server(self, options: Iterable[str]) -> list[str]:
        """Return the generators that call a server.

        Args:
            options: the options that require such a generator, for messages.

        Raises:
            InputError: no generator calls a server.
        """
        names = [name for name, spec in self._specs.items() if spec.server]
        if not names:
            specs = list_model_kinds("answers").items()
            kinds = ", ".join(f"{kind}:MODEL" for kind, spec in specs if spec.server)
            raise InputError(
                f"a generator on a server ({kinds}) is required for {', '.join(options)}, got "
                f"{', '.join(self.models)}"
            )
        return names
