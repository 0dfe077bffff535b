"""EU: expected utility of generated answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
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
    require_columns,
)
from fairtk.measures.base import FairMeasure
from fairtk.measures.labeled_run import LabeledRun
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
    read_utility, Utility, desc="string utility: accuracy, mae, rouge1, rougeL, em, f1, ..."
)
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
        """Return the query and the utility of each answer, sorted by query and sample."""
        labels, where = judged.qrels.frame, repr(self)
        require_columns(labels, [QID, GOLD_ANSWER], f"{where} (qrels)")
        of_row = judged.qids[judged.qrels.query]
        gold = gold_answers(of_row, labels[GOLD_ANSWER].tolist(), where)
        query, answers = _answers(judged, where)
        missing = [qid for qid in judged.qids[np.unique(query)] if qid not in gold]
        if missing:
            raise InputError(
                f"{where}: missing gold answer of qid {missing[0]!r} "
                f"({such(len(missing), 'query')}); add it with fairtk.join_answers(qrels, answers)"
            )
        values = self.utility(answers, [gold[qid] for qid in judged.qids[query]])
        value = np.array(values, dtype=np.float64)
        bound = self["upper_bound"]
        return query, value if bound is None else bound - value

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
        return Scores.of(result, [("no answer, without a worst value (no upper_bound)", absent)])


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


def _answers(judged: LabeledRun, where: str) -> tuple[IntArray, list[str]]:
    """Return the query and the text of each answer, one per (qid, sample)."""
    frame = judged.run.frame
    if len(frame) == 0 and QANSWER not in frame.columns:
        return np.zeros(0, dtype=np.int64), []
    require_columns(frame, [QID, QANSWER], f"{where} (run; end the pipeline with a generator)")
    if DOCNO in frame.columns and len(frame):
        judged.run.checked()
    query = judged.run.frame_query
    samples = judged.run.samples
    sample = 0 if samples is None else samples
    table = pd.DataFrame({"query": query, "sample": sample, "text": frame[QANSWER].to_numpy()})
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
    return query, [str(text) for text in table["text"]]


EU = ExpectedUtility()
