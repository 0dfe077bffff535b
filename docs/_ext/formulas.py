"""Formulas as SVG inside the page: no script, no font, no network; drawn by matplotlib."""

import html
import io
import re
import zlib

from matplotlib import mathtext
from matplotlib.font_manager import FontProperties

_SIZE = 13


def svg(formula):
    """Return one formula as SVG that has the text's color, and its height below the line."""
    file = io.BytesIO()
    text = f"${' '.join(formula.split())}$"
    depth = mathtext.math_to_image(text, file, FontProperties(size=_SIZE), dpi=72, format="svg")
    drawn = file.getvalue().decode()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.S)
    drawn = re.sub(r'<g id="patch_1">.*?</g>', "", drawn, count=1, flags=re.S)
    # names are shared by all formulas of a page
    key = format(zlib.crc32(formula.encode()), "x")  # the same in each build
    drawn = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>m{key}-", drawn)
    label = html.escape(" ".join(formula.split()), quote=True)
    return drawn.replace(
        "<svg", f'<svg role="img" aria-label="{label}" fill="currentColor"', 1
    ), depth


def inline(translator, node):
    drawn, depth = svg(node.astext())
    translator.body.append(f'<span class="formula" style="--depth: -{depth:.1f}pt">{drawn}</span>')
    raise_skip()


def display(translator, node):
    for part in node.astext().split(r"\\"):
        translator.body.append(f'<div class="formula">{svg(part)[0]}</div>')
    raise_skip()


def raise_skip():
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app):
    app.add_html_math_renderer("drawn", (inline, None), (display, None))
    return {"parallel_read_safe": True}
