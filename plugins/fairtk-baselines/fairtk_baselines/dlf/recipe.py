"""The settings of the networks and of their training, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from fairtk.errors import ParameterError
from fairtk.exposure import MU, BrowsingModel
from fairtk.string_forms import as_position_model
from fairtk.transformers import whole
from fairtk_baselines.dlf.losses import DIVERGENCES, RELEVANCE_LOSSES
from fairtk_baselines.settings import choice, number

INPUTS = ("query", "document", "product")
_WHERE = "DLF"


def _widths(setting: str, hidden: Any, where: str) -> tuple[int, ...]:
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ParameterError(
            f"{where}: {setting} must list the width of each hidden layer, e.g. (32,); found "
            f"{hidden!r}"
        )
    return tuple(whole("the width of a hidden layer", width, where) for width in hidden)


def _inputs(setting: str, inputs: Any, where: str) -> tuple[str, ...]:
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in names:
        choice(setting, name, INPUTS, where)
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            f"{where}: {setting} must name some of {INPUTS}, once; found {inputs!r}"
        )
    return tuple(name for name in INPUTS if name in names)


def _browsing(name: str, value: Any, where: str) -> BrowsingModel:
    return as_position_model(value, where)


def _cutoff(name: str, value: Any, where: str) -> int | None:
    return None if value is None else whole(name, value, where)


def _checked(check: Callable[..., Any], **settings: Any) -> Any:
    return field(metadata={"check": partial(check, **settings)})


@dataclass(frozen=True)
class Recipe:
    """How the two models are built and trained; see `DLF` for what each setting means."""

    hidden: tuple[int, ...] = _checked(_widths)
    fairness_hidden: tuple[int, ...] = _checked(_widths)
    inputs: tuple[str, ...] = _checked(_inputs)
    fairness_inputs: tuple[str, ...] = _checked(_inputs)
    cosine: float = _checked(number)
    relevance_loss: str = _checked(choice, known=RELEVANCE_LOSSES)
    exposure: str = _checked(choice, known=("soft-rank", "top-one"))
    temperature: float = _checked(number, ends="(]")
    browsing: BrowsingModel = _checked(_browsing)
    cutoff: int | None = _checked(_cutoff)
    train_on: str = _checked(choice, known=("alone", "blend"))
    divergence: str = _checked(choice, known=DIVERGENCES)
    # at 0, a group that no candidate belongs to makes the divergence infinite
    smoothing: float = _checked(number, least=0, most=1, ends="()")
    epochs: int = _checked(whole, least=0)
    learning_rate: float = _checked(number, least=0, most=1, ends="(]")
    weight_decay: float = _checked(number)
    batch_size: int = _checked(whole)
    patience: int = _checked(whole)
    seed: int = _checked(whole, least=None)

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
