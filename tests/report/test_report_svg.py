"""Figures in a page: images, in which nothing runs and which load nothing."""

import base64
from xml.etree import ElementTree

import pytest

from fairtk.report.page import inline_picture, picture

HOSTILE = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
  width="20pt" height="10pt" onload="bad()"><script>bad()</script><style>*{color:red}</style>
  <foreignObject><p>bad</p></foreignObject><!-- bad -->
  <a href="javascript:bad()"><path d="M0 0"/></a>
  <image href="http://bad.invalid/x.png"/><image xlink:href="data:image/png;base64,AAAA"/>
  <use xlink:href="#m1" style="fill: #ffffff; stroke: url(#s); filter: url(http://bad.invalid)"/>
  <g id="m1" clip-path="url(#c1)" onclick="bad()"><text>A &lt;b&gt; &amp; c</text></g></svg>"""


def test_a_figure_is_an_image_in_which_nothing_runs():
    """Browsers run no scripts in images, and load nothing that these name."""
    head, _, data = picture(HOSTILE).partition(",")
    assert head == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode() == HOSTILE


def test_an_inline_figure_has_colors_only_where_a_page_can_change_them():
    """The style of a page does not reach the shapes in `defs`, which `use` elements repeat."""
    pytest.importorskip("matplotlib")
    from fairtk.display import new_figure

    figure = new_figure((4, 3), "a test")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], "|", color="#000000", ms=15, mew=2.5)
    axes.scatter([0, 1], [1, 0], color="#222222")
    root = ElementTree.fromstring(inline_picture(figure))
    shapes = root.findall(".//defs/path")
    assert shapes
    assert [shape.attrib for shape in shapes if {"fill", "stroke"} & set(shape.attrib)] == []
    uses = [use.attrib for use in root.iter("use")]
    assert {use.get("stroke") for use in uses} >= {"#000000", "#222222"}
    # 4 x 3 inches: figures are drawn in the size for which their words are made
    assert (root.get("width"), root.get("height")) == ("288pt", "216pt")
