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
# # From exposure to credit: which documents do answers depend on?
#
# ![Exposure and credit by alpha, credit by position](../docs/_static/tutorials/09.png)
#
# Exposure measures which documents a reader sees. Credit measures how much an answer depends on
# each of them, by the loss of utility without the document, or by citations. This tutorial uses the
# packaged invented collection (viewers who tag movies) with a tiny T5, so the numbers show how the
# tools behave, not real systems.
#
# It needs `fairtk-papers`: in a checkout,
# `pip install -c constraints.txt '.[t5,report]' ./plugins/fairtk-papers`. Run it as a script or
# open it as a notebook (jupytext):
#
#     python tutorials/09_credit.py
#
# `FAIRTK_TUTORIAL_FAST=1` takes a minute. Results go to the folder `OUT`.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    packages = ["fairtk[t5]", "fairtk-papers"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *packages], check=True)

# %%
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from fairtk_papers import fair_rag

import fairtk
from fairtk import BM25Scorer, FairSampler, FlanT5, demo
from fairtk.credit import AE_D, AE_R, Citations, CreditGap, Subsets, from_answers, max_shapley
from fairtk.datasets import lamp

FAST = os.environ.get("FAIRTK_TUTORIAL_FAST") == "1"
OUT = Path(tempfile.mkdtemp(prefix="fairtk-09-"))
pd.set_option("display.width", 200, "display.max_columns", 30, "display.max_colwidth", 40)

data = demo.load()
reader = FlanT5(
    demo.model_folder(), prompt="lamp-2", max_new_tokens=8, batch_tokens=4096, device="cpu"
)
three = data.candidates[data.candidates["qid"].isin(data.candidates["qid"].unique()[:3])]
rankings = (BM25Scorer() >> FairSampler(alpha=1, n_samples=3, cutoff=5))(three)

# %% [markdown]
# ## Answers without some of the documents
#
# `Subsets("all")` returns all 32 ordered sublists of five documents, and the generator answers from
# each; equal prompts are generated once. `from_answers` turns the utilities of the answers into
# credit: exact Shapley values, or the loss without each document (`method="one-out"`). The Shapley
# values of a ranking add up to the gain of all five documents over no document.

# %%
lists = Subsets("all")(rankings)
answers = reader(lists)
n_lists = lists.groupby("qid")["sample"].nunique().sum()
distinct = len(set(reader.build_prompts(lists).prompts))
print(f"{n_lists} lists, {distinct} distinct prompts")
assert n_lists == 3 * 3 * 32  # queries, rankings, subsets of five documents
assert distinct < n_lists
shapley = from_answers(answers, "accuracy", data.qrels)
one_out = from_answers(answers, "accuracy", data.qrels, method="one-out")
both = shapley.assign(one_out=one_out["credit"]).rename(columns={"credit": "shapley"})
print(both.head(10).to_string(index=False, float_format="{:.3f}".format))

# %% [markdown]
# Leave-one-out gives 0 to a document if another document says the same: the answer does not change
# if one of two duplicates is removed. Shapley values share the credit between them. If the answer
# is as good as the best document, `max_shapley` computes them with a formula. The example has two
# duplicates and a poor document:

# %%
maximum_game = max_shapley([[0.9], [0.9], [0.3]])
print("the maximum game:", maximum_game.round(3).tolist())
assert np.allclose(maximum_game, [0.4, 0.4, 0.1])

# %% [markdown]
# ## Citations
#
# If answers have citations, credit requires no further prompt. A citation says what a model wrote,
# not what it used. For an answer without citations, credit is undefined. This T5 cites nothing, so
# the answers here are invented.

# %%
cited = rankings[(rankings["qid"] == rankings["qid"].iloc[0]) & (rankings["sample"] == 0)]
citing = cited.assign(qanswer="It is a comedy [1], and a romance [1, 2]. So say [2] and [5].")
counted = Citations("count")(citing)
print(counted[["docno", "rank", "credit"]].to_string(index=False))
assert counted["credit"].tolist() == [0.5, 1, 0, 0, 0.5]  # [1, 2] is half a citation of each

# %% [markdown]
# ## Measures
#
# `AE_D` measures how concentrated credit is, `AE_R` how much of it useful documents get, and
# `CreditGap` the distance between credit and exposure. Sampling noise inflates the two squared
# measures (AE_D and CreditGap), so this example uses their unbiased estimates. Warnings count
# rankings without credit, and negative values, which have no share.

# %%
queries = data.qrels[data.qrels["qid"].isin(shapley["qid"])]
measured = fairtk.evaluate(
    queries,
    {"shapley": shapley, "one-out": one_out},
    [AE_D(estimator="unbiased"), AE_R @ 5, CreditGap(estimator="unbiased") @ 5],
)
print(measured.means.to_string())

# %% [markdown]
# ## In the study
#
# Use `fairtk rag ... --credit shapley`, or `credit="shapley"` in the settings. Answers to subsets
# are in the same store as all answers, so they can be planned, budgeted and resumed, and all alphas
# share them. Answers from single documents already exist for the labels and are reused.

# %%
settings = fair_rag.RagSettings(
    alphas=(0, 8) if FAST else (0, 1, 2, 4, 8),
    n_samples=2 if FAST else 20,
    limit=3 if FAST else 20,
    credit="shapley",
)
task = fair_rag.LampTask(lamp.from_folder(demo.collection_folder(), task=2))
tiny = fair_rag.make_generator(
    f"t5:{demo.model_folder()}", max_new_tokens=8, batch_tokens=4096, device="cpu"
)
study = fair_rag.RagStudy([task], {"BM25": BM25Scorer()}, {"tiny-t5": tiny}, OUT, settings)
print(study.plan().rows.drop(columns="price").to_string(index=False))
results = study.run(print)

# %% [markdown]
# The table has each measure for credit and for exposure on one scale (as if all documents of a
# prompt had equal credit), and the difference with its interval over the queries. `undefined` is
# the share of rankings in which no document helps and credit is therefore 0.

# %%
tables = results.tables()
columns = ["alpha", "measure", "exposure", "value", "difference", "low", "high", "undefined"]
print(tables["credit"][columns].to_string(index=False, float_format="{:.3f}".format))
exposure = tables["credit"].set_index(["alpha", "measure"])["exposure"]
assert np.isclose(exposure["deterministic", "AE_D"], 1 / 5)  # five documents, equal shares
columns = ["alpha", "place", "value", "low", "high"]
print(tables["credit_by_place"][columns].to_string(index=False, float_format="{:.3f}".format))

# %%
fair_rag.plot_credit(results.values)

# %% [markdown]
# ## What credit does not say
#
# Credit measures how much this reader's answers depend on documents, by this utility. It does not
# say whether the reader already knew the answer or would find it elsewhere, and it says nothing
# about payment or copyright. A document without credit was still exposed. Even credit is not a goal
# if one document is right and the others are not.
