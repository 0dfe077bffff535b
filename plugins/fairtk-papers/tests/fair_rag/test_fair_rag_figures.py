"""Figures of the study: what is drawn where, and that all can read it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fairtk_papers.fair_rag import plot_requests, plot_spread, plot_trade_off
from fairtk_papers.fair_rag.figures import correlation
from values_of_models import study

from fairtk import FairSampler
from fairtk.errors import ColumnError, InputError, NotFoundError, ParameterError

pytest.importorskip("matplotlib")
MODELS = [("LaMP-4", r, g) for g in ("small", "base") for r in ("BM25", "SPLADE", "Contriever")]


@pytest.fixture(scope="module")
def values():
    return study(n_queries=30, models=MODELS)


def sampled_run(n=12, samples=50):
    run = pd.DataFrame(
        {"qid": "q", "docno": [f"d{i:02}" for i in range(n)], "score": np.arange(n, 0.0, -1)}
    )
    return FairSampler(alpha=2, n_samples=samples, cutoff=4)(run)


def texts(figure):
    from matplotlib.text import Text

    return [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]


def luminance(color):
    from matplotlib.colors import to_rgb

    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_every_word_can_be_read(values):
    figures = [
        plot_trade_off(values, "EE_D", "EE_R"),
        plot_spread(values[values["generator"] == "small"]),
        plot_requests(sampled_run(), cutoff=4, candidates=12, useful=["d03"]),
    ]
    for figure in figures:
        figure.draw_without_rendering()  # numbers at the axes are made now
        found = texts(figure)
        assert len(found) > 20
        for text in found:
            assert 1.05 / (luminance(text.get_color()) + 0.05) >= 4.5, text.get_text()
            assert text.get_fontsize() >= 7


def test_a_trade_off_shows_the_means(values):
    figure = plot_trade_off(values, "EE_D", "normalized EU")
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["LaMP-4, small", "LaMP-4, base"]
    lines = {line.get_label(): line for line in panels[0].get_lines()}
    own = values[(values["generator"] == "small") & (values["retriever"] == "SPLADE")]
    means = own.groupby(["measure", "alpha"])["value"].mean()
    order = [1, 2, 4, 8, "deterministic"]
    for axis, measure in zip(lines["SPLADE"].get_data(), ("EE_D", "normalized EU"), strict=True):
        assert axis == pytest.approx([means[measure, alpha] for alpha in order])
    drawn = [lines[name] for name in ("BM25", "SPLADE", "Contriever")]
    for look in ("get_marker", "get_linestyle", "get_color"):
        assert len({str(getattr(line, look)()) for line in drawn}) == 3
    assert "more even exposure" in panels[0].get_xlabel() and "←" in panels[0].get_xlabel()
    assert "better answers →" in panels[0].get_ylabel()
    assert "alpha 1, 2, 4, 8; hollow: the deterministic ranking" in figure.get_suptitle()
    by_generator = plot_trade_off(values, "EE_R", "normalized EU", by="generator")
    assert [a.get_title() for a in by_generator.axes] == [
        "LaMP-4, BM25",
        "LaMP-4, SPLADE",
        "LaMP-4, Contriever",
    ]


def test_many_panels_are_wrapped():
    models = [(f"LaMP-{task}", "BM25", "small") for task in range(1, 8)]
    figure = plot_trade_off(study(n_queries=3, models=models))
    assert sum(axes.get_visible() for axes in figure.axes) == 7
    assert {axes.get_subplotspec().get_gridspec().ncols for axes in figure.axes} == {4}


def test_a_spread_has_a_box_and_a_dot_per_query(values):
    own = values[(values["generator"] == "small") & (values["retriever"] == "BM25")]
    figure = plot_spread(own, ("EE_D",))
    [axes] = figure.axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "2", "4", "8", "fixed"]
    dots = [line for line in axes.get_lines() if line.get_marker() == "."]
    assert [len(line.get_ydata()) for line in dots] == [30] * 5
    alphas = own[own["measure"] == "EE_D"].set_index("alpha")["value"]
    assert sorted(dots[2].get_ydata()) == pytest.approx(sorted(alphas[4]))
    assert len(plot_spread(values).axes) == 3 * 6


def test_requests_show_their_documents():
    run = sampled_run()
    figure = plot_requests(run, cutoff=4, candidates=12, useful=["d03"], requests=10)
    cells, bars = figure.axes
    assert sum(len(line.get_xdata()) for line in cells.get_lines()) == 10 * 4
    labels = [t.get_text() for t in cells.get_yticklabels()]
    share = run[run["rank"] < 4]["docno"].value_counts() / 50
    assert [patch.get_width() for patch in bars.patches] == pytest.approx(
        share[[label.split()[0] for label in labels]].tolist()
    )
    assert "d03 (useful)" in labels
    filled, hollow = cells.get_lines()
    assert set(filled.get_ydata()) == {labels.index("d03 (useful)")}
    assert hollow.get_markerfacecolor() == "white"
    assert bars.get_lines()[0].get_xdata()[0] == pytest.approx(4 / 12)
    # without candidates there is no line, and without useful documents no hollow mark
    plain = plot_requests(run, cutoff=4, documents=3)
    assert not plain.axes[1].get_lines() and not len(plain.axes[0].get_lines()[1].get_xdata())
    assert f"; {len(share) - 3} less frequent documents" in plain.get_suptitle()


def test_any_measure_is_drawn_within_its_own_bounds(values):
    """CreditGap ends at 2, nDCG at 1; utility is no measure of fairtk's, and has no bounds."""
    ends = {}
    for name in ("CreditGap", "nDCG", "EU"):
        other = values.replace({"measure": {"normalized EU": name}})
        chosen = (other["measure"] == name) & (other["qid"] > "q01")
        # two queries low, the others at 2 (at 1 for nDCG): t intervals reach above
        most = 1.0 if name == "nDCG" else 2.0
        other.loc[other["measure"] == name, "value"] = most - 0.9
        other.loc[chosen, "value"] = most
        axes = plot_trade_off(other, "EE_D", name).axes[0]
        assert axes.get_ylabel() == name
        bars = [path for c in axes.collections for path in c.get_segments()]
        ends[name] = max(point[1] for bar in bars for point in bar)
    assert ends["CreditGap"] == 2 and ends["nDCG"] == 1 and ends["EU"] > 2
    assert plot_spread(values.replace({"measure": {"normalized EU": "nDCG"}}), ("nDCG",)).axes


def test_undefined_values_are_left_out(values):
    undefined = values.assign(value=values["value"].where(values["qid"] != "q00"))
    figure = plot_trade_off(undefined, "EE_D", "normalized EU")
    [line] = [x for x in figure.axes[0].get_lines() if x.get_label() == "BM25"]
    assert not np.isnan(line.get_data()).any()
    assert len(plot_spread(undefined).axes) == 18


def test_bad_input(values):
    with pytest.raises(ParameterError, match="'retriever'.*'generator'"):
        plot_trade_off(values, by="task")
    with pytest.raises(NotFoundError, match="nDCG"):
        plot_trade_off(values, "EE_D", "nDCG")
    with pytest.raises(ColumnError, match="plot_spread"):
        plot_spread(values.drop(columns="alpha"))
    with pytest.raises(InputError, match="got 2"):
        run = sampled_run()
        plot_requests(pd.concat([run, run.assign(qid="r")]), cutoff=4)
    with pytest.raises(ColumnError, match="sample"):
        plot_requests(sampled_run().drop(columns="sample"), cutoff=4)


def test_the_correlation_of_figure_5a(values):
    # queries a and b at two alphas: x 0 1 0 1, y 0 1 1 0: no correlation; y = 2 x + 1: 1
    index = pd.MultiIndex.from_tuples(
        [(0, "a"), (1, "a"), (0, "b"), (1, "b")], names=["alpha", "qid"]
    )
    wide = pd.DataFrame({"x": [0, 1, 0, 1], "y": [0, 1, 1, 0], "z": [1, 3, 1, 3]}, index=index)
    assert correlation(wide, "x", "y")[0] == pytest.approx(0)
    value, low, _, note = correlation(wide, "x", "z")  # 1 in each bootstrap sample, too
    assert value == pytest.approx(1) and np.isnan(low) and "equal values" in note
    assert np.isnan(correlation(wide.assign(y=1.0), "x", "y")[:3]).all()
    rng = np.random.default_rng(0)
    many = pd.DataFrame(rng.normal(size=(200, 2)), columns=["x", "y"])
    many["y"] += many["x"]
    many.index = pd.MultiIndex.from_product(
        [[0, 1], [f"q{i}" for i in range(100)]], names=index.names
    )
    value, low, high, _ = correlation(many, "x", "y")
    assert value == pytest.approx(np.corrcoef(many["x"], many["y"])[0, 1]) and low < value < high
    figure = plot_trade_off(values, "EE_R", "normalized EU")
    assert "r = " in figure.axes[0].get_xlabel()


def test_the_straight_line_of_figure_4(values):
    uniform = values[values["alpha"] == min(a for a in values["alpha"] if a != "deterministic")]
    values = pd.concat([values, uniform.assign(alpha=0.0, value=uniform["value"] / 2)])
    counts = [
        len(plot_trade_off(values, "EE_D", "EE_R", straight=straight).axes[0].lines)
        for straight in (False, True)
    ]
    assert counts[1] - counts[0] == len(values.drop_duplicates(["retriever"]))
