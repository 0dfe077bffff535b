"""The experiment of test_killed.py: models behind a server in two stages, and a local one."""

import sys
from dataclasses import asdict

import pandas as pd
from experiment_stages import Echo, Retriever, world

import fairtk
from fairtk import EE_D, FairSampler, Generator, QueryRefiner
from fairtk.llm import OpenAICompatible

folder, url, executor = sys.argv[1:4]
settings = {"executor": executor, "workers": None if executor == "serial" else 2}
if executor.startswith("tcp:"):
    settings = {"executor": "dask", "scheduler": executor}
topics, qrels = world(n_queries=10)
llm = OpenAICompatible("toy", url, concurrency=3, timeout=900)
sampler = FairSampler(n_samples=3, cutoff=2, seed=1, target_disparity=0.1)  # out of reach
answer = Generator(llm, prompt="rag", cutoff=2)
results = fairtk.Experiment(
    {
        "sampled": Retriever()
        >> FairSampler(n_samples=3, cutoff=2, seed=1, target_disparity=0.1)
        >> answer,
        "refined": QueryRefiner(llm, group="g") >> Retriever(seed=1) % 2 >> answer,
        "local": Retriever() % 2 >> Generator(Echo(), prompt="rag", cutoff=2),
    },
    topics,
    qrels,
    [EE_D @ 2, "E(nDCG@2)"],
    save_dir=folder,
    **settings,
    threads=1,
    batch_size=2,
)
results.save(f"{folder}/results")
remarks = pd.DataFrame(map(asdict, results.remarks))
assert set(remarks["stage"]) == {"FairSampler"}
remarks.to_csv(f"{folder}/results/remarks.csv", index=False)
