"""Credit from subsets of documents: Shapley values and leave-one-out.

A set of documents is a bit mask: bit i is set if document i is in the set. Mask 0 is the empty set,
and 2^k - 1 the full list. All functions accept several lists at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk import checks
from fairtk.errors import ColumnError, InputError, ParameterError
from fairtk.exposure.expected import average
from fairtk.frames import (
    ANSWER_STATUS,
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
    require_columns,
)
from fairtk.frames.accepted import frame_of
from fairtk.frames.answers import PROMPT_CUT, check_answers, flattened, has_lists, hashable
from fairtk.frames.columns import (
    ERROR,
    NO_DOCUMENT,
    PARENT,
    SOURCE_SAMPLE,
    SUBSET,
    refuse_subsets,
)
from fairtk.frames.schema import NUMBERS, check_numbers
from fairtk.measures.eu import gold_answers
from fairtk.statistics.arrays import floats
from fairtk.transformers import FairTransformer
from fairtk.utilities import Utility, get
from fairtk.wording import short, such

MOST_EXACT = 20
"""The maximum number of documents for exact values from all 2^k sets; more take gigabytes."""
MOST_ASKED = 8
"""The maximum number of documents for `Subsets("all")`: 256 prompts for one ranking."""
MOST_SAMPLED = 62
"""The maximum number of documents for sampled sets, because bit masks have 64 bits."""


class Subsets(FairTransformer):
    """S -> S: subsets of each ranking.

    Add a generator to answer from each subset (equal prompts once), then compute credit with
    `from_answers`. Documents keep their order. Measures refuse the frame, because a subset is not a
    ranking of a system.

    ==========  =====================================================================
    input       R or S: ``qid``, ``docno``, ``score`` and any other columns
    output      the rows of each subset, with a new ``sample`` within a query, from 0,
                ``source_sample`` (the sample of the ranking; 0 for R), ``subset`` (the bit mask)
                and ``rank``. The empty set has one row with docno ``@NONE``, for which
                `fairtk.Generator` builds a prompt without documents
    ==========  =====================================================================

    Args:
        kind: ``"one-out"``: the full list and each list that leaves out one document, k + 1
            rankings; ``"all"``: all 2^k; ``"sampled"``: the prefixes of `n_orders` random orders of
            the documents, k + 1 each.
        cutoff: the number of documents of a ranking to use; `None` for all.
        n_orders: for ``"sampled"``, the number of orders, even, because each order is followed by
            its reverse.
        seed: for ``"sampled"``, the seed; orders depend only on seed, qid and sample.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: in `transform`, a ranking has more than 8 documents with ``"all"``, or more than
            62 with the other kinds (names the qid).
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
        self.n_orders = checks.integer("n_orders", n_orders, "Subsets", 2)
        if self.n_orders % 2:
            raise ParameterError(f"Subsets: n_orders must be even, got {n_orders}")
        self.seed = checks.integer("seed", seed, "Subsets", 0)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the subsets of each ranking, by query and sample.

        Raises:
            ColumnError: a column is missing, or the frame already has subsets or answers.
            InputError: a ranking is too long.
            DuplicateError: duplicate document in a ranking.
        """
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        refuse_subsets(inp, "Subsets")
        if QANSWER in inp.columns:
            raise ColumnError(
                "Subsets: expected rankings without answers, got the column 'qanswer'; put Subsets "
                "before the generator, retriever >> Subsets(...) >> generator"
            )
        run = Run(inp, "Subsets").checked()
        length = np.diff(run.ranking_start)
        k = length if self.cutoff is None else np.minimum(length, self.cutoff)
        self._refuse_long(run, k)
        parts = [(np.zeros(0, dtype=np.int64),) * 4]
        n_lists = np.zeros(len(run.qids), dtype=np.int64)  # per query so far
        for ranking, n in enumerate(k.tolist()):
            masks = self._masks(run, ranking, n)
            member = (masks[:, None] >> np.arange(n)) & 1 == 1
            member[masks == 0, 0] = True  # the row of the empty set
            step, position = np.nonzero(member)
            rank = (np.cumsum(member, axis=1) - 1)[step, position]
            query = run.ranking_query[ranking]
            row = run.ranking_start[ranking] + position
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
                f"Subsets({self.kind!r}): expected rankings of at most {most} documents, got "
                f"{k[at]} for qid {str(run.qids[run.ranking_query[at]])!r} ({len(long)} such "
                f"rankings{prompts}): use {other}"
            )

    def _masks(self, run: Run, ranking: int, k: int) -> IntArray:
        if self.kind != "sampled":
            return np.arange(1 << k) if self.kind == "all" else _one_out(k)
        qid, sample = str(run.qids[run.ranking_query[ranking]]), int(run.ranking_sample[ranking])
        generator = np.random.default_rng(int(digest([self.seed, qid, sample], 16), 16))
        return prefix_masks(draw_orders(k, self.n_orders, generator)).ravel()


def _one_out(k: int) -> IntArray:
    """Return the full list of k documents, then each list that leaves out one document."""
    full_mask = (1 << k) - 1
    return np.concatenate([[full_mask], full_mask - (1 << np.arange(k))]).astype(np.int64)


def from_answers(
    answers: pd.DataFrame,
    utility: str | Utility,
    gold: pd.DataFrame | Mapping[str, Any] | Literal["answer"],
    *,
    method: str | None = None,
) -> pd.DataFrame:
    """Return the credit of each document from answers to subsets of rankings.

    Credit is the contribution of a document to the quality of the answer. The sign of an error such
    as ``mae`` is inverted, so that a document that lowers the error has credit above 0.

    ``gold="answer"`` needs no gold answers: the answer to the whole list replaces them, as in
    ContextCite (Cohen-Wang et al. 2024), but with a utility instead of the probability of the
    answer. Credit is then how much the answer depends on a document, whether or not it is right.

    Args:
        answers: a generator's answers to a frame of `Subsets`: ``qid``, ``docno``, ``score``,
            ``sample``, ``source_sample``, ``subset``, ``qanswer``. The utility of several answers
            is their mean.
        utility: a name, as in ``EU(utility=...)``, or a `Utility`.
        gold: ``qid`` and ``gold_answer`` (qrels or a dataset's answers), or gold answers by qid; or
            ``"answer"`` for the answer to the whole ranking. Of several such answers, each is
            compared with the others, and credit is the mean. An empty one has undefined credit
            (NaN).
        method: ``"shapley"``, from all or sampled subsets, or ``"one-out"``; `None` for Shapley
            values if the subsets allow it, else leave-one-out.

    Returns:
        The frame C with the columns ``qid``, ``sample`` (of the ranking), ``docno``, ``rank``,
        ``credit``, in the order of the documents, and ``standard_error`` for sampled subsets. If
        the answers have the column ``answer_status``, it has that of the answer to the ranking, or
        ``"prompt cut"`` if the server has cut a prompt of the ranking, whose credit is then NaN; a
        list of them for several answers.

    Raises:
        ColumnError: a column is missing.
        InputError: an answer, a gold answer or a subset is missing, a ranking has two answers, or
            the utility fails (names qid and sample).
        ParameterError: `method` or `gold` is another word.

    References:
        Cohen-Wang et al. 2024 (ContextCite, for ``gold="answer"``).
    """
    where = "from_answers"
    if isinstance(gold, str):
        checks.choice("gold", gold, ("answer",), where)
    checks.choice("method", "shapley" if method is None else method, ("shapley", "one-out"), where)
    run = Run(answers, where).checked()
    answers = run.frame
    require_columns(answers, [QID, DOCNO, SCORE, SAMPLE, SOURCE_SAMPLE, SUBSET, QANSWER], where)
    numbers = {
        column: check_numbers(answers[column], column, run.refuse, NUMBERS[SAMPLE])
        for column in (SOURCE_SAMPLE, SUBSET)
    }
    for column in (QANSWER, *numbers):
        one_per_ranking(run, column)
    start = run.ranking_start[:-1]
    frame = answers.take(run.order)
    first = frame.iloc[start]
    query = run.ranking_query
    source, mask = (numbers[c][run.order][start] for c in (SOURCE_SAMPLE, SUBSET))
    utility = get(utility) if isinstance(utility, str) else utility
    if not (
        callable(utility) and hasattr(utility, "name") and hasattr(utility, "higher_is_better")
    ):
        raise ParameterError(
            f"{where}: utility must be a name such as 'rougeL' or a fairtk.utilities.Utility, got "
            f"{short(utility)}"
        )
    check_answers(answers[QANSWER], run.refuse)
    cell, texts = flattened(first[QANSWER].tolist())
    sources = pd.DataFrame({"query": query, "source": source}).groupby(["query", "source"]).indices
    full_lists = {int(r): int(rs[mask[rs].argmax()]) for rs in sources.values() for r in rs}
    is_empty = np.zeros(len(query), dtype=bool)
    golds: list[Any]
    if isinstance(gold, str):
        is_empty[cell[[not str(text).strip() for text in texts]]] = True
        cell, texts, golds = _pairs_with_full(cell, texts, full_lists, mask)
    else:
        golds = _gold_of(run, query[cell], _gold(gold), where)
    of_answer = _utilities(run, query[cell], texts, golds, utility, where)
    value = average(cell, of_answer, len(query))
    parts = [(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))]
    sampled = False
    statuses = first[ANSWER_STATUS].to_numpy(object) if ANSWER_STATUS in first else None
    several = statuses is not None and has_lists(statuses)
    status_of_row = np.full(len(run), None, dtype=object)
    for rankings in sources.values():  # in the order of their samples
        masks = mask[rankings]
        longest = full_lists[int(rankings[0])]
        begin, end = run.ranking_start[longest : longest + 2].tolist()
        k = end - begin if mask[longest] else 0
        credit, error = _credit_of(masks, value[rankings], k, method)
        if credit is None:
            raise InputError(
                f"{where}: expected all subsets of {k} documents"
                f"{' for ' + method if method else ''}, got {sorted(set(masks.tolist()))[:12]} for "
                f"qid {str(run.qids[query[longest]])!r}, sample {source[longest]}"
            )
        if isinstance(gold, str) and is_empty[longest]:
            credit = np.full(k, np.nan)
        sampled = sampled or error is not None
        if statuses is not None:
            status = statuses[longest]
            if PROMPT_CUT in flattened(statuses[rankings])[1]:
                status = [PROMPT_CUT] * len(flattened([status])[1]) if several else PROMPT_CUT
                credit = np.full(k, np.nan)
            for place in range(begin, begin + k):  # a slice would take a list for k values
                status_of_row[place] = status
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
    if PARENT in answers.columns:
        result[PARENT] = answers[PARENT].to_numpy()[run.order[row[by_row]]]
    if sampled:
        result[ERROR] = error[by_row]
    if statuses is not None:
        dtype = object if several else "str"
        result[ANSWER_STATUS] = pd.Series(status_of_row[row[by_row]], result.index, dtype=dtype)
    return result


def one_per_ranking(run: Run, column: str) -> tuple[IntArray, Any]:
    """Return the codes of a column's rows and its distinct values, one value per ranking.

    Raises:
        InputError: a ranking has no value, or two.
    """
    cells = run.frame[column].to_numpy()[run.order]
    code, values = pd.factorize(hashable(cells) if has_lists(cells) else cells)
    wrong = np.flatnonzero((code != code[run.ranking_start[:-1]][run.ranking]) | (code < 0))
    if len(wrong):
        count = "none" if code[wrong[0]] < 0 else "two"
        raise InputError(
            f"{run.where}: expected one {column!r} per ranking, got {count} for "
            f"{run.describe(int(wrong[0]))}"
        )
    return code, values


def _credit_of(
    masks: IntArray, values: FloatArray, k: int, method: str | None
) -> tuple[FloatArray, FloatArray | None] | tuple[None, None]:
    """Return the credit of the documents of one ranking, and standard errors for sampled subsets.

    Both are `None` if the subsets are incomplete.

    Args:
        masks: the subsets, in the order of their samples; shape (n_subsets,).
        values: the utility of each subset; shape (n_subsets,).
        k: the number of documents.
        method: see `from_answers`.
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
    required = _one_out(k).tolist()
    is_one_out = method == "one-out" or (method is None and len(masks) == k + 1)
    if is_one_out and len(value_of) == len(masks) and value_of.keys() >= set(required):
        return value_of[full_mask] - np.array([value_of[mask] for mask in required[1:]]), None
    return None, None


def _pairs_with_full(
    cell: IntArray, texts: list[Any], full_lists: Mapping[int, int], mask: IntArray
) -> tuple[IntArray, list[Any], list[Any]]:
    """Return each answer with each answer to the full list: ranking, answer and other answer.

    Several answers to a full list are not compared with themselves, so that a document on which
    they do not depend has the expected credit 0.

    Args:
        cell: the ranking of each answer, ascending; shape (n_answers,).
        texts: the answers; shape (n_answers,).
        full_lists: the ranking of all documents, by ranking.
        mask: the subset of each ranking; shape (n_rankings,).
    """
    of_ranking: dict[int, list[Any]] = {}
    for ranking, text in zip(cell.tolist(), texts, strict=True):
        of_ranking.setdefault(ranking, []).append(text)
    pairs = [
        (ranking, text, other)
        for ranking, answers in of_ranking.items()
        for others in [of_ranking[full_lists[ranking]]]
        for i, text in enumerate(answers)
        for j, other in enumerate(others)
        if i != j or len(others) == 1 or mask[ranking] != mask[full_lists[ranking]]
    ]
    rankings, answers, others = map(list, zip(*pairs, strict=True)) if pairs else ([], [], [])
    return np.array(rankings, dtype=np.int64), answers, others


def _gold_of(run: Run, query_of_text: IntArray, gold: Mapping[str, Any], where: str) -> list[Any]:
    """Return the gold answer for each text."""
    qids = [str(qid) for qid in run.qids]
    missing = [qid for qid in qids if qid not in gold]
    if missing:
        raise InputError(
            f"{where}: missing gold answer of qid {missing[0]!r} ({such(len(missing), 'query')}); "
            "without gold answers, use gold='answer'"
        )
    return [gold[qids[query]] for query in query_of_text.tolist()]


def _utilities(
    run: Run,
    query_of_text: IntArray,
    texts: list[Any],
    golds: list[Any],
    utility: Utility,
    where: str,
) -> FloatArray:
    """Return the utility of each answer, with the sign of errors inverted."""
    pairs = list(zip(query_of_text.tolist(), texts, map(str, golds), strict=True))
    gold_of = dict(zip(pairs, golds, strict=True))
    golds = list(gold_of.values())
    try:
        values = utility([text for _, text, _ in gold_of], golds)
    except Exception as failure:
        for (query, text, _), right in gold_of.items():
            try:
                utility([text], [right])
            except Exception as error:
                qid = str(run.qids[query])
                raise InputError(
                    f"{where}: the utility {utility.name} fails for qid {qid!r}, answer "
                    f"{text!r:.80}: {error}"
                ) from error
        raise failure
    sign = 1.0 if utility.higher_is_better else -1.0
    value = dict(zip(gold_of, values, strict=True))
    return np.array([sign * value[pair] for pair in pairs])


def _gold(gold: pd.DataFrame | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(gold, Mapping):
        return {str(qid): answer for qid, answer in gold.items()}
    gold = frame_of(gold)
    require_columns(gold, [QID, GOLD_ANSWER], "from_answers (gold)")
    return gold_answers(gold[QID].astype(str), gold[GOLD_ANSWER].tolist(), "from_answers")


def shapley(values: npt.ArrayLike) -> FloatArray:
    """Return the Shapley value of each document from the utilities of all sets of documents.

    ``phi_d = sum over the sets T without d of |T|! (k - |T| - 1)! / k! (u(T + d) - u(T))`` (Shapley
    1953) is the mean contribution of d to the documents before it, over all orders. The values of a
    list sum to u(all) - u(none).

    Args:
        values: shape (..., 2^k): the utility of each set, by bit mask.

    Returns:
        The values, shape (..., k); NaN if a utility of the list is NaN.

    Raises:
        InputError: the length of the last axis is not a power of two, there are more than 20
            documents, or a value is infinite.
    """
    utility, k = _by_mask(values)
    masks = np.arange(1 << k)
    size = np.array([mask.bit_count() for mask in masks.tolist()])
    share = np.array([1 / (k * math.comb(k - 1, n)) for n in range(k)])
    credit = np.empty((*utility.shape[:-1], k))
    for document in range(k):
        without = masks[masks >> document & 1 == 0]
        gain = utility[..., without | 1 << document] - utility[..., without]
        credit[..., document] = gain @ share[size[without]]
    return credit


def leave_one_out(values: npt.ArrayLike) -> FloatArray:
    """Return the contribution of each document to all others: u(all) - u(all without it).

    Args:
        values: shape (..., 2^k), see `shapley`; only the full list and the lists that leave out one
            document are read.

    Returns:
        The values, shape (..., k); NaN if one of the two utilities is NaN.

    Raises:
        InputError: see `shapley`.
    """
    utility, k = _by_mask(values)
    full_mask = (1 << k) - 1
    return utility[..., [full_mask]] - utility[..., full_mask - (1 << np.arange(k))]


def max_shapley(x: npt.ArrayLike) -> FloatArray:
    """Return the Shapley value of each document if the value of a set is that of its best document.

    For one key point with ascending relevances x and x_(0) = 0, the i-th document gets phi_(i) =
    sum_{j <= i} (x_(j) - x_(j-1)) / (n - j + 1), as in the airport game (Littlechild and Owen
    1973). Points are summed. The published code of MaxShapley (arXiv 2512.05958) differs from this
    value by up to 0.12 per document.

    Args:
        x: shape (..., documents, points): how well each document covers each key point, >= 0.

    Returns:
        The values, shape (..., documents), >= 0. They sum to the sum over points of the largest
        relevance. NaN if a point has a NaN.

    Raises:
        InputError: the shape is wrong, or a relevance is negative or infinite.
    """
    relevance = floats(x, "x")
    if relevance.ndim < 2:
        raise InputError(
            f"max_shapley: x must have the axes documents and points, got {relevance.ndim} axes"
        )
    if bool((relevance < 0).any()) or bool(np.isinf(relevance).any()):
        index = np.argwhere((relevance < 0) | np.isinf(relevance))[0].tolist()
        raise InputError(
            f"max_shapley: relevances must be finite and at least 0, got "
            f"{relevance[tuple(index)]} at {index}"
        )
    n = relevance.shape[-2]
    order = np.argsort(relevance, axis=-2, kind="stable")
    ascending = np.take_along_axis(relevance, order, axis=-2)
    steps = np.diff(ascending, axis=-2, prepend=0.0) / np.arange(n, 0, -1)[:, None]
    credit = np.empty_like(relevance)
    np.put_along_axis(credit, order, np.cumsum(steps, axis=-2), axis=-2)
    return np.asarray(credit.sum(axis=-1))


def draw_orders(k: int, n: int, generator: np.random.Generator) -> IntArray:
    """Return orders of k documents, each followed by its reverse; shape (n, k), n even.

    Antithetic pairs reduce the variance of a document's mean contribution.
    """
    orders = np.argsort(generator.random((n // 2, k)), axis=1)
    return np.stack([orders, orders[:, ::-1]], axis=1).reshape(n, k)


def prefix_masks(orders: IntArray) -> IntArray:
    """Return the bit masks of all prefixes of orders, the empty set first; shape (n, k + 1)."""
    added = np.cumsum(np.left_shift(np.int64(1), orders), axis=1)
    return np.concatenate([np.zeros((len(orders), 1), dtype=np.int64), added], axis=1)


def sampled_shapley(values: npt.ArrayLike, orders: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return estimated Shapley values and their standard errors, from orders of the documents.

    Args:
        values: shape (n, k + 1): the utility of each prefix of an order, see `prefix_masks`.
        orders: shape (n, k): pairs of an order and its reverse, see `draw_orders`.

    Returns:
        The values, shape (k,), unbiased, and their standard errors, shape (k,), from the means of
        the pairs; the errors are NaN for one pair.
    """
    utility = np.asarray(values, dtype=np.float64)
    added = np.empty(orders.shape)
    np.put_along_axis(added, orders, np.diff(utility, axis=1), axis=1)
    pairs = added.reshape(len(orders) // 2, 2, -1).mean(axis=1)
    spread = pairs.std(axis=0, ddof=1) if len(pairs) > 1 else np.full(orders.shape[1], np.nan)
    return pairs.mean(axis=0), spread / math.sqrt(len(pairs))


def _by_mask(values: npt.ArrayLike) -> tuple[FloatArray, int]:
    """Return checked utilities by bit mask, and the number of documents."""
    utility = floats(values, "values")
    length = utility.shape[-1] if utility.ndim else 0
    k = length.bit_length() - 1
    if length < 1 or length != 1 << k:
        raise InputError(
            "expected 2^k utilities, one per subset of k documents, in bit-mask order, got "
            f"{length} values"
        )
    if k > MOST_EXACT:
        raise InputError(f"expected at most {MOST_EXACT} documents, got {k}")
    if bool(np.isinf(utility).any()):
        index = tuple(np.argwhere(np.isinf(utility))[0].tolist())
        raise InputError(f"utilities must be finite or NaN, got {utility[index]} at {index}")
    return utility, k
