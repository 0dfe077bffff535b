"""`seconds`, `calls` and `tokens`: the cost of language models, which experiments count."""

from __future__ import annotations

import math

import numpy as np

from fairtk.errors import InputError
from fairtk.frames import QID, require_columns
from fairtk.frames.columns import as_numbers
from fairtk.measures.base import FairMeasure
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.scores import Scores


def reason_column(name: str) -> str:
    """Return the column with the reasons why queries have no cost of this name."""
    return f"no_{name}"


class Cost(FairMeasure):
    """Base of the costs of a query in calls of language models.

    In `fairtk.Experiment`, the value is the sum of what the stages of a system note. A run without
    an experiment requires a column with the measure's name, which has one value per query.
    """

    BETTER = "lower"
    MISSING = math.nan
    BOUNDS = (0.0, math.inf)
    QREL_COLUMNS = (QID,)
    CAVEAT = "it does not count what no stage of a system notes, e.g. retrieval"
    is_by_query = True

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the cost of each query."""
        frame, n_queries = judged.run.frame, len(judged.qids)
        absent = ("the query has no result", ~judged.present)
        if frame.empty:
            return Scores.of(np.full(n_queries, math.nan), [absent])
        where = f"{self.text} (run; fairtk.Experiment counts costs)"
        require_columns(frame, [QID, self.NAME], where)
        query = judged.query_of_run[judged.run.frame_query]
        values, of_row = np.full(n_queries, math.nan), as_numbers(frame[self.NAME])
        values[query] = of_row
        differing = ~((values[query] == of_row) | np.isnan(of_row) & np.isnan(values[query]))
        if differing.any():
            raise InputError(
                f"{where}: expected one value per query, got several for qid "
                f"{judged.qids[query[differing][0]]!r}"
            )
        undefined = np.isnan(values) & judged.present
        texts = np.full(n_queries, f"the run has no {self.NAME}", dtype=object)
        if reason_column(self.NAME) in frame.columns:
            texts[query] = frame[reason_column(self.NAME)].to_numpy(dtype=object)
        reasons = [(str(t), undefined & (texts == t)) for t in dict.fromkeys(texts[undefined])]
        return Scores.of(values, [absent, *reasons])


class Seconds(Cost):
    """How long language models take for a query.

    It is the sum of the seconds of all calls, as models report them; calls overlap if a model
    answers several prompts at a time. A stored answer counts with its recorded time.
    """

    NAME = "seconds"
    RUN_COLUMNS = (QID, NAME)
    PRETTY_NAME = "Seconds of model calls"


class Calls(Cost):
    """How many calls of language models a query requires.

    Each distinct prompt of a query counts once per answer, whether it was sent for this query, for
    another one, or in an earlier run.
    """

    NAME = "calls"
    RUN_COLUMNS = (QID, NAME)
    PRETTY_NAME = "Model calls"


class Tokens(Cost):
    """How many tokens language models read and write for a query.

    It is the sum of the tokens of prompts and answers, as models report them.
    """

    NAME = "tokens"
    RUN_COLUMNS = (QID, NAME)
    PRETTY_NAME = "Tokens of model calls"


COSTS: dict[str, Cost] = {cost.NAME: cost for cost in (Seconds(), Calls(), Tokens())}
"""The costs by name."""
