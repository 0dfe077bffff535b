# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A fair RAG pipeline
#
# ![Accuracy of the answers against disparity of exposure](../docs/_static/tutorials/02.png)
#
# A language model that answers from retrieved documents is a user, too: only the documents that it
# reads get exposure. This tutorial puts a stochastic ranking policy between retriever and
# generator, and measures the effect of more even exposure on relevance and on the answers. It
# follows *Towards Fair RAG* (Kim and Diaz 2024) on a small scale: the packaged demo, invented
# viewers who tag movies, and a tiny T5 trained for it. The numbers show how the tools behave, not
# real systems. For LaMP's own data, see `examples/lamp_folder.py`.
#
# It takes a few minutes on two idle cores, half a minute with `FAIRTK_TUTORIAL_FAST=1`.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    package = "fairtk[t5,report]"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", package], check=True)

# %%
import builtins
import os
import tempfile

import numpy as np
import pandas as pd
import pyterrier as pt
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, EU, BM25Scorer, Candidates, E, FairSampler, FlanT5, OracleSampler

FAST = os.environ.get("FAIRTK_TUTORIAL_FAST") == "1"
show = getattr(builtins, "display", print)  # notebooks show tables

N_QUERIES, N_SAMPLES = (8, 5) if FAST else (66, 20)
ALPHAS = [0, 2, 8] if FAST else [0, 1, 2, 4, 8]

# %% [markdown]
# ## The data
#
# In LaMP the candidates of a query are the user's past items, the profile. `Candidates` starts a
# pipeline with them. Labels say which entries are useful: an entry is useful if the generator
# answers better with it alone than without any entry. Queries without a useful entry are left out,
# as in the paper: no ranking is better than another for them. For LaMP's own files
# the dataset is `fairtk.datasets.lamp.from_folder(folder, task=2)`, or the id `"lamp/2/dev"`.

# %%
demo = fairtk.demo.load()
qrels = fairtk.drop_undefined(demo.qrels)
topics = demo.topics[demo.topics["qid"].isin(qrels["qid"])].head(N_QUERIES)
topics = topics.drop(columns="gold_answer")  # the pipeline must not see it
qrels = qrels[qrels["qid"].isin(topics["qid"])]
print(f"{len(topics)} topics, {len(qrels)} profile entries, {qrels['label'].sum()} useful")
print(qrels.head(3).to_string(index=False))
show(demo)

# %% [markdown]
# ## The pipeline
#
# Topics -> candidates -> scores -> sampled rankings -> one answer for each ranking.

# %%
bm25 = Candidates(demo.dataset) >> BM25Scorer()
sampler = FairSampler(alpha=2, n_samples=N_SAMPLES, cutoff=5)
reader = FlanT5(model=fairtk.demo.model_folder(), prompt="lamp-2", cutoff=5, max_new_tokens=8)
pipeline = bm25 >> sampler >> reader
print(pipeline)

# %% [markdown]
# PyTerrier can show the input and output columns of each stage before anything runs.

# %%
topic_columns = list(topics.columns)
print("takes", pt.inspect.transformer_inputs(pipeline))
for name, stage in (("bm25", bm25), (">> sampler", bm25 >> sampler), (">> reader", pipeline)):
    print(f"{name:10} gives", pt.inspect.transformer_outputs(stage, topic_columns))

# %%
pipeline  # in a notebook, a drawing of the same

# %% [markdown]
# For one topic, BM25 alone always shows the same five entries. With the sampler, the first five
# differ between draws, so the answer can differ, too.

# %%
one = demo.topics[demo.topics["qid"] == "1012"]
gold = one["gold_answer"].iloc[0]
one = one.drop(columns="gold_answer")
answered = pipeline(one)
rankings = answered.drop_duplicates("sample")
print("query:", one["query"].iloc[0])
print("gold answer:", gold)
print("answer from BM25's ranking:", (bm25 >> reader)(one)["qanswer"].iloc[0])
print(f"answers from {len(rankings)} sampled rankings:")
print(rankings["qanswer"].value_counts().to_string(header=False))
print("entries that were read at least once:", answered["docno"].nunique(), "of", len(bm25(one)))

# %% [markdown]
# ## The experiment
#
# `fairtk.Experiment` takes the arguments of `pt.Experiment`; the measures are ordinary measures,
# and both give the same values. `OracleSampler` knows the labels: its rankings have useful entries
# first, shuffled among equals. It is the ideal policy for these labels, not a real system.

# Estimated from a few samples, the plain EE_D is too large by (1 - EE_D) / N on average; the
# unbiased estimate corrects that.

# %%
settings = {"n_samples": N_SAMPLES, "cutoff": 5}
systems = {"deterministic": bm25 >> reader}
systems |= {f"alpha {a}": bm25 >> FairSampler(alpha=a, **settings) >> reader for a in ALPHAS}
systems["oracle"] = bm25 >> OracleSampler(qrels, **settings) >> reader

measures = [EE_D(estimator="unbiased") @ 5, EE_R @ 5, E(nDCG @ 5), EU(utility="accuracy")]
NAMES = ["EE_D(estimator='unbiased')@5", "EE_R@5", "E(nDCG@5)", "EU(utility='accuracy')"]
results = fairtk.Experiment(list(systems.values()), topics, qrels, measures, names=list(systems))
print(results)

means = results.means
order = [f"alpha {a}" for a in ALPHAS] + ["deterministic"]
assert means.loc[order, NAMES[0]].is_monotonic_increasing  # larger alphas are less even
assert np.isclose(means.loc["oracle", "E(nDCG@5)"], 1)
assert means.loc["oracle", NAMES[3]] > means.loc["alpha 0", NAMES[3]]  # labels say what helps

# %% [markdown]
# ## The trade-off
#
# Each point is a policy; exposure is more even to the left. Bars are intervals over queries. All
# systems answer the same queries, so differences between them are more precise than the bars
# suggest. Use `results.compare(...)` to test them.

# %%
results.plot_trade_off(NAMES[0], "EE_R@5")

# %%
results.plot_trade_off(NAMES[0], "EU(utility='accuracy')")

# %% [markdown]
# Means hide gains and losses of queries. The next figure shows, for each query, the share of
# correct answers with sampled rankings minus BM25's (0 or 1, since it has a single answer). If BM25
# is right, sampling can only lose; if BM25 is wrong, sampling can only win.

# %%
by_query = results.per_query[results.per_query["measure"] == NAMES[3]]
by_query = by_query.pivot(index="qid", columns="system", values="value")
for name in ("alpha 0", "alpha 2"):
    change = by_query[name] - by_query["deterministic"]
    gains, losses = (change > 1e-9).sum(), (change < -1e-9).sum()
    print(f"{name}: {losses} queries lose {-change.clip(upper=0).sum():.2f} in all, "
          f"{gains} gain {change.clip(lower=0).sum():.2f}")  # fmt: skip

# %% [markdown]
# ## Batches and shared prefixes change nothing
#
# Random streams depend on (seed, qid) alone: the same rankings are drawn in batches of topics, in
# another order, and when systems share their first stages.

# %%
few = topics.head(4 if FAST else 8)
pair = [systems["deterministic"], systems["alpha 2"]]
variants = {"all at once": {}, "batch_size=3": {"batch_size": 3}, "plan='tree'": {"plan": "tree"}}
rows = []
for name, how in variants.items():
    table = pt.Experiment(pair, few, qrels[qrels["qid"].isin(few["qid"])], measures,
                          names=["deterministic", "alpha 2"], baseline=0, verbose=False,
                          validate="ignore", **how)  # fmt: skip
    rows.append(table.set_index("name").loc["alpha 2", [str(m) for m in measures]].tolist())
    print(f"{name:13}", " ".join(f"{n} {v:.10f}" for n, v in zip(NAMES, rows[-1], strict=True)))
assert rows[0] == rows[1] == rows[2]

# %% [markdown]
# ## Retrieval over a collection
#
# With a search index, the pipeline needs one more stage: an index of PISA (no Java; Linux on
# x86-64) has no texts, so a text loader adds the columns of the prompt. In this example, all
# viewers' entries form one collection, and most entries that BM25 retrieves belong to other
# viewers, whose taste does not help. `examples/headline_pisa.py` runs this with your own files.

# %%
try:
    from pyterrier_pisa import PisaIndex
except ImportError:
    PisaIndex = None
    print("pyterrier-pisa is not installed; any other PyTerrier retriever works, too")

# %% tags=["remove-stdout", "remove-stderr"]
if PisaIndex is not None:
    docs = demo.candidates[["docno", "text", "tag"]]
    index = PisaIndex(tempfile.mkdtemp(prefix="fairtk-pisa-"), text_field="text")
    index.index(docs[["docno", "text"]].to_dict("records"))

# %%
if PisaIndex is not None:
    texts = docs.set_index("docno")
    text_loader = pt.apply.generic(
        lambda run: run.join(texts, on="docno"), required_columns=["docno"], label="text_loader"
    )
    # One depth for all systems: where scores tie, PISA's top 10 need not be the first 10 of its
    # top 100. The depth is part of the policy: from 1,000 candidates alpha 2 is close to uniform.
    headline = (
        index.bm25(num_results=30)
        >> text_loader
        >> FairSampler(alpha=2, n_samples=N_SAMPLES, cutoff=5)
        >> reader
    )
    # n is the size of the collection: every document could be shown
    n = len(index)
    collection_measures = [
        EE_D(n=n, estimator="unbiased") @ 5, EE_R(n=n) @ 5, E(nDCG @ 5), EU(utility="accuracy"),
    ]  # fmt: skip
    few_qrels = qrels[qrels["qid"].isin(few["qid"])]
    table = pt.Experiment([headline], few, few_qrels, collection_measures, names=["alpha 2"],
                          verbose=False)  # fmt: skip
    print(table.round(4).T.to_string(header=False))

# %% [markdown]
# ## Your own generator
#
# `FlanT5(model="google/flan-t5-base", prompt="rag")` takes a model of the hub or a local folder.
# `Generator(llm, prompt)` accepts anything that turns a list of prompts into a list of answers,
# such as a function. `fairtk.prompts.get("template", template=...)` makes a prompt.

# %%
shout = fairtk.Generator(
    lambda prompts: [prompt.split("|")[-1].upper() for prompt in prompts],
    prompt=fairtk.prompts.get("template", template="{documents}|{question}"),
    cutoff=1,
)
answer = shout(pd.DataFrame({"qid": ["1"], "query": ["who is seen?"]}))["qanswer"].iloc[0]
print(answer)
assert answer == "WHO IS SEEN?"
