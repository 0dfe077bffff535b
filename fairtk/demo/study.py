"""The study that ``fairtk demo`` runs: BM25 and fair rankings, measured by exposure and answers.

BM25 ranks each viewer's profile; `fairtk.FairSampler` makes it fairer as alpha falls from 8 to 0
(uniform); the tiny T5 answers from the first five entries. Kim and Diaz 2024, "Towards Fair RAG",
run this study on LaMP with FLAN-T5.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from os import PathLike
from typing import Any

import pandas as pd
from ir_measures import nDCG
from pyterrier._ops import RankCutoff

from fairtk import checks
from fairtk.demo import load, model_folder
from fairtk.experiment import Experiment, Results
from fairtk.frames import LABEL, QID
from fairtk.measures import EE_D, EE_R, EU, E, format_measure
from fairtk.transformers import BM25Scorer, FairSampler, FlanT5

ALPHAS: tuple[float, ...] = (0, 1, 2, 4, 8)
DETERMINISTIC = "deterministic"
CUTOFF = 5
SAMPLES = 10
# ten samples: the plain EE_D would be too large by up to (1 - EE_D) / 10
MEASURES = (
    EE_D(estimator="unbiased") @ CUTOFF,
    EE_R @ CUTOFF,
    E(nDCG @ CUTOFF),
    EU(utility="accuracy"),
)
BATCH_TOKENS = 4096
"""For a model this small, batches that fit into the processor's cache are the fastest."""
TOLERANCE = 0.01
"""A loss of accuracy that `summary` takes for none."""


def run(n_samples: int = SAMPLES, queries: int | None = None) -> Results:
    """Run the study.

    As in the paper, only queries with a useful profile entry count: without one, EE_R is
    undefined and no ranking is better than another.

    Args:
        n_samples: rankings per query and alpha, at least 2, which the unbiased EE_D needs. Each is
            answered from, which takes almost all of the time.
        queries: use the first so many queries only, at least 1. None: all.

    Returns:
        Results of the systems ``alpha 0`` to ``alpha 8`` and ``deterministic``, in this order, by
        `MEASURES`, each from 0 to 1: EE_D (lower: more equal exposure) and, higher is better, EE_R
        (exposure to useful entries), nDCG and the accuracy of the answers.

    Raises:
        ParameterError: a setting is out of its range.
        MissingExtraError: torch or transformers is not installed.
    """
    checks.integer("n_samples", n_samples, least=2)
    candidates, qrels = prepare(queries)
    generate = generator()
    systems = {name: policy >> generate for name, policy in policies(n_samples).items()}
    return Experiment(systems, candidates, qrels, MEASURES, baseline=DETERMINISTIC)


def table_of(results: Results) -> pd.DataFrame:
    """Return the means: a row per system, ``alpha`` (or "deterministic") and a column a measure."""
    means = results.means[[format_measure(measure) for measure in MEASURES]]
    means.columns = pd.Index([repr(measure) for measure in MEASURES])
    means.insert(0, "alpha", [*ALPHAS, DETERMINISTIC])
    return means.reset_index(drop=True)


def prepare(queries: int | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rank the profiles of viewers with a useful entry by BM25; return run and qrels.

    Args:
        queries: how many; None: all.
    """
    if queries is not None:
        checks.integer("queries", queries)
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


DESCRIPTION = (
    "Each system orders the same documents: alpha 0 at random (uniform), a larger alpha closer to "
    "BM25's order, and deterministic in BM25's order."
)
"""What the systems are, for the page."""
LICENSE = "MIT, as fairtk; the collection is invented by a program"


def summary(table: pd.DataFrame) -> str:
    """Return one line on what stands out in the numbers of `table_of`."""
    by_system = table.set_index("alpha")
    disparity, _, _, utility = by_system.columns
    sampled, fixed = by_system.drop(index=DETERMINISTIC), by_system.loc[DETERMINISTIC]
    enough = sampled[sampled[utility] >= fixed[utility] - TOLERANCE]
    if enough.empty:
        best = sampled[utility].idxmax()
        return (
            f"Every alpha loses accuracy: alpha {best:g} has {sampled.loc[best, utility]:.2f}, "
            f"{DETERMINISTIC} {fixed[utility]:.2f}."
        )
    fairest = enough[disparity].idxmin()
    return (
        f"Most even exposure for at most {TOLERANCE} less accuracy: alpha {fairest:g} (EE_D@5 "
        f"{enough.loc[fairest, disparity]:.2f}, not {fixed[disparity]:.2f})."
    )


def shell(
    command: str, folder: str | PathLike[str], lines: int | None = None, check: bool = True
) -> None:
    """Print a command, run it in a folder, and print its output.

    Args:
        command: the command, which starts with `fairtk`.
        folder: the working directory.
        lines: how many lines of the output to print; None for all.
        check: whether a command that fails is an error.

    Raises:
        CalledProcessError: the command failed.
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
    if check:
        result.check_returncode()
