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
# # How sure are we?
#
# ![Trade-off curves of two retrievers, with 95 % bands](../docs/_static/tutorials/08.png)
#
# How reliable is a number? Are the data valid? Does a difference come only from the 100 samples, or
# from the choice of queries? Would another system win at another cutoff, or with a more patient
# user? A command answers each question. This tutorial uses the packaged demo (invented viewers who
# tag movies, and a tiny T5). The numbers show how the tools behave, not real systems.
#
# It takes a few minutes on two cores, half a minute with `FAIRTK_TUTORIAL_FAST=1`.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    package = "fairtk[t5,report]"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", package], check=True)

# %%
import os

import pandas as pd

import fairtk
from fairtk import EE_D, EE_R, BM25Scorer, FairSampler, FlanT5, PlackettLuceExposure

FAST = os.environ.get("FAIRTK_TUTORIAL_FAST") == "1"
N_QUERIES, N_SAMPLES = (8, 20) if FAST else (66, 40)

demo = fairtk.demo.load()
candidates = demo.candidates
bm25 = BM25Scorer()(candidates)
newest = candidates.assign(score=pd.to_datetime(candidates["date"]).rank()).drop(columns="rank")
production = demo.groups[demo.groups["attribute"] == "production"].drop(columns="attribute")
groups = fairtk.Groups.from_frame(production, name="production")

# %% [markdown]
# ## Are the data valid?
#
# On the command line, use `fairtk doctor QRELS RUN`. Other commands reject a file at its first
# invalid line; `fairtk doctor` counts all errors, leaves out the invalid rows, and continues. Here
# the ids of three queries were read as numbers, and ten rows are duplicates.

# %% tags=["prose"]
broken = bm25.copy()
broken["qid"] = broken["qid"].replace({q: f"{q}.0" for q in ("1001", "1002", "1003")})
broken = pd.concat([broken, broken.iloc[100:110]])
diagnosis = fairtk.doctor(demo.qrels, broken)
print(diagnosis)
assert diagnosis.number("error") == 1 and diagnosis.findings[0].count == 10  # the copied rows

# %% [markdown]
# For the correct run, two warnings and a note remain: queries without a useful document have no
# EE_R, some queries cannot reach the target, because no retrieved document belongs to some of its
# groups, and a few ties are below the cutoff.

# %% tags=["prose"]
diagnosis = fairtk.doctor(demo.qrels, bm25, groups, target="uniform")
print(diagnosis)
assert diagnosis.number("error") == 0
qrels = fairtk.drop_undefined(demo.qrels)
qids = list(dict.fromkeys(qrels["qid"]))[:N_QUERIES]
qrels, bm25, newest = (frame[frame["qid"].isin(qids)] for frame in (qrels, bm25, newest))

# %% [markdown]
# ## Do the numbers agree with the papers?
#
# Tests compare fairtk with plain implementations of the published definitions. The page "Agreement
# with published definitions" has the table. The definitions differ: in the code of *Towards Fair
# RAG*, documents that are not useful have no target, so its EE_R of an ideal policy can be below 1.
# The plugin `fairtk-papers` has the measures of that code, such as `EE_R_fair_rag`.

# %%
sampled = FairSampler(alpha=2, n_samples=10, cutoff=5)(bm25)
print(fairtk.evaluate(qrels, {"alpha 2": sampled}, [EE_R @ 5]))

# %% [markdown]
# ## How much is sampling noise?
#
# EE_D of N samples is too large by (1 - EE_D) / N on average, because chance agreement of samples
# looks like unevenness. To avoid this, use more samples, the unbiased estimator, or exact exposure.
# `PlackettLuceExposure` computes the exposure of every document by numerical integration.

# %%
exact = fairtk.evaluate(qrels, PlackettLuceExposure(alpha=2, cutoff=5)(bm25), [EE_D @ 5, EE_R @ 5])
unbiased = EE_D(estimator="unbiased") @ 5
rows = [["exact", *exact.means.iloc[0], float("nan")]]
for n in (5, 20, 100):
    drawn = FairSampler(alpha=2, n_samples=n, cutoff=5)(bm25)
    values = fairtk.evaluate(qrels, drawn, [EE_D @ 5, EE_R @ 5, unbiased])
    rows.append([f"{n} samples", *values.means.iloc[0]])
table = pd.DataFrame(rows, columns=["", "EE_D", "EE_R", "EE_D unbiased"])
print(table.round(4).to_string(index=False, na_rep=""))
exact_value, *plain = table["EE_D"]
assert plain == sorted(plain, reverse=True) and plain[-1] > exact_value  # too large, but less so
assert (abs(table["EE_D unbiased"][1:] - exact_value) < 0.06).all()

# %% [markdown]
# How many samples are enough? `fairtk.precision` computes that from a pilot run of 20 samples.

# %%
pilot = FairSampler(alpha=2, n_samples=20, cutoff=5)(bm25)
print(fairtk.precision(qrels, pilot, [unbiased, EE_R @ 5], half_width=0.005))

# %% [markdown]
# The effect of alpha differs between queries, because it depends on their scores. Instead, set the
# disparity: `target_disparity=0.4` finds, for each query, the alpha with an exact EE_D of 0.4.
# Queries that cannot reach it (the lowest value is k / n) get the nearest value, and are counted.

# %%
stated = FairSampler(target_disparity=0.4, n_samples=100, cutoff=5)(bm25)
reached = fairtk.evaluate(qrels, {"alpha 2": drawn, "stated": stated}, [unbiased]).per_query
print(reached.groupby("system")["value"].describe()[["mean", "std", "min", "max"]].round(3))

# %% [markdown]
# ## The trade-off over alpha
#
# Exact values require no samples, so `fairtk frontier` can draw the complete trade-off. The bands
# are intervals over queries. The last lines compare the areas of BM25 and "newest first", and their
# disparity at equal relevance, if both reach it.

# %%
frontier = fairtk.frontier(qrels, {"bm25": bm25, "newest": newest}, "EE_D@5", "EE_R@5")
print(frontier.summary)
areas = frontier.areas.set_index("system")["area"]
assert areas["bm25"] > areas["newest"]
frontier.plot()

# %% [markdown]
# Answers are expensive. From answers generated at two alphas, importance weights estimate the
# utility at other alphas: the weight of an answer is the likelihood ratio of its ranking. Far from
# the two alphas, few answers have most of the weight; `effective` is the effective sample size.

# %%
reader = FlanT5(model=fairtk.demo.model_folder(), prompt="lamp-2", cutoff=5, max_new_tokens=8)
answers = {
    alpha: reader(FairSampler(alpha=alpha, n_samples=N_SAMPLES, cutoff=5)(bm25)) for alpha in (1, 4)
}
curve = fairtk.off_policy_utility(
    qrels, answers, bm25, [0.5, 1, 2, 3, 4, 6], "accuracy", cutoff=5, least_effective=5
)
print(curve)

# %%
utility = fairtk.frontier(
    qrels,
    {"bm25": bm25},
    "EE_D@5",
    "EU(utility='accuracy')",
    alphas=[1, 1.5, 2, 3, 4],
    answers={"bm25": answers},
)
columns = ["alpha", "x", "y", "y_low", "y_high", "dominated"]
print(utility.curve[columns].round(4).to_string(index=False))
utility.plot()

# %% [markdown]
# ## Does the order of systems hold?
#
# BM25 wins by EE_R@5. Would it win at another cutoff, with a more patient user, exact bounds, or
# other assumptions about unjudged documents? `fairtk sensitivity` tries all of these and lists the
# choices with another winner.

# %%
systems = {
    "bm25": FairSampler(alpha=2, n_samples=N_SAMPLES, cutoff=5)(bm25),
    "newest": FairSampler(alpha=2, n_samples=N_SAMPLES, cutoff=5)(newest),
    "bm25, even": FairSampler(alpha=1, n_samples=N_SAMPLES, cutoff=5)(bm25),
}
order = fairtk.sensitivity(qrels, systems, ["EE_R@5", "EE_L@5", "E(nDCG@5)"], cutoffs=[1, 2, 3, 5])
print(order.summary)
originals = order.table[order.table["choice"] == "original"]
assert (originals["winner"] == "bm25").all()
order.plot()

# %% [markdown]
# Would another set of queries change the result? `fairtk.compare` tests differences over queries.
# `levels=True` splits the error into the part that remains with infinitely many samples
# (`error_queries`) and the part from sampling (`error_samples`). A difference that is not
# significant does not prove equality: with a margin, a small `p_not_worse` says that a system is
# worse by less than the margin. `comparison.queries_needed(0.01)` plans the next experiment.

# %%
comparison = fairtk.compare(qrels, systems, ["EE_R@5"], baseline="bm25", margin=0.1, levels=True)
columns = ["run", "difference", "low", "high", "p_corrected", "p_not_worse"]
columns += ["error_queries", "error_samples"]
print(comparison.table[columns].round(4).to_string(index=False))

# %% [markdown]
# ## What to report
#
# - the state of the data (`fairtk doctor --format json` in CI);
# - exact values, or the number of samples and the estimator;
# - an interval over queries, and the test;
# - all choices, and the ones that change the order of systems;
# - both the utility of the answers and the evenness of exposure, because either alone is easy to
#   maximize.
