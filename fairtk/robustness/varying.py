"""Other choices that somebody could have made for a measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairtk.errors import InputError
from fairtk.evaluation.given_groups import FROM_QRELS, UNIFORM, GivenGroups
from fairtk.measures import FairMeasure

CHOICES = (
    "browsing", "patience", "cutoff", "target", "unlabeled", "bounds", "base", "judgments",
)  # fmt: skip
"""What can be varied; `judgments` is about labels that are missing, all others about measures."""

BROWSING = ("MU", "RBP(p=0.8)", "GERR(p=0.8, u=0.5)", "DCG", "TREC")
PATIENCE = (0.5, 0.7, 0.8, 0.9, 0.95)
CUTOFFS = (1, 3, 5, 10, 20, 50)
UNLABELED = ("drop", "unknown", "uniform", "best", "worst")
BOUNDS = ("paper", "exact")
BASES = ("e", 2)


@dataclass(frozen=True)
class Variant:
    """One measure with one choice made otherwise.

    Attributes:
        choice: one of `CHOICES`.
        setting: what was chosen, as a word.
        measure: the measure; None: it cannot be had so.
        why: why not.
    """

    choice: str
    setting: str
    measure: Any
    why: str = ""


def variants(
    measure: Any, choices: Sequence[str], cutoffs: Sequence[int], given: GivenGroups
) -> Iterator[Variant]:
    """Yield a measure with other settings, those that it has not now.

    Args:
        measure: the measure, complete with groups and target.
        choices: which choices are varied.
        cutoffs: for the choice ``"cutoff"``.
        given: the groups and targets that were given.
    """
    supported = getattr(measure, "SUPPORTED_PARAMS", {})
    own = supported if isinstance(measure, FairMeasure) else {}
    settings: dict[str, list[tuple[str, str, Any]]] = {
        "browsing": [("browsing", name, name) for name in BROWSING],
        "patience": [("browsing", f"p={p}", f"RBP(p={p})") for p in PATIENCE],
        "unlabeled": [("unlabeled", name, name) for name in UNLABELED],
        "bounds": [("bounds", name, name) for name in BOUNDS],
        "base": [("base", str(base), base) for base in BASES],
    }
    for choice in choices:
        if choice == "cutoff" and (cut := _cut(measure)) is not None:
            for k in cutoffs:
                yield from _made(choice, f"@{k}", measure, partial(cut, k))
        elif choice == "target" and "target" in getattr(measure, "params", {}):
            for target in dict.fromkeys((UNIFORM, FROM_QRELS, *given.targets)):
                make: Callable[[], Any] = partial(_aimed, measure, target, given)
                yield from _made(choice, str(getattr(target, "key", target)), measure, make)
        elif choice == "bounds" and getattr(measure, "params", {}).get("groups") is not None:
            continue  # the form by groups has none
        else:
            for name, setting, value in settings.get(choice, []):
                if name in own:
                    make = partial(_changed, measure, {name: value})
                    yield from _made(choice, setting, measure, make)


def _made(choice: str, setting: str, measure: Any, make: Any) -> Iterator[Variant]:
    try:
        made = make()
    except InputError as error:
        yield Variant(choice, setting, None, str(error))
        return
    if made != measure:
        yield Variant(choice, setting, made)


def _cut(measure: Any) -> Any:
    """Return what gives the measure another cutoff; None: it has none to change."""
    if getattr(measure, "NAME", "") == "E":
        inner = _cut(measure.inner)
        return None if inner is None else lambda k: type(measure)(measure=inner(k))
    if "cutoff" in getattr(measure, "params", {}):
        return lambda k: measure @ k
    return None


def _aimed(measure: Any, target: Any, given: GivenGroups) -> Any:
    other = GivenGroups(given.attributes, (target,), given.labels)
    return _changed(measure, {"target": other.target(measure["groups"], repr(measure))})


def _changed(measure: Any, params: dict[str, Any]) -> Any:
    return type(measure)(**{**measure.params, **params})
