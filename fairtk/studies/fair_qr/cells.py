"""What tuning tries of each system by default."""

from __future__ import annotations

import inspect
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import NotFoundError, ParameterError
from fairtk.experiment import combinations
from fairtk.frames import QID, QUERY, digest, words
from fairtk.llm import Chat, ChatModel, Completion
from fairtk.plugins import registry
from fairtk.studies.fair_qr.settings import Settings
from fairtk.transformers import DEEP, EXPOSURE, FairQR, index_tokens

if TYPE_CHECKING:
    from fairtk.llm import Outcome
    from fairtk.studies.fair_qr.data import StudyData

_SEARCH = {"k1": (2.0,), "b": (0.4, 0.2, 0.75)}
"""BM25's, tried inside FAIR-QR, too: else its own tuning would be held against it."""
_THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.4)
GRIDS: Mapping[str, Any] = {
    "bm25": {"k1": (0.9, 0.6, 1.2, 2.0), "b": (0.4, 0.2, 0.75)},
    "fair-qr": (
        {
            "threshold": _THRESHOLDS,
            "choose": ("difference", "ratio"),
            "divergence": ("kl", "js"),
            "k": (20, 50),
        },
        {"threshold": _THRESHOLDS, "pool": ("refined",), "k": (20, 50)},
        {"threshold": _THRESHOLDS, "depth": (10, 50)},
        {"threshold": _THRESHOLDS, **_SEARCH},
    ),
    "fair-qr + exposure re-ranking": (
        {
            "weight": (1.0, 0.3, 0.5, 0.7, 1.5, 2.0),
            "k": (200, 100, 500),
            "max_iterations": (5, 0),
        },
        {"weight": (1.0, 0.5, 2.0), "max_iterations": (5, 0), **_SEARCH},
    ),
}
"""Of this room's systems: name to grids, the first values first where several are best."""


def tried_settings(
    given: Mapping[str, Any] | None, known: Sequence[str]
) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Return the settings that tuning tries, by system.

    Args:
        given: name to grids; None: the defaults of all systems that have some.
        known: the systems there are.

    Raises:
        NotFoundError: there is no such system.
        ParameterError: a grid is empty, or values are not a list.
    """
    if given is None:
        plugins = {e.name: e.value.grid for e in registry.study_systems.entries()}
        given = {n: g for n, g in {**plugins, **GRIDS}.items() if g and n in known}
    for name in given:
        if name not in known:
            raise NotFoundError("system to tune", name, known)
    return {n: tuple(combinations(g, f"tuning of {n!r}")) for n, g in given.items()}


BM25 = "bm25"
FAIR_QR = "fair-qr"
NOT_RERANKED = "fair-qr (no re-ranking)"
BY_EXPOSURE = "fair-qr + exposure re-ranking"
RANDOM = "random-terms"
"""The placebo: words by chance in place of the model's."""
REFINING = (FAIR_QR, NOT_RERANKED, BY_EXPOSURE, RANDOM)
OWN = (BM25, *REFINING)
TUNED = " (tuned)"
OF_BM25 = ("num_results", "k1", "b", "threads")
"""Settings of BM25: tuning may change them inside FAIR-QR, too."""

_PAPER = ("vector-search", "dlf", "deltr", "fa*ir", "mmr")
_FAIR_QR = {
    name: setting.default
    for name, setting in inspect.signature(FairQR).parameters.items()
    if setting.default is not setting.empty
}


@dataclass(frozen=True, eq=False)
class Cell:
    """One system for one attribute.

    Attributes:
        attribute: the attribute.
        system: the system's name.
        variation: the setting of FAIR-QR that is varied; empty in the main comparison.
        value: the value of that setting.
        options: the settings of the system.
        refines: whether the system is FAIR-QR.
        grid: settings of which the best are chosen; empty: those of `options` are used.
    """

    attribute: str
    system: str
    variation: str = ""
    value: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    refines: bool = False
    grid: tuple[Mapping[str, Any], ...] = ()

    @property
    def base(self) -> str:
        """The name of the system, tuned or not."""
        return self.system.removesuffix(TUNED) if self.grid else self.system

    @property
    def kind(self) -> str:
        """The name of the system, whatever model and retriever it is built on."""
        return self.base.partition(" [")[0]

    def at(self, settings: Mapping[str, Any]) -> Cell:
        """Return the cell of the system with some settings, which is not tuned."""
        options = {**self.options, **settings}
        return replace(self, system=self.base, options=options, grid=())

    @property
    def label(self) -> str:
        """What the cell is called: ``"fair-qr, depth=10"``."""
        return f"{self.system}, {self.variation}={self.value}" if self.variation else self.system

    @property
    def names(self) -> dict[str, str]:
        """What frames call the cell: ``attribute``, ``system``, ``variation``, ``setting``."""
        return {
            "attribute": self.attribute,
            "system": self.system,
            "variation": self.variation,
            "setting": "" if self.value is None else str(self.value),
        }


def systems(settings: Settings) -> tuple[str, ...]:
    """Return the systems of the main comparison, BM25 first, in the paper's order.

    Raises:
        NotFoundError: there is no such system.
        ParameterError: settings of BM25 or FAIR-QR are among those of the other systems.
    """
    known = _known()
    for name in (*settings.systems, *settings.options):
        if name not in known:
            raise NotFoundError("system", name, known)
    for name in settings.options:
        if name in OWN and name != BY_EXPOSURE:
            table = "bm25" if name == BM25 else "fair-qr"
            raise ParameterError(f"settings of {name!r} belong into [{table}], not into [options]")
    wanted = set(settings.systems or known) | {BM25}
    return tuple(name for name in known if name in wanted)


def _known() -> list[str]:
    given = registry.study_systems.names()
    known = [BM25, *(n for n in _PAPER if n in given)]
    known += [n for n in given if n not in known]
    return [*known, *REFINING]


def all_cells(
    settings: Settings, attributes: Mapping[str, Any], own_bm25: bool = True
) -> Iterator[Cell]:
    """Yield the cells: those without a language model first, so that nothing waits for one.

    What asks a model most, tuning of what refines, comes last: a budget may end before.

    Args:
        settings: how the study is done.
        attributes: by name.
        own_bm25: whether the retriever is the study's own, whose settings can be tuned.
    """
    names = systems(settings)
    tried = {n: g for n, g in tried_settings(settings.tuning, _known()).items() if n in names}
    if not own_bm25:
        for name in tried.keys() & OWN:
            tried[name] = tuple(one for one in tried[name] if not one.keys() & {*OF_BM25})
        tried = {name: grid for name, grid in tried.items() if grid}
    plain = [n for n in names if n not in REFINING]
    refining = {n: _refining(settings, n, tried.get(n, ())) for n in names if n in REFINING}
    for attribute in attributes:
        for name in plain:
            cell = Cell(attribute, name, options=settings.options.get(name, {}))
            yield cell
            if name in tried:
                yield replace(cell, system=name + TUNED, grid=tried[name])
    for attribute in attributes:
        for name, options in refining.items():
            yield Cell(attribute, name, options=options, refines=True)
    for attribute in attributes:
        for name, values in settings.variations.items() if FAIR_QR in names else ():
            for value in {repr(value): value for value in values}.values():
                options = {**refining[FAIR_QR], name: value}
                yield Cell(attribute, FAIR_QR, name, value, options, True)
    for attribute in attributes:
        for name, options in refining.items():
            if name in tried:
                yield Cell(attribute, name + TUNED, "", None, options, True, tried[name])


def _refining(
    settings: Settings, name: str, tried: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    own = settings.options.get(name, {})
    asked = {option for one in tried for option in one}.difference(OF_BM25)
    for option in (*settings.fair_qr, *own, *asked):
        if option not in _FAIR_QR:
            raise NotFoundError("setting of FairQR", option, _FAIR_QR)
    # Defaults are spelt out, so that a setting that is varied to its default is no cell of its
    # own. k stays when depth is varied: what is returned is not what is measured on the way.
    base = {option: value for option, value in _FAIR_QR.items() if value is not None}
    base |= {"depth": settings.cutoff, **settings.fair_qr}
    if name == BY_EXPOSURE:  # k and pool are other things there: what it chooses from
        deep = {"k": max(DEEP, settings.cutoff), "pool": "union"}
        return {**base, **deep, **own, "rerank": EXPOSURE}
    base = {"k": settings.cutoff, "pool": "last", **base}
    return {**base, "rerank": False} if name == NOT_RERANKED else base


READ = 20_000
"""Documents that are read for words."""
_FEW, _MANY = 0.01, 0.1  # shares of the documents that a word of middle frequency is in
_USUAL = 3  # words, where the model was not asked


class RandomTerms(ChatModel):
    """Adds words by chance in place of a model: what of a gain is there without any sense.

    Args:
        vocabulary: the words.
        counts: how many words each step adds, by original query; 3 in later steps, or without.
        seed: with the query, of the draws.
    """

    free: ClassVar[bool] = True
    reads_facts: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: Sequence[str],
        counts: Mapping[str, Sequence[int]] | None = None,
        seed: int = 42,
    ) -> None:
        self.vocabulary = tuple(vocabulary)
        self.counts = dict(counts or {})
        self.seed = seed

    @property
    def name(self) -> str:
        """``"random-terms"``."""
        return "random-terms"

    def parameters(self) -> dict[str, Any]:
        """Return digests of words and counts, and the seed."""
        return {**self._digests, "seed": self.seed}

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {"words": digest(self.vocabulary), "counts": digest(self.counts)}

    def __repr__(self) -> str:
        return f"RandomTerms({len(self.vocabulary)} words #{self._digests['words'][:8]})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the keywords of each chat with words by chance, as a JSON list."""
        for place, chat in enumerate(chats):
            query = str(chat.facts["query"])
            keywords = words(str(chat.facts["keywords"]))
            known = {word.lower() for word in keywords}
            before = len(known) - len({word.lower() for word in words(query)})
            own = [max(1, count) for count in self.counts.get(query, ())]
            step = int(np.searchsorted(np.cumsum(own), before, side="right"))
            count = own[step] if step < len(own) else _USUAL
            random = np.random.default_rng(int(digest([self.seed, query, before]), 16))
            left = [word for word in self.vocabulary if word not in known]
            added = random.choice(left, min(count, len(left)), replace=False).tolist()
            yield place, Completion(json.dumps([*keywords, *added]), 0, 0, 0.0)


def middle_words(documents: Iterable[Mapping[str, str]], retriever: Any) -> list[str]:
    """Return words that are neither rare nor frequent in the first documents, sorted.

    In 1 to 10 % of these (where that is no word, in two at least), of three letters or more, and
    none that the retriever drops.
    """
    found: Counter[str] = Counter()
    number = 0
    for document in itertools.islice(documents, READ):
        number += 1
        found.update({word for word in words(document["text"].lower()) if len(word) > 2})
    tokens = index_tokens(retriever)
    good = [w for w in found if w.isalpha() and (tokens is None or tokens(w))]
    middle = [w for w in good if max(2.0, _FEW * number) <= found[w] <= _MANY * number]
    return sorted(middle or [w for w in good if found[w] > 1] or good)


def random_terms(
    data: StudyData, retriever: Any, traces: Mapping[Cell, pd.DataFrame], cell: Cell, seed: int
) -> RandomTerms:
    """Return what adds as many words as the model added in FAIR-QR's own loop.

    Args:
        data: the study's.
        retriever: the study's.
        traces: what FAIR-QR did, by cell.
        cell: the placebo's cell.
        seed: of the draws.
    """
    texts = dict(zip(data.topics[QID], data.topics[QUERY], strict=True))
    counts: dict[str, list[int]] = {}
    for own, trace in traces.items():
        if own.system == FAIR_QR and own.attribute == cell.attribute and not own.variation:
            for row in trace[trace["iteration"] > 0].itertuples() if len(trace) else ():
                counts.setdefault(texts[row.qid], []).append(len(row.added.split()))
    return RandomTerms(middle_words(data.documents(), retriever), counts, seed)
