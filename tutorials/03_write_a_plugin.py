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
# # Write a plugin
#
# ![The new measure and EE_D, by alpha](../docs/_static/tutorials/03.png)
#
# A plugin is a Python package that fairtk discovers. After `pip install`, its measures work in
# `ir_measures`, in `pt.Experiment` and on the command line, like the built-in ones; after
# `pip uninstall` they are gone. This tutorial writes one with three files.
#
# The measure is `TopShare`, the share of the first k ranks, over all sampled rankings, that the
# most frequent document gets. A policy that always shows the same k documents has 1/k; an even
# policy over n candidates is near 1/n.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    package = "fairtk[report]"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", package], check=True)

# %%
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FAST = os.environ.get("FAIRTK_TUTORIAL_FAST") == "1"
folder = Path(tempfile.mkdtemp(prefix="fairtk-tutorial-"))
source = folder / "fairtk-top-share"
source.mkdir()

# %% [markdown]
# ## 1. The module
#
# A measure is a class with declarations and one method. `score_query` gets the labels and the
# rankings of one query as frames; the rankings have the columns `docno`, `sample` and `rank`, and
# each sample is already cut at `@k`. Two declarations need thought:
#
# * `BETTER`: is a higher or a lower value better?
# * `MISSING`: the value of a query for which a system returns nothing. It must be the worst value,
#   or a system gains by returning nothing.
#
# The hook `fairtk_measures` returns an instance.

# %%
MODULE = '''
"""TopShare: does one document take all the exposure?"""

from fairtk import FairMeasure, hookimpl
from fairtk.measures import CUTOFF


class TopShare(FairMeasure):
    """The share of all exposure in the first k ranks that the most exposed document has.

    Exposure is the number of sampled rankings that show a document. 1/k for one deterministic
    ranking of k documents or more, less for a policy that varies; lower is more even. It does not
    look at labels: read it with a measure of relevance.
    """

    NAME = "TopShare"
    PRETTY_NAME = "Exposure share of the top document"
    BETTER = "lower"
    MISSING = 1.0
    SUPPORTED_PARAMS = {"cutoff": CUTOFF}

    def score_query(self, qrels, run):
        return float(run["docno"].value_counts(normalize=True).max())


@hookimpl
def fairtk_measures():
    return [TopShare()]
'''
(source / "fairtk_top_share.py").write_text(MODULE)

# %% [markdown]
# ## 2. The distribution
#
# `setup.cfg` has the name of the package and, under `options.entry_points`, the module that fairtk
# imports. pip also requires a short `pyproject.toml`.

# %%
(source / "setup.cfg").write_text("""
[metadata]
name = fairtk-top-share
version = 0.1.0

[options]
py_modules = fairtk_top_share
install_requires =
    fairtk>=0.1

[options.entry_points]
fairtk =
    top_share = fairtk_top_share
""")
(source / "pyproject.toml").write_text("""
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
""")

# %% [markdown]
# ## 3. Install it
#
# Usually this is `pip install -e .` in the new folder. Here the target is a temporary folder that
# only the commands below use, so your environment does not change.

# %%
installed = folder / "installed"


def run(*command: str, **env: str) -> str:
    """Run a command that sees the plugin, and return its output."""
    environment = os.environ | {"PYTHONPATH": str(installed)} | env
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


offline = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
run(sys.executable, "-m", "pip", "install", *offline, "--target", str(installed), str(source))
print(run(sys.executable, "-m", "fairtk", "plugins").splitlines()[-1])
print(*[x for x in run(sys.executable, "-m", "fairtk", "measures").splitlines() if "TopShare" in x])

# %% [markdown]
# ## 4. Test it
#
# `fairtk.testing` has a contract for every measure: the order of rows and the names of documents do
# not matter, no value is worse than that of an empty ranking, `@k` cuts inside each sample, the
# printed form can be parsed, `pt.Experiment` gives the same numbers in batches, and more.
# Subclass it, and add a case that you computed yourself.

# %%
TEST = """
import ir_measures
import pandas as pd
from fairtk.testing import MeasureContract
from fairtk_top_share import TopShare


class TestTopShare(MeasureContract):
    measure = TopShare() @ 2


def test_known_value():
    # first two ranks: a b, a c. a is shown 2 times of 4
    run = pd.DataFrame(
        {
            "query_id": "q",
            "doc_id": ["a", "b", "c", "a", "c", "b"],
            "score": [3.0, 2.0, 1.0] * 2,
            "sample": [0, 0, 0, 1, 1, 1],
        }
    )
    qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["a"], "relevance": [1]})
    assert (TopShare() @ 2).calc_aggregate(qrels, run) == 0.5
"""
(source / "test_top_share.py").write_text(TEST)
print(run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(source)))

# %% [markdown]
# ## 5. Use it
#
# On the command line, the new measure works with any run. This TREC file has two sampled rankings
# (the second column is the sample):

# %%
(folder / "qrels.txt").write_text("q 0 a 1\nq 0 b 0\nq 0 c 0\n")
lines = ["q 0 a 1 3 x", "q 0 b 2 2 x", "q 0 c 3 1 x", "q 1 a 1 3 x", "q 1 c 2 2 x", "q 1 b 3 1 x"]
(folder / "run.txt").write_text("\n".join(lines) + "\n")
command = ["evaluate", "qrels.txt", "run.txt", "-m", "TopShare@2", "-m", "EE_D@2"]
print(run(sys.executable, "-m", "fairtk", *command))

# %% [markdown]
# In an experiment, we can see how the measure depends on the sampler's `alpha`. The larger `alpha`,
# the closer the policy is to always showing the same documents.

# %%
EXPERIMENT = """
import sys

import ir_measures
import pyterrier as pt

from fairtk import EE_D, BM25Scorer, FairSampler, demo

n_samples, *alphas = [int(a) for a in sys.argv[1:]]
data = demo.load()
candidates = BM25Scorer().transform(data.candidates)
systems = [
    pt.Transformer.from_df(candidates) >> FairSampler(alpha=a, n_samples=n_samples) for a in alphas
]
measures = [ir_measures.parse_measure("TopShare@5"), EE_D @ 5]
table = pt.Experiment(
    [*systems, pt.Transformer.from_df(candidates)],
    data.topics,
    data.qrels,
    measures,
    names=[*map(str, alphas), "fixed"],
    perquery=True,
)
table.to_csv(sys.stdout, index=False)
"""
(folder / "experiment.py").write_text(EXPERIMENT)
settings = ["20", "0", "2", "8"] if FAST else ["100", "0", "1", "2", "4", "8"]
output = run(sys.executable, "experiment.py", *settings, PYTHONWARNINGS="ignore")

import numpy as np  # noqa: E402 - first needed here
import pandas as pd  # noqa: E402

table = pd.read_csv(io.StringIO(output), dtype={"name": str})
means = table.groupby(["name", "measure"], sort=False)["value"].mean().unstack()
print(means.round(3))
assert means["EE_D@5"].is_monotonic_increasing
assert np.isclose(means.loc["fixed", "TopShare@5"], 1 / 5)  # five documents, shown equally often

# %% [markdown]
# Each dot below is a query. `TopShare` reaches the value of one deterministic ranking (dashed) as
# soon as a single document is always shown; it ignores the other ranks. `EE_D`, which looks at all
# documents, still rises. Queries with few candidates have high values where alpha is small: there
# are few documents to share the exposure.

# %%
import matplotlib.pyplot as plt  # noqa: E402

names = list(means.index)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
rng = np.random.default_rng(0)
for axis, measure in zip(axes, ["TopShare@5", "EE_D@5"], strict=True):
    for place, name in enumerate(names):
        values = table.loc[(table["name"] == name) & (table["measure"] == measure), "value"]
        shift = rng.uniform(-0.18, 0.18, len(values))
        axis.scatter(place + shift, values, s=9, alpha=0.35, color="tab:blue", linewidths=0)
    axis.plot(range(len(names)), means[measure], "o-", color="black", label="mean of queries")
    axis.set_xticks(range(len(names)), names)
    axis.set(xlabel="alpha of FairSampler", title=measure, ylim=(0, None))
axes[0].axhline(1 / 5, linestyle="--", color="gray", label="one deterministic ranking: 1/5")
axes[0].set_ylabel("lower is more even")
axes[0].legend(frameon=False)
plt.show()

# %% [markdown]
# ## 6. Remove it
#
# Usually this is `pip uninstall fairtk-top-share`; here, we delete the temporary folder. The error
# for an unknown measure lists the known ones.

# %% tags=["prose"]
shutil.rmtree(installed)
try:
    run(sys.executable, "-m", "fairtk", *command)
except RuntimeError as error:
    print(str(error).splitlines()[-1])
shutil.rmtree(folder)

# %% [markdown]
# ## Errors
#
# * If a plugin cannot be imported, a warning names its distribution; everything else works.
#   `fairtk plugins` shows the error.
# * A plugin with a misspelled hook or a duplicate name is not loaded; a warning names it.
# * `FAIRTK_PLUGINS=fairtk-top-share` loads only that plugin, an empty value no plugin;
#   `FAIRTK_STRICT_PLUGINS=1` makes every problem an error: use it in your tests.
#
# Utilities, prompts, browsing models, transformers and data sets have hooks too: see
# `fairtk.plugins`. A command is a separate entry point. `plugins/fairtk-hello` is a distribution
# to copy, with a README and tests.
