"""EU: expected utility of generated answers.

`ExpectedUtility.score_answers` compares each answer, one per query and sample, with the gold answer
of its query; `ExpectedUtility.score_all` averages the utilities of a query.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import InputError, ParameterError
from fairtk.exposure.expected import average
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    QANSWER,
    QID,
    SAMPLE,
    FloatArray,
    IntArray,
    ObjectArray,
    require_columns,
)
from fairtk.frames.answers import check_answers, flattened, has_lists, hashable
from fairtk.frames.columns import PROMPT_ID
from fairtk.measures.base import FairMeasure
from fairtk.measures.labeled_run import UNREAD_PROMPT, LabeledRun, has_unread_prompt
from fairtk.measures.params import ObjectParam, Param
from fairtk.measures.scores import Scores
from fairtk.plugins.registry import parse_call
from fairtk.utilities import Utility, get
from fairtk.wording import such


def read_utility(text: str) -> Any:
    """Return the utility of a string such as ``"rougeL"``."""
    name, options = parse_call(text, "utility")
    return get(name, **options)


UTILITY = ObjectParam(
    read_utility, Utility, desc="string utility: accuracy, mae, rougeL, em, contains, f1, ..."
)


@dataclass(frozen=True)
class ScoredAnswers:
    """The utility of rankings, sorted by query and sample; arrays of shape (n_rankings,).

    Attributes:
        query: the query.
        sample: the sample, 0 if the run is not sampled.
        value: the mean utility of the answers.
        variance: the variance of the utility over the answers, NaN for one answer.
        n: the number of answers.
        prompt: equal for rankings that share their answers, also of other runs.
    """

    query: IntArray
    sample: IntArray
    value: FloatArray
    variance: FloatArray
    n: IntArray
    prompt: ObjectArray


UPPER_BOUND = Param(
    (int, float),
    default=None,
    desc="converts a lower-is-better utility u to upper_bound - u (LaMP-3's mae: 4)",
)


class ExpectedUtility(FairMeasure):
    """How good the generated answers are, averaged over sampled rankings.

    EU is the mean of a string utility over the answers from each sampled ranking (Kim and Diaz,
    Towards Fair RAG, Eq. 7). It requires ``qanswer`` in the run, one answer per qid and sample, and
    ``gold_answer`` in the qrels (`fairtk.join_answers`); of several gold answers, the best match
    counts. Range and direction are the utility's. ``upper_bound`` turns an error, such as LaMP-3's
    (published with 4), into a higher-is-better value, below 0 if the error exceeds the bound.

    The utility of a ranking with several answers (``Generator(..., answers=5)``) is their mean.

    A query without an answer gets 0; for an error without ``upper_bound``, it is undefined (NaN),
    because there is no worst value.
    """

    identity_name = "fairtk.EU"
    output_version = 1
    NAME = "EU"
    PRETTY_NAME = "Expected utility"
    CITATION = "kim2024fairrag salemi2024lamp"
    BETTER = "higher"
    ABOUT = "how well generated answers match the gold answers"
    CAVEAT = "it does not show whether an answer is true or supported by the documents"
    is_by_query = True
    MISSING = 0.0
    RUN_COLUMNS = (QID, QANSWER)
    QREL_COLUMNS = (QID, GOLD_ANSWER)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "utility": UTILITY,
        "upper_bound": UPPER_BOUND,
    }
    POSITIONAL = ("utility",)

    def check_params(self) -> None:
        """Raise a `ParameterError` for an upper bound of a higher-is-better utility."""
        if "upper_bound" in self.params and self.utility.higher_is_better:
            raise ParameterError(
                f"EU: upper_bound is only valid with an error, got {self.utility.name!r} (higher "
                "is better); drop upper_bound"
            )

    @property
    def utility(self) -> Utility:
        """The string utility."""
        utility: Utility = self.require_param("utility", "a utility: write EU(utility='rougeL')")
        return utility

    @property
    def better(self) -> str:
        """The utility's direction; higher with ``upper_bound``."""
        turned = self["upper_bound"] is not None
        return "higher" if self.utility.higher_is_better or turned else "lower"

    def score_answers(self, judged: LabeledRun) -> tuple[IntArray, FloatArray]:
        """Return the query and the utility of each ranking, sorted by query and sample.

        The utility of a ranking with several answers is their mean. It is NaN for all rankings of a
        query if the server has cut a prompt of it, whose answers say nothing about the documents.
        """
        scored = self.scored(judged)
        unread = judged.derived(has_unread_prompt)
        return scored.query, np.where(unread[scored.query], np.nan, scored.value)

    def scored(self, judged: LabeledRun) -> ScoredAnswers:
        """Return the utility of each ranking, and how much it varies over its answers."""
        return judged.derived(_scored, self)

    @property
    def of_sample(self) -> ExpectedUtility:
        """The utility of the answer to one sample."""
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value; infinite if unbounded."""
        low, high = getattr(self.utility, "bounds", (-math.inf, math.inf))
        turned = self["upper_bound"]
        return (low, high) if turned is None else (turned - high, turned - low)

    @property
    def worst(self) -> float:
        """The value of a query without an answer; NaN for an unbounded error."""
        return self.MISSING if self.better == "higher" else math.nan

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the mean utility of each query's answers."""
        query, value = self.score_answers(judged)
        n_queries = len(judged.qids)
        count = np.bincount(query, minlength=n_queries)
        result = np.where(count > 0, average(query, value, n_queries), self.worst)
        absent = np.isnan(result) & (count == 0)
        reasons = [
            (UNREAD_PROMPT, judged.derived(has_unread_prompt)),
            ("no answer, without a worst value (no upper_bound)", absent),
        ]
        return Scores.of(result, reasons)


def _scored(judged: LabeledRun, measure: ExpectedUtility) -> ScoredAnswers:
    labels, where = judged.qrels.frame, repr(measure)
    require_columns(labels, [QID, GOLD_ANSWER], f"{where} (qrels)")
    of_row = judged.qids[judged.qrels.query]
    gold = gold_answers(of_row, labels[GOLD_ANSWER].tolist(), where)
    query, sample, prompt, cells = _answers(judged, where)
    cell, answers = flattened(cells)
    missing = [qid for qid in judged.qids[np.unique(query)] if qid not in gold]
    if missing:
        raise InputError(
            f"{where}: missing gold answer of qid {missing[0]!r} "
            f"({such(len(missing), 'query')}); add it with fairtk.join_answers(qrels, answers)"
        )
    utility = measure.utility
    try:
        values = utility(answers, [gold[qid] for qid in judged.qids[query[cell]]])
    except InputError:
        is_sampled = SAMPLE in judged.run.frame.columns
        for number, answer in zip(cell.tolist(), answers, strict=True):
            qid = judged.qids[query[number]]
            try:
                utility([answer], [gold[qid]])
            except InputError as error:
                at = f", sample {sample[number]}" if is_sampled else ""
                raise InputError(f"{judged.run.where}: qid {qid!r}{at}: {error}") from None
        raise
    value = np.array(values, dtype=np.float64)
    bound = measure["upper_bound"]
    value = value if bound is None else bound - value
    n = np.bincount(cell, minlength=len(query))
    if len(answers) == len(query):
        return ScoredAnswers(query, sample, value, np.full(len(query), np.nan), n, prompt)
    mean = average(cell, value, len(query))
    squares = np.bincount(cell, weights=(value - mean[cell]) ** 2, minlength=len(query))
    variance = np.where(n > 1, squares / np.maximum(n - 1, 1), np.nan)
    return ScoredAnswers(query, sample, mean, variance, n, prompt)


def gold_answers(qids: Iterable[str], answers: Iterable[Any], where: str) -> dict[str, Any]:
    """Return the gold answer of each query that has one, a string or a list of alternatives.

    Args:
        qids: the query of each row.
        answers: the gold answer of each row; other values than a string or a list are missing.
        where: the caller, for messages.

    Raises:
        InputError: a query has two different gold answers.
    """
    gold: dict[str, Any] = {}
    for qid, answer in zip(qids, answers, strict=True):
        if isinstance(answer, np.ndarray | tuple):
            answer = list(answer)
        if not isinstance(answer, str | list):
            continue  # an error only if no row of the query has it
        if gold.setdefault(qid, answer) != answer:
            raise InputError(
                f"{where}: expected one gold answer for qid {qid!r}, got {gold[qid]!r} and "
                f"{answer!r}; put alternatives into one list, repeated on each row"
            )
    return gold


def _answers(judged: LabeledRun, where: str) -> tuple[IntArray, IntArray, ObjectArray, ObjectArray]:
    """Return query, sample, prompt and answers of each ranking; see `ScoredAnswers`."""
    frame = judged.run.frame
    if len(frame) == 0 and QANSWER not in frame.columns:
        nothing = np.zeros(0, dtype=object)
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), nothing, nothing
    require_columns(frame, [QID, QANSWER], f"{where} (run; end the pipeline with a generator)")
    if DOCNO in frame.columns and len(frame):
        judged.run.checked()
    query = judged.run.frame_query
    samples = judged.run.samples
    sample = 0 if samples is None else samples
    check_answers(frame[QANSWER], judged.run.refuse)
    texts: Any = frame[QANSWER].to_numpy()
    several = has_lists(frame[QANSWER])
    if several:
        texts = hashable(texts)
    table = pd.DataFrame({"query": query, "sample": sample, "text": texts})
    if several:
        table["prompt"] = frame[PROMPT_ID].to_numpy() if PROMPT_ID in frame.columns else ""
    if table["text"].isna().any():
        row = frame.iloc[int(np.flatnonzero(table["text"].isna())[0])]
        raise InputError(
            f"{where}: missing answer of qid {str(row[QID])!r}, got {row[QANSWER]}; an answer may "
            "be an empty string"
        )
    table = table.drop_duplicates()
    twice = table[table.duplicated(["query", "sample"])]
    if len(twice):
        row = frame.iloc[int(twice.index[0])]
        at = f", sample {row[SAMPLE]}" if SAMPLE in frame.columns else ""
        raise InputError(
            f"{where}: expected one answer per ranking, got two for qid {str(row[QID])!r}{at}; "
            "repeat the same answer on each row of a ranking"
        )
    table = table.sort_values(["query", "sample"])
    query = judged.query_of_run[table["query"].to_numpy()]
    cells = table["text"].to_numpy(dtype=object)
    if several:
        # equal prompts of different models have different answers
        prompt = hashable(list(zip(table["prompt"], cells, strict=True)))
        return query, table["sample"].to_numpy(), prompt, cells
    return query, table["sample"].to_numpy(), cells, cells


EU = ExpectedUtility()
