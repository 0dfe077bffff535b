"""Experiments: run systems, save their results, and measure and compare them.

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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
