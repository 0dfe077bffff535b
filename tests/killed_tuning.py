"""The tuned experiment of test_killed_tuning.py: a grid with a model behind a server."""

import sys

from experiment_stages import Retriever, world

import fairtk
from fairtk import QueryRefiner
from fairtk.llm import OpenAICompatible

folder, url, executor = sys.argv[1:4]
topics, qrels = world(n_queries=8)
llm = OpenAICompatible("toy", url, concurrency=3, timeout=900)
GROUPS = ["women", "men", "children"]


def build(group="elders"):
    return QueryRefiner(llm, group=group) >> Retriever(seed=len(group)) % 3


tuned = fairtk.tune(
    build,
    {"group": GROUPS},
    topics,
    qrels,
    "nDCG@3",
    save_dir=folder,
    executor=executor,
    threads=1,
    batch_size=2,
    workers=None if executor == "serial" else 2,
)
for name in ("run", "default", "chosen", "table", "values"):
    getattr(tuned, name).to_csv(f"{folder}/{name}.csv", index=False)
