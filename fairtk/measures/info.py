"""`MeasureInfo`: what tables, pages and figures need to know about a measure, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fairtk.measures.base import FairMeasure, about_and_caveat, owner_of, value_bounds
from fairtk.measures.parsing import format_measure


@dataclass(frozen=True, eq=False, repr=False)
class MeasureInfo(str):
    """The label of a measure, with what tables need to know about the measure.

    It is equal to its label, so it also names the column of the measure in tables. It does not
    need the measure, so results are the same without the plugin that defines the measure.

    Attributes:
        label: the measure in the form that `fairtk.measures.parse` reads, e.g. ``"E(nDCG@5)"``.
        name: the name of the measure in strings, e.g. ``"E"``.
        params: the parameters that are set, by name; groups and targets as text.
        full_name: the full name; that of the measure inside for ``E(...)``.
        better: the better direction, ``"higher"`` or ``"lower"``.
        about: what the values are about, as the end of a sentence.
        caveat: what the values do not show, as a clause; ``""`` if unknown.
        bounds: the smallest and the largest value; `None` if unbounded or unknown.
        compares_queries: whether the mean is instead a comparison of groups of queries, as with
            ``ByGroup(m, by="query")``: the values of queries are then those of the measure inside,
            and there is no test over queries.
        reads_groups: whether values depend on groups of documents.
        has_sampling_bias: whether values of sampled rankings have a bias that
            `fairtk.Results.sampling_bias` estimates.
        owner: the plugin, with its version, or the module that defines the measure.
        parts: the measures that it is computed from.
    """

    label: str
    name: str
    params: Mapping[str, Any]
    full_name: str
    better: str
    about: str
    caveat: str
    bounds: tuple[float | None, float | None]
    compares_queries: bool
    reads_groups: bool
    has_sampling_bias: bool
    owner: str
    parts: tuple[MeasureInfo, ...] = ()

    def __new__(cls, label: str, *values: Any, **fields: Any) -> MeasureInfo:
        """Return a string that is the label."""
        return super().__new__(cls, label)

    @classmethod
    def of(cls, measure: Any) -> MeasureInfo:
        """Return the information about a measure of fairtk, a plugin or ir_measures."""
        low, high = (end if math.isfinite(end) else None for end in value_bounds(measure))
        shared = {
            "label": format_measure(measure),
            "name": measure.NAME,
            "params": dict(measure.params),
            "bounds": (low, high),
            "owner": owner_of(measure),
        }
        if isinstance(measure, FairMeasure):
            return cls(
                **shared,
                full_name=measure.full_name,
                better=measure.better,
                about=measure.about,
                caveat=measure.caveat,
                compares_queries=measure.compares_queries,
                reads_groups=measure.reads_groups,
                has_sampling_bias=measure.has_sampling_bias,
                parts=tuple(map(cls.of, measure.parts)),
            )
        about, caveat = about_and_caveat(measure)
        return cls(
            **shared,
            full_name=str(getattr(measure, "PRETTY_NAME", None) or ""),
            better=str(getattr(measure, "better", "higher")),
            about=about,
            caveat=caveat,
            compares_queries=False,
            reads_groups=False,
            has_sampling_bias=False,
        )

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> MeasureInfo:
        """Return the information of a JSON object, which `as_json` wrote."""
        parts = tuple(map(cls.read, record["parts"]))
        return cls(**{**record, "bounds": tuple(record["bounds"]), "parts": parts})

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest value; infinite if unbounded or unknown."""
        low, high = self.bounds
        return -math.inf if low is None else low, math.inf if high is None else high

    def with_parts(self) -> Iterator[MeasureInfo]:
        """Yield the measure, and all measures that it is computed from."""
        yield self
        for part in self.parts:
            yield from part.with_parts()

    def matches(self, name: str, params: Mapping[str, Any]) -> bool:
        """Return whether the measure has a name and, among others, these parameters."""
        return self.name == name and all(
            key in self.params and self.params[key] == value for key, value in params.items()
        )
