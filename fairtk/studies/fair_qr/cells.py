"""The cells of a study: each system, and each variation of FAIR-QR, for each attribute."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairtk.errors import NotFoundError, ParameterError
from fairtk.fair_qr.ordering import EXPOSURE
from fairtk.fair_qr.pools import DEEP
from fairtk.fair_qr.transformer import FairQR
from fairtk.plugins import registry
from fairtk.studies.fair_qr.grids import tried_settings
from fairtk.studies.fair_qr.settings import Settings

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
