"""The tables and the text of a page of HTML."""

from __future__ import annotations

from html.parser import HTMLParser


class Tables(HTMLParser):
    """`tables`: lists of rows of cells, each after the headings; `said`: all text."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.words, self.cell, self.hidden = [], [], None, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            self.cell = []

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")
        if tag in ("td", "th") and self.cell is not None:
            self.tables[-1][-1].append(" ".join("".join(self.cell).split()))
            self.cell = None

    def handle_data(self, data):
        if self.hidden:
            return
        self.words.append(data)
        if self.cell is not None:
            self.cell.append(data)

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())


def after(text, start, words, within=900):
    """Return whether words follow a caption's start, each time it occurs."""
    parts = text.split(start)[1:]
    return bool(parts) and all(words in part[:within] for part in parts)
