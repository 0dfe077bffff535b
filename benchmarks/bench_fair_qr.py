"""FAIR-QR with a slow server: overlap of the waits, and the time of all else.

    python benchmarks/bench_fair_qr.py [FOLDER]

A server on 127.0.0.1 answers each call after half a second, by the rules of `KeywordRefiner`.
Reported: the time of the loop against the ideal (in each iteration all calls, eight at a time), and
the share of retrieval, exposure and all else. FOLDER has files of TREC Fair Ranking 2022; without
one, 24 invented topics over 2,000 invented documents. Then re-ranking by exposure: milliseconds of
one core for 1,000 candidates of a query, by how many groups there are and a document has.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tempfile
import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
from fairtk_papers.fair_qr import QrData, from_trec_fair
from sizes import scale

from fairtk import FairQR, Groups, Target
from fairtk.errors import DataWarning
from fairtk.llm import KeywordRefiner, Ledger, OpenAICompatible
from fairtk.transformers import CollectionBM25
from fairtk.transformers.fair_qr.ordering import exposure_order

SECONDS, CONCURRENCY, TOPICS = scale(0.5, 0.01), 8, scale(24, 3)


def invented(n: int = scale(2000, 100)):
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


def refinement(prompt):
    """Answer a prompt as KeywordRefiner does."""
    table = {name.lower(): terms for name, terms in KeywordRefiner().table.items()}
    table |= {"women": table["female"], "men": table["male"], "non-binary people": table["nb"]}
    lines = dict(line.split(": ", 1) for line in prompt.splitlines() if ": " in line)
    group = lines["Group that is shown too little"].rpartition(" (")[0].lower()
    words = lines["Current keywords"].split()
    return ", ".join([*words, *[term for term in table[group] if term not in words][:3]])


class Handler(BaseHTTPRequestHandler):
    """Answers chats after `SECONDS`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        """Log nothing."""

    def do_POST(self):
        """Answer a chat."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(SECONDS)
        message = {"role": "assistant", "content": refinement(body["messages"][-1]["content"])}
        answer = {
            "id": "c", "object": "chat.completion", "created": 1, "model": "rules",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }  # fmt: skip
        raw = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


class Server(ThreadingHTTPServer):
    """Accepts many connections at once: one that waits in vain is tried again after a second."""

    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def serving():
    """Give the address of a server."""
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


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
        for _ in range(scale(9, 1)):
            begin = time.process_time()
            exposure_order(*case, 2.0, 0.9)
            took.append(time.process_time() - begin)
        kind = "soft" if soft else "plain"
        print(f"{groups} groups, {own} of a document, {kind}: {np.median(took) * 1000:.1f} ms")


def main(folder=None):
    """Run the loop for each attribute, once with waits and once from the ledger."""
    warnings.simplefilter("ignore", DataWarning)
    data = invented() if folder is None else from_trec_fair(folder)
    with tempfile.TemporaryDirectory() as work, serving() as url:
        bm25 = CollectionBM25(Path(work) / "index", data.documents)
        bm25(data.topics)  # the index is not what is measured
        for name, (groups, target) in data.attributes.items():
            with Ledger(Path(work) / f"{name}.sqlite") as ledger:
                model = OpenAICompatible("rules", url, api_key_env=None, concurrency=CONCURRENCY)
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
