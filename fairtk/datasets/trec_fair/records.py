"""The records of TREC Fair Ranking 2022: Wikipedia articles, and topics with keywords."""

# No `from __future__ import annotations` here: PyTerrier's text_loader loads the fields whose
# annotation is the class `str` itself, not a string that names it.

from typing import NamedTuple


class TrecFairDoc(NamedTuple):
    """A Wikipedia article of the plain-text corpus; `doc_id` is its page id."""

    doc_id: str
    title: str
    text: str
    url: str

    def default_text(self) -> str:
        """Return the text to retrieve on: title and text."""
        return f"{self.title} {self.text}"


class TrecFairQuery(NamedTuple):
    """A topic, in three forms to retrieve with: `query`, `title` and `title_keywords`.

    Attributes:
        query_id: the topic's number.
        query: the keywords, joined by spaces; the title where the topic has no keywords.
        title: the name of the WikiProject.
        title_keywords: both, joined by spaces.
        keywords: the keywords one by one; empty where the file has none.
    """

    query_id: str
    query: str
    title: str
    title_keywords: str
    keywords: tuple[str, ...]

    def default_text(self) -> str:
        """Return the text to retrieve with: the keywords."""
        return self.query
