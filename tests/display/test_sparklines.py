import re

import numpy as np

from fairtk.display.figures import draw_histogram, draw_target_bar


def test_values_stand_where_they_lie():
    drawing = draw_histogram([0.0, 0.0, 0.5, 1.0, np.nan], 0.0, 1.0)
    assert 'aria-label="4 values from 0 to 1"' in drawing
    # twelve bins of 5 pixels: 0 in the first, 0.5 in the seventh, 1 in the last, half as high
    assert re.findall(r'x="([\d.]+)"', drawing) == ["0.0", "30.0", "55.0"]
    assert re.findall(r'height="([\d.]+)"/', drawing) == ["14.0", "7.0", "7.0"]


def test_equal_and_undefined_values():
    assert draw_histogram([2.0, 2.0], 2.0, 2.0).count("<rect") == 1
    assert draw_histogram([np.nan], np.nan, np.nan).count("<rect") == 0


def test_a_value_beside_what_was_wanted():
    drawing = draw_target_bar(0.25, 0.5, 0.5)
    assert 'width="30.0"' in drawing  # half of 60 pixels
    assert 'x="58.0"' in drawing  # the end, less the line's own width
    assert draw_target_bar(0.0, 0.0, 0.0).count("<rect") == 2
