"""Labels of points, and the words of every figure: none lies on another."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")

from figure_words import words_on_words

from fairtk.display import Points, draw_trade_off, new_figure, series_style
from fairtk.display.figures import place_labels

INSIDE = np.array([0.0, 0.0, 400.0, 300.0])


def overlapping(boxes):
    pairs = combinations(boxes, 2)
    return [1 for a, b in pairs if (np.minimum(a[2:], b[2:]) > np.maximum(a[:2], b[:2])).all()]


@given(st.lists(st.tuples(st.floats(60, 340), st.floats(40, 260)), min_size=1, max_size=10))
def test_labels_never_overlap_nor_leave_the_axes(places):
    points = np.array(places)
    marks = np.column_stack([points - 3, points + 3])
    boxes = place_labels(
        points, np.full((len(points), 2), (40.0, 10.0)), marks, len(marks), INSIDE,
        (6, 12, 20, 32, 46),
    )  # fmt: skip
    assert not overlapping(boxes)
    assert (boxes[:, :2] >= INSIDE[:2]).all() and (boxes[:, 2:] <= INSIDE[2:]).all()


def test_a_label_stands_right_of_its_point_where_nothing_is_in_its_way():
    points = np.array([[100.0, 100.0]])
    marks = np.array([[97.0, 97.0, 103.0, 103.0]])
    (box,) = place_labels(points, np.array([[40.0, 10.0]]), marks, 1, INSIDE, (6, 20))
    assert box.tolist() == [106, 95, 146, 105]  # its left end 6 beside, its middle as high
    wall = np.concatenate([marks, [[110.0, 90.0, 112.0, 110.0]]])  # another point there
    (box,) = place_labels(points, np.array([[40.0, 10.0]]), wall, 2, INSIDE, (6, 20))
    assert box.tolist() == [54, 95, 94, 105]  # on the left


@pytest.mark.parametrize(
    ("point", "left", "lower"),
    [
        # 6 away on a diagonal is 6 / sqrt(2) = 4.243 in each direction; the label is 40 x 10
        ((2.0, 2.0), 2 + 4.243, 2 + 4.243),
        ((398.0, 2.0), 398 - 4.243 - 40, 2 + 4.243),
        ((2.0, 298.0), 2 + 4.243, 298 - 4.243 - 10),
        ((398.0, 298.0), 398 - 4.243 - 40, 298 - 4.243 - 10),
    ],
)
def test_a_label_of_a_point_in_a_corner_stands_toward_the_middle(point, left, lower):
    points = np.array([point])
    marks = np.column_stack([points - 3, points + 3])
    (box,) = place_labels(points, np.array([[40.0, 10.0]]), marks, 1, INSIDE, (6,))
    assert box.tolist() == pytest.approx([left, lower, left + 40, lower + 10], abs=1e-3)


@pytest.mark.parametrize("size", [(5, 4), (3.4, 2.6), (8, 6)])
def test_a_crowd_of_systems_can_be_told_apart(size):
    rng = np.random.default_rng(3)
    x, y = np.concatenate([rng.normal(0.35, 0.01, (5, 2)), [[0.9, 0.9], [1, 0.9]]]).T
    names = ["alpha 0", "alpha 1", "alpha 2", "alpha 4", "alpha 8", "fixed", "deterministic"]
    error = np.full((2, len(x)), 0.05)
    figure = new_figure(size, "a test")
    points = Points(x, y, series_style(0), x_error=error, y_error=error, labels=names)
    draw_trade_off(figure.subplots(), [points], "EE_D@5 (lower is better)", "EU")
    assert words_on_words(figure) == []
    (artist,) = figure.axes[0].artists
    assert len(artist.boxes) == 7
