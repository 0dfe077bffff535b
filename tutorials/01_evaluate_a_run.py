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
# # Evaluate a run
#
# ![Exposure of one query's documents at alpha 1 and alpha 8](../docs/_static/tutorials/01.png)
#
# You have run files and relevance labels. This tutorial measures how evenly the rankings spread
# exposure over documents (EE_D), how much of it goes to useful documents (EE_R), and the mean of
# any other measure over sampled rankings (`E(...)`). It needs no model and takes seconds.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    package = "fairtk[report]"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", package], check=True)

# %%
import tempfile
from pathlib import Path

import ir_measures
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_L, EE_R, BM25Scorer, E, FairSampler
from fairtk.demo.study import shell

FILES = Path(tempfile.mkdtemp(prefix="fairtk-runs-"))

BLUE, ORANGE, BLACK, GREY = "#0072B2", "#E69F00", "#000000", "#8C8C8C"
plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## Run files with samples
#
# A stochastic ranking policy draws a new ranking for each request. Exposure over many requests is
# estimated from N sampled rankings per query. In a TREC run file of samples, **the second column is
# the number of the sample**; in a plain run, it is `Q0`.
#
# The files of this tutorial come from the packaged demo (invented viewers and their movies): BM25's
# ranking of each viewer's entries, and 100 rankings per query that `FairSampler` draws from it.
# `alpha` controls how closely the draws follow the scores: 0 is uniform, and a larger alpha is
# closer to BM25's order.

# %%
demo = fairtk.demo.load()
bm25 = BM25Scorer()(demo.candidates)
ALPHAS = [0, 1, 2, 4, 8]

fairtk.io.write_qrels(demo.qrels[["qid", "docno", "label"]], FILES / "qrels.txt")
fairtk.io.write_run(bm25, FILES / "bm25.run")
for alpha in ALPHAS:
    sampled = FairSampler(alpha=alpha, n_samples=100, cutoff=5)(bm25)
    fairtk.io.write_run(sampled, FILES / f"alpha{alpha}.run.gz")

print((FILES / "bm25.run").read_text().splitlines()[0])
runs = {alpha: fairtk.io.read_run(FILES / f"alpha{alpha}.run.gz") for alpha in ALPHAS}
print(runs[2].head(7).to_string(index=False))

# %% [markdown]
# ## The first table
#
# On the command line, `fairtk evaluate` prints the means. `E(nDCG@5)` is the mean of nDCG@5 over
# the sampled rankings.


# %%
shell(
    "fairtk evaluate qrels.txt bm25.run alpha8.run.gz alpha2.run.gz "
    'alpha0.run.gz -m EE_D@5 -m EE_R@5 -m EE_L@5 -m "E(nDCG@5)"',
    FILES,
)

# %% [markdown]
# These values are for a *machine user* (`browsing="MU"`, the default): a language model that pays
# equal attention to the top five documents and ignores the rest.
#
# | measure | definition | range | better |
# |---|---|---|---|
# | `EE_D@5` | squared norm of expected exposure, divided by its maximum | 0 to 1 | lower |
# | `EE_R@5` | overlap with the ideal policy's exposure, divided by its maximum | 0 to 1 | higher |
# | `EE_L@5` | squared distance between the two, divided by its bound | 0 to 1 | lower |
# | `E(nDCG@5)` | nDCG@5 averaged over the rankings | 0 to 1 | higher |
#
# A deterministic ranking always has an EE_D of 1, because the same five documents get all
# exposure. EE_D measures single documents, not groups of people, and ignores usefulness. EE_R and
# EE_L compare with an ideal policy, which shows useful documents first, in random order among
# equals.
#
# In Python, use the same measures with ir_measures, whose columns are `query_id`, `doc_id` and
# `relevance`.

# %%
NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
qrels = fairtk.io.read_qrels(FILES / "qrels.txt")


def evaluate(measures, run, labels=qrels):
    labels, run = labels.rename(columns=NAMES), run.rename(columns=NAMES)
    return ir_measures.calc_aggregate(measures, labels, run)


def per_query(measure, run, labels=qrels):
    labels, run = labels.rename(columns=NAMES), run.rename(columns=NAMES)
    values = ir_measures.iter_calc([measure], labels, run)
    return pd.Series({v.query_id: v.value for v in values})


# %% [markdown]
# ## Undefined queries
#
# Some viewers have no useful entry at all (every label is 0). Then no ranking is better than
# another, and EE_R and EE_L are undefined: NaN, with a warning. `fairtk evaluate` averages the
# defined values and prints their number. In ir_measures and `pt.Experiment`, the mean is NaN, so
# use `fairtk.drop_undefined` to keep only queries with a useful document. nDCG is 0 for the other
# queries, which lowers its mean for every system.

# %%
defined = fairtk.drop_undefined(qrels)
print(f"{qrels['qid'].nunique()} queries, {defined['qid'].nunique()} with a useful document")
print(evaluate([EE_D @ 5, EE_R @ 5, EE_L @ 5, E(nDCG @ 5)], runs[2], defined))

# %% [markdown]
# ## Exposure, document by document
#
# This section looks at one query. A document's expected exposure under the machine user is the
# share of rankings in which it is among the first five. The target is the exposure under the ideal
# policy. If there are at most 5 useful documents, it is 1 for each, and the other documents share
# the free ranks.

# %%
useful = defined[defined["label"] > 0].groupby("qid").size()
size = qrels.groupby("qid").size()
disparity = per_query(EE_D @ 5, runs[8])
QID = next(q for q in useful.index if 3 <= useful[q] <= 4 and size[q] < 30 and disparity[q] < 0.9)

documents = bm25[bm25["qid"] == QID].sort_values("rank")["docno"].tolist()
is_useful = qrels[qrels["qid"] == QID].set_index("docno")["label"].loc[documents].to_numpy() > 0
m, n, k = is_useful.sum(), len(documents), 5
target = np.where(is_useful, 1.0, (k - m) / (n - m))  # m <= k here


def exposure(run):
    top = run[(run["qid"] == QID) & (run["rank"] < k)]
    return (top["docno"].value_counts() / top["sample"].nunique()).reindex(documents, fill_value=0)


places = np.arange(1, n + 1)
figure, axes = plt.subplots(figsize=(8, 3.8), layout="constrained")
for place in places[is_useful]:
    axes.axvspan(place - 0.5, place + 0.5, color="0.92", zorder=0)
axes.axvspan(np.nan, np.nan, color="0.92", label="useful document")
axes.plot(places, target, "_", color=BLACK, markersize=14, markeredgewidth=2, label="target")
axes.plot(places, exposure(runs[8]), "s-", color=BLUE, markersize=6, label="alpha 8")
axes.plot(places, exposure(runs[1]), "o--", color=ORANGE, markersize=6, label="alpha 1")
axes.set_xlabel("document, in BM25's order")
axes.set_ylabel("expected exposure\n(share of rankings that show it)")
axes.set_xticks(places[:: 2 if n > 15 else 1])
axes.set_ylim(-0.03, 1.05)
axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
plt.show()

# %% [markdown]
# The measures follow directly from these values. For alpha 8:

# %%
e = exposure(runs[8]).to_numpy()
direct = {
    "EE_D": (e @ e) / k,  # a deterministic ranking has k ones: squared norm k
    "EE_R": (e @ target) / (target @ target),
}
print(f"query {QID}: n = {n} documents, m = {m} useful")
for name, measure in (("EE_D", EE_D @ 5), ("EE_R", EE_R @ 5)):
    measured = per_query(measure, runs[8], defined)[QID]
    print(f"{name} directly {direct[name]:.4f}, fairtk {measured:.4f}")
    assert np.isclose(measured, direct[name])

# %% [markdown]
# ## Paper bounds and exact bounds
#
# The paper divides EE_D by its largest value and takes 0 for the smallest. No policy reaches 0:
# some documents must fill the five ranks, and a uniform policy over n documents has n (k/n)^2 / k =
# k/n. With 30 candidates that is 0.17, with 10 it is 0.5. With `bounds="exact"`, the most even
# policy has 0, and queries with few and with many candidates are comparable.

# %%
bounds = {"paper": EE_D @ 5, "exact": EE_D(bounds="exact") @ 5}
floor = (k / size).mean()
rows = []
for alpha in [0, 0.5, 1, 2, 4, 8, 16, 32]:
    run = FairSampler(alpha=alpha, n_samples=100, cutoff=5)(bm25)
    means = evaluate(bounds.values(), run)
    rows.append({"alpha": f"{alpha:g}"} | {name: means[bounds[name]] for name in bounds})
means = evaluate(bounds.values(), bm25)
rows.append({"alpha": "BM25"} | {name: means[bounds[name]] for name in bounds})
curve = pd.DataFrame(rows).set_index("alpha")
print(curve.round(3))
assert curve["paper"].is_monotonic_increasing  # closer to BM25's order is less even
assert np.allclose(curve.loc["BM25"], 1)  # no policy is less even than a deterministic ranking
assert curve.loc["0", "exact"] < 0.02  # uniform sampling is at the exact floor

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
left.axhline(floor, color=GREY, linestyle=":", label="mean of k/n")
left.plot(curve.index, curve["paper"], "s-", color=BLUE, label='bounds="paper"')
left.plot(curve.index, curve["exact"], "o--", color=ORANGE, label='bounds="exact"')
left.set_xlabel("alpha (larger: closer to BM25's order)")
left.set_ylabel("EE_D@5, mean over queries\n<- more even exposure")
left.set_ylim(-0.03, 1.05)
left.legend(frameon=False)

by_query = {name: per_query(measure, runs[2]) for name, measure in bounds.items()}
order = np.linspace(size.min(), size.max(), 200)
right.plot(order, k / order, ":", color=GREY, label="k/n: uniform")
right.plot(size, by_query["paper"][size.index], "s", color=BLUE, markersize=4,
           label='alpha 2, bounds="paper"')  # fmt: skip
right.plot(size, by_query["exact"][size.index], "o", color=ORANGE, markersize=5,
           markerfacecolor="none", label='alpha 2, bounds="exact"')  # fmt: skip
right.set_xlabel("number n of candidates of the query")
right.set_ylabel("EE_D@5 of one query")
right.set_ylim(-0.03, 1.05)
right.legend(frameon=False)
plt.show()

# %% [markdown]
# EE_D is also biased: from N samples, it is too large by (1 - EE_D) / N on average, because
# the counts fluctuate. With N = 100 that is below 0.01. Compare systems with equal N.

# %%
print(f"floor: {floor:.4f}")
for n_samples in (5, 20, 100):
    run = FairSampler(alpha=0, n_samples=n_samples, cutoff=5)(bm25)
    measured = evaluate([EE_D @ 5], run)[EE_D @ 5]
    expected = floor + (1 - floor) / n_samples
    print(f"alpha 0, N = {n_samples:3}: {measured:.4f}; expected {expected:.4f}")
    assert abs(measured - expected) < 0.01

# %% [markdown]
# ## Plain measures expect one ranking
#
# nDCG, P, RR and so on expect one ranking per query. Given 100 rankings, they would use the last
# score of each document, or treat all rankings as one list. So sampled runs are an error wherever
# `fairtk` is imported: in `ir_measures`, in `pt.Experiment` and on the command line. Use the
# expectation: `E(nDCG@5)`.

# %%
expected = evaluate([E(nDCG @ 5)], runs[2], defined)[E(nDCG @ 5)]
by_sample = [
    evaluate([nDCG @ 5], ranking, defined)[nDCG @ 5] for _, ranking in runs[2].groupby("sample")
]
print(f"E(nDCG@5): {expected:.4f}; mean of the 100 rankings: {np.mean(by_sample):.4f}")
assert np.isclose(expected, np.mean(by_sample))

shell("fairtk evaluate qrels.txt alpha2.run.gz -m nDCG@5", FILES, check=False)

# %% [markdown]
# ## People instead of machines
#
# A person reads from the top and may stop. `browsing` models this: with `RBP(p=0.8)` the user
# continues with probability 0.8, and no cutoff is needed. The order of the first five documents now
# matters: showing the same five in changing order is more even than a fixed order. On the command
# line measures are strings; `fairtk measures` lists all of them with their parameters.

# %%
shell(
    "fairtk evaluate qrels.txt bm25.run alpha2.run.gz "
    "-m \"EE_D(browsing='RBP(p=0.8)')\" -m \"EE_R(browsing='RBP(p=0.8)')\"",
    FILES,
)

# %% [markdown]
# ## Values of each query
#
# `--per-query --format csv` (or `json`) writes values for another program.

# %%
shell("fairtk evaluate qrels.txt alpha2.run.gz -m EE_R@5 --per-query --format csv", FILES, lines=4)

# %% [markdown]
# Next: `02_fair_rag_pipeline.py` draws the rankings inside a PyTerrier pipeline
# and lets a language model answer from them.
