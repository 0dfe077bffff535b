"""What DLF's models are trained for, and how: aims and recipe, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import MU, BrowsingModel
from fairtk.frames import BoolArray, FloatArray, ObjectArray
from fairtk.groups import Groups, Target
from fairtk.plugins import as_position_model
from fairtk_baselines.dlf.losses import DIVERGENCES, RELEVANCE_LOSSES

INPUTS = ("query", "document", "product")
MOST_GROUPS = 1 << 10
UNLABELED = ("drop", "unknown", "uniform")
UNKNOWN = ("keep", "drop")
_WHERE = "DLF"

_Kind = TypeVar("_Kind", Groups, Target)


@dataclass(frozen=True)
class Aim:
    """One attribute (or several crossed ones) and its target; see `DLF` for the settings."""

    groups: Groups
    target: Target
    unlabeled: str
    unknown: str

    def memberships(self, docnos: ObjectArray) -> FloatArray:
        """Return how much each document belongs to each group; shape (n, n_groups)."""
        found = self.groups.memberships(docnos, self.unlabeled)
        document = np.repeat(np.arange(len(docnos)), found.size)
        table = np.zeros((len(docnos), self.groups.space.size))
        table[document, found.cell] = found.weight
        return table * self._counted()

    def shares(self, qids: ObjectArray) -> FloatArray:
        """Return each query's target; shape (n, n_groups), 0 for a query without one."""
        shares = self.target.for_qids(qids).expanded().dense() * self._counted()
        total = shares.sum(axis=1, keepdims=True)
        result: FloatArray = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
        return result

    def _counted(self) -> BoolArray:
        space = self.groups.space
        if self.unknown == "keep":
            return np.ones(space.size, dtype=bool)
        return space.known(np.arange(space.size, dtype=np.int64))


def checked_aims(
    groups: Groups | Sequence[Groups],
    target: Target | Sequence[Target],
    unlabeled: str,
    unknown: str,
) -> tuple[Aim, ...]:
    """Return the aims that a user's groups and targets make."""
    every = _several(groups, Groups, "groups")
    targets = _several(target, Target, "target")
    if len(every) != len(targets):
        raise ParameterError(
            f"DLF: every groups needs its target, in the same order; found {len(every)} groups "
            f"and {len(targets)} targets"
        )
    twice = [g.name for i, g in enumerate(every) if g.name in [o.name for o in every[:i]]]
    if twice:
        raise ParameterError(f"DLF: the groups {twice[0]!r} are given twice")
    aims = []
    for one, wanted in zip(every, targets, strict=True):
        if one.space.size > MOST_GROUPS:
            raise ParameterError(
                f"DLF: {one.name!r} has {one.space.size} groups, and at most {MOST_GROUPS} can be "
                "trained for: give the attributes one by one, groups=[a, b]"
            )
        try:
            fitting = wanted.for_groups(one)
        except InputError as error:
            raise InputError(f"DLF: groups {one.name!r}: {error}") from None
        aim = Aim(one, fitting, unlabeled, unknown)
        if not aim._counted().any():
            raise ParameterError(
                f"DLF: {one.name!r} has no known level, so unknown='drop' leaves nothing"
            )
        aims.append(aim)
    return tuple(aims)


def _several(given: object, kind: type[_Kind], name: str) -> list[_Kind]:
    items = [given] if isinstance(given, kind) else given
    if not (isinstance(items, list | tuple) and items and all(isinstance(i, kind) for i in items)):
        raise ParameterError(
            f"DLF: {name} must be a {kind.__name__} or a list of them; found {given!r}"
        )
    return list(items)


def _widths(setting: str, hidden: Any, where: str) -> tuple[int, ...]:
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ParameterError(
            f"{where}: {setting} must list the width of each hidden layer, e.g. (32,); found "
            f"{hidden!r}"
        )
    return tuple(checks.whole("the width of a hidden layer", width, where) for width in hidden)


def _inputs(setting: str, inputs: Any, where: str) -> tuple[str, ...]:
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in names:
        checks.choice(setting, name, INPUTS, where)
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            f"{where}: {setting} must name some of {INPUTS}, once; found {inputs!r}"
        )
    return tuple(name for name in INPUTS if name in names)


def _browsing(name: str, value: Any, where: str) -> BrowsingModel:
    return as_position_model(value, where)


def _cutoff(name: str, value: Any, where: str) -> int | None:
    return None if value is None else checks.whole(name, value, where)


def _checked(check: Callable[..., Any], **settings: Any) -> Any:
    return field(metadata={"check": partial(check, **settings)})


@dataclass(frozen=True)
class Recipe:
    """How the two models are built and trained; see `DLF` for what each setting means."""

    hidden: tuple[int, ...] = _checked(_widths)
    fairness_hidden: tuple[int, ...] = _checked(_widths)
    inputs: tuple[str, ...] = _checked(_inputs)
    fairness_inputs: tuple[str, ...] = _checked(_inputs)
    cosine: float = _checked(checks.number)
    relevance_loss: str = _checked(checks.choice, choices=RELEVANCE_LOSSES)
    exposure: str = _checked(checks.choice, choices=("soft-rank", "top-one"))
    temperature: float = _checked(checks.number, ends="(]")
    browsing: BrowsingModel = _checked(_browsing)
    cutoff: int | None = _checked(_cutoff)
    train_on: str = _checked(checks.choice, choices=("alone", "blend"))
    divergence: str = _checked(checks.choice, choices=DIVERGENCES)
    # at 0, a group that no candidate belongs to makes the divergence infinite
    smoothing: float = _checked(checks.number, least=0, most=1, ends="()")
    epochs: int = _checked(checks.whole, least=0)
    learning_rate: float = _checked(checks.number, least=0, most=1, ends="(]")
    weight_decay: float = _checked(checks.number)
    batch_size: int = _checked(checks.whole)
    patience: int = _checked(checks.whole)
    seed: int = _checked(checks.whole, least=None)

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Recipe:
        """Return the recipe that a user's settings make."""
        settings = {name: given[name] for name in cls.names()}
        if settings["temperature"] is None:
            settings["temperature"] = 1.0 if settings["exposure"] == "top-one" else 0.1
        for one in fields(cls):
            check = one.metadata["check"]
            settings[one.name] = check(one.name, settings[one.name], where=_WHERE)
        if isinstance(settings["browsing"], MU) and settings["cutoff"] is None:
            raise ParameterError(
                f"{_WHERE}: browsing='MU' needs a cutoff: it reads all ranks alike"
            )
        return cls(**settings)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the settings, in order."""
        return tuple(f.name for f in fields(cls))
