"""`Scores`: what a measure knows about each query of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairtk.frames import BoolArray, FloatArray, IntArray, ObjectArray


@dataclass(frozen=True)
class Scores:
    """The values of a measure, and what a reader of them must know.

    Attributes:
        values: the value of each query, NaN if it is undefined; shape (n_queries,).
        undefined: the reasons for undefined values, each with a mask of the queries that it holds
            for; shape (n_queries,). A query may have several reasons; its first one is reported.
        counts: for kinds of remarks (`fairtk.remarks.KINDS`), how many things of each query they
            concern, e.g. documents; shape (n_queries,). A mask counts queries.
    """

    values: FloatArray
    undefined: Mapping[str, BoolArray] = field(default_factory=dict)
    counts: Mapping[str, IntArray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        values: FloatArray,
        reasons: Iterable[tuple[str, BoolArray]],
        counts: Mapping[str, IntArray] | None = None,
    ) -> Scores:
        """Return scores with NaN for the queries that are undefined for a reason.

        A mask of another shape is kept as it is, for the error that names the measure.
        """
        undefined: dict[str, BoolArray] = {}
        masked = np.zeros(np.shape(values), dtype=bool)
        for reason, mask in reasons:
            fits = np.shape(mask) == masked.shape
            undefined[reason] = undefined[reason] | mask if fits and reason in undefined else mask
            masked |= mask if fits else False
        return cls(np.where(masked, np.nan, values), undefined, counts or {})

    @property
    def reasons(self) -> ObjectArray:
        """The first reason of each undefined query, `None` for the others; shape (n_queries,)."""
        result = np.full(len(self.values), None, dtype=object)
        for reason, mask in reversed([*self.undefined.items()]):
            result[mask] = reason
        return result

    @classmethod
    def combined(cls, values: FloatArray, parts: Sequence[Scores]) -> Scores:
        """Return values that are computed from parts, with the reasons and counts of the parts."""
        undefined: dict[str, BoolArray] = {}
        counts: dict[str, IntArray] = {}
        for part in parts:
            for reason, mask in part.undefined.items():
                undefined[reason] = undefined.get(reason, False) | mask
            for kind, number in part.counts.items():
                counts[kind] = np.maximum(counts.get(kind, 0), number)
        return cls(values, {r: m & np.isnan(values) for r, m in undefined.items()}, counts)

    @classmethod
    def joined(cls, blocks: Sequence[Scores]) -> Scores:
        """Return the scores of all queries from those of blocks of queries."""
        if len(blocks) == 1:
            return blocks[0]
        sizes = [len(block.values) for block in blocks]

        def column(name: str, key: str, dtype: type) -> np.ndarray:
            parts = [getattr(block, name).get(key) for block in blocks]
            return np.concatenate(
                [
                    np.zeros(size, dtype) if part is None else part
                    for part, size in zip(parts, sizes, strict=True)
                ]
            )

        reasons = dict.fromkeys(reason for block in blocks for reason in block.undefined)
        kinds = dict.fromkeys(kind for block in blocks for kind in block.counts)
        return cls(
            np.concatenate([block.values for block in blocks]),
            {reason: column("undefined", reason, bool) for reason in reasons},
            {kind: column("counts", kind, np.int64) for kind in kinds},
        )
