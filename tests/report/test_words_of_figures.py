"""Figures with long names and crowded places: no word lies on another."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from figure_words import words_on_words

from fairtk.display import new_figure
from fairtk.transformers.fair_qr.transformer import plot_trace

REGIONS = (
    *("Latin America and the Caribbean", "Northern America", "Sub-Saharan Africa"),
    *("Eastern Asia", "Western Europe", "Oceania", "Central Asia", "unknown to all sources"),
)


def trace(iterations=6):
    rng = np.random.default_rng(1)
    rows = [
        {
            "qid": "1457",
            "iteration": i,
            "query": "women in engineering of the nineteenth century in Latin America",
            "retrieved": 100.0,
            "kept": i < 4,
            **{"divergence": 0.9 - 0.1 * i, "AWRF": 0.5 + 0.05 * i},
            **{"nDCG": 0.4, "nDCG_reranked": 0.41},
            **{f"share:{name}": rng.uniform(0, 0.3) for name in REGIONS},
        }
        for i in range(iterations)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_no_words_lie_on_each_other():
    figure = plot_trace(trace(), "1457", dict.fromkeys(REGIONS, 0.125))
    assert words_on_words(figure) == []


def test_words_that_do_are_seen():
    figure = new_figure((3, 2), "a test")
    axes = figure.subplots()
    axes.text(0.5, 0.5, "one")
    axes.text(0.5, 0.52, "other")
    figure.text(0.97, 0.5, "beyond the edge")
    assert words_on_words(figure) == [("beyond the edge",), ("one", "other")]
