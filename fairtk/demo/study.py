"""The study that ``fairtk demo`` runs: BM25 and fair rankings, measured by exposure and answers.

BM25 ranks each viewer's profile; `fairtk.FairSampler` makes it fairer as alpha falls from 8 to 0
(uniform); the tiny T5 answers from the first five entries. Kim and Diaz 2024, "Towards Fair RAG",
run this study on LaMP with FLAN-T5.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from os import PathLike
from typing import Any

import pandas as pd
from ir_measures import nDCG
from pyterrier._ops import RankCutoff

from fairtk import checks
from fairtk.demo import load, model_folder
from fairtk.experiment import Experiment, Listener, telling
from fairtk.frames import LABEL, QID
from fairtk.measures import EE_D, EE_R, EU, E, written
from fairtk.transformers import BM25Scorer, FairSampler, FlanT5

ALPHAS: tuple[float, ...] = (0, 1, 2, 4, 8)
DETERMINISTIC = "deterministic"
CUTOFF = 5
BATCH_TOKENS = 4096
"""For a model this small, batches that fit into the processor's cache are the fastest."""
TOLERANCE = 0.01
"""A loss of accuracy that `summary` takes for none."""


def run(
    n_samples: int = 100,
    queries: int | None = None,
    progress: Listener | None = None,
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
    checks.whole("the demo's n_answers", n_answers)
    candidates, qrels = prepare(queries)
    generate = generator()
    read = {
        system: policy >> generate for system, policy in policies(min(n_samples, n_answers)).items()
    }
    of_rankings = [EE_D @ CUTOFF, EE_R @ CUTOFF, E(nDCG @ CUTOFF)]
    of_answers = [EU(utility="accuracy")]
    with telling(_named(progress, {"stages": "rankings"})):
        ranked = Experiment(policies(n_samples), candidates, qrels, of_rankings)
    with telling(_named(progress, {"answers": "answers"})):
        answered = Experiment(read, candidates, qrels, of_answers)
    systems = dict(zip(ranked.systems, [*ALPHAS, DETERMINISTIC], strict=True))
    rows = []
    for system, alpha in systems.items():
        row: dict[str, Any] = {"alpha": alpha}
        for results, measures in ((ranked, of_rankings), (answered, of_answers)):
            means = results.means.loc[system]
            row |= {repr(measure): means[written(measure)] for measure in measures}
        rows.append(row)
    return pd.DataFrame(rows)


def prepare(queries: int | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rank the profiles of viewers with a useful entry by BM25; return run and qrels.

    Args:
        queries: how many; None: all.
    """
    if queries is not None:
        checks.whole("the demo's queries", queries)
    data = load()
    best = data.qrels.groupby(QID, sort=False)[LABEL].max()
    qids = best.index[best > 0][:queries]
    qrels = data.qrels[data.qrels[QID].isin(qids)].reset_index(drop=True)
    candidates = data.candidates[data.candidates[QID].isin(qids)]
    return BM25Scorer().transform(candidates), qrels


def policies(n_samples: int) -> dict[str, Any]:
    """Return the systems: from a run to rankings of five, sampled but for the last."""
    samplers: dict[str, Any] = {
        f"alpha {alpha}": FairSampler(alpha=alpha, n_samples=n_samples, cutoff=CUTOFF)
        for alpha in ALPHAS
    }
    return {**samplers, DETERMINISTIC: RankCutoff(CUTOFF)}


def generator() -> FlanT5:
    """Return the packaged model as the demo uses it: LaMP-2's prompt, five entries, on the CPU."""
    return FlanT5(
        model=model_folder(),
        prompt="lamp-2",
        cutoff=CUTOFF,
        device="cpu",
        max_new_tokens=8,
        batch_tokens=BATCH_TOKENS,
    )


def summary(table: pd.DataFrame) -> str:
    """Say in one sentence what the numbers of `run` show."""
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


def _named(progress: Listener | None, names: Mapping[str, str]) -> Listener:
    """Return a listener that tells some stages of the engine, under other names."""

    def tell(stage: str, done: int, total: int) -> None:
        if progress is not None and stage in names:
            progress(names[stage], done, total)

    return tell


def shell(command: str, folder: str | PathLike[str], lines: int | None = None) -> int:
    """Show a command, run it in a folder, show what it prints, and return its exit code.

    Of the output so many lines are shown; None: all.
    """
    print(f"$ {command}")
    _, *arguments = shlex.split(command)
    result = subprocess.run(
        [sys.executable, "-m", "fairtk", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print("\n".join(result.stdout.splitlines()[:lines]), "\n")
    return result.returncode
