"""Fixed targets of a study: what groups should have whatever the topic, known before the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk import checks
from fairtk.errors import FormatError, InputError, NotFoundError, ParameterError
from fairtk.groups import Groups, Target
from fairtk.report import CORRECTIONS
from fairtk.studies.frame import (
    ENGINE,
    LEDGER,
    NAMES,
    PLACE,
    SEVERAL,
    TABLE,
    TABLES,
    TEXT,
    Kinds,
    read_config,
)

UNIFORM = "uniform"
SUFFIX = " (fixed target)"


def fixed_targets(
    targets: Mapping[str, Any] | None, attributes: Mapping[str, tuple[Groups, Target]]
) -> dict[str, tuple[Groups, Target]]:
    """Return the attributes once more, with fixed targets, under a name that says so.

    Args:
        targets: by attribute; see `fixed_target`.
        attributes: groups and the target from judgments, by name.

    Raises:
        NotFoundError: there is no such attribute.
        InputError: the target has no such form, or names groups that no document has.
    """
    found = {}
    for name, target in (targets or {}).items():
        if name not in attributes:
            raise NotFoundError("attribute of [targets]", name, attributes)
        groups = attributes[name][0]
        found[name + SUFFIX] = (groups, fixed_target(target, groups, name))
    return found


def fixed_target(target: Any, groups: Groups, name: str) -> Target:
    """Return a target for all topics.

    Args:
        target: ``"uniform"`` (equal shares of the known levels), shares by level (for crossed
            attributes by attribute, as if independent), a file as `fairtk.Target.read` reads it,
            or a `fairtk.Target`.
        groups: the groups.
        name: the attribute, for messages.

    Raises:
        InputError: it has no such form, or names groups that no document has.
    """
    if isinstance(target, Target):
        return target.for_groups(groups)
    if target == UNIFORM:
        return Target.uniform(groups, unknown=False)
    if isinstance(target, Mapping):
        try:
            return Target.population(target, groups)
        except InputError as error:
            raise InputError(f"the target of {name!r}: {error}") from error
    if isinstance(target, str) and Path(target).exists():
        return Target.read(target, groups)
    raise InputError(
        f"the target of {name!r} must be {UNIFORM!r}, shares by group or a file that exists; found "
        f"{target!r}"
    )


NDCG = ("TREC", "trec_eval")
VARIED = (
    *("max_iterations", "depth", "k", "pool", "threshold", "temperature", "choose", "divergence"),
    *("smoothing", "prompt", "unlabeled", "split"),
)


@dataclass(frozen=True)
class Settings:
    """How a study is done.

    Attributes:
        systems: the systems by name; empty: all there are.
        cutoff: the ranks that are measured; 20 in the paper.
        candidates: how many of BM25's documents the rerankers reorder.
        folds: into how many parts topics are split for systems that are trained.
        seed: of folds, training and bootstrap.
        ndcg: ``"TREC"``: 1 / log2(max(rank, 2)) as in the track; ``"trec_eval"``:
            1 / log2(rank + 1). The paper does not say which.
        correction: of the p-values for the number of systems: ``"holm"``, ``"bonferroni"``,
            ``"fdr_bh"`` (Benjamini-Hochberg) or ``"none"``.
        level: below which p-value a difference is marked.
        confidence: of the bootstrap intervals.
        resamples: of the bootstrap.
        bm25: settings of `fairtk.transformers.CollectionBM25`.
        fair_qr: settings of `fairtk.FairQR`, for all systems that refine; re-ranking by exposure
            takes its ``k`` and ``pool`` from `options`.
        variations: values of settings of FAIR-QR that are tried one by one; see `VARIED`.
        options: settings of the other systems, by name.
        tuning: system to values of its settings (several such: a list), of which the best by the
            product are chosen for each fold on the other folds (`fairtk.tune`); None: all systems,
            with `fairtk.studies.fair_qr.systems`; empty: none.
    """

    systems: tuple[str, ...] = ()
    cutoff: int = 20
    candidates: int = 100
    folds: int = 4
    seed: int = 42
    ndcg: str = "TREC"
    correction: str = "holm"
    level: float = 0.05
    confidence: float = 0.95
    resamples: int = 9999
    bm25: Mapping[str, Any] = field(default_factory=dict)
    fair_qr: Mapping[str, Any] = field(default_factory=dict)
    variations: Mapping[str, Sequence[Any]] = field(
        default_factory=lambda: {
            "max_iterations": (1, 3, 5, 10),
            "depth": (10, 20, 50),
            "k": (20, 50, 100),
            "pool": ("last", "refined", "union"),
            "threshold": (0.02, 0.05, 0.1, 0.2),
            "choose": ("difference", "ratio"),
        }
    )
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tuning: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        if isinstance(self.systems, str) or not all(isinstance(s, str) for s in self.systems):
            raise ParameterError(
                f"the study: systems must be a list of names; found {self.systems!r}"
            )
        for name in ("cutoff", "candidates", "resamples"):
            checks.whole(name, getattr(self, name), "the study")
        checks.whole("folds", self.folds, "the study", least=2)
        checks.whole("seed", self.seed, "the study", least=0)
        if self.candidates < self.cutoff:
            raise ParameterError(
                f"the study: candidates ({self.candidates}) must not be below cutoff "
                f"({self.cutoff}): rerankers could not fill the ranks that are measured"
            )
        for name, known in (("ndcg", NDCG), ("correction", CORRECTIONS)):
            if getattr(self, name) not in known:
                raise ParameterError(
                    f"the study: {name} must be one of {known}; found {getattr(self, name)!r}"
                )
        for name in ("level", "confidence"):
            value = getattr(self, name)
            if not (isinstance(value, float) and 0 < value < 1):
                raise ParameterError(f"the study: {name} must lie between 0 and 1; found {value!r}")
        for name, values in self.variations.items():
            if name not in VARIED:
                raise NotFoundError("setting to vary", name, VARIED)
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise ParameterError(
                    f"the study: variations of {name} must be a list; found {values!r}"
                )

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self)

    def check_folds(self, topics: int) -> None:
        """Raise a `ParameterError` if more folds are asked for than there are topics."""
        if topics < self.folds != Settings.folds:  # the default is as many as there can be
            raise ParameterError(
                f"the study: {topics} topics cannot be split into {self.folds} folds; ask for at "
                f"most {topics}"
            )

    def changed(self, **given: Any) -> Settings:
        """Return the settings with those that are not None in place of the present ones."""
        return replace(self, **{k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True)
class StudyFile:
    """A study's configuration file.

    Attributes:
        data: ``folder`` or ``dataset``, ``split``, ``attributes``, ``query``, ``keywords``,
            ``targets`` (fixed ones, by attribute).
        output: where results go.
        settings: how the study is done.
        llms: of each model ``backend``, its settings, and a ``name`` where there are several.
        retrievers: of each retriever ``kind``, its settings and ``name``; empty: BM25 alone.
        ledger: ``path``, ``offline``, ``max_calls``, ``max_cost``, ``prices``,
            ``retry_unusable``.
        engine: ``executor``, ``workers``, ``threads``, ``batch_size``.
    """

    data: Mapping[str, Any]
    output: str | None
    settings: Settings
    llms: Sequence[Mapping[str, Any]] = ()
    retrievers: Sequence[Mapping[str, Any]] = ()
    ledger: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def llm(self) -> Mapping[str, Any]:
        """The settings of the first model."""
        return self.llms[0] if self.llms else {}


DATA: Kinds = {
    "folder": PLACE,
    "dataset": TEXT,
    "split": TEXT,
    "attributes": NAMES,
    "query": TEXT,
    "keywords": PLACE,
    "targets": TABLE,
}
_SETTINGS: Kinds = {
    **{f.name: Any for f in fields(Settings) if f.name != "fair_qr"},
    "systems": NAMES,
    **dict.fromkeys(("bm25", "fair-qr", "variations"), TABLE),
    **dict.fromkeys(("options", "tuning"), TABLES),
}
_KINDS: Kinds = {
    **DATA,
    **_SETTINGS,
    "output": PLACE,
    "llm": SEVERAL,
    "retriever": SEVERAL,
    "ledger": LEDGER,
    "engine": ENGINE,
}


def read_study(path: str | PathLike[str]) -> StudyFile:
    """Read a configuration: TOML, with the keys that ``fairtk qr --help`` names.

    Relative paths in it are relative to the file.

    Raises:
        FormatError: the file cannot be read, a key is unknown, or a value is of the wrong kind.
    """
    place = Path(path)
    table = read_config(place, _KINDS)
    if ("folder" in table) == ("dataset" in table):
        raise FormatError("give either 'folder' or 'dataset'", place)
    targets = table.get("targets", {})
    for name, target in targets.items():
        if isinstance(target, str) and target != UNIFORM:
            targets[name] = str(place.parent / Path(target).expanduser())
    settings = {key: table[key] for key in _SETTINGS if key in table}
    refining = {k.replace("-", "_"): v for k, v in settings.pop("fair-qr", {}).items()}
    settings["systems"] = tuple(table.get("systems", ()))
    try:
        made = Settings(**settings, fair_qr=refining)
    except (ParameterError, NotFoundError) as error:
        raise FormatError(str(error), place) from None
    llms, retrievers = (
        tables if isinstance(tables, list) else [tables]
        for tables in (table.get("llm", []), table.get("retriever", []))
    )
    data = {key: table[key] for key in DATA if key in table}
    more = (table.get("ledger", {}), table.get("engine", {}))
    return StudyFile(data, table.get("output"), made, llms, retrievers, *more)
