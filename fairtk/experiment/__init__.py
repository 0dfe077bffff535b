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
    from fairtk.experiment.dry_run import DryRun as DryRun
    from fairtk.experiment.entry import Experiment as Experiment
    from fairtk.experiment.executors import DaskExecutor as DaskExecutor
    from fairtk.experiment.executors import ProcessExecutor as ProcessExecutor
    from fairtk.experiment.executors import SerialExecutor as SerialExecutor
    from fairtk.experiment.identity import identified as identified
    from fairtk.experiment.opening import open_results as open_results
    from fairtk.experiment.opening import results_folder as results_folder
    from fairtk.experiment.progress import telling as telling
    from fairtk.experiment.results import Results as Results
    from fairtk.experiment.tuning import tune as tune
    from fairtk.experiment.upkeep import export as export
    from fairtk.experiment.upkeep import prune as prune
    from fairtk.experiment.upkeep import stored as stored

__getattr__, __dir__, __all__ = lazily(__name__)
