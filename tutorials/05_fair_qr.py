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
# # FAIR-QR: from one query's trace to the study
#
# ![Divergence, AWRF, nDCG and group shares, by iteration](../docs/_static/tutorials/05.png)
#
# A ranking can only show documents that the query retrieves. FAIR-QR (Chen & Fang 2025, arXiv
# 2503.21092) asks a language model for keywords for the group that is furthest below its target
# exposure, retrieves again, and repeats while the exposure gets closer to the target. Then it ranks
# the retrieved documents by the original query. This tutorial shows one query's loop, its cost, the
# loop as the first stage of a RAG pipeline, and the paper's complete comparison.
#
# It needs `fairtk-papers`: in a checkout,
# `pip install -c constraints.txt '.[t5,report]' ./plugins/fairtk-papers`. Run it as a script or
# open it as a notebook (jupytext):
#
#     python tutorials/05_fair_qr.py            # a small invented collection
#     python -O tutorials/05_fair_qr.py FOLDER  # files of TREC Fair Ranking 2022
#
# Assertions check the numbers of the invented collection; `-O` skips them.
# `FAIRTK_TUTORIAL_FAST=1` takes half a minute.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    packages = ["fairtk[t5]", "fairtk-papers"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *packages], check=True)

# %%
import os
import shlex
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
from fairtk_papers.fair_qr import from_trec_fair
from ir_measures import nDCG

import fairtk
from fairtk import AWRF, EE_D, EU, BM25Scorer, E, FairQR, FairSampler, FlanT5, Groups, Target
from fairtk.demo.invented_people import write_invented_folder
from fairtk.demo.study import shell
from fairtk.errors import DataWarning
from fairtk.llm import KeywordRefiner, Ledger
from fairtk.measures import nDCG_AWRF, nDCG_TREC
from fairtk.transformers import CollectionBM25

FAST = os.environ.get("FAIRTK_TUTORIAL_FAST") == "1"
WORK = Path(tempfile.mkdtemp(prefix="fairtk-fair-qr-"))
CUTOFF = 20
pd.set_option("display.width", 200, "display.max_columns", 30, "display.max_colwidth", 60)
# on a small collection most regions have no article, and AWRF warns each time
warnings.simplefilter("ignore", DataWarning)

if len(sys.argv) == 2:  # a notebook has other arguments
    FOLDER = Path(sys.argv[1])
else:
    FOLDER = WORK / "invented"
    write_invented_folder(FOLDER)

# %% [markdown]
# ## Data, groups, targets
#
# `from_trec_fair` reads topics, judgments, documents, and for each attribute the groups and the
# track's targets. Labels such as these are data about *documents*: coarse, often missing,
# sometimes wrong; see tutorial 04. The targets come from relevance judgments, so a loop that reads
# them while it searches uses an **oracle**: the results below show the effect of refinement if the
# right shares of exposure are known. If they are not, use `Target.population` or a custom target.

# %%
data = from_trec_fair(FOLDER, ["gender", "geography"])
gender, target = data.attributes["gender"]
print(f"{len(data.topics)} topics, {len(data.qrels)} relevant articles, {len(gender)} with groups")
bm25 = CollectionBM25(WORK / "index", data.documents)

# %% [markdown]
# ## One query's loop
#
# `KeywordRefiner` replaces a language model: it adds the group's next terms from a table
# (`fairtk.llm.local.PACKAGED`, or your own). It is free, and it is the baseline that a model has to
# beat. A few words are a crude description of a group. In this collection, labels were derived from
# words, and the refiner's terms retrieve exactly those words. So the results say more about the
# labels than about refinement.

# %%
measured = AWRF(groups=gender, target=target) @ CUTOFF
fair_qr = FairQR(bm25, gender, target, KeywordRefiner(), depth=CUTOFF, qrels=data.qrels)
run = fair_qr(data.topics)
trace = fair_qr.trace
n_kept = trace[trace["iteration"] > 0].groupby("qid")["kept"].sum()
qid = str(n_kept.idxmax()) if len(n_kept) else data.topics["qid"].iloc[0]
columns = ["iteration", "group", "divergence", "AWRF", "nDCG", "nDCG_reranked", "kept"]
one = trace[trace["qid"] == qid]
print(one[columns].to_string(index=False, float_format="{:.3f}".format))
for row in one.itertuples():
    print(f"iteration {row.iteration}: {row.query}{row.note and f' ({row.note})'}")

# %% [markdown]
# Each row has the most underexposed group, the added words, the new divergence and shares of
# exposure, nDCG of the refined list, and nDCG after re-ranking by the original query. `share:`
# columns have each group's share. The figure shows the same values:

# %%
shares = [c for c in trace.columns if c.startswith("share:")]
print(one[["iteration", *shares]].to_string(index=False, float_format="{:.3f}".format))
fair_qr.plot_trace(qid)

# %% [markdown]
# ## A language model, and what it costs
#
# You can use any server with OpenAI's protocol, any local Hugging Face model, or a function:
#
#     from fairtk.llm import OpenAICompatible
#     llm = OpenAICompatible("gpt-4o")                     # the key: OPENAI_API_KEY
#     llm = OpenAICompatible("qwen", base_url="http://127.0.0.1:8000/v1", api_key_env=None)
#
# Use it with a `Ledger`: every answer is written to a file before it is used, equal calls are paid
# for once, a killed run resumes, and `max_calls` and `max_cost` set limits. `estimate` returns an
# upper bound of the cost, before any call. If all retries fail for a query, the query is *missing*:
# a warning and `.missing` name it.

# %%
with Ledger(WORK / "answers.sqlite", max_calls=500) as ledger:
    recorded = FairQR(bm25, gender, target, ledger.wrap(KeywordRefiner()), depth=CUTOFF)
    print("at most:", recorded.estimate(data.topics))
    first = recorded(data.topics)
    print("paid:", ledger.spent)
with Ledger(WORK / "answers.sqlite", offline=True) as ledger:
    replayed = FairQR(bm25, gender, target, ledger.wrap(KeywordRefiner()), depth=CUTOFF)
    assert replayed(data.topics).equals(first)
    assert ledger.spent.calls == 0

# %% [markdown]
# ## The returned list
#
# The paper does not say which lists are re-ranked by the original query. `pool="last"` takes the
# list with the smallest divergence, `"refined"` all accepted lists except the first. `"union"` adds
# the first list to the pool; ordering by the same BM25 scores then returns that list unchanged, so
# refinement has no effect, and a warning says so. `rerank=False` keeps the order of the refined
# query.

# %%
settings = {"depth": CUTOFF, "k": CUTOFF}
systems = {
    "bm25": bm25,
    "pool=last": FairQR(bm25, gender, target, KeywordRefiner(), **settings),
    "pool=refined": FairQR(bm25, gender, target, KeywordRefiner(), pool="refined", **settings),
    "pool=union": FairQR(bm25, gender, target, KeywordRefiner(), pool="union", **settings),
    "no re-ranking": FairQR(bm25, gender, target, KeywordRefiner(), rerank=False, **settings),
}
product = nDCG_AWRF(groups=gender, target=target) @ CUTOFF
table = pt.Experiment(
    list(systems.values()),
    data.topics,
    data.qrels,
    [nDCG_TREC @ CUTOFF, measured, product],
    names=list(systems),
    baseline=0,
)
names = {str(nDCG_TREC @ CUTOFF): "nDCG", str(measured): "AWRF", str(product): "nDCG x AWRF"}
columns = [f"{m}{suffix}" for m in names for suffix in ("", " p-value")]
table = table.set_index("name")[columns].rename(
    columns=lambda c: next(c.replace(m, n) for m, n in names.items() if c.startswith(m))
)
print(table.to_string(float_format="{:.4f}".format, na_rep=""))
means = table[list(names.values())]
assert means.loc["pool=union"].equals(means.loc["bm25"])
assert means.loc["pool=last", "AWRF"] > means.loc["bm25", "AWRF"]  # nearer to the target

# %% [markdown]
# ## The first stage of a RAG pipeline
#
# `FairQR(...) >> FairSampler(...) >> FlanT5(...)`: refinement selects the candidates, the sampler
# determines how often each is shown, and the generator answers from them. In this example, each
# viewer of the packaged demo tags a movie, and the model reads five of the viewer's movies. For the
# search (not for the prompt), the place where a movie was shot is appended to its text, so that
# queries for places match. All data of the demo are invented.

# %%
PLACES = {
    "Africa": ["Nigeria", "Kenya", "Morocco", "Ghana", "Senegal"],
    "Asia": ["India", "Japan", "Korea", "China", "Iran"],
    "Europe": ["France", "Poland", "Spain", "Sweden", "Italy"],
    "Latin America": ["Brazil", "Chile", "Mexico", "Peru", "Cuba"],
    "North America": ["Canada", "Boston", "Chicago", "Montana", "Ohio"],
    "Oceania": ["Australia", "Zealand", "Fiji", "Samoa", "Tonga"],
}
N_TOPICS, N_SAMPLES = (6, 5) if FAST else (60, 20)
demo = fairtk.demo.load()
qrels = fairtk.drop_undefined(demo.qrels)
topics = demo.topics[demo.topics["qid"].isin(qrels["qid"])].drop(columns="gold_answer")
topics = topics.head(N_TOPICS)
qrels = qrels[qrels["qid"].isin(topics["qid"])]
made = demo.groups[demo.groups["attribute"] == "origin"].drop(columns="attribute")
origin = Groups.from_frame(made, name="origin")
even = Target.population(dict.fromkeys(PLACES, 1 / 6), origin)

movies = demo.candidates[["qid", "docno", "text", "tag"]]
movies = movies.merge(made.drop_duplicates("docno"), on="docno", how="left")
rng = np.random.default_rng(5)
movies["shot"] = [" ".join(rng.choice(PLACES.get(g, [""]), size=2)) for g in movies["group"]]
prompt_texts = movies.set_index("docno")["text"]
searched = movies.assign(text=movies["text"] + " " + movies["shot"])
searched = searched.drop(columns=["group", "weight", "shot"])


def profiles(queries):
    """Return each viewer's movies as candidates."""
    return queries.merge(searched, on="qid")


def original_texts(results):
    """Restore the texts for the prompt."""
    return results.assign(text=results["docno"].map(prompt_texts))


candidates = pt.apply.generic(
    profiles,
    required_columns=["qid", "query"],
    transform_outputs=lambda columns: [*columns, "docno", "text", "tag"],
)
search = candidates >> BM25Scorer()
refined = FairQR(search, origin, even, KeywordRefiner(PLACES), depth=10, k=10)
reader = FlanT5(model=fairtk.demo.model_folder(), prompt="lamp-2", cutoff=5, max_new_tokens=8)
rest = (
    pt.apply.generic(
        original_texts,
        required_columns=["docno", "text"],
        transform_outputs=lambda columns: columns,
    )
    >> FairSampler(alpha=2, n_samples=N_SAMPLES, cutoff=5)
    >> reader
)
by_origin = AWRF(groups=origin, target=even) @ 5
chain = pt.Experiment(
    [search % 10 >> rest, refined >> rest],
    topics,
    qrels,
    [by_origin, EE_D(estimator="unbiased") @ 5, E(nDCG @ 20), EU(utility="accuracy")],
    names=["bm25 >> sampler >> T5", "FairQR >> sampler >> T5"],
)
chain = chain.set_index("name").rename(columns={str(by_origin): "AWRF by origin @5"})
print(chain.T.to_string(float_format="{:.4f}".format))
assert chain["AWRF by origin @5"].is_monotonic_increasing  # FairQR is nearer to even shares

# %% [markdown]
# Exposure by origin gets closer to even shares; the table also has the effect on the answers. The
# movies are invented, so the numbers only show that the parts work together.

# %% [markdown]
# ## The study
#
# `fairtk qr` is the paper's comparison: BM25, vector search, DLF, DELTR, FA*IR, MMR (from the
# plugin `fairtk-baselines`), FAIR-QR with and without re-ranking, for gender and for geography,
# with tests and intervals. It then varies FAIR-QR's settings one at a time, and reports the number
# of refinements and the cost. `--dry-run` prints an upper bound of the cost. You can stop the study
# at any time; the same command resumes it.


# %%
compared = "-s fair-qr --no-variations --no-tuning" if FAST else ""
study = f"fairtk qr {shlex.quote(str(FOLDER))} -o study {compared}"
shell(f"{study} --dry-run", WORK)
shell(study, WORK)
report = (WORK / "study" / "report.md").read_text(encoding="utf-8")
print(report.partition("\n\n*Means")[0])
saved = pd.read_csv(WORK / "study" / "table.csv").set_index(["attribute", "system"])
saved = saved.loc["gender", "AWRF"]
assert np.allclose(saved[["bm25", "fair-qr"]], means.loc[["bm25", "pool=last"], "AWRF"])

# %% [markdown]
# A TOML file (`fairtk qr study.toml`) compares several models (`[[llm]]`) and retrievers
# (`[[retriever]]`), adds fixed targets (`[targets]`), and also supports TREC Fair Ranking 2021
# (`dataset = "trec-fair/2021/eval"`). Without `--no-tuning`, each system is evaluated twice: with
# its defaults and with settings tuned on other topics; `fairtk.tune` does that for any pipeline.
# Results on real text, and why FAIR-QR loses, are in `docs/reproduce/results.md`.
#
# All results are in the folder `study`: `report.md` with tables and figures, tables for a paper
# (`tables/comparison.tex`, ...), tidy frames (`per_query.parquet`, `rankings.parquet`,
# `traces.parquet`), and the ledger. In Python:
# `fairtk_papers.fair_qr.QrStudy(data, "study", llm).run()`.
#
# What the table does not say: whether the target is right, whether the labels are right, whether
# words from a table or a model represent people, and which list a searcher would prefer.
