"""PerSample: any transformer that knows nothing of samples, applied to each sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk.errors import InputError, ParameterError
from fairtk.frames.arrays import IntArray
from fairtk.frames.columns import DOCNO, QANSWER, QID, SAMPLE, plain_columns, require
from fairtk.frames.runs import Run
from fairtk.transformers.base import FairTransformer

# between sample and qid of a temporary qid; the digits before the first one are the sample
_MARK = ":"


class PerSample(FairTransformer):
    """Applies a transformer to each sample of a sampled run on its own: S -> S.

    For rerankers, readers and any other transformer that groups its input by ``qid`` and would mix
    the samples of a query. The transformer sees plain runs, without the column ``sample``; it may
    change scores and ranks, drop rows or add columns. Its rows come back in its own order within
    each (qid, sample). A frame without samples is passed to the transformer as it is. A reader that
    returns one row per query, as pyterrier_rag's do, has its answer (``qanswer``, and what else it
    adds) put on every row of the ranking that it read, so that documents are not lost.

    By default the transformer runs once per sample, on all queries, with their own qids: right for
    every transformer, also for one that looks qids up. ``joint=True`` runs it once in all, with a
    temporary qid for each (qid, sample). That gives a neural model full batches, but is only right
    where a qid is nothing but a label.

    Args:
        transformer: the transformer to apply.
        joint: whether all samples go through the transformer in one call.

    Raises:
        ParameterError: `transformer` is not a PyTerrier transformer.
        InputError: in `transform`, if ``sample`` is not a whole number in every row, or if the
            transformer returns rows without the ``qid`` they belong to.
    """

    SETTINGS = ("transformer", "joint")

    def __init__(self, transformer: pt.Transformer, joint: bool = False) -> None:
        if not isinstance(transformer, pt.Transformer):
            raise ParameterError(
                "PerSample needs a PyTerrier transformer; found "
                f"{type(transformer).__name__} (pt.apply makes one of a function)"
            )
        self.transformer = transformer
        self.joint = bool(joint)

    def __eq__(self, other: object) -> bool:
        # by the transformers' own equality: what they print may leave settings out
        return (
            isinstance(other, PerSample)
            and type(self) is type(other)
            and bool(self.transformer == other.transformer)
            and self.joint == other.joint
        )

    def __hash__(self) -> int:
        return hash((type(self), self.transformer, self.joint))

    def subtransformers(self) -> dict[str, Any]:
        """Return the wrapped transformer, for PyTerrier's schematics."""
        return {"transformer": self.transformer}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return what the transformer makes of each sample."""
        plain_columns(inp, "PerSample")
        if SAMPLE not in inp.columns:
            return self._applied(inp)
        self.check_inputs(inp, [QID])
        sample: Any = Run(inp, "PerSample").samples
        plain = inp.drop(columns=SAMPLE)
        if len(inp) == 0:
            return self._returned(self._applied(plain), 0)
        qids = pd.Index(inp[QID].unique())
        if self.joint:
            result = self._all_at_once(plain, sample, qids)
        else:
            parts = []
            for number in np.unique(sample).tolist():
                rows = np.flatnonzero(sample == number)
                part = self._applied(plain.take(rows).reset_index(drop=True))
                parts.append(self._returned(part, number))
            filled = [part for part in parts if len(part)] or parts[:1]
            result = pd.concat(filled, ignore_index=True)
        unknown = ~result[QID].isin(qids)
        if unknown.any():
            raise InputError(
                f"{self._name()} returned the qid {result[QID][unknown].iloc[0]!r}, which is not "
                "in its input; PerSample needs a transformer that keeps qids"
            )
        place = np.lexsort((result[SAMPLE].to_numpy(), qids.get_indexer(pd.Index(result[QID]))))
        return result.take(place).reset_index(drop=True)

    def _applied(self, plain: pd.DataFrame) -> pd.DataFrame:
        """Return the transformer's output; a reader's answers on every row of their rankings."""
        out: pd.DataFrame = self.transformer.transform(plain)
        if DOCNO not in plain.columns or DOCNO in out.columns or QANSWER not in out.columns:
            return out
        require(out, [QID], f"the output of {self._name()}")
        twice = out[QID].duplicated().to_numpy()
        if twice.any():
            raise InputError(
                f"{self._name()} gave several answers for the qid {out[QID][twice].iloc[0]!r}; "
                "a reader gives one for each ranking"
            )
        new = [c for c in out.columns if c not in plain.columns or c == QANSWER]
        kept = plain.drop(columns=QANSWER, errors="ignore")
        return kept.merge(out[[QID, *new]], on=QID)

    def _all_at_once(self, plain: pd.DataFrame, sample: IntArray, qids: pd.Index) -> pd.DataFrame:
        """Run the transformer once, with a temporary qid per (qid, sample)."""
        query = qids.get_indexer(pd.Index(plain[QID]))
        pairs, first, code = np.unique(
            np.stack([sample, query]), axis=1, return_index=True, return_inverse=True
        )
        names = np.array(
            [f"{s}{_MARK}{qids[q]}" for s, q in zip(*pairs.tolist(), strict=True)], dtype=object
        )
        part = self._applied(plain.assign(**{QID: names[np.ravel(code)]}))
        require(part, [QID], f"the output of {self._name()}")
        pair = pd.Index(names).get_indexer(pd.Index(part[QID]))
        if (pair < 0).any():
            raise InputError(
                f"{self._name()} returned the qid {part[QID].iloc[int(np.argmin(pair))]!r}, which "
                "is not in its input; PerSample(..., joint=True) needs a transformer that keeps "
                "qids"
            )
        restored = part.assign(**{QID: plain[QID].take(first[pair]).array})
        return self._returned(restored, sample[first[pair]])

    def _returned(self, part: pd.DataFrame, number: Any) -> pd.DataFrame:
        """Return the transformer's output with the sample it belongs to."""
        where = f"the output of {self._name()}"
        require(part, [QID], where)
        if SAMPLE in part.columns:
            raise InputError(f"{where} has a column {SAMPLE!r} already; it must not sample again")
        samples = np.broadcast_to(np.asarray(number, dtype=np.int64), (len(part),))
        return part.assign(**{SAMPLE: samples.copy()})

    def _name(self) -> str:
        return f"{type(self.transformer).__name__} in PerSample"
