"""Experiments: one engine that runs systems, keeps what they make, and measures them.

For example::

    results = fairtk.Experiment(
        {"bm25": bm25, "fair": bm25 >> FairSampler(alpha=2)},
        topics, qrels, ["EE_D@5", "EE_R@5", "E(nDCG@5)"],
        save_dir="my-experiment", baseline="bm25",
    )
    results.means, results.compare(test="randomization"), results.to_latex()

Importing this package loads neither PyTerrier nor pyarrow; its names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily

if TYPE_CHECKING:
    from fairtk.experiment.dry_run import DryRun
    from fairtk.experiment.entry import Experiment
    from fairtk.experiment.executors import DaskExecutor, ProcessExecutor, SerialExecutor
    from fairtk.experiment.identity import identified
    from fairtk.experiment.opening import open_results, results_folder
    from fairtk.experiment.progress import telling
    from fairtk.experiment.results import Results
    from fairtk.experiment.tuning import tune
    from fairtk.experiment.upkeep import export, prune, stored

__all__ = [
    "DaskExecutor",
    "Experiment",
    "DryRun",
    "ProcessExecutor",
    "Results",
    "SerialExecutor",
    "export",
    "identified",
    "open_results",
    "results_folder",
    "prune",
    "stored",
    "telling",
    "tune",
]

__getattr__ = lazily(
    __name__,
    {
        "dry_run": ("DryRun",),
        "entry": ("Experiment",),
        "executors": ("DaskExecutor", "ProcessExecutor", "SerialExecutor"),
        "identity": ("identified",),
        "opening": ("open_results", "results_folder"),
        "progress": ("telling",),
        "results": ("Results",),
        "tuning": ("tune",),
        "upkeep": ("export", "prune", "stored"),
    },
)
