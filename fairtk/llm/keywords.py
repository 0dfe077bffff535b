"""Rules in place of a model: a group's own terms are added to the query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from fairtk.errors import FormatError, InputError, ParameterError, suggestion
from fairtk.files import text_lines
from fairtk.frames.content import digest
from fairtk.frames.scripts import words
from fairtk.llm.chat import Chat, ChatModel, Completion, Outcome

Table = Mapping[str, Sequence[str]]

PACKAGED = Path(__file__).parent / "group_terms.tsv"
"""The packaged table; copy it, edit it, and give its path."""


class KeywordRefiner(ChatModel):
    """Refines a query without a model: adds the next terms of the group that are not in it yet.

    Deterministic and free: a baseline that any model has to beat, and a way to run everything
    without one. The terms are the table's, in the table's order; when all are in the query, it
    stays as it is. A few words from a table are a crude picture of a group: look at the table
    before you read anything into a result, and note that terms which resemble the rules that
    labeled a collection find what these rules found.

    Args:
        table: a TSV file with a header line and the columns ``group`` and ``term``, or a mapping
            from group to terms; None: the packaged one, for the genders and the 20 regions of TREC
            Fair Ranking 2022 (`fairtk.llm.keywords.PACKAGED`).
        terms: how many are added in one step, at least 1.

    Raises:
        ParameterError: `terms` is below 1.
        FormatError: the file is not such a table.
    """

    free: ClassVar[bool] = True
    reads_facts: ClassVar[bool] = True

    def __init__(self, table: str | PathLike[str] | Table | None = None, terms: int = 3) -> None:
        if isinstance(terms, bool) or not isinstance(terms, int) or terms < 1:
            raise ParameterError(
                f"KeywordRefiner: terms must be an integer of at least 1; found {terms!r}"
            )
        self.terms = terms
        if isinstance(table, Mapping):
            self.table: dict[str, tuple[str, ...]] = {
                str(group): tuple(str(term) for term in found) for group, found in table.items()
            }
        else:
            self.table = read_table(PACKAGED if table is None else table)

    @property
    def name(self) -> str:
        """``"keyword-refiner"``."""
        return "keyword-refiner"

    def parameters(self) -> dict[str, Any]:
        """Return the number of terms and a digest of the table."""
        return {"terms": self.terms, "table": self._table_digest}

    @cached_property
    def _table_digest(self) -> str:
        return digest(self.table)

    def __repr__(self) -> str:
        return f"KeywordRefiner({len(self.table)} groups #{self._table_digest[:8]}, {self.terms})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the refined keywords of each chat, as a JSON list.

        Raises:
            InputError: a chat was not made by a refinement prompt, or the table lacks its group.
        """
        for place, chat in enumerate(chats):
            if not {"keywords", "group"} <= set(chat.facts):
                raise InputError(
                    "KeywordRefiner answers refinement prompts only (their facts are 'keywords' "
                    f"and 'group'); found the facts {sorted(chat.facts)}"
                )
            keywords = words(str(chat.facts["keywords"]))
            added = self._next_terms(keywords, chat.facts["group"])
            # a list, so that words of a long query are not taken for a sentence
            yield place, Completion(json.dumps([*keywords, *added], ensure_ascii=False), 0, 0, 0.0)

    def _next_terms(self, keywords: Sequence[str], group: Sequence[str]) -> list[str]:
        """Return the next terms of each part of a group."""
        have = {word.lower() for word in keywords}
        added = []
        for part in group:
            if part not in self.table:
                raise InputError(
                    f"KeywordRefiner: the table has no terms for the group {part!r}"
                    f"{suggestion(part, self.table)} (add lines to a copy of {PACKAGED.name} and "
                    "give its path as table=)"
                )
            fresh = [t for t in self.table[part] if not set(t.lower().split()) <= have]
            added += fresh[: self.terms]
        return added


def read_table(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return the terms of each group, in the file's order.

    Args:
        path: a TSV file (UTF-8) with the columns ``group`` and ``term``; lines that begin with
            ``#`` are comments.

    Raises:
        InputError: the file cannot be opened.
        FormatError: a line is no text, or has no group or term; names it.
    """
    found: dict[str, list[str]] = {}
    header = False
    for number, line in text_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        row = line.rstrip("\r\n").split("\t")
        if not header:
            header = row == ["group", "term"]
            if not header:
                raise FormatError("the first line must be 'group', a tab, 'term'", path, number)
        elif len(row) != 2 or not row[0].strip() or not row[1].strip():
            raise FormatError(f"expected group, tab, term; found {row!r}", path, number)
        else:
            found.setdefault(row[0].strip(), []).append(row[1].strip())
    if not header:
        raise FormatError("the first line must be 'group', a tab, 'term'", path, 1)
    return {group: tuple(dict.fromkeys(terms)) for group, terms in found.items()}
