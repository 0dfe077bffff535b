"""Fair RAG over a whole collection: index with PISA, sample fair rankings, generate, measure.

    python examples/headline_pisa.py                                  # the packaged demo
    python examples/headline_pisa.py CORPUS.json.gz TOPICS.jsonl      # TREC Fair Ranking 2022

CORPUS has one JSON object per line with ``id``, ``title`` and ``plain`` (the track's
``trec_corpus_20220301_plain.json.gz``); TOPICS is its ``train_topics_meta.jsonl``: columns ``id``,
``title``, ``keywords``, ``rel_docs``, keyed by row. The pipeline that is measured:

    index.bm25() >> text_loader >> FairSampler(alpha=2, cutoff=5) >> FlanT5()

The packaged T5 knows only movie tags, so on other text its answers have no meaning. For meaningful
answers pass --model google/flan-t5-small or a local folder.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyterrier as pt
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, EU, E, FairSampler, FlanT5

PACKAGED = os.fspath(fairtk.demo.model_folder())
NO_PISA = (
    "this script needs pyterrier-pisa, which has wheels for Linux on x86-64 only. Elsewhere, any "
    "PyTerrier retriever takes the place of index.bm25(): Terrier (pt.terrier, needs Java), "
    "pyterrier-dr (dense). To rank each query's own candidates nothing is needed: "
    "Candidates(dataset) >> BM25Scorer()"
)


def text_loader(docs: pd.DataFrame, fields: list[str]) -> pt.Transformer:
    """Add the documents' fields to a run: PISA's index holds no texts.

    Here the texts stay in memory. For a collection that is too large for that, and in
    ir_datasets, use its document store instead:
    ``pt.text.get_text(pt.get_dataset("irds:trec-fair/2022"), ["text"])``.
    """
    table = docs.set_index("docno")[fields].astype(object)
    return pt.apply.generic(
        lambda run: run.join(table, on="docno"), required_columns=["docno"], label="text_loader"
    )


def read_corpus(path: Path) -> pd.DataFrame:
    """Read TREC Fair's corpus: ``docno`` and ``text`` (title and article)."""

    def rows() -> Iterator[tuple[str, str]]:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            for line in stream:
                page = json.loads(line)
                yield str(page["id"]), f"{page['title']}. {page['plain']}"

    # an id can occur more than once: the first record counts
    return pd.DataFrame(rows(), columns=["docno", "text"]).drop_duplicates("docno")


def read_topics(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read TREC Fair's topics: topics (title and keywords are the query) and qrels."""
    meta = pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))).astype({"id": str})
    keywords = meta["keywords"].map(ast.literal_eval).map(" ".join)
    query = (meta["title"] + " " + keywords).str.lower().str.replace(r"[^\w\s]", " ", regex=True)
    question = "Which person matters for " + meta["title"] + "?"
    topics = pd.DataFrame({"qid": meta["id"], "query": query, "question": question})
    qrels = meta[["id", "rel_docs"]].assign(rel_docs=meta["rel_docs"].map(json.loads))
    qrels = qrels.explode("rel_docs").astype({"rel_docs": str}).assign(label=1)
    return topics, qrels.rename(columns={"id": "qid", "rel_docs": "docno"})


def read_demo() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the packaged demo as one collection: all viewers' movies, topics and qrels."""
    demo = fairtk.demo.load()
    docs = demo.candidates[["docno", "text", "tag"]]
    return docs, demo.topics.drop(columns="gold_answer"), fairtk.drop_undefined(demo.qrels)


def main() -> None:
    """Index, retrieve, sample, generate and measure."""
    args = arguments()
    try:
        from pyterrier_pisa import PisaIndex
    except ImportError:
        sys.exit(NO_PISA)
    clock = time.perf_counter()
    if args.corpus is None:
        docs, topics, qrels = read_demo()
        prompt, fields, utilities = "lamp-2", ["text", "tag"], [EU(utility="accuracy")]
    else:
        docs = read_corpus(args.corpus)
        topics, qrels = read_topics(args.topics)
        prompt, fields, utilities = "rag", ["text"], []
    topics = topics[topics["qid"].isin(qrels["qid"])][: args.queries]
    qrels = qrels[qrels["qid"].isin(topics["qid"])]
    print(f"read {len(docs)} documents, {len(topics)} topics: {time.perf_counter() - clock:.1f} s")

    clock = time.perf_counter()
    folder = args.index or Path(tempfile.mkdtemp(prefix="fairtk-pisa-"))
    index = PisaIndex(os.fspath(folder), text_field="text")
    if not index.built():
        index.index(docs[["docno", "text"]].to_dict("records"))
    print(f"index of {len(index)} documents in {folder}: {time.perf_counter() - clock:.1f} s")

    # One fixed depth for all systems. PISA's bm25(num_results=10) may keep other documents than
    # the first 10 of num_results=1000 where scores tie. The depth is a setting of the policy too:
    # with alpha 2 the best document is at most e^3 = 20 times as likely to come first as the worst
    # (log-weights from 1 to 4), so that hundreds of weak candidates outweigh the few good ones.
    bm25 = index.bm25(num_results=args.depth) >> text_loader(docs, fields)
    sampler = FairSampler(alpha=args.alpha, n_samples=args.samples, cutoff=args.cutoff)
    reader = FlanT5(
        model=args.model, prompt=prompt, cutoff=args.cutoff, max_new_tokens=args.max_new_tokens
    )
    fair = bm25 >> sampler >> reader

    # Every document of the index could have been shown, so n is the size of the collection. (By
    # default n is what was judged or retrieved, and a run that is cut at 5 retrieves less.)
    n, k = len(index), args.cutoff
    measures = [EE_D(n=n) @ k, EE_R(n=n) @ k, E(nDCG @ k), *utilities]

    clock = time.perf_counter()
    table = pt.Experiment(
        [bm25 >> reader, fair],
        topics,
        qrels,
        measures,
        names=["bm25", f"alpha {args.alpha:g}"],
        baseline=0,
        plan="tree",  # both systems share retrieval and texts
        verbose=False,
    )
    seconds = time.perf_counter() - clock
    print(f"retrieval, {args.samples} rankings per topic, answers, measures: {seconds:.1f} s\n")
    table = table.set_index("name")
    shown = [f"{measure}{suffix}" for measure in measures for suffix in ("", " p-value")]
    print(table[shown].T.to_string(float_format="{:.4f}".format, na_rep=""))

    if args.corpus is not None and args.model == PACKAGED:
        print("\nThe packaged T5 answers with movie tags whatever it reads; see --model.")
    one = fair(topics.head(1))
    print(f"\nqid {one['qid'].iloc[0]}, query: {one['query'].iloc[0]}")
    print("answers, and to how many of its rankings:")
    print(one.drop_duplicates("sample")["qanswer"].value_counts().head(5).to_string(header=False))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path, nargs="?", help="corpus.json.gz (default: the demo)")
    parser.add_argument("topics", type=Path, nargs="?", help="topics, in column-wise JSON")
    parser.add_argument("--index", type=Path, help="folder of the index (default: a temporary one)")
    parser.add_argument("--alpha", type=float, default=2, help="FairSampler's exponent (2)")
    parser.add_argument("--samples", type=int, default=100, help="rankings per topic (100)")
    parser.add_argument("--cutoff", type=int, default=5, help="documents in a prompt (5)")
    parser.add_argument("--depth", type=int, default=50, help="documents to sample from (50)")
    parser.add_argument("--queries", type=int, help="only the first so many topics")
    parser.add_argument("--max-new-tokens", type=int, default=8, help="longest answer (8)")
    parser.add_argument("--model", default=PACKAGED, help="a T5: folder or hub name")
    args = parser.parse_args()
    if (args.corpus is None) != (args.topics is None):
        parser.error("give both CORPUS and TOPICS, or neither for the packaged demo")
    return args


if __name__ == "__main__":
    try:
        main()
    except fairtk.errors.FairtkError as error:
        sys.exit(f"Error: {error}")
