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
# # From LaMP's files to the tables of *Towards Fair RAG*
#
# ![Normalized expected utility against disparity of exposure](../docs/_static/tutorials/06.png)
#
# Kim and Diaz (2024, arXiv 2409.11598) study the effect of fair rankings on a generator that reads
# them. A document is labeled by its gain for the generator. Rankings are sampled at several levels
# of randomness (alpha), drawn by an oracle, or deterministic, and the generator answers from each.
# This tutorial covers all steps, from LaMP's files to the paper's tables, figures and a report
# page, on the packaged invented collection. The same code works on a folder of LaMP's own files.
#
# It needs `fairtk-papers`: in a checkout,
# `pip install -c constraints.txt '.[t5,report]' ./plugins/fairtk-papers`. Run it as a script or
# open it as a notebook (jupytext):
#
#     python tutorials/06_towards_fair_rag.py
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

from fairtk import BM25Scorer, demo
from fairtk.datasets import lamp

FAST = os.environ.get("FAIRTK_TUTORIAL_FAST") == "1"
OUT = Path(tempfile.mkdtemp(prefix="fairtk-06-"))
pd.set_option("display.width", 200, "display.max_columns", 30, "display.max_colwidth", 40)

# %% [markdown]
# ## Tasks, retrievers, generators
#
# A task is a LaMP folder (or an id such as `lamp/4/dev`); candidates of a question are the entries
# of the user's profile. A retriever scores candidates: `BM25Scorer`, `ContrieverScorer`,
# `SpladeScorer`, or any other transformer. Each task has its own generator, because prompts differ
# between tasks. `make_generator("t5:google/flan-t5-base")` is the paper's generator, `"ct2:..."`
# the same with CTranslate2, `"openai:..."` any server.

# %%
task = fair_rag.LampTask(lamp.from_folder(demo.collection_folder(), task=2))
tiny = fair_rag.make_generator(
    f"t5:{demo.model_folder()}", max_new_tokens=8, batch_tokens=4096, device="cpu"
)
settings = fair_rag.RagSettings(
    alphas=(0, 1, 2, 4, 8),
    n_samples=5 if FAST else 100,
    limit=6 if FAST else None,
)
study = fair_rag.RagStudy([task], {"BM25": BM25Scorer()}, {"tiny-t5": tiny}, OUT, settings)

# %% [markdown]
# ## The cost
#
# Before anything is generated, you can compute the number of rankings, the number of distinct
# prompts (equal prompts of all alphas and systems are answered once), and the time at a given
# speed.

# %%
plan = study.plan()
print(plan.rows.to_string(index=False))
prompts = plan.total["prompts"]
print(f"prompts to answer: about {prompts:.0f}, {prompts / 100 / 60:.1f} minutes at 100 a second")

# %% [markdown]
# ## Labels
#
# The generator answers without any document, and from each document alone. The gain of a document
# is the difference of the two utilities, and a document with a gain above 0 is useful. Labels are
# valid for this generator only, not for human readers. Queries with at most one useful document are
# left out, as in the paper.

# %%
labels = study.label(task, tiny(task.number, settings.cutoff))
print(labels.gains.documents.head(8).to_string(index=False))
for name, value in labels.facts.items():
    print(f"{name}: {value:.2f}" if isinstance(value, float) else f"{name}: {value}")
lamp.write_folder(task.dataset, labels.qrels, OUT / "labeled")
print("as a test collection:", sorted(path.name for path in (OUT / "labeled").iterdir()))

# %% [markdown]
# ## The run
#
# You can stop the run at any time: each answer is stored in `experiment.sqlite` before it is used,
# and the same code resumes. For each policy, the table has the disparity of exposure (EE_D, the
# unbiased estimate; lower is more even), exposure of useful documents (EE_R), quality of rankings
# (nDCG), the utility of answers (EU), and EU divided by that of the best single ranking (normalized
# EU).

# %%
results = study.run(print, keep_rankings=True)
print(results.means.to_string(index=False, float_format="{:.4f}".format))
means = results.means.set_index("policy")
assert means["EE_D"].drop("oracle").is_monotonic_increasing  # larger alphas are less even
assert means.loc["alpha 0", "EU"] < means.loc["deterministic", "EU"]  # what evenness costs
assert np.isclose(means.loc["oracle", "nDCG"], 1)

# %% [markdown]
# ## The paper's tables
#
# Tables 1 and 6 to 12 group rankings by how uneven their exposure is; Tables 3 to 5 are slopes and
# areas of the three trade-offs; Tables 13 to 15 describe the collection. If the paper has a number
# for the task, retriever and generator, an additional column has it.

# %%
tables = results.tables()
columns = ["interval", "points", "queries", "baseline", "value", "paired", "low", "high", "note"]
print(tables["fairness_intervals"][columns].to_string(index=False, float_format="{:.3f}".format))
columns = ["x", "y", "statistic", "value", "low", "high", "covered"]
print(tables["trade_offs"][columns].to_string(index=False, float_format="{:.3f}".format))
place = results.save(OUT)

# %% [markdown]
# Intervals that no policy can reach are marked: for a user with 20 entries, of which 5 are read,
# even the most even policy has a disparity of 5/20. Estimates from few samples can be lower.

# %%
fair_rag.plot_trade_off(results.values, "EE_D", "normalized EU")

# %%
fair_rag.plot_spread(results.values)

# %%
print("report pages, in the folder of the results:")
for page in fair_rag.save_model_sections(results, OUT):
    print(f"fairtk report {page.relative_to(OUT)}")

# %% [markdown]
# These numbers do not say whether the authors of documents want even exposure, or whether labels of
# this generator hold for another. On this invented collection, they only show that the parts work
# together.
