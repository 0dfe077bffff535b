"""Figures in a page: shapes and letters, and nothing else."""

from xml.etree import ElementTree

import pytest

from fairtk.report.page import inline_svg, svg_text

HOSTILE = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
  width="20pt" height="10pt" onload="bad()"><script>bad()</script><style>*{color:red}</style>
  <foreignObject><p>bad</p></foreignObject><!-- bad -->
  <a href="javascript:bad()"><path d="M0 0"/></a>
  <image href="http://bad.example/x.png"/><image xlink:href="data:image/png;base64,AAAA"/>
  <use xlink:href="#m1" style="fill: #ffffff; stroke: url(#s); filter: url(http://bad.example)"/>
  <g id="m1" clip-path="url(#c1)" onclick="bad()"><text>A &lt;b&gt; &amp; c</text></g></svg>"""


def test_only_shapes_and_letters_stay():
    text = inline_svg(HOSTILE, "figure-1")
    assert "bad" not in text
    root = ElementTree.fromstring(text)
    found = [e.tag.rpartition("}")[2] for e in root.iter()]
    assert found == ["svg", "image", "image", "use", "g", "text"]
    assert root.attrib["viewBox"] == "0 0 20 10" and "height" not in root.attrib
    assert root.attrib["role"] == "img" and root.attrib["aria-labelledby"] == "figure-1-caption"
    use = next(root.iter("{http://www.w3.org/2000/svg}use"))
    assert use.attrib == {"href": "#figure-1-m1", "fill": "#ffffff", "stroke": "url(#figure-1-s)"}
    group = next(root.iter("{http://www.w3.org/2000/svg}g"))
    assert group.attrib == {"id": "figure-1-m1", "clip-path": "url(#figure-1-c1)"}
    assert next(root.itertext()).strip() == "" and "A &lt;b&gt; &amp; c" in text


def test_equal_figures_are_equal_texts_without_a_date():
    figures = pytest.importorskip("matplotlib.figure")

    def drawn():
        figure = figures.Figure()
        axes = figure.subplots()
        axes.plot([1, 2], [3, 4], "o-", label="a")
        axes.legend()
        return figure

    assert svg_text(drawn()) == svg_text(drawn())
    assert "<dc:date>" not in svg_text(drawn())
    text = inline_svg(drawn(), "f")
    assert "style=" not in text and "metadata" not in text
    assert text.startswith("<svg") and 'clip-path="url(#f-' in text
