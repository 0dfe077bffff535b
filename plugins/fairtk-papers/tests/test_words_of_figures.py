"""Figures of studies with long names, many settings, crowded places: no word lies on another."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from fairtk_papers.fair_qr.report import MEASURES, plot_iterations, plot_variation
from fairtk_papers.fair_qr.report import plot_trade_off as plot_systems
from fairtk_papers.fair_rag import plot_credit, plot_requests, plot_spread, plot_trade_off
from figure_words import words_on_words

from fairtk import FairSampler

ALPHAS = (0, 0.25, 0.5, 1, 2, 4, 8, 16, 32, "deterministic")
CREDIT = (
    *("AE_D", "AE_R", "AE_D of exposure", "AE_R of exposure", "CreditGap"),
    *("credit sum", "credit undefined", "credit below 0"),
    *(f"credit at place {i}" for i in range(1, 6)),
)
GENERATOR = "meta-llama/Llama-3.1-8B-Instruct"


def values(retrievers, generators, measures=("EE_D", "EE_R", "normalized EU"), queries=12):
    rng = np.random.default_rng(4)
    rows = [
        ("LaMP-4", retriever, generator, alpha, f"q{i}", measure, value)
        for retriever in retrievers
        for generator in generators
        for place, alpha in enumerate(ALPHAS)
        for measure in measures
        for i, value in enumerate(np.clip(rng.normal(place / 10, 0.1, queries), 0, 1))
    ]
    names = ["task", "retriever", "generator", "alpha", "qid", "measure", "value"]
    return pd.DataFrame(rows, columns=names)


def of_study():
    """Return what the figures of a FAIR-QR study are drawn from: two attributes, many settings."""
    rng = np.random.default_rng(2)
    attributes = ("geographic location", "gender*geographic location")
    systems = ("bm25", "fair-qr", "fair-qr tuned", "qr", "mmr", "fair-qr [gpt-4o-mini, splade]")

    def row(**named):
        means = {}
        for measure in MEASURES:
            mean = rng.uniform(0.5, 0.52)
            ends = {f"{measure} low": mean - 0.02, f"{measure} high": mean + 0.02}
            means |= {measure: mean, **ends}
        return {**named, **means}

    settings = ("sequence-with-all", "difference", "ratio", "0.0001", "none", "random-choice")
    return SimpleNamespace(
        settings=SimpleNamespace(cutoff=20),
        data=SimpleNamespace(target_label=lambda attribute: "relevance+population"),
        table=pd.DataFrame([row(attribute=a, system=s) for a in attributes for s in systems]),
        variations=pd.DataFrame(
            [
                row(attribute=a, variation="choose", setting=setting)
                for a in attributes
                for setting in settings
            ]
        ),
        traces=pd.DataFrame(
            [
                {
                    "variation": "",
                    "system": "fair-qr",
                    "attribute": a,
                    "qid": str(q),
                    "iteration": i,
                    "kept": i < 2,
                }
                for a in attributes
                for q in range(5)
                for i in range(1 + q)
            ]
        ),  # fmt: skip
    )


def requests():
    names = [f"D{i:03}-of-a-collection-with-long-names" for i in range(24)]
    run = pd.DataFrame({"qid": "q17", "docno": names, "score": np.arange(24, 0.0, -1)})
    return FairSampler(alpha=1, n_samples=40, cutoff=5)(run)


FIGURES = {
    "trade-off": lambda: plot_trade_off(
        values(("BM25", "SPLADE", "Contriever", "E5"), ("flan-t5-small", GENERATOR))
    ),
    "one trade-off": lambda: plot_trade_off(values(("BM25",), (GENERATOR,)), "EE_D", "EE_R"),
    "spread": lambda: plot_spread(values(("BM25",), (GENERATOR,))),
    "spreads": lambda: plot_spread(values(("BM25", "SPLADE", "Contriever"), ("small", GENERATOR))),
    "credit": lambda: plot_credit(values(("BM25",), (GENERATOR,), CREDIT)),
    "requests": lambda: plot_requests(requests(), cutoff=5, candidates=24, useful=["D003"]),
    "settings": lambda: plot_variation(of_study(), "choose"),
    "systems": lambda: plot_systems(of_study()),
    "iterations": lambda: plot_iterations(of_study()),
}


@pytest.mark.parametrize("kind", FIGURES)
def test_no_words_lie_on_each_other(kind):
    assert words_on_words(FIGURES[kind]()) == []
