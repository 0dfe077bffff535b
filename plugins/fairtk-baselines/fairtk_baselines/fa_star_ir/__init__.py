"""FA*IR: enough protected documents in every prefix of a ranking.

`FAStarIR` reranks. `mtable` and `multinomial_test` are its tests, and `fail_probability` is the
probability that an m-table rejects a fair ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import DataWarning, ParameterError
from fairtk.frames import DOCNO, QID, RANK, SCORE, IntArray, Run
from fairtk.groups import Groups, Level, Target
from fairtk.measures import RemarkKind
from fairtk.transformers import FairTransformer, remark
from fairtk_baselines.fa_star_ir import counting, merging
from fairtk_baselines.fa_star_ir.prefix_tests import (
    ADJUST,
    MTable,
    MultinomialTest,
    fail_probability,
    mtable,
    multinomial_test,
)
from fairtk_baselines.levels import NO_TARGET, NO_TARGET_KIND

__all__ = [
    "FAStarIR",
    "MTable",
    "MultinomialTest",
    "fail_probability",
    "mtable",
    "multinomial_test",
]

_NO_FAIR_ORDER = "fairtk-baselines:no fair order"


class FAStarIR(FairTransformer):
    """R -> R: FA*IR, the order closest to the input whose prefixes have enough protected documents.

    Each prefix of the first `cutoff` documents is tested against random rankings with a share `p`
    of protected documents, and protected documents move up if a prefix would be rejected (Zehlike
    et al., CIKM 2017; for several groups IPM 2022). Output: the input's documents and columns,
    ``rank``, and ``score`` 0, -1, -2, ... The README describes the details that the papers leave
    open.

    Args:
        groups: the groups of the documents.
        p: the minimum share of protected documents: a number for all levels together; numbers by
            level, which are then protected; or a `Target` with shares per query.
        cutoff: the ranks to test.
        alpha: the probability of rejecting a random ranking with share p, in (0, 1).
        protected: a level or several; `None` for all known levels of a query except the one with
            the most exposure (1 / log2(max(rank, 2))) in the first `cutoff` documents of the input.
        test: ``"binomial"`` or ``"multinomial"``.
        adjust: the correction for testing every prefix; see `mtable`.
        merge_below: for ``"multinomial"``, the share below which levels are merged; `None` for
            1 / cutoff.
        samples: for ``"multinomial"``; see `multinomial_test`.
        seed: for ``"multinomial"``, the seed of these samples.

    Raises:
        InputError: a setting is out of range or does not fit the groups; in `transform`, a column
            is missing, the run is sampled, or rankings are invalid.
    """

    identity_name = "fairtk_baselines.FAStarIR"
    output_version = 1
    REMARKS: ClassVar[dict[str, RemarkKind]] = {
        NO_TARGET: NO_TARGET_KIND,
        _NO_FAIR_ORDER: RemarkKind(
            DataWarning,
            "{stage}: no order passes the test at all of the first {detail} ranks for {queries}, "
            "mostly because too few documents are protected; retrieve more documents, or use a "
            "smaller p (check shows the first rank that fails)",
        ),
    }
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("groups", "p", "cutoff", "alpha", "protected", "test", "adjust"),
        *("merge_below", "samples", "seed"),
    )

    def __init__(
        self,
        groups: Groups,
        p: float | Mapping[Any, float] | Target,
        cutoff: int = 20,
        alpha: float = 0.1,
        protected: str | Sequence[Level] | None = None,
        test: str = "binomial",
        adjust: str = "nearest",
        merge_below: float | None = None,
        samples: int = 10_000,
        seed: int = 42,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self._protection = counting.Protection.of(groups, p, protected, name)
        self.groups = groups
        self.p = self._protection.p
        self.cutoff = checks.integer("cutoff", cutoff, name)
        self.alpha = checks.number("alpha", alpha, name, 0, 1, "()")
        self.protected = None if isinstance(self.p, dict) else self._protection.levels
        self.test = checks.choice("test", test, ("binomial", "multinomial"), name)
        self.adjust = checks.choice("adjust", adjust, ADJUST, name)
        least = None if merge_below is None else checks.share("merge_below", merge_below, name)
        self.merge_below = least
        self.samples = checks.integer("samples", samples, name, least=100)
        self.seed = checks.integer("seed", seed, name, least=0)
        if test == "multinomial" and isinstance(self.p, float):
            raise ParameterError(
                f"{name}: for the multinomial test, p must be shares by level or a Target, got "
                f"{p!r}"
            )

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rerank the run (R: ``qid``, ``docno``, ``score``)."""
        run, counted = self._counted(inp)
        merged = merging.merge(run.ranking_start, counted.group, self._test(counted))
        self._remark(run, counted, merged.unfair)
        out = inp.take(run.order[merged.order]).reset_index(drop=True)
        out[SCORE] = 0.0 - run.position  # not -0.0
        out[RANK] = run.position
        return out

    def check(self, run: pd.DataFrame) -> pd.DataFrame:
        """Test a run without changing it.

        Returns:
            One row per query and protected group, with the columns ``qid``, ``group``, ``p`` (the
            minimum share), ``shown`` (the number of its documents in the first `cutoff` ranks),
            ``alpha`` (the significance of each test), ``fail_probability`` (of a random ranking)
            and ``unfair`` (the length of the first unfair prefix, or 0). With ``protected=None``
            the protected levels can differ between input and output. Queries without a target have
            one row, with NaN.
        """
        encoded, counted = self._counted(run)
        given = (encoded.ranking_start, counted.group, self._test(counted))
        unfair, exposed = merging.first_unfair(*given)
        rows: list[tuple[object, ...]] = []
        for i, (qid, shares, names) in enumerate(
            zip(encoded.qids, counted.p, counted.names, strict=True)
        ):
            query_test = self._found(shares)
            if not query_test or not shares:
                rows.append((qid, "no target", *[np.nan] * 5))
                continue
            statistics = (query_test.adjusted_alpha, query_test.fail_probability, int(unfair[i]))
            for name, share_, count in zip(names, shares, exposed[i].tolist(), strict=False):
                rows.append((qid, name, share_, count, *statistics))
        columns = [QID, "group", "p", "shown", "alpha", "fail_probability", "unfair"]
        return pd.DataFrame(rows, columns=columns)

    def _counted(self, inp: pd.DataFrame) -> tuple[Run, counting.Counted]:
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        self.refuse_samples(inp)
        run = Run(inp, type(self).__name__)
        if self.test == "binomial":
            return run, counting.count_together(run, self._protection, self.cutoff)
        least = 1 / self.cutoff if self.merge_below is None else self.merge_below
        return run, counting.count_apart(run, self._protection, self.cutoff, least)

    def _found(self, shares: tuple[float, ...] | None) -> MTable | MultinomialTest | None:
        if not shares:
            return None
        if self.test == "binomial":
            return mtable(self.cutoff, shares[0], self.alpha, self.adjust)
        return multinomial_test(
            self.cutoff, shares, self.alpha, self.adjust, self.samples, self.seed
        )

    def _test(self, counted: counting.Counted) -> merging.PrefixTest:
        query_tests: Any = [self._found(shares) for shares in counted.p]
        binomial = self.test == "binomial"
        kind = merging.BinomialPrefixes if binomial else merging.MultinomialPrefixes
        return kind.of(query_tests, self.cutoff)

    def _remark(self, run: Run, counted: counting.Counted, unfair: IntArray) -> None:
        name, no_target = type(self).__name__, [p is None for p in counted.p]
        remark(NO_TARGET, name, no_target, run.qids, stacklevel=4)
        remark(_NO_FAIR_ORDER, name, unfair > 0, run.qids, str(self.cutoff), stacklevel=4)
