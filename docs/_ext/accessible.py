"""What is added to each page for those who read with a keyboard or by ear.

Places of this machine, which tutorials and recipes print, are made relative.
"""

import re
from pathlib import Path

REPAIRS = {
    f"{Path(__file__).parents[2]}/": "",
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    "<pre>": '<pre tabindex="0">',  # it may scroll
    '<div role="list" class="citation-list">': '<div class="citation-list">',
    '<div class="output text_html">': '<div class="output text_html" tabindex="0">',
}
TEMPORARY = re.compile(r"/tmp/(tmp|fairtk-[a-z-]+-)\w{8}/")


def repair(app, error):
    if error is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = repaired = path.read_text(encoding="utf-8")
        for wrong, right in REPAIRS.items():
            repaired = repaired.replace(wrong, right)
        repaired = TEMPORARY.sub("", repaired)
        if repaired != text:
            path.write_text(repaired, encoding="utf-8")


def setup(app):
    app.connect("build-finished", repair)
    return {"parallel_read_safe": True}
