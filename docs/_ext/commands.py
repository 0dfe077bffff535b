"""Cells of shell commands are shown as commands that a shell takes, without IPython's mark."""

from docutils import nodes


def plain(app, doctree):
    for block in doctree.findall(nodes.literal_block):
        lines = block.astext().splitlines()
        if lines and all(line.startswith("!") for line in lines):
            text = "\n".join(line[1:] for line in lines)
            block.rawsource, block.children = text, []
            block += nodes.Text(text)
            block["language"] = "sh"


def setup(app):
    app.connect("doctree-read", plain)
    return {"parallel_read_safe": True}
