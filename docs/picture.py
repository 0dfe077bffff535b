"""Draws the picture of the README and the start page: the demo's trade-off, to ``_static``.

Run it when the demo changes: ``python docs/picture.py`` (a minute or two).
"""

from pathlib import Path

import fairtk
from fairtk import BM25Scorer, Candidates, FairSampler, FlanT5
from fairtk.display import write_figure

demo = fairtk.demo.load()
bm25 = Candidates(demo.dataset) >> BM25Scorer()
reader = FlanT5(model=fairtk.demo.model_folder(), prompt="lamp-2", batch_tokens=4096)
systems = {f"alpha {a}": bm25 >> FairSampler(a, n_samples=20, cutoff=5) for a in (0, 1, 2, 4, 8)}
results = fairtk.Experiment(
    {name: system >> reader for name, system in {**systems, "BM25": bm25 % 5}.items()},
    demo.topics,
    fairtk.drop_undefined(demo.qrels),
    ["EE_D@5", "EU(utility='accuracy')"],
    filter_by_qrels=True,
)
print(results)
figure = results.plot_trade_off("EE_D@5", "EU(utility='accuracy')")
write_figure(figure, Path(__file__).parent / "_static" / "demo.svg")
