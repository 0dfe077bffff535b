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
# # From exposure to credit: on whose documents do answers rest?
#
# Exposure says which documents are put before a reader. This tutorial asks what comes next: how
# much of an answer rests on each of them. A document's credit is what the answer loses without it,
# or what it cites. All of it runs on the packaged invented collection (viewers who tag movies) with
# a tiny T5, so the numbers say how the tools behave, not how real systems do.
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
# `Subsets("all")` makes the 32 lists that can be made of five documents in their order, and the
# generator answers from each; equal prompts are asked once. `from_answers` turns the answers'
# utilities into credit: exact Shapley values, or what the answer loses without each document.
# The values of a ranking add up to what all five documents gain over none.

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
# Leave-one-out is 0 wherever another document says the same: of two that are alike, neither is
# missed. Shapley values share the credit between them. With a reader that is as good as its best
# document there is a formula, and here are two documents that are alike, and a poor one:

# %%
maximum_game = max_shapley([[0.9], [0.9], [0.3]])
print("the maximum game:", maximum_game.round(3).tolist())
assert np.allclose(maximum_game, [0.4, 0.4, 0.1])

# %% [markdown]
# ## Citations
#
# Where answers cite, credit is there without another prompt. A citation says what a model wrote,
# not what it used; an answer that cites nothing has no credit, which is undefined rather than
# even. This T5 cites nothing, so two answers are written by hand.

# %%
cited = rankings[(rankings["qid"] == rankings["qid"].iloc[0]) & (rankings["sample"] == 0)]
by_hand = cited.assign(qanswer="It is a comedy [1], and a romance [1, 2]. So say [2] and [5].")
counted = Citations("count")(by_hand)
print(counted[["docno", "rank", "credit"]].to_string(index=False))
assert counted["credit"].tolist() == [0.5, 1, 0, 0, 0.5]  # [1, 2] is half a citation of each

# %% [markdown]
# ## Measures
#
# The measures of exposure, on credit: `AE_D` (concentration), `AE_R` (how much goes to useful
# documents), and `CreditGap`: how far credit is from the exposure that documents had. Sampling adds
# to the two that are squared, the more the fewer samples there are, so their unbiased estimates are
# taken. Warnings count what is left out: rankings without credit, and values below 0, which have no
# share.

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
# `fairtk rag ... --credit shapley`, or `credit="shapley"` in the settings: subsets go through the
# same store as all answers, so that they can be planned, budgeted and resumed, and are shared by
# all alphas. Labels have asked for each document alone; credit does not ask again.

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
print(study.plan().rows.to_string(index=False))
results = study.run(print)

# %% [markdown]
# The table has each measure for credit and for exposure on one scale (as if all documents of a
# prompt had equal credit), and the difference with its interval over the queries. `undefined` is
# the share of rankings in which no document helps: they have no credit to share.

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
# It says what this reader's answers rest on, by this utility. It says nothing of causes in the
# world: whether the reader knew the answer anyway, or would find it elsewhere. It says nothing of
# who owes whom, and nothing of copyright. A document without credit was exposed all the same; and
# even credit is no goal by itself where one document is right and the others are not.
