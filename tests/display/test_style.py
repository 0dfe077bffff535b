"""The style of figures: what is told apart without color, and files that are equal."""

from __future__ import annotations

import sys

import pytest

from fairtk.display import figures as drawing
from fairtk.errors import InputError, MissingExtraError, ParameterError

pytest.importorskip("matplotlib")


def contrast(color):
    """Return a color's contrast with white (WCAG 2.2): 1 to 21."""
    from matplotlib.colors import to_rgb

    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 1.05 / (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05)


def test_contrast():
    assert contrast("black") == pytest.approx(21) and contrast("white") == pytest.approx(1)
    for words in (drawing.INK, drawing.GRAY):
        assert contrast(words) >= 4.5
    # marks of the first series: 3 to 1
    assert all(contrast(drawing.series_style(place).color) >= 3 for place in range(4))


def test_series_are_told_apart_without_color():
    marks = [(s.marker, s.dash) for s in map(drawing.series_style, range(63))]
    assert len(set(marks)) == 63
    first = [drawing.series_style(place) for place in range(7)]
    for name in ("color", "marker", "dash"):
        assert len({getattr(s, name) for s in first}) == 7


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_equal_figures_give_equal_files(tmp_path, kind):
    for name in ("one", "two"):
        figure = drawing.new_figure((2, 2), "a test")
        axes = figure.subplots()
        axes.plot([0, 1], [1, 0], label="a -> b")
        axes.legend()
        drawing.despine(axes)
        assert not axes.spines["top"].get_visible()
        path = drawing.write_figure(figure, tmp_path / f"{name}.{kind}")
        assert path.stat().st_size > 500
    one, two = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert b"<dc:date>" not in one


def test_what_cannot_be_written(tmp_path):
    figure = drawing.new_figure((2, 2), "a test")
    with pytest.raises(ParameterError, match="'a.bmp'"):
        drawing.write_figure(figure, tmp_path / "a.bmp")
    with pytest.raises(InputError, match="missing"):
        drawing.write_figure(figure, tmp_path / "missing" / "a.svg")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="'matplotlib'"):
        drawing.new_figure((2, 2), "a test")


def test_notebooks_show_figures():
    figure = drawing.new_figure((2, 1), "a test")
    assert figure._repr_png_().startswith(b"\x89PNG")
