"""Utility labels: which documents help a generator (*Towards Fair RAG*, appendix B, algorithm 1).

The generator answers each question without any document, and with every single candidate. The gain
of a document is the utility of its answer minus that of the answer without documents; a document
is useful (label 1) if its gain is above 0.

What the published code does otherwise is an argument each: it labels LaMP-3 by accuracy where EU
takes the error (`utility_of` with ``published=True``), looks at 1,001 queries where the paper says
a thousand (``limit``), and generates without beams on several devices (``num_beams=1`` of the
generator). Labels are signs of small differences: keep float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, ParameterError, format_list
from fairtk.experiment import Experiment
from fairtk.frames import DOCNO, GOLD_ANSWER, LABEL, QANSWER, QID, Qrels, require_columns
from fairtk.transformers import Candidates, Generator, SingleDocumentSampler
from fairtk.utilities import Utility, get
from fairtk_papers.fair_rag.settings import GRADES, LampTask, RagSettings
from fairtk_papers.studies import names_repeat

GAIN, UTILITY = "gain", "utility"
ALONE, WITHOUT = "each document alone", "no document"


@dataclass(frozen=True)
class UtilityLabels:
    """What `utility_labels` found.

    Attributes:
        documents: one row per query and candidate: ``qid``, ``docno``, ``qanswer`` (the answer
            from this document alone), ``utility`` (higher is better), ``gain``, ``label``.
        baseline: one row per query: ``qid``, ``gold_answer``, ``qanswer`` (the answer without
            documents), ``utility``.
        failures: ``system``, ``qid``, ``error``: queries that could not be labeled.
    """

    documents: pd.DataFrame
    baseline: pd.DataFrame
    failures: pd.DataFrame

    def qrels(self, min_useful: int = 2) -> pd.DataFrame:
        """Return the labels as qrels with gold answers.

        Args:
            min_useful: queries with fewer useful documents are left out; the paper leaves out
                those with at most one, for which fairness between useful documents says nothing.

        Returns:
            ``qid``, ``docno``, ``label``, ``gold_answer``.
        """
        useful = (self.documents[LABEL] > 0).groupby(self.documents[QID]).transform("sum")
        documents = self.documents[useful >= min_useful]
        golds = self.baseline.set_index(QID)[GOLD_ANSWER]
        labels = documents[[QID, DOCNO, LABEL]].reset_index(drop=True)
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
    """Label every candidate by what it gains a generator.

    Args:
        topics: ``qid``, ``query``; ``question`` if there is one.
        candidates: Q -> R: the candidates of each query with the columns that the prompt reads,
            e.g. ``Candidates("lamp/4/dev")``.
        answers: ``qid``, ``gold_answer`` (`fairtk.datasets.get_answers`).
        generator: as in the study; its prompt gets no document or one.
        utility: name of a string utility, or a utility.
        upper_bound: turns an error u into upper_bound - u, as `fairtk.EU` does.
        grades: ``"binary"``: 1 for a gain above 0, else 0; ``"gain"``: the place of a gain above
            0 among the query's distinct ones, from 1 for the smallest.
        save_dir: folder of the store, that of the study: no answer is generated twice.
        **engine: further arguments of `fairtk.Experiment`, e.g. ``executor``.

    Raises:
        ParameterError: `grades` is neither, or an error of utility has no upper bound.
        InputError: a query has no gold answer.
    """
    checks.choice("grades", grades, GRADES, "utility_labels")
    score = Score(utility, upper_bound)
    require_columns(answers, [QID, GOLD_ANSWER], "utility_labels (answers)")
    golds = dict(zip(answers[QID], answers[GOLD_ANSWER], strict=True))
    lacking = [qid for qid in topics[QID] if qid not in golds]
    if lacking:
        raise InputError(
            f"utility_labels: no gold answer for {len(lacking)} of {len(topics)} queries "
            f"({format_list(lacking)})"
        )
    systems = label_systems(candidates, generator)
    with names_repeat():
        results = Experiment(systems, topics, save_dir=save_dir, **engine)
    baseline = results.rankings(WITHOUT)[[QID, QANSWER]]
    baseline.insert(1, GOLD_ANSWER, baseline[QID].map(golds))
    baseline[UTILITY] = score(baseline[QANSWER], baseline[GOLD_ANSWER])
    documents = results.rankings(ALONE)[[QID, DOCNO, QANSWER]]
    documents = documents[documents[QID].isin(set(baseline[QID]))].reset_index(drop=True)
    documents[UTILITY] = score(documents[QANSWER], documents[QID].map(golds))
    without = documents[QID].map(baseline.set_index(QID)[UTILITY])
    documents[GAIN] = documents[UTILITY] - without
    documents[LABEL] = _labels(documents, grades)
    return UtilityLabels(documents, baseline, results.failures)


def label_systems(candidates: Any, generator: Generator) -> dict[str, Any]:
    """Return the two pipelines whose answers labels are made of, by name.

    Args:
        candidates: Q -> R.
        generator: as in the study.
    """
    return {WITHOUT: generator, ALONE: candidates >> SingleDocumentSampler() >> generator}


def _labels(documents: pd.DataFrame, grades: str) -> Any:
    useful = documents[GAIN] > 0
    if grades == "binary":
        return useful.astype(np.int64)
    place = documents[GAIN].where(useful).groupby(documents[QID]).rank(method="dense")
    return place.fillna(0).astype(np.int64)


class Score:
    """A utility of which more is better.

    Args:
        utility: name of a string utility, or a utility.
        upper_bound: turns an error u into upper_bound - u.
    """

    def __init__(self, utility: str | Utility, upper_bound: float | None = None) -> None:
        self.utility: Utility = get(utility) if isinstance(utility, str) else utility
        if self.utility.higher_is_better == (upper_bound is not None):
            needed = "needs" if upper_bound is None else "is no error and takes no"
            raise ParameterError(f"the utility {self.utility.name!r} {needed} upper_bound")
        self.upper_bound = upper_bound

    def __call__(self, answers: pd.Series, golds: pd.Series) -> Any:
        """Return one number per pair; equal pairs are scored once."""
        listed_golds = golds.map(lambda gold: gold if isinstance(gold, str) else tuple(gold))
        pairs = pd.MultiIndex.from_arrays([answers, listed_golds])
        code, distinct = pairs.factorize()
        values = [list(distinct.get_level_values(i)) for i in (0, 1)]
        texts = [list(gold) if isinstance(gold, tuple) else gold for gold in values[1]]
        scores = np.asarray(self.utility(values[0], texts), dtype=np.float64)
        scores = scores if self.upper_bound is None else self.upper_bound - scores
        return scores[code] if len(code) else np.zeros(0)


def statistics(qrels: pd.DataFrame) -> dict[str, float]:
    """Return what Tables 13 to 15 say of a test collection.

    Args:
        qrels: ``qid``, ``docno``, ``label``, a row per candidate.

    Returns:
        ``queries``; means over the queries of ``documents``, of ``useful`` documents, of their
        share in ``percent useful``; ``documents std`` and ``useful std`` (n - 1 below the line;
        the paper does not say).
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
    """Return how far two sets of labels agree on which documents are useful.

    Args:
        qrels: labels, e.g. of `UtilityLabels.qrels`.
        published: other labels of the same documents.

    Returns:
        ``pairs`` (labeled by both), ``only here``, ``only published``, ``share`` of equal labels,
        Cohen's ``kappa`` (NaN if chance alone gives full agreement).
    """
    frames = [Qrels(frame, "agreement").plain() for frame in (qrels, published)]
    both = frames[0].merge(frames[1], on=[QID, DOCNO], suffixes=("", "_published"))
    one = (both[LABEL] > 0).to_numpy()
    other = (both[f"{LABEL}_published"] > 0).to_numpy()
    share = float((one == other).mean()) if len(both) else np.nan
    chance = one.mean() * other.mean() + (1 - one.mean()) * (1 - other.mean()) if len(both) else 1
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
class Labeled:
    """A task's labels for a generator.

    Attributes:
        qrels: of the queries that are kept: ``qid``, ``docno``, ``label``, ``gold_answer``.
        queries: how many were looked at.
        facts: where the labels are from, Tables 13 to 15, agreement with published ones.
        own: gains, answers and utilities; None for published labels.
    """

    qrels: pd.DataFrame
    queries: int
    facts: dict[str, Any]
    own: UtilityLabels | None


def label_task(
    task: LampTask,
    generator: Generator,
    settings: RagSettings,
    folder: Path,
    engine: Mapping[str, Any],
) -> Labeled:
    """Return a task's labels for a generator.

    Args:
        task: the task.
        generator: made for it.
        settings: whose labels, and by which utility.
        folder: of the store.
        engine: arguments of `fairtk.Experiment`.
    """
    topics = task.topics[: settings.limit]
    published = task.published
    if published is not None:
        published = published[published[QID].isin(set(topics[QID]))]
    if settings.labels == "published" and published is not None:
        useful = (published[LABEL] > 0).groupby(published[QID]).transform("sum")
        labeled = published[useful >= settings.min_useful].reset_index(drop=True)
        golds = task.answers.set_index(QID)[GOLD_ANSWER]
        qrels = labeled.assign(**{GOLD_ANSWER: labeled[QID].map(golds)})
        return Labeled(qrels, len(topics), _facts("published", qrels, len(topics)), None)
    utility = settings.utility_of_labels(task.number)
    own = utility_labels(
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
    qrels = own.qrels(settings.min_useful)
    facts = _facts(f"gains in {utility.name}", qrels, len(topics))
    if published is not None:
        agreed = agreement(own.documents[[QID, DOCNO, LABEL]], published)
        facts |= {f"published: {key}": value for key, value in agreed.items()}
    return Labeled(qrels, len(topics), facts, own)


def _facts(source: str, qrels: pd.DataFrame, queries: int) -> dict[str, Any]:
    counts = statistics(qrels)
    left_out = queries - int(counts["queries"])
    return {"labels": source, "looked at": queries, "left out": left_out, **counts}


def label_agreement(labels: Mapping[tuple[str, str], Labeled]) -> pd.DataFrame:
    """Return how far generators' own labels agree, e.g. those of one model in two dtypes.

    Args:
        labels: by task and generator.

    Returns:
        One row per task and pair of generators: ``task``, ``generator``, ``other``, ``pairs``
        (documents that both labeled), ``flipped`` (those that one alone finds useful), ``share``
        of equal labels, Cohen's ``kappa``.
    """
    own = {key: labeled.own.documents for key, labeled in labels.items() if labeled.own is not None}
    rows = []
    for (task, first), (other_task, second) in combinations(own, 2):
        if task != other_task:
            continue
        sides = [own[task, name][[QID, DOCNO, LABEL]] for name in (first, second)]
        agreed = agreement(*sides)
        flipped = round(agreed["pairs"] * (1 - agreed["share"])) if agreed["pairs"] else 0
        rows.append(
            (task, first, second, agreed["pairs"], flipped, agreed["share"], agreed["kappa"])
        )
    return pd.DataFrame(rows, columns=AGREEMENT)


def nothing_useful(task: LampTask, generator: str, labeled: Labeled, settings: RagSettings) -> str:
    """Return why a task cannot be measured with a generator, and what to do."""
    least, fewer = settings.min_useful, "min_useful = 1 in the TOML file"
    head = f"{task.name}, {generator}: no query of {labeled.queries} has {least} useful documents"
    if labeled.own is None:
        return (
            f"{head} by the published labels. Take more queries (`limit`), `labels='own'`, or "
            f"{fewer}"
        )
    documents = labeled.own.documents
    n_queries = documents[QID][documents[LABEL] > 0].nunique()
    remedies = [fewer] * (n_queries > 0 and least > 1) + ["more queries (`limit`)"]
    return (
        f"{head} ({n_queries} have one or more): the generator answers no better with a document "
        f"than without. Take {', '.join(remedies)}, or a model for this task (-g t5:FOLDER; the "
        "packaged one is for LaMP-2). docs/reproduce/index.md in fairtk's repository shows how "
        "examples/headline_model.py trains one for LaMP-4"
    )
