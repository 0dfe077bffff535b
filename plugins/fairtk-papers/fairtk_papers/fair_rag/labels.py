"""Utility labels: which documents help a generator (*Towards Fair RAG*, appendix B, algorithm 1).

The generator answers each question without documents and with each candidate alone. The gain of a
document is the utility of its answer minus the utility of the answer without documents. A document
is useful (label 1) if its gain is above 0.

The published code differs in three ways. Each is available as a setting: it labels LaMP-3 by
accuracy although EU uses MAE (``label_utility="code"``), it reads 1,001 queries although the paper
says 1,000 (``limit``), and on several devices it generates without beam search (``num_beams=1`` of
the generator). A label is the sign of a small difference, so use float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.datasets import join_answers
from fairtk.errors import InputError, ParameterError, StageError
from fairtk.experiment import Experiment
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    LABEL,
    QANSWER,
    QID,
    SAMPLE,
    Qrels,
    require_columns,
)
from fairtk.measures import EU
from fairtk.transformers import Candidates, Generator, SingleDocumentSampler
from fairtk.utilities import Utility, get
from fairtk.wording import format_list
from fairtk_papers.fair_rag.settings import Grades, LampTask, RagSettings

ALONE, WITHOUT = "each document alone", "no document"
_ON_ANSWERS = ("failed queries", "cut prompts")
"""The kinds of remarks on values that are about answers."""


@dataclass(frozen=True)
class UtilityLabels:
    """The result of `utility_labels`.

    Attributes:
        documents: one row per query and candidate: ``qid``, ``docno``, ``qanswer`` (the answer
            from this document alone), ``utility`` (higher is better), ``gain``, ``label``.
        baseline: one row per query: ``qid``, ``gold_answer``, ``qanswer`` (the answer without
            documents), ``utility``.
        failures: the queries without labels, because an answer is missing or its prompt was cut:
            ``system``, ``qid``, ``error``.
        warnings: the warnings about the answers, which `utility_labels` has issued.
    """

    documents: pd.DataFrame
    baseline: pd.DataFrame
    failures: pd.DataFrame
    warnings: Sequence[Warning] = ()

    def qrels(self, min_useful: int = 2) -> pd.DataFrame:
        """Return the labels as qrels with gold answers.

        Args:
            min_useful: queries with fewer useful documents are excluded. The default is the
                paper's, because fairness between useful documents requires two.

        Returns:
            ``qid``, ``docno``, ``label``, ``gold_answer``.
        """
        labels = self.documents[[QID, DOCNO, LABEL]]
        return _with_useful(labels, min_useful, self.baseline[[QID, GOLD_ANSWER]])


def _with_useful(labels: pd.DataFrame, least: int, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the labels of queries with enough useful documents, with gold answers."""
    useful = (labels[LABEL] > 0).groupby(labels[QID]).transform("sum")
    golds = answers.set_index(QID)[GOLD_ANSWER]
    labels = labels[useful >= least].reset_index(drop=True)
    return labels.assign(**{GOLD_ANSWER: labels[QID].map(golds)})


def utility_labels(
    topics: pd.DataFrame,
    candidates: Any,
    answers: pd.DataFrame,
    generator: Generator,
    utility: str | Utility,
    *,
    upper_bound: float | None = None,
    grades: str = "binary",
    save_dir: str | PathLike[str] | None = None,
    **engine: Any,
) -> UtilityLabels:
    """Label each candidate by its gain in utility for a generator.

    Args:
        topics: ``qid``, ``query``, and optionally ``question``.
        candidates: Q -> R: the candidates of each query, with the columns that the prompt
            requires, e.g. ``Candidates("lamp/4/dev")``.
        answers: ``qid``, ``gold_answer`` (`fairtk.datasets.get_answers`).
        generator: the generator; its prompts have one document or none.
        utility: name of a string utility, or a utility.
        upper_bound: turns an error u into upper_bound - u, as `fairtk.EU` does.
        grades: ``"binary"``: 1 if the gain is above 0, else 0. ``"gain"``: the rank of a gain
            above 0 among the query's distinct gains, 1 for the smallest; otherwise 0.
        save_dir: the folder of the store for all answers; `None` to store nothing.
        **engine: further arguments of `fairtk.Experiment`, e.g. ``executor``.

    Raises:
        ParameterError: `grades` is unknown, or `upper_bound` does not fit the utility.
        InputError: a query has no gold answer, or no query has candidates.
        StageError: an answer is missing, or its prompt was cut, for each query.
    """
    checks.choice("grades", grades, get_args(Grades), "utility_labels")
    utility = get(utility) if isinstance(utility, str) else utility
    if utility.higher_is_better == (upper_bound is not None):
        rule = "required" if upper_bound is None else "not supported"
        raise ParameterError(f"upper_bound is {rule} for the utility {utility.name!r}")
    require_columns(answers, [QID, GOLD_ANSWER], "utility_labels (answers)")
    missing = topics[QID][~topics[QID].isin(answers[QID])].tolist()
    if missing:
        raise InputError(
            f"utility_labels: missing gold answers for {len(missing)} of {len(topics)} queries "
            f"({format_list(missing)}); add them to answers"
        )
    answers = answers[answers[QID].isin(topics[QID])]
    with_golds = join_answers(topics[[QID]].assign(**{DOCNO: "-", LABEL: 1}), answers)
    bound = {} if upper_bound is None else {"upper_bound": upper_bound}
    results = Experiment(
        label_systems(candidates, generator),
        topics,
        with_golds,  # EU reads only the gold answers
        [EU(utility=utility, **bound)],
        save_dir=save_dir,
        warn=False,  # other labels may be in the folder
        **engine,
    )
    of_answers = [r for r in results.remarks if r.stage or r.kind in _ON_ANSWERS]
    remarks = replace(results, remarks=tuple(of_answers)).warnings
    for warning in remarks:
        warnings.warn(warning, stacklevel=2)
    undefined = results.undefined.rename(columns={"reason": "error"})  # of prompts that were cut
    failures = pd.concat([results.failures, undefined[list(results.failures)]], ignore_index=True)
    if topics[QID].map(str).isin(failures[QID]).all():
        reasons = format_list(failures["error"].drop_duplicates().tolist())
        raise StageError(f"utility_labels: no labels for any of {len(topics)} queries ({reasons})")
    documents = results.rankings(ALONE)
    if documents.empty:
        raise InputError(f"utility_labels: no candidates for any of {len(topics)} queries")
    baseline = results.rankings(WITHOUT)[[QID, QANSWER]]
    golds = dict(zip(with_golds[QID].map(str), with_golds[GOLD_ANSWER], strict=True))
    baseline.insert(1, GOLD_ANSWER, baseline[QID].map(golds))
    values = results.per_query[results.per_query["system"] == WITHOUT]
    baseline["utility"] = baseline[QID].map(values.set_index(QID)["value"])
    documents = documents.loc[~documents[QID].isin(failures[QID]), [QID, DOCNO, QANSWER, SAMPLE]]
    values = results.per_sample.query("system == @ALONE")[[QID, SAMPLE, "value"]]
    documents = documents.merge(values, on=[QID, SAMPLE], how="left").drop(columns=SAMPLE)
    documents = documents.rename(columns={"value": "utility"})
    without = documents[QID].map(baseline.set_index(QID)["utility"])
    documents["gain"] = documents["utility"] - without
    documents[LABEL] = _grades(documents, grades)
    return UtilityLabels(documents, baseline, failures, remarks)


def label_systems(candidates: Any, generator: Generator) -> dict[str, Any]:
    """Return the two pipelines that label documents, by name."""
    return {WITHOUT: generator, ALONE: candidates >> SingleDocumentSampler() >> generator}


def _grades(documents: pd.DataFrame, grades: str) -> Any:
    gain = documents["gain"].round(12)  # the mean of several answers depends on their order
    useful = gain > 0
    if grades == "binary":
        return useful.astype(np.int64)
    rank = gain.where(useful).groupby(documents[QID]).rank(method="dense")
    return rank.fillna(0).astype(np.int64)


def statistics(qrels: pd.DataFrame) -> dict[str, float]:
    """Return the statistics of a test collection in Tables 13 to 15.

    Args:
        qrels: ``qid``, ``docno``, ``label``, one row per candidate.

    Returns:
        ``queries``; means over the queries of ``documents``, ``useful`` documents and ``percent
        useful``; ``documents std`` and ``useful std``, the standard deviations (divided by n - 1;
        the paper does not specify it).
    """
    useful = qrels[LABEL] > 0
    table = useful.groupby(qrels[QID], sort=False).agg(["size", "sum", "mean"])
    return {
        "queries": len(table),
        "documents": table["size"].mean(),
        "documents std": table["size"].std(),
        "useful": table["sum"].mean(),
        "useful std": table["sum"].std(),
        "percent useful": 100 * table["mean"].mean(),
    }


def agreement(qrels: pd.DataFrame, published: pd.DataFrame) -> dict[str, float]:
    """Return the agreement of two sets of labels on which documents are useful.

    Args:
        qrels: labels, e.g. from `UtilityLabels.qrels`.
        published: other labels of the same documents.

    Returns:
        ``pairs``: documents in both; ``only here``, ``only published``: documents in one;
        ``share`` of equal labels; Cohen's ``kappa`` (NaN if the expected agreement is 1).
    """
    frames = [Qrels(frame, "agreement").plain() for frame in (qrels, published)]
    both = frames[0].merge(frames[1], on=[QID, DOCNO], suffixes=("", "_published"))
    first = (both[LABEL] > 0).to_numpy()
    second = (both[f"{LABEL}_published"] > 0).to_numpy()
    share = float((first == second).mean()) if len(both) else np.nan
    p, q = (first.mean(), second.mean()) if len(both) else (1, 1)
    chance = p * q + (1 - p) * (1 - q)
    return {
        "pairs": len(both),
        "only here": len(frames[0]) - len(both),
        "only published": len(frames[1]) - len(both),
        "share": share,
        "kappa": float((share - chance) / (1 - chance)) if chance < 1 else np.nan,
    }


AGREEMENT = ["task", "generator", "other", "pairs", "flipped", "share", "kappa"]
"""Columns of `label_agreement`."""


@dataclass(frozen=True)
class TaskLabels:
    """A task's labels for a generator.

    Attributes:
        qrels: ``qid``, ``docno``, ``label``, ``gold_answer`` of the queries that are not excluded.
        queries: number of queries before exclusion.
        facts: the source of the labels, the statistics of Tables 13 to 15, and the agreement with
            published labels.
        gains: gains, answers and utilities; `None` for published labels.
    """

    qrels: pd.DataFrame
    queries: int
    facts: dict[str, Any]
    gains: UtilityLabels | None

    @property
    def warnings(self) -> Sequence[Warning]:
        """The warnings about the answers that the labels are from."""
        return self.gains.warnings if self.gains else ()


def label_task(
    task: LampTask,
    generator: Generator,
    settings: RagSettings,
    folder: Path,
    engine: Mapping[str, Any],
) -> TaskLabels:
    """Return a task's labels for a generator.

    Args:
        task: the task.
        generator: the task's generator.
        settings: the settings of the study.
        folder: the folder of the store.
        engine: arguments of `fairtk.Experiment`.
    """
    topics = task.topics[: settings.limit]
    published = task.published
    if published is not None:
        published = published[published[QID].isin(set(topics[QID]))]
    if settings.labels == "published" and published is not None:
        qrels = _with_useful(published, settings.min_useful, task.answers)
        return TaskLabels(qrels, len(topics), _facts("published", qrels, len(topics)), None)
    utility = settings.get_label_utility(task.number)
    gains = utility_labels(
        topics,
        Candidates(task.dataset),
        task.answers,
        generator,
        utility.name,
        upper_bound=utility.upper_bound,
        grades=settings.grades,
        save_dir=folder,
        **engine,
    )
    qrels = gains.qrels(settings.min_useful)
    facts = _facts(f"gains in {utility.name}", qrels, len(topics))
    if published is not None:
        agreed = agreement(gains.documents[[QID, DOCNO, LABEL]], published)
        facts |= {f"published: {key}": value for key, value in agreed.items()}
    return TaskLabels(qrels, len(topics), facts, gains)


def _facts(source: str, qrels: pd.DataFrame, queries: int) -> dict[str, Any]:
    counts = statistics(qrels)
    excluded = queries - int(counts["queries"])
    return {"labels": source, "looked at": queries, "left out": excluded, **counts}


def label_agreement(labels: Mapping[tuple[str, str], TaskLabels]) -> pd.DataFrame:
    """Return the agreement between labels from different generators, or one in two dtypes.

    Args:
        labels: labels by task and generator; published labels are skipped.

    Returns:
        One row per task and pair of generators: ``task``, ``generator``, ``other``, ``pairs``
        (documents with a label of both), ``flipped`` (useful for only one of them), ``share`` of
        equal labels, Cohen's ``kappa``.
    """
    documents = {key: part.gains.documents for key, part in labels.items() if part.gains}
    rows = []
    for (task, first), (other_task, second) in combinations(documents, 2):
        if task != other_task:
            continue
        sides = [documents[task, name][[QID, DOCNO, LABEL]] for name in (first, second)]
        agreed = agreement(*sides)
        flipped = round(agreed["pairs"] * (1 - agreed["share"])) if agreed["pairs"] else 0
        rows.append(
            (task, first, second, agreed["pairs"], flipped, agreed["share"], agreed["kappa"])
        )
    return pd.DataFrame(rows, columns=AGREEMENT)


def explain_no_labels(
    task: LampTask, generator: str, labels: TaskLabels, settings: RagSettings
) -> str:
    """Return why all queries of a task are excluded, and how to fix it."""
    least, fewer = settings.min_useful, "min_useful = 1 in the TOML file"
    head = (
        f"{task.name}, {generator}: none of {labels.queries} queries has {least} useful documents"
    )
    if labels.gains is None:
        return (
            f"{head} in the published labels. Use more queries (`limit`), `labels='own'` or {fewer}"
        )
    documents = labels.gains.documents
    utility = settings.get_label_utility(task.number)
    values = pd.concat([documents["utility"], labels.gains.baseline["utility"]])
    n_queries = documents[QID][documents[LABEL] > 0].nunique()
    remedies = [fewer] * (n_queries > 0) + ["more queries (`limit`)"]
    why = f"documents rarely improve this generator's answers. Use {', '.join(remedies)}"
    if utility.upper_bound is None and (values == 0).all():
        why = (
            f"{utility.name} is 0 for all {len(values)} answers: {get(utility.name).if_zero} "
            "(option --utility, or utility in the TOML file)"
        )
    return (
        f"{head} ({n_queries} have one): {why}, or a model for this task (-g t5:FOLDER; the "
        "packaged model is for LaMP-2). docs/reproduce/index.md in fairtk's repository shows how "
        "examples/headline_model.py trains one for LaMP-4"
    )
