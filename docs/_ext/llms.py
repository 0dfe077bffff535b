"""``llms.txt`` (https://llmstxt.org): the pages of the site with their first sentences."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import toctree

from fairtk.plugins.references import SITE


def listing(env):
    """Yield the lines: the pages by the captions of the contents, in their order."""
    start = env.config.root_doc
    yield from (f"# {env.config.project}", "", f"> {summary(env, start)}")
    for contents in env.get_doctree(start).findall(toctree):
        yield from ("", f"## {contents['caption']}", "")
        for _, page in contents["entries"]:
            yield from entries(env, page)


def entries(env, page):
    """Yield the lines of a page and of those below it."""
    address = f"{env.config.html_baseurl or SITE}{page}.html"
    text = summary(env, page)
    yield f"- [{env.titles[page].astext()}]({address}){text and f': {text}'}"
    for below in env.toctree_includes.get(page, ()):
        yield from entries(env, below)


def summary(env, page):
    """Return the first sentence of a page, empty if it has no text."""
    paragraphs = env.get_doctree(page).findall(nodes.paragraph)
    own = (
        one.astext()
        for one in paragraphs
        if isinstance(one.parent, nodes.section) and not one.next_node(nodes.image)
    )
    text = " ".join(next(own, "").split())
    return re.split(r"(?<=[.!?:]) (?=[A-Z`])", text)[0]


def write(app, error):
    if error is None and app.builder.format == "html":
        text = "\n".join(listing(app.env))
        Path(app.outdir, "llms.txt").write_text(f"{text}\n", encoding="utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
