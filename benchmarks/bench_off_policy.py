"""Utilities at an alpha without answers: the packaged T5 against fresh answers, and the time.

Run manually. On the packaged demo, or on a LaMP-4 folder with your T5, answers at alpha 1, 2, 4 and
8 estimate EU at alpha 3. The error is measured against new answers at alpha 3 with another seed, in
standard errors of both together. With --speed: 50 alphas for 1,000 queries with 400 invented
answers each.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sizes import scale

import fairtk
from fairtk import BM25Scorer, Candidates, FairSampler, Generator, off_policy_utility
from fairtk.datasets import lamp
from fairtk.llm import CTranslate2Seq2Seq

SOURCES, TARGET, CUTOFF = (1, 2, 4, 8), 3, 5


def load(folder: str | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return BM25's run, and the topics with their gold answers."""
    if folder is None:
        demo = fairtk.demo.load()
        dataset, useful = demo.dataset, set(fairtk.drop_undefined(demo.qrels)["qid"])
        topics = demo.topics[demo.topics["qid"].isin(useful)]
    else:
        dataset = lamp.from_folder(folder, task=4)
        topics = pd.DataFrame(dataset.queries_iter()).rename(columns={"query_id": "qid"})
    return (Candidates(dataset) >> BM25Scorer())(topics.drop(columns="gold_answer")), topics


def against_fresh(
    folder: str | None, model: str | None, n_queries: int, n_samples: int, n_fresh: int
) -> None:
    """Print how many queries lie within two standard errors."""
    run, topics = load(folder)
    topics = topics.head(n_queries)
    run = run[run["qid"].isin(topics["qid"])]
    qrels = run[["qid", "docno"]].assign(label=1).merge(topics[["qid", "gold_answer"]], on="qid")
    place, tokens = model or str(fairtk.demo.model_folder()), 24 if folder else 8
    reader = Generator(
        CTranslate2Seq2Seq(place, max_new_tokens=tokens), "lamp-4" if folder else "lamp-2", CUTOFF
    )
    utility = "rougeL" if folder else "accuracy"
    answers = {a: reader(FairSampler(a, n_samples, CUTOFF)(run)) for a in SOURCES}
    fresh = {TARGET: reader(FairSampler(TARGET, n_fresh, CUTOFF, seed=7)(run))}
    for estimator in ("self-normalized", "plain"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fairtk.errors.DataWarning)
            found, truth = (
                off_policy_utility(qrels, frames, run, [TARGET], utility, CUTOFF, estimator)
                for frames in (answers, fresh)
            )
        table = found.per_query.merge(truth.per_query, on="qid", suffixes=("", "_fresh"))
        sure = table[table["effective"] >= found.least_effective]
        away = (sure["value"] - sure["value_fresh"]).abs()
        error = np.hypot(sure["error"], sure["error_fresh"])
        within = (away <= 2 * error + 1e-12).mean()
        print(
            f"{estimator}: {len(sure)} of {len(table)} queries have an effective sample size of "
            f"at least {found.least_effective}; {within:.1%} of them within two standard errors; "
            f"mean {found.means['value'][0]:.4f} +- {found.means['error'][0]:.4f}, fresh "
            f"{truth.means['value'][0]:.4f} +- {truth.means['error'][0]:.4f}"
        )


def speed(n_queries: int, n_candidates: int) -> None:
    """Print the time of a curve of 50 alphas, from 100 answers at each of four."""
    generator = np.random.default_rng(0)
    qids = np.repeat([f"q{i}" for i in range(n_queries)], n_candidates)
    docnos = [f"{qid}/{i}" for i, qid in enumerate(qids)]
    score = generator.normal(size=len(qids))
    run = pd.DataFrame({"qid": qids, "docno": docnos, "score": score})
    answers = {}
    for alpha in SOURCES:
        drawn = FairSampler(alpha, 100, CUTOFF)(run)
        words = generator.choice(["yes", "no"], len(drawn) // CUTOFF)
        answers[alpha] = drawn.assign(qanswer=np.repeat(words, CUTOFF))
    qrels = run.drop_duplicates("qid")[["qid", "docno"]].assign(label=1, gold_answer="yes")
    alphas = np.linspace(0, 8, 50)
    start, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fairtk.errors.DataWarning)
        off_policy_utility(qrels, answers, run, alphas, "em")
    print(
        f"{n_queries} queries x {n_candidates} candidates x 400 answers, 50 alphas: "
        f"{time.perf_counter() - start:.1f} s ({time.process_time() - used:.1f} s of processor)"
    )


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="of LaMP-4 files; default: the packaged demo")
    parser.add_argument("--model", help="a T5's folder; see examples/headline_model.py")
    parser.add_argument("--queries", type=int, default=scale(84, 2))
    parser.add_argument("--samples", type=int, default=scale(100, 3))
    parser.add_argument("--fresh", type=int, default=scale(1000, 5))
    parser.add_argument("--speed", type=int, nargs="*", metavar="CANDIDATES")
    options = parser.parse_args()
    for n_candidates in options.speed or []:
        speed(scale(1000, 3), n_candidates)
    if options.speed is None:
        against_fresh(
            options.folder, options.model, options.queries, options.samples, options.fresh
        )


if __name__ == "__main__":
    main()
