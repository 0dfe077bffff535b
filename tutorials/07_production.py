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
# # Fair rankings in production: one ranking per request
#
# ![EE_D of all requests so far, by their number](../docs/_static/tutorials/07.png)
#
# An evaluation draws a hundred rankings of one query. A service draws one for each request
# (*Towards Fair RAG*, appendix E): `n_samples=1`, with one seed per request. This tutorial adds a
# sampler to a plain request handler, measures the added time per request, and shows what a single
# ranking does and does not guarantee.
#
# Run it as a script or open it as a notebook (jupytext):
#
#     python tutorials/07_production.py
#
# `FAIRTK_TUTORIAL_FAST=1` sends fewer requests.

# %% tags=["remove-cell"]
# On Colab, which lacks fairtk.
import subprocess
import sys

if "google.colab" in sys.modules:
    package = "fairtk[report]"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", package], check=True)

# %%
import hashlib
import json
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ir_measures
import matplotlib.pyplot as plt
import pandas as pd

import fairtk
from fairtk import EE_D, EE_R, BM25Scorer, FairSampler, PlackettLuceExposure, demo

FAST = os.environ.get("FAIRTK_TUTORIAL_FAST") == "1"
ALPHA, CUTOFF = 2, 5
REQUESTS = 60 if FAST else 400

# %% [markdown]
# ## The service
#
# The service retrieves and samples one viewer's movies. The seed is derived from the request id:
# the same id gives the same ranking, so you can reproduce a ranking when a user asks about it.
# Random numbers depend only on seed and qid, so threads do not affect each other.

# %%
data = demo.load()
profiles = {qid: rows for qid, rows in data.candidates.groupby("qid", sort=False)}
scorer = BM25Scorer()


def seed_of(request_id: str) -> int:
    """Return the seed of a request, equal on all machines."""
    return int.from_bytes(hashlib.blake2b(request_id.encode(), digest_size=4).digest(), "big")


def rank(qid: str, request_id: str) -> tuple[list[str], dict[str, float]]:
    """Return the documents for the generator, and the seconds of both stages."""
    began = time.perf_counter()
    scored = scorer(profiles[qid])
    between = time.perf_counter()
    sampler = FairSampler(alpha=ALPHA, n_samples=1, cutoff=CUTOFF, seed=seed_of(request_id))
    ranking = sampler(scored).sort_values("rank")
    ended = time.perf_counter()
    return ranking["docno"].tolist(), {"score": between - began, "sample": ended - between}


class Handler(BaseHTTPRequestHandler):
    """A handler of ``POST /rank`` with ``{"qid": ..., "request_id": ...}``."""

    def do_POST(self) -> None:
        """Draw one ranking."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if request.get("qid") not in profiles:
            self.send_error(404, "unknown viewer")
            return
        docnos, seconds = rank(request["qid"], request["request_id"])
        body = json.dumps({"docnos": docnos, "seconds": seconds}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *values: object) -> None:
        """Log nothing."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
ADDRESS = f"http://127.0.0.1:{server.server_port}/rank"


def ask(qid: str, request_id: str) -> dict:
    """Send one request."""
    body = json.dumps({"qid": qid, "request_id": request_id}).encode()
    with urllib.request.urlopen(urllib.request.Request(ADDRESS, body), timeout=300) as reply:
        return json.load(reply)


# %%
qid = max(profiles, key=lambda q: len(profiles[q]))
first, again, other = (ask(qid, name)["docnos"] for name in ("r-1", "r-1", "r-2"))
print(first, other, sep="\n")
assert first == again  # the same request, the same ranking
assert first != other  # another request, another draw

# %% [markdown]
# ## The added time
#
# Sampling adds to the time of a request. The first request loads modules, so it is left out.

# %%
replies = [ask(qid, f"r-{number}") for number in range(REQUESTS)]
seconds = pd.DataFrame([reply["seconds"] for reply in replies[1:]]) * 1000
print("milliseconds per request:")
print(seconds.quantile([0.5, 0.95]).rename(index={0.5: "median", 0.95: "95 %"}).round(2))

# %% [markdown]
# ## What a single ranking guarantees
#
# A single ranking guarantees nothing about evenness: it shows five documents and hides all others,
# so its disparity is the largest possible. Only the *policy* is even: over many requests, exposure
# approaches the policy's expectation. The values below, the disparity of the total exposure of all
# requests so far, show how many requests that takes.

# %%
runs = pd.DataFrame(
    [
        (qid, number, place, docno, -float(place))
        for number, reply in enumerate(replies)
        for place, docno in enumerate(reply["docnos"])
    ],
    columns=["qid", "sample", "rank", "docno", "score"],
)
labels = data.qrels[data.qrels["qid"] == qid]
steps = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 400) if n <= REQUESTS]
so_far = [
    ir_measures.calc_aggregate([EE_D @ CUTOFF], labels, runs[runs["sample"] < n])[EE_D @ CUTOFF]
    for n in steps
]
for n, value in zip(steps, so_far, strict=True):
    print(f"after {n:>3} requests: EE_D {value:.3f}")
assert so_far[0] == 1  # a single ranking is as uneven as can be
assert so_far[-1] < so_far[1] < so_far[0]  # requests together are more even
# the variance of each document's exposure shrinks with 1 / n, and so does the bias of EE_D
last = so_far[-1] - (1 - so_far[-1]) / (steps[-1] - 1)
print(f"EE_D of the policy, about: {last:.3f}")

# %%
figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
axes.plot(steps, so_far, "o-", color="#0072B2", label="all requests so far")
axes.axhline(last, color="0.4", linestyle="--", label="the policy, estimated")
axes.set_xscale("log")
axes.set_xticks(steps, [str(n) for n in steps])
axes.minorticks_off()
axes.set_ylim(0, 1.05)
axes.set_xlabel("requests of one query")
axes.set_ylabel("← more even exposure · EE_D")
axes.legend(frameon=False)
plt.show()
server.shutdown()

# %% [markdown]
# ## Calibrated sampling
#
# Instead of `alpha`, you can set a target: a disparity, or a maximum loss of relevance.
# `FairSampler` then computes the alpha of each query from exact values, without sampling.

# %%
scores = scorer(data.candidates)
print(FairSampler(target_disparity=0.6, cutoff=CUTOFF, n_samples=1).calibrated(scores).head(3))

# %% [markdown]
# `max_relevance_loss=0.05, relevance="scores"` (or labels) bounds the loss instead. A warning names
# queries that cannot reach the target. To see the trade-off first, use `PlackettLuceExposure`, also
# without sampling:

# %%
labels = fairtk.drop_undefined(data.qrels)
rows = []
for alpha in (0, 0.5, 1, 2, 4, 8):
    exact = PlackettLuceExposure(alpha=alpha, cutoff=CUTOFF)(scores)
    rows.append([alpha, *(m.calc_aggregate(labels, exact) for m in (EE_D @ CUTOFF, EE_R @ CUTOFF))])
trade_off = pd.DataFrame(rows, columns=["alpha", "EE_D@5", "EE_R@5"])
print(trade_off.round(3).to_string(index=False))
assert trade_off["EE_D@5"].is_monotonic_increasing

# %% [markdown]
# ## What to log
#
# Log the seed (or the request id), alpha, and the versions, so that you can reproduce any ranking.
# Monitor exposure over a window of requests, by query or by provider, not the evenness of single
# rankings. If a query occurs only once, no later request compensates for its single draw.
