"""Generation by one worker, two workers and no worker at all: wall seconds, ratios in one run.

    python benchmarks/bench_workers.py [samples]

The packaged T5 on the packaged collection, alpha 1, all queries, distinct prompts, into a new store
each time. Workers have one thread each; serial has two. Workers start and load the model within the
measured time. Run it on an idle machine with two cores or more.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

from sizes import scale

import fairtk
from fairtk import BM25Scorer, Candidates, FairSampler, FlanT5, demo

SETTINGS = {
    "one worker of one thread": {"executor": "processes", "workers": 1, "threads": 1},
    "two workers of one thread": {"executor": "processes", "workers": 2, "threads": 1},
    "serial, two threads": {"executor": "serial", "threads": 2},
}


def main(n_samples: int) -> None:
    """Print the seconds of each setting and its rankings per second by those of one worker."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    data = demo.load()
    scored = Candidates(data.dataset) >> BM25Scorer()
    answer = FlanT5(model=demo.model_folder(), prompt="lamp-2", cutoff=5, device="cpu")
    system = scored >> FairSampler(alpha=1, n_samples=n_samples, cutoff=5) >> answer
    topics = data.topics.drop(columns="gold_answer").head(scale(len(data.topics), 3))
    first = None
    for name, settings in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            fairtk.Experiment(
                {"alpha 1": system}, topics, data.qrels, [fairtk.EE_D @ 5],
                save_dir=f"{folder}/store", **settings,
            )  # fmt: skip
            seconds = time.perf_counter() - started
        first = first or seconds
        rankings = n_samples * len(topics)
        print(f"{name:32}{seconds:7.1f} s  {rankings / seconds:6.0f} rankings/s  ", end="")
        print(f"{first / seconds:5.2f} times one worker", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else scale(100, 2))
