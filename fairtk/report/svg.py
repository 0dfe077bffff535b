"""Figures in a page: SVG without anything that runs, asks for something, or needs a style rule."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

from fairtk.errors import InputError, MissingExtraError

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_KEPT = {
    *("svg", "g", "defs", "use", "clipPath", "path", "rect", "circle", "ellipse", "line"),
    *("polyline", "polygon", "text", "tspan", "image", "marker"),
    *("linearGradient", "radialGradient", "stop"),
}
_SETTINGS = {"svg.hashsalt": "fairtk", "svg.fonttype": "path"}
_LOCAL = re.compile(r"url\(\s*#")


def svg_text(figure: Any) -> str:
    """Return a figure as SVG; equal figures give equal texts.

    Args:
        figure: a ``matplotlib.figure.Figure``, or a text, which is returned as it is.
    """
    if isinstance(figure, str):
        return figure
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "a figure of a report") from None
    stream = io.StringIO()
    with matplotlib.rc_context(_SETTINGS):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    figure.set_layout_engine("none")  # laid out again, it would come out a little different
    return stream.getvalue()


def inline_svg(figure: Any, name: str) -> str:
    """Return a figure to be put into a page: an ``svg`` element with the role of an image.

    Its ids begin with `name`, and its styles are attributes, which a policy without inline styles
    lets through. Whatever else than shapes and letters is in it is left out.

    Args:
        figure: as for `svg_text`.
        name: of the figure in the page; ``{name}-caption`` is the id of the words that describe it.

    Raises:
        InputError: the text is not SVG.
    """
    try:
        root = ElementTree.fromstring(svg_text(figure))
    except ElementTree.ParseError as error:
        raise InputError(f"the figure {name!r} of the report is not SVG ({error})") from None
    if root.tag != f"{{{_SVG}}}svg":
        raise InputError(f"the figure {name!r} of the report is not SVG (<{root.tag}>)")
    cleaned = _cleaned(root, f"{name}-")
    width, height = (re.match(r"[\d.]+", root.get(side, "")) for side in ("width", "height"))
    if cleaned.get("viewBox") is None and width and height:
        cleaned.set("viewBox", f"0 0 {width[0]} {height[0]}")
    cleaned.attrib.pop("height", None)  # the page gives it its width
    cleaned.attrib.update(
        {
            "xmlns": _SVG,
            "role": "img",
            "aria-labelledby": f"{name}-caption",
            "stroke-linejoin": "round",  # matplotlib's style rule for everything
            "stroke-linecap": "butt",
        }
    )
    return ElementTree.tostring(cleaned, encoding="unicode")


def _cleaned(element: ElementTree.Element, prefix: str) -> ElementTree.Element:
    found = ElementTree.Element(_plain(element.tag), _attributes(element, prefix))
    found.text, found.tail = element.text, element.tail
    found.extend(
        _cleaned(child, prefix)
        for child in element
        if isinstance(child.tag, str) and _plain(child.tag) in _KEPT
    )
    return found


def _plain(tag: str) -> str:
    return tag.removeprefix(f"{{{_SVG}}}")


def _attributes(element: ElementTree.Element, prefix: str) -> dict[str, str]:
    found = {}
    styles = element.get("style", "").split(";")
    for name, value in [
        *element.attrib.items(),
        *(tuple(part.strip() for part in style.split(":", 1)) for style in styles if ":" in style),
    ]:
        if name == _HREF or name == "href":
            if value.startswith("#"):
                found["href"] = f"#{prefix}{value[1:]}"
            elif value.startswith("data:image/png;base64,"):
                found["href"] = value
        elif name == "id":
            found[name] = prefix + value
        elif name == "style" or name.startswith(("on", "{")):
            continue
        elif "url(" not in value or _LOCAL.match(value):
            found[name] = _LOCAL.sub(f"url(#{prefix}", value)
    return found
