"""The study that ``fairtk demo`` runs: BM25 and fair rankings, measured by exposure and answers.

BM25 ranks each viewer's profile; `fairtk.FairSampler` makes it fairer as alpha falls from 8 to 0
(uniform); the tiny T5 answers from the first five entries. Kim and Diaz 2024, "Towards Fair RAG",
run this study on LaMP with FLAN-T5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.demo import load, model_folder
from fairtk.errors import ParameterError
from fairtk.frames.columns import DOCNO, LABEL, QID, QUERY, QUESTION, RANK, SAMPLE, SCORE, TEXT

if TYPE_CHECKING:
    from fairtk.transformers.flan_t5 import FlanT5

ALPHAS: tuple[float, ...] = (0, 1, 2, 4, 8)
DETERMINISTIC = "deterministic"
CUTOFF = 5
TAG = "tag"
BATCH_TOKENS = 4096
"""For a model this small, batches that fit into the processor's cache are the fastest."""
TOLERANCE = 0.01
"""A loss of accuracy that `summary` takes for none."""

Progress = Callable[[str, int, int], None]
"""Called with a stage's name, how much of it is done, and how much there is."""


def run(
    n_samples: int = 100,
    queries: int | None = None,
    progress: Progress | None = None,
    n_answers: int = 25,
) -> pd.DataFrame:
    """Run the study.

    As in the paper, only queries with a useful profile entry count: without one, EE_R is
    undefined and no ranking is better than another.

    Args:
        n_samples: rankings per query and alpha, at least 1.
        queries: how many queries, at least 1; None for all.
        progress: told how the work goes; None for silence.
        n_answers: for how many of the rankings of a query and alpha, the first ones, answers are
            generated. Exposure and nDCG are cheap and measured on all; answers take almost all of
            the time, and their mean over many queries is settled by few.

    Returns:
        One row per system: ``alpha`` (0, 1, 2, 4, 8 or "deterministic") and the means over the
        queries of ``EE_D@5`` (0 to 1, lower = more equal exposure), ``EE_R@5`` (0 to 1, higher =
        exposure to useful entries), ``E(nDCG@5)`` (0 to 1, higher is better) and
        ``EU(utility='accuracy')`` (0 to 1, higher is better). The rows are in this order.

    Raises:
        ParameterError: a setting is out of its range.
        MissingExtraError: torch or transformers is not installed.
    """
    rankings, qrels = prepare(n_samples, queries, progress)
    first = {system: _first_samples(ranking, n_answers) for system, ranking in rankings.items()}
    answered = answer(first, generator(), progress)
    return evaluate(rankings, answered, qrels, progress)


def prepare(
    n_samples: int = 100, queries: int | None = None, progress: Progress | None = None
) -> tuple[dict[float | str, pd.DataFrame], pd.DataFrame]:
    """Retrieve and sample.

    Args:
        n_samples: rankings per query and alpha.
        queries: how many queries; None for all.
        progress: told how the work goes.

    Returns:
        One run per system, cut at 5 (sampled but for "deterministic"), and the qrels of the
        queries with ``gold_answer``.
    """
    from fairtk.transformers.bm25 import BM25Scorer
    from fairtk.transformers.sampler import FairSampler

    if queries is not None and queries < 1:
        raise ParameterError(f"the demo's queries must be at least 1; found {queries}")
    data = load()
    best = data.qrels.groupby(QID, sort=False)[LABEL].max()
    qids = best.index[best > 0][:queries]
    qrels = data.qrels[data.qrels[QID].isin(qids)].reset_index(drop=True)
    candidates = data.candidates[data.candidates[QID].isin(qids)]
    scored = BM25Scorer().transform(candidates)

    rankings: dict[float | str, pd.DataFrame] = {}
    for done, alpha in enumerate(ALPHAS):
        _tell(progress, "sampling", done, len(ALPHAS))
        sampler = FairSampler(alpha=alpha, n_samples=n_samples, cutoff=CUTOFF)
        rankings[alpha] = sampler.transform(scored)
    rankings[DETERMINISTIC] = scored[scored[RANK] < CUTOFF]
    _tell(progress, "sampling", len(ALPHAS), len(ALPHAS))
    return rankings, qrels


def generator() -> FlanT5:
    """Return the packaged model as the demo uses it: LaMP-2's prompt, five entries, on the CPU."""
    from fairtk.transformers.flan_t5 import FlanT5

    return FlanT5(
        model=model_folder(),
        prompt="lamp-2",
        cutoff=CUTOFF,
        device="cpu",
        max_new_tokens=8,
        batch_tokens=BATCH_TOKENS,
    )


def answer(
    rankings: dict[float | str, pd.DataFrame],
    generate: Any,
    progress: Progress | None = None,
    block: int = 6,
) -> dict[float | str, pd.DataFrame]:
    """Generate the answers of all systems together, so that a prompt they share costs once.

    Args:
        rankings: one run per system.
        generate: a transformer that adds ``qanswer``, such as `generator()`.
        progress: told how the work goes.
        block: queries per call of `generate`; rankings of different queries share no prompt.

    Returns:
        The runs with the column ``qanswer``.
    """
    columns = [QID, QUERY, QUESTION, DOCNO, SCORE, RANK, TEXT, TAG]
    parts = []
    for number, ranking in enumerate(rankings.values()):
        sample: Any = ranking.get(SAMPLE, 0)
        # Samples of different systems are kept apart by their number while they are together.
        part = ranking[columns].assign(**{SAMPLE: sample, "system": number, "own_sample": sample})
        part[SAMPLE] = part[SAMPLE] * len(rankings) + number
        parts.append(part)
    together = pd.concat(parts, ignore_index=True)
    qids = together[QID].drop_duplicates().tolist()
    blocks = [qids[start : start + block] for start in range(0, len(qids), block)]
    answered = []
    for done, chosen in enumerate(blocks):
        _tell(progress, "answers", done * block, len(qids))
        answered.append(generate.transform(together[together[QID].isin(chosen)]))
    _tell(progress, "answers", len(qids), len(qids))
    frame = pd.concat(answered, ignore_index=True).assign(**{SAMPLE: lambda f: f["own_sample"]})
    result = {}
    for number, (system, ranking) in enumerate(rankings.items()):
        part = frame[frame["system"] == number].drop(columns=["system", "own_sample"])
        result[system] = part if SAMPLE in ranking else part.drop(columns=SAMPLE)
    return result


def _first_samples(ranking: pd.DataFrame, n_answers: int) -> pd.DataFrame:
    if n_answers < 1:
        raise ParameterError(f"the demo's n_answers must be at least 1; found {n_answers}")
    return ranking[ranking[SAMPLE] < n_answers] if SAMPLE in ranking else ranking


def evaluate(
    rankings: dict[float | str, pd.DataFrame],
    answered: dict[float | str, pd.DataFrame],
    qrels: pd.DataFrame,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Measure each system; see `run` for the columns.

    Args:
        rankings: one run per system.
        answered: one run with ``qanswer`` per system, all or some samples.
        qrels: ``qid``, ``docno``, ``label``, ``gold_answer``.
        progress: told how the work goes.
    """
    import ir_measures
    from ir_measures import nDCG

    from fairtk.measures import EE_D, EE_R, EU, E

    of_rankings = [EE_D @ CUTOFF, EE_R @ CUTOFF, E(nDCG @ CUTOFF)]
    of_answers = [EU(utility="accuracy")]
    names = {QID: "query_id", DOCNO: "doc_id", LABEL: "relevance"}
    labels = qrels.rename(columns=names)
    rows = []
    for done, system in enumerate(rankings):
        _tell(progress, "measures", done, len(rankings))
        row: dict[str, Any] = {"alpha": system}
        for measures, frame in ((of_rankings, rankings[system]), (of_answers, answered[system])):
            values = ir_measures.calc_aggregate(measures, labels, frame.rename(columns=names))
            row.update({repr(measure): values[measure] for measure in measures})
        rows.append(row)
    _tell(progress, "measures", len(rankings), len(rankings))
    return pd.DataFrame(rows)


def summary(table: pd.DataFrame) -> str:
    """Say in one sentence what the numbers of `run` show.

    Args:
        table: from `run`.
    """
    by_system = table.set_index("alpha")
    disparity, relevance, _, utility = by_system.columns
    fixed, uniform = by_system.loc[DETERMINISTIC], by_system.loc[0]
    text = (
        "From the deterministic ranking to uniform sampling, "
        f"{disparity} goes from {fixed[disparity]:.2f} to {uniform[disparity]:.2f}, "
        f"{relevance} from {fixed[relevance]:.2f} to {uniform[relevance]:.2f} "
        f"and accuracy from {fixed[utility]:.2f} to {uniform[utility]:.2f}; "
    )
    sampled = by_system.drop(index=DETERMINISTIC)
    enough = sampled[sampled[utility] >= fixed[utility] - TOLERANCE]
    if enough.empty:
        best = sampled[utility].idxmax()
        return text + (
            f"every sampled policy answers worse than the deterministic ranking, alpha {best:g} "
            f"comes closest ({sampled.loc[best, utility]:.2f} at {disparity} "
            f"{sampled.loc[best, disparity]:.2f})."
        )
    fairest = enough[disparity].idxmin()
    return text + (
        f"the most equal exposure without a loss of more than {TOLERANCE} in accuracy is alpha "
        f"{fairest:g} ({enough.loc[fairest, utility]:.2f} at {disparity} "
        f"{enough.loc[fairest, disparity]:.2f})."
    )


def _tell(progress: Progress | None, stage: str, done: int, total: int) -> None:
    if progress is not None:
        progress(stage, min(done, total), total)
