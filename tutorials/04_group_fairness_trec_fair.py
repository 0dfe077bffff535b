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
# # Group fairness on TREC Fair files
#
# ![What each group, rank and query adds to 1 - AWRF](../docs/_static/tutorials/04.png)
#
# TREC Fair Ranking 2022 asks a question of Wikipedia's editors: for the keywords of a WikiProject,
# does a ranking represent people and places in the same shares as the relevant articles and the
# world? This tutorial measures this with AWRF, for one attribute and for crossed attributes, next
# to nDCG. It then shows the cost of each group and rank.
#
# Run it as a script or open it as a notebook (jupytext):
#
#     python tutorials/04_group_fairness_trec_fair.py            # a small invented collection
#     python -O tutorials/04_group_fairness_trec_fair.py FOLDER  # the track's files
#
# FOLDER has the official files: `trec_corpus_20220301_plain.json.gz`,
# `trec_2022_articles_discrete.json.gz` and `train_topics_meta.jsonl`. Without FOLDER, the script
# writes invented files in the same format. Assertions check its numbers; `-O` skips them.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    package = "fairtk[report]"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", package], check=True)

# %%
import builtins
import os
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt
from ir_measures import nDCG

import fairtk
from fairtk import AWRF, BM25Scorer, E, FairSampler, GroupEE_L, Groups, Target
from fairtk.datasets import trec_fair
from fairtk.demo.invented_people import write_invented_folder
from fairtk.demo.study import shell
from fairtk.errors import DataWarning
from fairtk.measures import ByGroup, nDCG_AWRF, nDCG_TREC

STARTED = time.perf_counter()
WORK = Path(tempfile.mkdtemp(prefix="fairtk-trec-fair-"))
N_SAMPLES = 20 if os.environ.get("FAIRTK_TUTORIAL_FAST") else 100
show = getattr(builtins, "display", print)  # notebooks show tables
CUTOFF = 20  # the track itself used 500

# %% [markdown]
# ## An invented collection in the official form
#
# 360 invented biographies (`fairtk.demo.invented_people`). Three properties are realistic: groups
# differ in size, some labels are missing, and the words of the query are more frequent in the
# relevant articles of some groups than of others.

# %%
if len(sys.argv) == 2:  # a notebook has other arguments
    FOLDER = Path(sys.argv[1])
else:
    FOLDER = WORK / "invented"
    write_invented_folder(FOLDER)

dataset = trec_fair.from_folder(FOLDER, split="train")
topics = pd.DataFrame([(q.query_id, q.query) for q in dataset.queries_iter()],
                      columns=["qid", "query"])  # fmt: skip
qrels = pd.DataFrame([(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()],
                     columns=["qid", "docno", "label"])  # fmt: skip
print(f"{len(topics)} topics, {len(qrels)} relevant articles")

# %% [markdown]
# ## Groups
#
# `groups` reads the track's metadata as its evaluation does: a page about several regions divides
# its membership between them, a page with two genders counts fully for both, and a page without a
# value belongs to `@UNKNOWN`, which is a group if the target gives it a share, as the track's does.
#
# **What these labels are.** They are data about *documents*, derived from Wikidata statements and
# link counts, in categories chosen by people. A gender label is what a knowledge base records about
# the person that an article is about, often guessed by others, sometimes wrong, and reduced by the
# track to female, male and NB. A region is not a nationality and not an identity. Labels are
# missing more often for people about whom less is written, which is the effect to measure. The
# labels do not say how people see themselves, and no number below describes a person.

# %%
dimensions = trec_fair.dimensions(FOLDER)
gender = trec_fair.groups(FOLDER, "gender")
place = trec_fair.groups(FOLDER, "sub-geo")
both = gender * place
every = trec_fair.groups(FOLDER, *dimensions)
for groups in (gender, place, both, every):
    print(f"{groups.name}: {len(groups.levels):,} groups, {len(groups)} articles")
show(gender)
show(Target.uniform(gender))

# %% [markdown]
# ## Targets
#
# The track has two tasks with different targets, so `task` has no default. In Task 1, the target
# for a topic is the mean over its relevant articles. Its known part is averaged equally with a
# background distribution: the world population by region, and 49.5 % women, 49.5 % men, 1 % NB. In
# Task 2, articles that need more work count more. These targets are decisions, not facts. Other
# targets are `Target.uniform`, `Target.population`, and `Target.from_frame` for your own.

# %%
targets = {
    groups.name: trec_fair.targets(FOLDER, *groups.space.names, task=1)
    for groups in (gender, place, both, every)
}
first = topics["qid"].iloc[0]
official = targets["gender"].to_frame()
print(official[official["qid"] == first].to_string(index=False, float_format="{:.3f}".format))

# %% [markdown]
# ## Runs
#
# We compare BM25 with the keywords (by PISA, if installed) with two systems: rankings that
# `FairSampler` draws from BM25's scores, and an oracle that knows the relevant articles and the
# target for gender x place.


# %%
def retriever():
    """Return BM25 over the whole collection."""
    docs = [{"docno": d.doc_id, "text": d.default_text()} for d in dataset.docs_iter()]
    try:
        from pyterrier_pisa import PisaIndex
    except ImportError:
        frame = pd.DataFrame(docs)
        every_document = pt.apply.generic(lambda q: q.merge(frame, how="cross"))
        if len(frame) > 5000:
            sys.exit("pyterrier-pisa or another PyTerrier retriever is required")
        return every_document >> BM25Scorer() % 200
    index = PisaIndex(str(WORK / "index"), text_field="text", threads=1)
    index.index(docs)
    return index.bm25(num_results=200)


# %% tags=["remove-stdout", "remove-stderr"]
begin = time.perf_counter()
bm25 = retriever()
print(f"read and indexed in {time.perf_counter() - begin:.1f} s")

# %%
begin = time.perf_counter()
run = bm25(topics)
print(f"{len(run)} results in {time.perf_counter() - begin:.1f} s")
sampled = FairSampler(alpha=4, n_samples=N_SAMPLES, cutoff=CUTOFF)(run)
oracle = trec_fair.oracle_run(FOLDER, CUTOFF, groups=both, target=targets[both.name])

# %% [markdown]
# How many of the retrieved documents have a known group? `coverage` has a row per query. AWRF warns
# if fewer than half of the documents have a known group, or if the target has groups without any
# document. Check this before you trust a number.

# %%
coverage = fairtk.coverage(gender, run, cutoff=CUTOFF)
print(coverage.head(3).to_string(index=False, float_format="{:.2f}".format))
print(f"known gender: {coverage['with_label'].sum()} of {coverage['retrieved'].sum()} documents")

# %% [markdown]
# ## The table
#
# AWRF@k is 1 minus the Jensen-Shannon divergence of the groups' shares of attention from the
# target. It is 1 at the target; with the natural logarithm, as in the track, the worst value is 1 -
# ln 2 = 0.307. `nDCG_TREC` is the track's nDCG (ranks 1 and 2 weigh the same), not trec_eval's. The
# track's score is the mean of their *products*; report the factors as well.

# %%
awrf = {
    groups.name: AWRF(groups=groups, target=targets[groups.name]) @ CUTOFF
    for groups in (gender, place, both, every)
}
score = nDCG_AWRF(groups=both, target=targets[both.name]) @ CUTOFF
measures = {
    f"nDCG@{CUTOFF}": E(nDCG @ CUTOFF),
    f"nDCG_TREC@{CUTOFF}": nDCG_TREC @ CUTOFF,
    "AWRF gender": awrf[gender.name],
    "AWRF place": awrf[place.name],
    "AWRF gender x place": awrf[both.name],
    f"AWRF all {len(dimensions)}": awrf[every.name],
    "nDCG_TREC x AWRF gender x place": score,
}
begin = time.perf_counter()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    table = pt.Experiment(
        [run, sampled, oracle],
        topics,
        qrels,
        list(measures.values()),
        names=["bm25", "sampled", "oracle"],
    )
seconds = time.perf_counter() - begin
table = table.set_index("name").rename(columns={str(m): name for name, m in measures.items()})
print(table[list(measures)].T.to_string(float_format="{:.4f}".format))
print(f"({len(measures)} measures, 3 systems: {seconds:.2f} s)")
for text in dict.fromkeys(str(w.message) for w in caught if w.category is DataWarning):
    print(f"warning: {text}")
warnings.simplefilter("ignore", DataWarning)  # the rest of this page would repeat them

crossed = table["AWRF gender x place"]
assert np.isclose(table.loc["oracle", f"nDCG_TREC@{CUTOFF}"], 1)  # only relevant articles
assert crossed["oracle"] > crossed["bm25"]  # nearer to the target
assert (table["AWRF gender"] > crossed).all()

# %% [markdown]
# Read the warnings: groups without any article in the collection add the same cost to every system,
# and if most labels are missing, AWRF describes only the labeled articles.
#
# Crossing attributes usually lowers AWRF: a ranking may be even for gender and for place, yet show
# women from one region only. If all attributes are crossed, there are millions of groups for a few
# ranks, so every ranking is far from the target, and a policy that shows more articles is always
# closer. Use such values only to compare systems. For sampled rankings, exposure is averaged first
# and *then* compared with the target; `amortize=False` averages the values of single rankings
# instead.

# %% [markdown]
# ## Task 2: rankings for editors
#
# In Task 2, a topic has several rankings, and the score is EE-L: the squared distance of the
# groups' expected exposure from a target that puts articles in need of work first. Lower is closer.

# %%
editors = trec_fair.targets(FOLDER, "gender", task=2)
task_2 = GroupEE_L(groups=gender, target=editors) @ CUTOFF
losses = pt.Experiment([run, sampled], topics, qrels, [task_2], names=["bm25", "sampled"])
losses = losses.set_index("name")[str(task_2)]
print(losses.to_string(float_format="{:.4f}".format))

# %% [markdown]
# ## What if the unknown were known?
#
# `unlabeled="best"` and `"worst"` give bounds over all ways to fill in unknown labels. A difference
# between systems that is smaller than the width of these bounds may come from missing labels.

# %%
known = Target.population({"female": 0.5, "male": 0.5}, gender)
bounds = {}
for name in ("worst", "best"):
    measure = AWRF(groups=gender, target=known, unlabeled=name) @ CUTOFF
    bounds[name] = pt.Experiment([run], topics, qrels, [measure]).iloc[0, 1]
print(f"AWRF@{CUTOFF} of bm25 by half women, half men: between {bounds['worst']:.4f} and "
      f"{bounds['best']:.4f}")  # fmt: skip
assert bounds["worst"] < bounds["best"]

# %% [markdown]
# ## Any measure by group
#
# `ByGroup` restricts labels and ranking to a group's documents, which keep their ranks among all
# documents. By default it compares groups; `per_group` has the value of each group.

# %%
by_group = ByGroup(nDCG_TREC @ CUTOFF, gender)
values = by_group.per_group(qrels, run)
means = values.groupby("group", sort=False)["value"].agg(["mean", "count"])
print(means.rename(columns={"count": "queries"}).to_string(float_format="{:.4f}".format))

# %% [markdown]
# ## Which groups, ranks and queries cost how much?
#
# `explain` splits the cost 1 - AWRF. The cost of a group is its summand of the divergence. The cost
# of a band of ranks follows from the groups it shows and from its share of attention. The parts add
# up exactly for groups, ranks and queries. A cost below 0 in `by_rank` means that these ranks show
# underexposed groups. Other ways to split the cost are possible.

# %%
explanation = fairtk.explain(qrels, run, awrf[both.name])
show(explanation)
assert np.isclose(explanation.total, 1 - crossed["bm25"])
explanation.plot()

# %% [markdown]
# With a baseline, the tables have `cost`, `baseline_cost` and `change`.

# %%
change = fairtk.explain(qrels, sampled, awrf[gender.name], baseline=run)
columns = ["group", "exposure", "target", "cost", "baseline_cost", "change"]
print(change.by_group[columns].to_string(index=False, float_format="{:.4f}".format))
change.plot()

# %% [markdown]
# ## On the command line
#
# Groups, targets and runs are files. Lists in the track's format (Task 1: `id`, `page_id`; Task 2:
# `id`, `seq_no`, `page_id`) are read like any other run.

# %%
FILES = WORK / "files"
FILES.mkdir()
gender.write(FILES / "gender.tsv")
place.write(FILES / "place.tsv")
targets["gender"].write(FILES / "official.tsv")
fairtk.io.write_qrels(qrels, FILES / "qrels.txt")
fairtk.io.write_task_run(run, FILES / "task1.tsv")
fairtk.io.write_task_run(sampled, FILES / "task2.tsv.gz")

shell("fairtk groups gender.tsv --target official.tsv", FILES)
shell("fairtk groups gender.tsv place.tsv --cross", FILES, lines=9)
shell("fairtk groups gender.tsv --coverage task1.tsv --cutoff 20", FILES, lines=6)
shell(
    "fairtk evaluate qrels.txt task1.tsv task2.tsv.gz --groups gender.tsv --target official.tsv "
    f"-m AWRF@{CUTOFF} -m nDCG_TREC@{CUTOFF} -m nDCG_AWRF@{CUTOFF}",
    FILES,
)

# %% [markdown]
# The track's metadata file can be given to `--groups`, with the name of the attribute; then the
# official targets have names.

# %%
metadata = os.path.relpath(dataset.fair_ranking_files().path("metadata"), FILES)
shell(
    f"fairtk evaluate qrels.txt task2.tsv.gz --groups gender={metadata} "
    f"--target trec-2022-task-2 -m GroupEE_L@{CUTOFF}",
    FILES,
)
assert Groups.read(FILES / "gender.tsv") == gender
assert fairtk.io.read_run(FILES / "task1.tsv")["docno"].tolist() == run["docno"].tolist()

# %%
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"all of this: {time.perf_counter() - STARTED:.1f} s, at most {peak:.2f} GB")
