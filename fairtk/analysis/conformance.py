"""What each published definition is called in fairtk, and where the two depart, in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fairtk.conformity import plain
from fairtk.conformity.plain import Query, Values

Settings = dict[str, Any]
Cause = tuple[Callable[[Query, Settings], bool], str]
"""When a difference is expected, and why."""

EXPOSURE = ("EE_D", "EE_R", "EE_L")


@dataclass(frozen=True)
class Definition:
    """One published definition.

    Attributes:
        name: a short name.
        source: where it was published.
        values: gives the values of a query by plain Python.
        measures: gives, for some settings, fairtk's measure of each value.
        departures: where fairtk gives something else on purpose.
        by_group: whether groups and a target are needed.
        one_ranking: whether a query must have one ranking alone.
    """

    name: str
    source: str
    values: Callable[..., Values]
    measures: Callable[[Settings], dict[str, str]]
    departures: tuple[Cause, ...] = ()
    by_group: bool = False
    one_ranking: bool = False


def _few(query: Query, settings: Settings) -> bool:
    return len(query.documents) < int(settings["cutoff"])


def _tied(query: Query, settings: Settings) -> bool:
    return query.tied


def _useless(query: Query, settings: Settings) -> bool:
    return not query.useful


def _all_useful(query: Query, settings: Settings) -> bool:
    return len(query.useful) == len(query.labels) <= int(settings["cutoff"])


def _nothing(query: Query, settings: Settings) -> bool:
    return not query.rankings


def _unlabeled(query: Query, settings: Settings) -> bool:
    shown = [d for ranking in query.rankings for d in ranking[: settings["cutoff"]]]
    return not any(d in query.groups for d in shown)


_MISSING: Cause = (_nothing, "the run lacks the query: fairtk gives it the worst value")
_NO_USEFUL: Cause = (
    _useless,
    "no useful document: an ideal ranking of nothing means nothing, and the published code ends "
    "with an error; in fairtk EE-D has its value, all else is undefined (NaN)",
)


def _exposure(options: str) -> Callable[[Settings], dict[str, str]]:
    def named(settings: Settings) -> dict[str, str]:
        inside = options.format(**settings)
        return {part: f"{part}({inside})@{settings['cutoff']}" for part in EXPOSURE}

    return named


def _expeval(settings: Settings) -> dict[str, str]:
    u = settings["u"]
    model = f"RBP(p={settings['p']})" if u is None else f"GERR(p={settings['p']}, u={u})"
    form = f"browsing='{model}', variant='expeval', complete={settings['complete']}"
    graded = settings.get("graded", True)
    return {part: f"{part}({form}, graded={graded})" for part in EXPOSURE}


def _task1(settings: Settings) -> dict[str, str]:
    cut = f"@{settings['cutoff']}"
    return {
        "nDCG": f"nDCG_TREC{cut}",
        "AWRF": f"AWRF(groups={settings['groups']!r}){cut}",
        "Score": f"nDCG_AWRF(groups={settings['groups']!r}){cut}",
    }


PAPER = Definition(
    "paper",
    "Towards Fair RAG, Eqs. 3 to 6 and Appendix C",
    plain.paper,
    _exposure("graded=False"),
    (
        _MISSING,
        _NO_USEFUL,
        (
            _few,
            "the query has n < k documents: the paper divides by k, which no policy reaches, and "
            "the target of what is not useful is above 1; fairtk takes min(k, n) for k",
        ),
    ),
)
FAIR_RAG = Definition(
    "fair-rag",
    "the code of Towards Fair RAG",
    plain.fair_rag,
    _exposure("variant='fair-rag'"),
    (
        _MISSING,
        _NO_USEFUL,
        (
            _all_useful,
            "all n labeled documents are useful and fit into k: the code divides by n - m = 0; in "
            "fairtk EE-D has its value, EE-R and EE-L are undefined (NaN)",
        ),
    ),
)
EXPEVAL = Definition(
    "expeval",
    "diazf/expeval, the code of Diaz et al. 2020",
    plain.expeval,
    _expeval,
    (
        (
            _nothing,
            "the run lacks the query: expeval takes the upper bound of EE-R for EE-L; fairtk gives "
            "the worst value",
        ),
        _NO_USEFUL,
    ),
)
TASK1 = Definition(
    "trec2022-task1",
    "TREC Fair Ranking 2022, Task 1: guidelines and metric code",
    plain.task1,
    _task1,
    (
        _MISSING,
        _NO_USEFUL,
        (_unlabeled, "no document in the ranking has a group: 0 / 0; fairtk says undefined (NaN)"),
    ),
    by_group=True,
    one_ranking=True,
)
TASK2 = Definition(
    "trec2022-task2",
    "TREC Fair Ranking 2022, Task 2: guidelines and metric code",
    plain.task2,
    _exposure("groups={groups!r}"),
    (_MISSING, _NO_USEFUL),
    by_group=True,
)
TREC_EVAL = Definition(
    "trec_eval",
    "trec_eval's ndcg_cut",
    plain.trec_eval,
    lambda settings: {"nDCG": f"E(measure='nDCG@{settings['cutoff']}')"},
    (
        (
            _tied,
            "tied scores: on a run without samples trec_eval orders them by docno, whatever the "
            "ranks say, and the plain value follows the ranks (`fairtk doctor` shows how much ties "
            "move)",
        ),
    ),
)
DEFINITIONS = {d.name: d for d in (PAPER, FAIR_RAG, EXPEVAL, TASK1, TASK2, TREC_EVAL)}


def _m_below(query: Query, settings: Settings) -> bool:
    return 0 < len(query.useful) < int(settings["cutoff"])


def _foreign(query: Query, settings: Settings) -> bool:
    return bool(query.documents - set(query.labels))


def _graded(query: Query, settings: Settings) -> bool:
    return len({label for label in query.labels.values() if label > 0}) > 1


def _always(query: Query, settings: Settings) -> bool:
    return True


BETWEEN: tuple[tuple[str, str, tuple[str, ...], tuple[Cause, ...]], ...] = (
    (
        "paper",
        "fair-rag",
        EXPOSURE,
        (
            (
                _m_below,
                "m < k: the code gives documents that are not useful no target, though its bound "
                "counts them, so that even the ideal policy stays below 1",
            ),
            (_foreign, "n: the code counts labeled documents alone, not those only retrieved"),
            (_few, "n < k: the target of what is not useful is above 1"),
            (_all_useful, "all documents are useful: the code divides by 0"),
            (_useless, "no useful document: the code ends with an error"),
        ),
    ),
    (
        "paper",
        "expeval",
        EXPOSURE,
        (
            (
                _always,
                "expeval's user stops with probability 1 - p after each rank, the paper's machine "
                "user reads k ranks alike; expeval's bounds assume infinitely many documents, and "
                "its normalized EE-R is 1 wherever there is but one grade",
            ),
        ),
    ),
    (
        "trec2022-task1",
        "trec_eval",
        ("nDCG",),
        (
            (_graded, "TREC 2022 takes every useful document alike, trec_eval its label"),
            (
                _always,
                "the discount: 1 / log2(max(rank, 2)) in TREC 2022, where ranks 1 and 2 weigh the "
                "same; 1 / log2(rank + 1) in trec_eval",
            ),
        ),
    ),
)
"""Two definitions, what both define, and why they differ; all causes that apply are given."""


def causes(found: tuple[Cause, ...], query: Query, settings: Settings) -> Iterator[str]:
    """Yield why values of a query differ."""
    for applies, words in found:
        if applies(query, settings):
            yield words


def same(one: float, other: float, tolerance: float) -> bool:
    """Return whether two values agree, relative to the larger of 1 and themselves."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return abs(one - other) <= tolerance * max(1.0, abs(one), abs(other))
