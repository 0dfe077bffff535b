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
# A number is worth what one knows about it. Are the data sound? Is the difference noise of the 100
# samples that were drawn, or of the queries that happened to be there? Would another cutoff, or
# another patience of the user, have made the other system win? Each question has a command; here
# they are asked one after the other, on the packaged demo (invented viewers who tag movies, and a
# tiny T5). The numbers say how the tools behave, not how real systems do.
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
# ## Are the data sound?
#
# `fairtk doctor QRELS RUN` on the command line. Readers refuse a file at its first broken
# line; the doctor counts all that is wrong, leaves it out, and goes on. Here somebody read the ids
# of three queries as numbers, and copied ten rows twice.

# %%
broken = bm25.copy()
broken["qid"] = broken["qid"].replace({q: f"{q}.0" for q in ("1001", "1002", "1003")})
broken = pd.concat([broken, broken.iloc[100:110]])
found = fairtk.doctor(demo.qrels, broken)
print(found)
assert found.number("error") == 1 and found.findings[0].count == 10  # the copied rows

# %% [markdown]
# The run as it should be. What is left are things to know: queries without a useful document have
# no EE_R, a few ties lie below the cutoff, and for some queries the target is out of reach, since
# no retrieved document belongs to the groups that it asks for.

# %%
found = fairtk.doctor(demo.qrels, bm25, groups, target="uniform")
print(found)
assert found.number("error") == 0
qrels = fairtk.drop_undefined(demo.qrels)
qids = list(dict.fromkeys(qrels["qid"]))[:N_QUERIES]
qrels, bm25, newest = (frame[frame["qid"].isin(qids)] for frame in (qrels, bm25, newest))

# %% [markdown]
# ## Are the numbers those of the papers?
#
# Tests compare fairtk with plain implementations of the published definitions. The page "Agreement
# with published definitions" has the table. The definitions differ from each other: the code of
# *Towards Fair RAG* gives documents that are not useful no target, so its EE_R of an ideal policy
# can be below 1. That variant is `EE_R(variant="fair-rag")`.

# %%
sampled = FairSampler(alpha=2, n_samples=10, cutoff=5)(bm25)
print(fairtk.evaluate(qrels, {"alpha 2": sampled}, [EE_R @ 5, EE_R(variant="fair-rag") @ 5]))

# %% [markdown]
# ## How much is sampling noise?
#
# EE_D of N samples is too large by (1 - EE_D) / N: samples that happen to agree look like
# unevenness. Three remedies: more samples, the unbiased estimator, or no samples at all.
# `PlackettLuceExposure` integrates the exposure of every document exactly.

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
# How many samples would be enough? `fairtk.precision` needs a pilot of 20 for a plan.

# %%
pilot = FairSampler(alpha=2, n_samples=20, cutoff=5)(bm25)
print(fairtk.precision(qrels, pilot, [unbiased, EE_R @ 5], half_width=0.005))

# %% [markdown]
# An alpha means something else for each query: the exponent works on its scores. What is wanted
# can be stated instead: `target_disparity=0.4` finds, for each query, the alpha whose exact EE_D is
# 0.4. Queries that cannot reach it (k / n is the floor) get the nearest, and are counted.

# %%
stated = FairSampler(target_disparity=0.4, n_samples=100, cutoff=5)(bm25)
reached = fairtk.evaluate(qrels, {"alpha 2": drawn, "stated": stated}, [unbiased]).per_query
print(reached.groupby("system")["value"].describe()[["mean", "std", "min", "max"]].round(3))

# %% [markdown]
# ## Every alpha at once
#
# Exact values cost no samples, so the whole trade-off can be drawn: `fairtk frontier`. The bands
# are about the queries. The last lines compare the areas of BM25 and "the newest first", and say
# what they pay for equal relevance, if there is one that both reach.

# %%
frontier = fairtk.frontier(qrels, {"bm25": bm25, "newest": newest}, "EE_D@5", "EE_R@5")
print(frontier.summary)
areas = frontier.areas.set_index("system")["area"]
assert areas["bm25"] > areas["newest"]
frontier.plot()

# %% [markdown]
# Answers are what costs. With answers generated at two alphas, the utility at all others follows by
# importance weights: each answer counts by how much likelier its ranking is there. Far from
# the alphas that were used few answers count much: `effective` is what they are worth.

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
# BM25 wins by EE_R@5. Would it by another cutoff, a user with more patience, exact bounds, or with
# other guesses about documents that nobody judged? `fairtk sensitivity` tries them all and says
# which choice makes another system win.

# %%
systems = {
    "bm25": FairSampler(alpha=2, n_samples=N_SAMPLES, cutoff=5)(bm25),
    "newest": FairSampler(alpha=2, n_samples=N_SAMPLES, cutoff=5)(newest),
    "bm25, even": FairSampler(alpha=1, n_samples=N_SAMPLES, cutoff=5)(bm25),
}
order = fairtk.sensitivity(qrels, systems, ["EE_R@5", "EE_L@5", "E(nDCG@5)"], cutoffs=[1, 2, 3, 5])
print(order.summary)
as_asked = order.table[order.table["choice"] == "as asked"]
assert (as_asked["winner"] == "bm25").all()
order.plot()

# %% [markdown]
# And the queries: `fairtk.compare` tests differences over them. `levels=True` says what is left of
# the error with endless samples (`error_queries`), and what sampling alone makes of it. That no
# difference is found is no proof that there is none: with a margin, a small `p_not_worse` says that
# a system is at most so much worse. `comparison.queries_needed(0.01)` plans the next experiment.

# %%
comparison = fairtk.compare(qrels, systems, ["EE_R@5"], baseline="bm25", margin=0.1, levels=True)
columns = ["run", "difference", "low", "high", "p_corrected", "p_not_worse"]
columns += ["error_queries", "error_samples"]
print(comparison.table[columns].round(4).to_string(index=False))

# %% [markdown]
# ## What to report
#
# - that the data are sound, or what is wrong with them (`fairtk doctor --format json` in CI);
# - exact values, or the number of samples and the estimator;
# - an interval over queries, and the test;
# - which choices were made, and which of them the order of systems depends on;
# - how useful the answers are beside how even the exposure is: one number alone can always be had.
