"""What each document adds to an answer: rankings without some of their documents, and the values
that answers from them give.

A set of documents is a bit mask: bit i is set where document i is in the set, so that mask 0 is the
empty set and 2^k - 1 the whole list. All functions take many lists at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.frames import (
    CREDIT,
    DOCNO,
    GOLD_ANSWER,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    TEXT,
    FloatArray,
    IntArray,
    Run,
    digest,
    require,
)
from fairtk.frames.accepted import accepts_dataframes
from fairtk.frames.columns import ERROR, NO_DOCUMENT, SOURCE_SAMPLE, SUBSET, refuse_subsets
from fairtk.measures.eu import gold_answers
from fairtk.transformers import FairTransformer
from fairtk.utilities import Utility, get

MOST_EXACT = 20
"""Documents of which all 2^k sets are looked at; more take gigabytes."""
MOST_ASKED = 8
"""Documents of which `Subsets("all")` makes all sets: 256 prompts for one ranking."""
MOST_SAMPLED = 62
"""Documents of which sets are drawn: bit masks are integers of 64 bits."""


class Subsets(FairTransformer):
    """S -> S: each ranking without some of its documents, for what follows to answer from.

    A generator behind it answers from every subset, equal prompts once, and `from_answers` makes
    credit of the answers. Documents keep their order. Measures refuse the frame: a subset is no
    ranking of a system.

    ==========  =====================================================================
    input       R or S: ``qid``, ``docno``, ``score`` and any other columns
    output      the rows of each subset, with ``sample`` numbered anew within a query, from 0,
                ``source_sample`` (the ranking that it is made of; 0 on R), ``subset`` (bit i:
                document i is in it) and ``rank``. The empty set has one row, whose docno is
                ``@NONE``: `fairtk.Generator` asks without documents there
    ==========  =====================================================================

    Args:
        kind: ``"one-out"``: the whole list and each list without one document, k + 1 rankings;
            ``"all"``: all 2^k; ``"sampled"``: the lists that `n_orders` random orders of the
            documents go through, k + 1 each.
        cutoff: how many documents of a ranking are looked at; those below are dropped. None: all.
        n_orders: orders of ``"sampled"``, even: each is followed by its reverse.
        seed: of ``"sampled"``; orders depend on seed, qid and sample alone.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: ``"all"`` on a ranking of more than 8 documents (256 prompts); names the qid.
    """

    identity_name = "fairtk.Subsets"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = ("kind", "cutoff", "n_orders", "seed")
    KINDS: ClassVar[tuple[str, ...]] = ("one-out", "all", "sampled")

    def __init__(
        self, kind: str = "one-out", cutoff: int | None = None, n_orders: int = 16, seed: int = 42
    ) -> None:
        super().__init__()
        self.kind = checks.choice("kind", kind, self.KINDS, "Subsets")
        self.cutoff = checks.cutoff(cutoff, "Subsets")
        self.n_orders = checks.whole("n_orders", n_orders, "Subsets", 2)
        if self.n_orders % 2:
            raise ParameterError(f"Subsets: n_orders must be even; found {n_orders}")
        self.seed = checks.whole("seed", seed, "Subsets", 0)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the subsets of each ranking, by query and sample.

        Raises:
            ColumnError: a column is missing, or the frame has subsets already.
            InputError: a ranking is too long.
            DuplicateError: a document occurs twice in a ranking.
        """
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        refuse_subsets(inp, "Subsets")
        run = Run(inp, "Subsets").checked()
        length = np.diff(run.ranking_start)
        k = length if self.cutoff is None else np.minimum(length, self.cutoff)
        self._refuse_long(run, k)
        parts = [(np.zeros(0, dtype=np.int64),) * 4]
        n_lists = np.zeros(len(run.qids), dtype=np.int64)  # so far, of each query
        for ranking, n in enumerate(k.tolist()):
            masks = self._masks(run, ranking, n)
            member = (masks[:, None] >> np.arange(n)) & 1 == 1
            member[masks == 0, 0] = True  # the row that stands for the empty set
            step, place = np.nonzero(member)
            rank = (np.cumsum(member, axis=1) - 1)[step, place]
            query = run.ranking_query[ranking]
            row = run.ranking_start[ranking] + place
            parts.append((row, n_lists[query] + step, masks[step], rank))
            n_lists[query] += len(masks)
        row, sample, mask, rank = (np.concatenate(column) for column in zip(*parts, strict=True))
        out = inp.take(run.order[row]).reset_index(drop=True)
        out = out.assign(
            **{
                RANK: rank,
                SAMPLE: sample,
                SOURCE_SAMPLE: run.ranking_sample[run.ranking[row]],
                SUBSET: mask,
            }
        )
        empty = mask == 0
        if empty.any():
            texts = [c for c in (DOCNO, TEXT) if c in out.columns]
            out.loc[empty, texts] = [NO_DOCUMENT, ""][: len(texts)]
        return out

    def _refuse_long(self, run: Run, k: IntArray) -> None:
        most = MOST_ASKED if self.kind == "all" else MOST_SAMPLED
        long = np.flatnonzero(k > most)
        if len(long):
            at = int(long[0])
            prompts = f", {1 << int(k[at])} prompts for it" if self.kind == "all" else ""
            other = "cutoff=, or kind='sampled'" if self.kind == "all" else "cutoff="
            raise InputError(
                f"Subsets({self.kind!r}): takes rankings of at most {most} documents; found "
                f"{k[at]} of qid {str(run.qids[run.ranking_query[at]])!r} ({len(long)} such "
                f"rankings{prompts}): use {other}"
            )

    def _masks(self, run: Run, ranking: int, k: int) -> IntArray:
        """Return the sets of the first k documents of a ranking."""
        if self.kind != "sampled":
            return np.arange(1 << k) if self.kind == "all" else _one_out(k)
        qid, sample = str(run.qids[run.ranking_query[ranking]]), int(run.ranking_sample[ranking])
        generator = np.random.default_rng(int(digest([self.seed, qid, sample], 16), 16))
        return prefixes_of(permutations_of(k, self.n_orders, generator)).ravel()


def _one_out(k: int) -> IntArray:
    """Return the list of all k documents, then each list that leaves one of them out."""
    full_mask = (1 << k) - 1
    return np.concatenate([[full_mask], full_mask - (1 << np.arange(k))]).astype(np.int64)


@accepts_dataframes
def from_answers(
    answers: pd.DataFrame,
    utility: str | Utility,
    gold: pd.DataFrame | Mapping[str, Any],
    *,
    method: str | None = None,
) -> pd.DataFrame:
    """Return the credit of each document from answers to subsets of rankings.

    Credit is what a document adds to the quality of the answer: a utility where lower is better
    (``mae``) is turned around, so that what lowers the error has credit above 0.

    Args:
        answers: what a generator made of a frame of `Subsets`: ``qid``, ``docno``, ``score``,
            ``sample``, ``source_sample``, ``subset``, ``qanswer``.
        utility: a name, as in ``EU(utility=...)``, or a `Utility`.
        gold: ``qid`` and ``gold_answer`` (qrels or a data set's answers), or gold answers by qid.
        method: ``"shapley"``, of all subsets or of sampled ones, or ``"one-out"``, which all
            subsets have, too. None: Shapley values wherever the subsets allow it.

    Returns:
        The frame C: ``qid``, ``sample`` (that of the ranking), ``docno``, ``rank``, ``credit``, in
        the order of the documents; and ``standard_error`` where orders were sampled.

    Raises:
        ColumnError: a column is missing.
        InputError: an answer, a gold answer or a subset is missing, a ranking has two answers, or
            the utility fails; names qid and sample.
    """
    where = "from_answers"
    checks.choice("method", method or "shapley", ("shapley", "one-out"), where)
    require(answers, [QID, DOCNO, SCORE, SAMPLE, SOURCE_SAMPLE, SUBSET, QANSWER], where)
    run = Run(answers, where).checked()
    for column in (QANSWER, SOURCE_SAMPLE, SUBSET):
        one_per_ranking(run, column)
    start = run.ranking_start[:-1]
    frame = answers.take(run.order)
    first = frame.iloc[start]
    query, mask = run.ranking_query, first[SUBSET].to_numpy(dtype=np.int64)
    source = first[SOURCE_SAMPLE].to_numpy(dtype=np.int64)
    utility = get(utility) if isinstance(utility, str) else utility
    value = _utilities(run, first[QANSWER].tolist(), utility, _gold(gold), where)
    made = pd.DataFrame({"query": query, "source": source}).groupby(["query", "source"]).indices
    parts = [(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))]
    sampled = False
    for rankings in made.values():  # of one source, in the order of their samples
        masks = mask[rankings]
        longest = rankings[int(masks.argmax())]
        begin, end = run.ranking_start[longest : longest + 2].tolist()
        k = end - begin if mask[longest] else 0
        credit, error = _credit_of(masks, value[rankings], k, method)
        if credit is None:
            raise InputError(
                f"{where}: the subsets of qid {str(run.qids[query[longest]])!r}, sample "
                f"{source[longest]} are not complete: expected those that Subsets makes of {k} "
                f"documents{' for ' + method if method else ''}; found "
                f"{sorted(set(masks.tolist()))[:12]}"
            )
        sampled = sampled or error is not None
        parts.append(
            (np.arange(begin, begin + k), credit, np.full(k, np.nan) if error is None else error)
        )
    row, credit, error = (np.concatenate(column) for column in zip(*parts, strict=True))
    by_row = np.argsort(row)
    ranking = run.ranking[row[by_row]]
    result = pd.DataFrame(
        {
            QID: run.qids[query[ranking]],
            SAMPLE: source[ranking],
            DOCNO: run.docnos[run.doc[row[by_row]]],
            RANK: run.position[row[by_row]],
            CREDIT: credit[by_row],
        }
    )
    if sampled:
        result[ERROR] = error[by_row]
    return result


def one_per_ranking(run: Run, column: str) -> tuple[IntArray, Any]:
    """Return what each row of a run has in a column, as codes and the distinct values.

    Raises:
        InputError: a ranking has none, or two.
    """
    code, values = pd.factorize(run.frame[column].to_numpy()[run.order])
    wrong = np.flatnonzero((code != code[run.ranking_start[:-1]][run.ranking]) | (code < 0))
    if len(wrong):
        what = "none" if code[wrong[0]] < 0 else "two"
        raise InputError(
            f"{run.where}: each ranking needs one {column!r}; found {what} for "
            f"{run.describe(int(wrong[0]))}"
        )
    return code, values


def _credit_of(
    masks: IntArray, values: FloatArray, k: int, method: str | None
) -> tuple[FloatArray, FloatArray | None] | tuple[None, None]:
    """Return the credit of the documents of one ranking, and standard errors if it is estimated.

    Both are `None` if the subsets allow no credit.

    Args:
        masks: the subsets, in the order of their samples; shape (n_subsets,).
        values: the utility of each; shape (n_subsets,).
        k: the number of documents.
        method: as in `from_answers`.
    """
    full_mask = (1 << k) - 1
    if method != "one-out":
        if len(masks) == 1 << k and (np.sort(masks) == np.arange(1 << k)).all():
            return shapley(values[np.argsort(masks)]), None
        walks = masks.reshape(-1, k + 1) if len(masks) % (k + 1) == 0 else masks[:0, None]
        steps = np.diff(walks, axis=1)
        ends = (walks[:, 0] == 0) & (walks[:, -1] == full_mask)
        if len(walks) > 1 and ends.all() and ((steps > 0) & (steps & (steps - 1) == 0)).all():
            orders = np.log2(steps).round().astype(np.int64)
            return sampled_shapley(values.reshape(walks.shape), orders)
    value_of = dict(zip(masks.tolist(), values.tolist(), strict=True))
    needed = _one_out(k).tolist()
    may = method == "one-out" or len(masks) == k + 1
    if may and len(value_of) == len(masks) and value_of.keys() >= set(needed):
        return value_of[full_mask] - np.array([value_of[mask] for mask in needed[1:]]), None
    return None, None


def _utilities(
    run: Run, texts: list[Any], utility: Utility, gold: Mapping[str, Any], where: str
) -> FloatArray:
    """Return the utility of each ranking's answer, turned so that higher is better."""
    qids = [str(qid) for qid in run.qids]
    lacking = [qid for qid in qids if qid not in gold]
    if lacking:
        raise InputError(
            f"{where}: qid {lacking[0]!r} has no gold answer ({len(lacking)} such queries)"
        )
    pairs = list(zip(run.ranking_query.tolist(), texts, strict=True))
    distinct = list(dict.fromkeys(pairs))
    golds = [gold[qids[query]] for query, _ in distinct]
    try:
        values = utility([text for _, text in distinct], golds)
    except Exception as failure:
        for (query, text), right in zip(distinct, golds, strict=True):
            try:
                utility([text], [right])
            except Exception as error:
                raise InputError(
                    f"{where}: the utility {utility.name} fails for qid {qids[query]!r}, answer "
                    f"{text!r:.80}: {error}"
                ) from error
        raise failure
    sign = 1.0 if utility.higher_is_better else -1.0
    value = dict(zip(distinct, values, strict=True))
    return np.array([sign * value[pair] for pair in pairs])


def _gold(gold: pd.DataFrame | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return gold answers by qid."""
    if isinstance(gold, Mapping):
        return {str(qid): answer for qid, answer in gold.items()}
    require(gold, [QID, GOLD_ANSWER], "from_answers (gold)")
    return gold_answers(gold[QID].astype(str), gold[GOLD_ANSWER].tolist(), "from_answers")


def shapley(values: npt.ArrayLike) -> FloatArray:
    """Return the Shapley value of each document from the utilities of all sets of documents.

    ``phi_d = sum over the sets T without d of |T|! (k - |T| - 1)! / k! (u(T + d) - u(T))``, Shapley
    1953: the mean, over all orders of the documents, of what d adds to those before it. The values
    of a list add up to u(all) - u(none).

    Args:
        values: shape (..., 2^k): the utility of each set, by bit mask.

    Returns:
        shape (..., k): any finite number; NaN where a utility of the list is NaN.

    Raises:
        InputError: the last axis is no power of two, or a value is infinite.
    """
    utility, k = _by_mask(values)
    masks = np.arange(1 << k)
    size = np.array([mask.bit_count() for mask in masks.tolist()])
    share = np.array([1 / (k * math.comb(k - 1, n)) for n in range(k)])
    credit = np.empty((*utility.shape[:-1], k))
    for place in range(k):
        without = masks[masks >> place & 1 == 0]
        added = utility[..., without | 1 << place] - utility[..., without]
        credit[..., place] = added @ share[size[without]]
    return credit


def leave_one_out(values: npt.ArrayLike) -> FloatArray:
    """Return what each document adds to all others: u(all) - u(all without it).

    Args:
        values: shape (..., 2^k): as in `shapley`; only the whole list and the lists that lack one
            document are read.

    Returns:
        shape (..., k): any finite number; NaN where one of the two utilities is NaN.

    Raises:
        InputError: as `shapley`.
    """
    utility, k = _by_mask(values)
    whole = (1 << k) - 1
    return utility[..., [whole]] - utility[..., whole - (1 << np.arange(k))]


def max_shapley(x: npt.ArrayLike) -> FloatArray:
    """Return the Shapley value of each document where a set is worth its best document.

    For one key point with relevances x, ascending and with x_(0) = 0, the document at place i gets
    phi_(i) = sum_{j <= i} (x_(j) - x_(j-1)) / (n - j + 1), as in the airport game (Littlechild and
    Owen 1973); points are summed. It is what MaxShapley (arXiv 2512.05958) is named after; the
    code published with it departs from this value by up to .12 a document.

    Args:
        x: shape (..., documents, points): how well each document covers each key point, >= 0.

    Returns:
        shape (..., documents), >= 0; their sum is the sum over points of the largest relevance. NaN
        where a point has a NaN.

    Raises:
        InputError: no such shape, or a relevance is negative or infinite.
    """
    relevance = np.asarray(x, dtype=np.float64)
    if relevance.ndim < 2:
        raise InputError(
            f"max_shapley: x must have the axes documents and points; found {relevance.ndim}"
        )
    if bool((relevance < 0).any()) or bool(np.isinf(relevance).any()):
        place = np.argwhere((relevance < 0) | np.isinf(relevance))[0].tolist()
        raise InputError(
            f"max_shapley: relevances must be finite and at least 0; found "
            f"{relevance[tuple(place)]} at {place}"
        )
    n = relevance.shape[-2]
    order = np.argsort(relevance, axis=-2, kind="stable")
    ascending = np.take_along_axis(relevance, order, axis=-2)
    steps = np.diff(ascending, axis=-2, prepend=0.0) / np.arange(n, 0, -1)[:, None]
    credit = np.empty_like(relevance)
    np.put_along_axis(credit, order, np.cumsum(steps, axis=-2), axis=-2)
    return np.asarray(credit.sum(axis=-1))


def permutations_of(k: int, n: int, generator: np.random.Generator) -> IntArray:
    """Return orders of k documents, each followed by its reverse; shape (n, k), n even.

    A reversed order makes the sum over both of what a document adds less variable (antithetic).
    """
    orders = np.argsort(generator.random((n // 2, k)), axis=1)
    return np.stack([orders, orders[:, ::-1]], axis=1).reshape(n, k)


def prefixes_of(orders: IntArray) -> IntArray:
    """Return the sets that orders go through, the empty one first; bit masks (n, k + 1)."""
    added = np.cumsum(np.left_shift(np.int64(1), orders), axis=1)
    return np.concatenate([np.zeros((len(orders), 1), dtype=np.int64), added], axis=1)


def sampled_shapley(values: npt.ArrayLike, orders: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return estimated Shapley values and their standard errors, from orders of the documents.

    Args:
        values: shape (n, k + 1): the utility of each set that an order goes through, as
            `prefixes_of` lists them.
        orders: shape (n, k): as `permutations_of` gives them, pairs of an order and its reverse.

    Returns:
        The values, shape (k,), unbiased, and their standard errors, shape (k,), from the means of
        the pairs; NaN errors for one pair.
    """
    utility = np.asarray(values, dtype=np.float64)
    added = np.empty(orders.shape)
    np.put_along_axis(added, orders, np.diff(utility, axis=1), axis=1)
    pairs = added.reshape(len(orders) // 2, 2, -1).mean(axis=1)
    spread = pairs.std(axis=0, ddof=1) if len(pairs) > 1 else np.full(orders.shape[1], np.nan)
    return pairs.mean(axis=0), spread / math.sqrt(len(pairs))


def _by_mask(values: npt.ArrayLike) -> tuple[FloatArray, int]:
    """Return utilities by bit mask, checked, and the number of documents."""
    utility = np.asarray(values, dtype=np.float64)
    length = utility.shape[-1] if utility.ndim else 0
    k = length.bit_length() - 1
    if length < 1 or length != 1 << k:
        raise InputError(
            "utilities of all sets of k documents are 2^k values, by bit mask; found "
            f"{length} values"
        )
    if k > MOST_EXACT:
        raise InputError(f"all sets of at most {MOST_EXACT} documents; found {k} documents")
    if bool(np.isinf(utility).any()):
        place = tuple(np.argwhere(np.isinf(utility))[0].tolist())
        raise InputError(f"utilities must be finite or NaN; found {utility[place]} at {place}")
    return utility, k
