"""FAIR-QR with a slow server: overlap of the waits, and the time of all else.

    python benchmarks/bench_fair_qr.py [FOLDER]

A server on 127.0.0.1 answers each call after half a second, by the rules of `KeywordRefiner`.
Reported: the time of the loop against the ideal (in each iteration all calls, eight at a time), and
the share of retrieval, exposure and all else. FOLDER has files of TREC Fair Ranking 2022; without
one, 24 invented topics over 2,000 invented documents. Then re-ranking by exposure: milliseconds of
one core for 1,000 candidates of a query, by how many groups there are and a document has.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "llm"))
from chat_server import serving
from fairtk_papers.fair_qr import QrData, from_trec_fair

from fairtk import FairQR, Groups, Target
from fairtk.errors import DataWarning
from fairtk.llm import KeywordRefiner, Ledger, OpenAICompatible
from fairtk.transformers import CollectionBM25
from fairtk.transformers.fair_qr.ordering import exposure_order

SECONDS, CONCURRENCY, TOPICS = 0.5, 8, 24


def invented(n=2000):
    """Return invented data: words of topics, of women and men, and of nothing."""
    rng = np.random.default_rng(3)
    topics = [f"topic{i}" for i in range(TOPICS)]
    terms = KeywordRefiner().table
    rows, labels = [], []
    for number in range(n):
        woman = rng.random() < 0.3
        often = 1 + rng.poisson(2 if woman else 4)
        words = [topics[number % TOPICS]] * often
        words += [*rng.choice(terms["female" if woman else "male"][:5], size=3)]
        words += [f"w{i}" for i in rng.integers(0, 5000, size=120)]
        rows.append((f"d{number}", " ".join(words)))
        labels.append((f"d{number}", "female" if woman else "male"))
    docs = pd.DataFrame(rows, columns=["docno", "text"])
    groups = Groups.from_frame(pd.DataFrame(labels, columns=["docno", "group"]), name="gender")
    queries = pd.DataFrame({"qid": [str(i) for i in range(TOPICS)], "query": topics})
    qrels = pd.DataFrame(
        [(str(number % TOPICS), f"d{number}", 1) for number in range(n)],
        columns=["qid", "docno", "label"],
    )
    target = Target.uniform(groups)
    found = docs.to_dict("records")
    return QrData(queries, qrels, {"gender": (groups, target)}, lambda: iter(found), None, "x")


def rule():
    """Return a rule that answers a prompt as KeywordRefiner does, after half a second."""
    table = {name.lower(): terms for name, terms in KeywordRefiner().table.items()}
    table |= {"women": table["female"], "men": table["male"], "non-binary people": table["nb"]}

    def answer(prompt, count):
        lines = dict(line.split(": ", 1) for line in prompt.splitlines() if ": " in line)
        group = lines["Group that is shown too little"].rpartition(" (")[0].lower()
        words = lines["Current keywords"].split()
        added = [t for t in table[group] if t not in words][:3]
        return {"text": ", ".join([*words, *added]), "sleep": SECONDS}

    return answer


def rerank():
    """Print how long the order of one query's candidates takes (wanted: at most 10 ms)."""
    attention = 1 / np.log2(np.maximum(np.arange(1, 21), 2))
    for groups, own, soft in ((2, 1, 0), (20, 2, 0), (40, 3, 0), (40, 40, 1), (60, 40, 1)):
        rng = np.random.default_rng(1)
        member = np.zeros((1000, groups))
        for row in member:
            row[rng.choice(groups, own, replace=False)] = rng.random(own) if soft else 1.0
        case = (np.sort(rng.random(1000))[::-1], member, rng.dirichlet(np.ones(groups)), attention)
        took = []
        for _ in range(9):
            begin = time.process_time()
            exposure_order(*case, 2.0, 0.9)
            took.append(time.process_time() - begin)
        kind = "soft" if soft else "plain"
        print(f"{groups} groups, {own} of a document, {kind}: {np.median(took) * 1000:.1f} ms")


def main(folder=None):
    """Run the loop for each attribute, once with waits and once from the ledger."""
    warnings.simplefilter("ignore", DataWarning)
    data = invented() if folder is None else from_trec_fair(folder)
    with tempfile.TemporaryDirectory() as work, serving(rule()) as server:
        bm25 = CollectionBM25(Path(work) / "index", data.documents)
        bm25(data.topics)  # the index is not what is measured
        for name, (groups, target) in data.attributes.items():
            with Ledger(Path(work) / f"{name}.sqlite") as ledger:
                model = OpenAICompatible(
                    "rules", server.url, api_key_env=None, concurrency=CONCURRENCY
                )
                llm = ledger.wrap(model)
                system = FairQR(bm25, groups, target, llm)
                begin = time.perf_counter()
                found = system.refine(data.topics)
                whole, waited, trace = time.perf_counter() - begin, found.waited, found.trace
                calls = trace[trace["iteration"] > 0].groupby("iteration").size()
                ideal = sum(math.ceil(count / CONCURRENCY) * SECONDS for count in calls)
                begin = time.perf_counter()
                FairQR(bm25, groups, target, ledger.wrap(model))(data.topics)
                replay = time.perf_counter() - begin
            print(
                f"{name}: {len(data.topics)} topics, {calls.sum()} calls in {len(calls)} rounds "
                f"{calls.tolist()}: {whole:.2f} s, ideal {ideal:.2f} s, ratio {whole / ideal:.2f}; "
                f"all but waiting {whole - waited:.3f} s = {(whole - waited) / whole:.1%}; "
                f"from the ledger {replay:.2f} s"
            )


if __name__ == "__main__":
    main(*sys.argv[1:2])
    rerank()
