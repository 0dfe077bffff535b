"""Whether prefixes of rankings are fair, for all queries at once.

`margin` says how fair prefixes of one length are: above 0 is fair, and more is further from unfair.
It takes the query of each prefix, shape (n,), and the documents of each group, (n, n_groups).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairtk.frames import FloatArray, IntArray
from fairtk_baselines.fa_star_ir.binomial import MTable
from fairtk_baselines.fa_star_ir.distribution import multinomial_cdf
from fairtk_baselines.fa_star_ir.multinomial import MultinomialTest


@dataclass(frozen=True)
class BinomialPrefixes:
    """FA*IR's m-table of each query, shape (n_queries, k), for one group: all that is protected."""

    needed: IntArray
    n_groups = 1

    @classmethod
    def of(cls, tables: Sequence[MTable | None], k: int) -> BinomialPrefixes:
        """Return the test of each query's m-table; None asks for nothing."""
        rows = [[0] * k if table is None else table.needed for table in tables]
        return cls(np.array(rows, dtype=np.int64).reshape(len(tables), k))

    @property
    def k(self) -> int:
        """Length of the longest prefix that is tested."""
        return int(self.needed.shape[1])

    def margin(self, query: IntArray, length: int, counts: IntArray) -> FloatArray:
        """Return how many documents more than needed a prefix has, and 1."""
        more = counts[:, 0] - self.needed[query, length - 1]
        return np.asarray(more + 1, dtype=np.float64)


@dataclass(frozen=True)
class MultinomialPrefixes:
    """The test of multinomial FA*IR for each query.

    Attributes:
        k: length of the longest prefix that is tested.
        p: minimum share of each group, 0 for groups that a query does not count; shape
            (n_queries, n_groups).
        limit: significance of each query's single tests; below 0: everything is fair; shape
            (n_queries,).
    """

    k: int
    p: FloatArray
    limit: FloatArray

    @classmethod
    def of(cls, tests: Sequence[MultinomialTest | None], k: int) -> MultinomialPrefixes:
        """Return the tests of the queries, side by side; None asks for nothing."""
        widest = max((len(test.p) for test in tests if test), default=1)
        p = np.zeros((len(tests), widest))
        limit = np.full(len(tests), -1.0)
        for row, test in enumerate(tests):
            if test:
                p[row, : len(test.p)] = test.p
                limit[row] = test.limit
        return cls(k, p, limit)

    @property
    def n_groups(self) -> int:
        """The most groups that a query counts."""
        return int(self.p.shape[1])

    def margin(self, query: IntArray, length: int, counts: IntArray) -> FloatArray:
        """Return the distribution function at the counts, less the query's significance."""
        return np.asarray(multinomial_cdf(counts, length, self.p[query]) - self.limit[query])


PrefixTest = BinomialPrefixes | MultinomialPrefixes
"""A test of prefixes, of its own for each query."""
