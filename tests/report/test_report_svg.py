"""Figures in a page: images, in which nothing runs and which load nothing."""

import base64

from fairtk.report.page import picture

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
