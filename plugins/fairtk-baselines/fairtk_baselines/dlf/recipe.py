"""The settings of the networks and of their training, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from fairtk.errors import ParameterError, suggestion
from fairtk.exposure.browsing import MU, BrowsingModel
from fairtk.string_forms import as_position_model
from fairtk.transformers.settings import whole
from fairtk_baselines.dlf.losses import DIVERGENCES, RELEVANCE_LOSSES
from fairtk_baselines.dlf.network import INPUTS

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
    def checked(
        cls,
        *,
        hidden: Sequence[int],
        fairness_hidden: Sequence[int],
        inputs: Sequence[str],
        fairness_inputs: Sequence[str],
        temperature: float | None,
        browsing: str | BrowsingModel,
        cutoff: int | None,
        **given: Any,
    ) -> Recipe:
        """Return the recipe that a user's settings make.

        Raises:
            ParameterError: a setting is out of its range.
        """
        exposure = choice("exposure", given["exposure"], EXPOSURES)
        if temperature is None:
            temperature = 0.1 if exposure == "soft-rank" else 1.0
        model = as_position_model(browsing, _WHERE)
        deepest = None if cutoff is None else whole("cutoff", cutoff, _WHERE)
        if isinstance(model, MU) and deepest is None:
            raise ParameterError(
                f"{_WHERE}: browsing='MU' needs a cutoff: it reads all ranks alike"
            )
        return cls(
            hidden=_widths("hidden", hidden),
            fairness_hidden=_widths("fairness_hidden", fairness_hidden),
            inputs=_inputs("inputs", inputs),
            fairness_inputs=_inputs("fairness_inputs", fairness_inputs),
            cosine=number("cosine", given["cosine"], 0.0),
            relevance_loss=choice("relevance_loss", given["relevance_loss"], RELEVANCE_LOSSES),
            exposure=exposure,
            temperature=number("temperature", temperature, 0.0, open_below=True),
            browsing=model,
            cutoff=deepest,
            train_on=choice("train_on", given["train_on"], TRAIN_ON),
            divergence=choice("divergence", given["divergence"], DIVERGENCES),
            smoothing=_smoothing(given["smoothing"]),
            epochs=whole("epochs", given["epochs"], _WHERE, least=0),
            learning_rate=number(
                "learning_rate", given["learning_rate"], 0.0, 1.0, open_below=True
            ),
            weight_decay=number("weight_decay", given["weight_decay"], 0.0),
            batch_size=whole("batch_size", given["batch_size"], _WHERE),
            patience=whole("patience", given["patience"], _WHERE),
            seed=whole("seed", given["seed"], _WHERE, least=None),
        )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the settings, in order."""
        return tuple(f.name for f in fields(cls))


def number(
    name: str, value: Any, least: float, most: float = math.inf, *, open_below: bool = False
) -> float:
    """Return a setting as a float.

    Raises:
        ParameterError: it is no finite number from `least` to `most`; `open_below` leaves out
            `least` itself.
    """
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (fits and (value > least if open_below else value >= least) and value <= most):
        if most < math.inf:
            wanted = f"lie in {'(' if open_below else '['}{least:g}, {most:g}]"
        else:
            wanted = f"be a number {'above' if open_below else 'of at least'} {least:g}"
        raise ParameterError(f"{_WHERE}: {name} must {wanted}; found {value!r}")
    return float(value)


def choice(name: str, value: Any, known: Sequence[str]) -> str:
    """Return a setting that is one of some words.

    Raises:
        ParameterError: it is none of them.
    """
    if value not in known:
        near = suggestion(str(value), known) if isinstance(value, str) else ""
        raise ParameterError(
            f"{_WHERE}: {name} must be one of {tuple(known)}; found {value!r}{near}"
        )
    return str(value)


def _widths(setting: str, hidden: Sequence[int]) -> tuple[int, ...]:
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ParameterError(
            f"{_WHERE}: {setting} must list the width of each hidden layer, e.g. (32,); found "
            f" {hidden!r}"
        )
    return tuple(whole("the width of a hidden layer", width, _WHERE) for width in hidden)


def _inputs(setting: str, inputs: Sequence[str]) -> tuple[str, ...]:
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    for name in names:
        choice(setting, name, INPUTS)
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            f"{_WHERE}: {setting} must name some of {INPUTS}, once; found {inputs!r}"
        )
    return tuple(name for name in INPUTS if name in names)


def _smoothing(value: Any) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not (fits and 0 < value < 1):
        raise ParameterError(
            f"{_WHERE}: smoothing must lie between 0 and 1, both excluded (at 0, a group that "
            f"no candidate belongs to makes the divergence infinite); found {value!r}"
        )
    return float(value)
