"""The settings of the networks and of their training, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from fairtk.errors import ParameterError
from fairtk.exposure import MU, BrowsingModel
from fairtk.string_forms import as_position_model
from fairtk.transformers import whole
from fairtk_baselines.dlf.losses import DIVERGENCES, RELEVANCE_LOSSES
from fairtk_baselines.dlf.network import INPUTS
from fairtk_baselines.settings import choice, number

EXPOSURES = ("soft-rank", "top-one")
TRAIN_ON = ("alone", "blend")
_WHERE = "DLF"


@dataclass(frozen=True)
class Recipe:
    """How the two models are built and trained; see `DLF` for what each setting means."""

    hidden: tuple[int, ...]
    fairness_hidden: tuple[int, ...]
    inputs: tuple[str, ...]
    fairness_inputs: tuple[str, ...]
    cosine: float
    relevance_loss: str
    exposure: str
    temperature: float
    browsing: BrowsingModel
    cutoff: int | None
    train_on: str
    divergence: str
    smoothing: float
    epochs: int
    learning_rate: float
    weight_decay: float
    batch_size: int
    patience: int
    seed: int

    @classmethod
    def checked(cls, *, temperature: float | None, browsing: Any, **given: Any) -> Recipe:
        """Return the recipe that a user's settings make.

        Raises:
            ParameterError: a setting is out of its range.
        """
        exposure = _choice(given, "exposure", EXPOSURES)
        if temperature is None:
            temperature = 0.1 if exposure == "soft-rank" else 1.0
        model, cutoff = as_position_model(browsing, _WHERE), given["cutoff"]
        if isinstance(model, MU) and cutoff is None:
            raise ParameterError(
                f"{_WHERE}: browsing='MU' needs a cutoff: it reads all ranks alike"
            )
        return cls(
            hidden=_widths("hidden", given["hidden"]),
            fairness_hidden=_widths("fairness_hidden", given["fairness_hidden"]),
            inputs=_inputs("inputs", given["inputs"]),
            fairness_inputs=_inputs("fairness_inputs", given["fairness_inputs"]),
            cosine=number("cosine", given["cosine"], _WHERE),
            relevance_loss=_choice(given, "relevance_loss", RELEVANCE_LOSSES),
            exposure=exposure,
            temperature=number("temperature", temperature, _WHERE, ends="(]"),
            browsing=model,
            cutoff=None if cutoff is None else whole("cutoff", cutoff, _WHERE),
            train_on=_choice(given, "train_on", TRAIN_ON),
            divergence=_choice(given, "divergence", DIVERGENCES),
            # at 0, a group that no candidate belongs to makes the divergence infinite
            smoothing=number("smoothing", given["smoothing"], _WHERE, 0, 1, "()"),
            epochs=whole("epochs", given["epochs"], _WHERE, least=0),
            learning_rate=number("learning_rate", given["learning_rate"], _WHERE, 0, 1, "(]"),
            weight_decay=number("weight_decay", given["weight_decay"], _WHERE),
            batch_size=whole("batch_size", given["batch_size"], _WHERE),
            patience=whole("patience", given["patience"], _WHERE),
            seed=whole("seed", given["seed"], _WHERE, least=None),
        )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the settings, in order."""
        return tuple(f.name for f in fields(cls))


def _choice(given: dict[str, Any], name: str, known: tuple[str, ...]) -> str:
    return choice(name, given[name], known, _WHERE)


def _widths(setting: str, hidden: Sequence[int]) -> tuple[int, ...]:
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ParameterError(
            f"{_WHERE}: {setting} must list the width of each hidden layer, e.g. (32,); found "
            f"{hidden!r}"
        )
    return tuple(whole("the width of a hidden layer", width, _WHERE) for width in hidden)


def _inputs(setting: str, inputs: Sequence[str]) -> tuple[str, ...]:
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in names:
        choice(setting, name, INPUTS, _WHERE)
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            f"{_WHERE}: {setting} must name some of {INPUTS}, once; found {inputs!r}"
        )
    return tuple(name for name in INPUTS if name in names)
