"""What tests of figures look at: words that lie on each other, or that a figure cuts off."""

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text


def words_on_words(figure):
    """Return the pairs of words of a figure that overlap, and each that reaches out of it, alone.

    Words beside points (`draw_trade_off`) are drawn by an artist of their own, which keeps boxes.
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer, edge = canvas.get_renderer(), figure.bbox
    hidden = _not_drawn(figure)
    boxes = [
        (text.get_text(), text.get_window_extent(renderer).extents)
        for text in figure.findobj(Text)
        if id(text) not in hidden and text.get_visible() and text.get_text().strip()
    ]
    for axes in figure.axes:
        for artist in axes.artists:
            boxes += [
                (label, box) for (_, label), box in zip(artist.labels, artist.boxes, strict=True)
            ]
    cut = [
        (word,)
        for word, box in boxes
        if (box[:2] < edge.min - 1).any() or (box[2:] > edge.max + 1).any()
    ]
    return cut + [
        (one, other)
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
    ]


def _not_drawn(figure):
    """Return the texts of panels that are left out, and of ticks beyond the ends of an axis."""
    hidden = set()
    for axes in figure.axes:
        if not axes.get_visible():
            hidden |= {id(text) for text in axes.findobj(Text)}
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            room = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - room <= tick.get_loc() <= high + room:
                    hidden |= {id(tick.label1), id(tick.label2)}
    return hidden
