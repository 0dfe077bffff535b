"""Counting where values agree, where they depart for a known cause, and where nobody knows why."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from fairtk.conformity.definitions import BETWEEN, DEFINITIONS, Definition, Settings, causes, same
from fairtk.conformity.outcome import Conformity
from fairtk.conformity.plain import Query, Values

NAN = math.nan
CLOSE = 1e-9
OF_32_BITS = 1e-5
"""TREC's code takes discounts as 32-bit floats, so that its numbers have seven digits."""

_TABLE = ["definition", "value", "measure", "queries", "agree", "departs", "unexplained", "largest"]
_PUBLISHED = ["published", "reproduced"]
_DIFFERENCES = ["one", "other", "value", "cause", "queries", "largest"]


def plain_values(definition: Definition, query: Query, settings: Settings) -> Values:
    """Return the plain values of a query; none where the definition ends with an error."""
    try:
        return definition.values(query, **settings)
    except (ZeroDivisionError, IndexError, ValueError):
        return {}


class Tally:
    """What has been compared.

    Args:
        published: whether there are published numbers to reproduce.
    """

    def __init__(self, published: bool) -> None:
        self._published = published
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._measures: dict[tuple[str, str], dict[str, None]] = {}
        self._causes: dict[tuple[str, str, str, str], list[float]] = {}

    def add(
        self,
        definition: Definition,
        settings: Settings,
        queries: dict[str, Query],
        ours: dict[str, tuple[str, list[float]]],
        published: dict[str, Values] | None = None,
    ) -> None:
        """Compare fairtk's values with the plain ones, and with published ones.

        Args:
            definition: the definition.
            settings: its settings.
            queries: the queries, in the order of the values.
            ours: fairtk's measure of each value, and its value for each query.
            published: the published values of each query.
        """
        plain = {qid: plain_values(definition, q, settings) for qid, q in queries.items()}
        for name, (measure, values) in ours.items():
            start: dict[str, Any] = dict.fromkeys([*_TABLE, *_PUBLISHED], 0)
            start |= {"definition": definition.name, "value": name, "measure": measure}
            row = self._rows.setdefault((definition.name, name), start)
            self._measures.setdefault((definition.name, name), {})[measure] = None
            for (qid, query), value in zip(queries.items(), values, strict=True):
                row["queries"] += 1
                other = plain[qid].get(name, NAN)
                why = list(causes(definition.departures, query, settings))
                if same(value, other, CLOSE):
                    row["agree"] += 1
                elif why:
                    row["departs"] += 1
                    self._note("fairtk", definition.name, name, why, value, other)
                else:
                    row["unexplained"] += 1
                    gap = abs(value - other)
                    row["largest"] = math.inf if math.isnan(gap) else max(row["largest"], gap)
                number = (published or {}).get(qid, {}).get(name, NAN)
                if not math.isnan(number) and not (why and not same(value, number, OF_32_BITS)):
                    row["published"] += 1
                    exact = OF_32_BITS if definition.by_group else CLOSE
                    row["reproduced"] += same(value, number, exact)

    def between(
        self, definition: Definition, settings: Settings, queries: dict[str, Query]
    ) -> None:
        """Compare a definition with others of the same thing, both by plain Python."""
        for one, other, names, reasons in BETWEEN:
            if one != definition.name:
                continue
            for query in queries.values():
                if not query.rankings:
                    continue
                first = plain_values(definition, query, settings)
                second = plain_values(DEFINITIONS[other], query, settings)
                for name in names:
                    a, b = first.get(name, NAN), second.get(name, NAN)
                    if not same(a, b, CLOSE):
                        why = list(causes(reasons, query, settings)) or ["not known"]
                        self._note(one, other, name, why, a, b)

    def outcome(self, source: str) -> Conformity:
        """Return what was found."""
        for key, row in self._rows.items():
            others = len(self._measures[key]) - 1
            row["measure"] += f" and {others} other settings" if others else ""
        columns = _TABLE + (_PUBLISHED if self._published else [])
        table = pd.DataFrame(list(self._rows.values()), columns=columns)
        rows = [
            [*key, len(gaps), max((g for g in gaps if not math.isnan(g)), default=NAN)]
            for key, gaps in sorted(self._causes.items(), key=lambda item: item[0][0] != "fairtk")
        ]
        return Conformity(table, pd.DataFrame(rows, columns=_DIFFERENCES), source)

    def _note(
        self, one: str, other: str, name: str, why: list[str], value: float, second: float
    ) -> None:
        key = one, other, name, "; ".join(why)
        self._causes.setdefault(key, []).append(abs(value - second))
