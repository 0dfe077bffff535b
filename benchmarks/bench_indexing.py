"""Indexing a large collection for FAIR-QR's study: documents per second and peak memory.

    python benchmarks/bench_indexing.py [DOCUMENTS] [THREADS]

Generated documents of a hundred words from a Zipf-like vocabulary of 200,000. Memory is anonymous
memory of the process, without mapped files: before indexing, and the peak during it, sampled at
several points. TREC Fair Ranking
2022 has 6,475,537 documents: the rate of the second half is extrapolated to that.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sizes import scale

from fairtk.transformers import CollectionBM25

DOCUMENTS, TREC = scale(500_000, 500), 6_475_537
WORDS, VOCABULARY, TEXTS = 100, 200_000, scale(20_000, 100)


def own_memory() -> float:
    """Return the process's anonymous memory in MB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) / 1024


def texts() -> list[str]:
    """Return texts; documents take turns with them, each with a word of its own."""
    rng = np.random.default_rng(0)
    ranks = np.minimum(3 * rng.pareto(0.5, (TEXTS, WORDS)), VOCABULARY - 1).astype(int)
    return [" ".join(f"w{rank}" for rank in row) for row in ranks]


def main(count: int = DOCUMENTS, threads: int = 1) -> None:
    """Index, and print what it took."""
    pool = texts()
    marks: list[tuple[int, float, float]] = []
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], own_memory())

    def documents():
        for number in range(count):
            if number % (count // 5) == 0:
                marks.append((number, time.perf_counter(), own_memory()))
            yield {"docno": f"d{number}", "text": f"own{number} {pool[number % TEXTS]}"}

    with tempfile.TemporaryDirectory() as folder:
        before = own_memory()
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        begin = time.perf_counter()
        bm25 = CollectionBM25(Path(folder) / "index", documents, threads=threads)
        bm25.prepare()
        seconds = time.perf_counter() - begin
        done.set()
        watcher.join()
        disk = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / 1e6
        begin = time.perf_counter()
        found = bm25(pd.DataFrame({"qid": ["1"], "query": [f"own{count - 1} w1 w17"]}))
        search = time.perf_counter() - begin
    assert found["docno"].iloc[0] == f"d{count - 1}"
    print(f"{count:,} documents, {threads} threads: {seconds:.0f} s, {count / seconds:,.0f} per s")
    print(f"own memory: {before:.0f} MB before, {peak[0]:.0f} MB at the peak; index {disk:.0f} MB")
    for number, at, memory in marks:
        print(f"  at {number:>9,}: {at - marks[0][1]:6.1f} s, {memory:.0f} MB")
    print(f"a search: {search:.3f} s; TREC's {TREC:,}: {TREC * seconds / count / 3600:.1f} h")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
