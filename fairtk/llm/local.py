"""Rules that refine queries, instead of a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from fairtk import checks
from fairtk.errors import InputError
from fairtk.frames import digest
from fairtk.frames.texts import words
from fairtk.io.rows import read_table
from fairtk.llm.chat import Chat, ChatModel, Completion, Outcome
from fairtk.wording import did_you_mean

Table = Mapping[str, Sequence[str]]

PACKAGED = Path(__file__).parent / "group_terms.tsv"
"""The packaged table. To change it, edit a copy and pass its path."""


class KeywordRefiner(ChatModel):
    """A deterministic refiner that adds terms of the group from a table, without a model.

    It is a free baseline. Each step adds the next terms, in the table's order, that are not in the
    query yet. A few words are a crude picture of a group, so read the table before you interpret a
    result. If the terms resemble the rules that labeled a collection, they retrieve the documents
    that these rules labeled.

    Args:
        table: a file with the columns ``group`` and ``term`` (TSV, CSV, JSON lines or Parquet), or
            a mapping from group to terms. `None` for the packaged table
            (`fairtk.llm.local.PACKAGED`), with the genders and the 20 regions of TREC Fair Ranking
            2022.
        terms: the number of terms to add in one step, at least 1.

    Raises:
        ParameterError: `terms` is below 1.
        FormatError: the file is not such a table.
    """

    identity_name = "fairtk.KeywordRefiner"
    output_version = 1
    free: ClassVar[bool] = True
    reads_facts: ClassVar[bool] = True

    def __init__(self, table: str | PathLike[str] | Table | None = None, terms: int = 3) -> None:
        self.terms = checks.integer("terms", terms, "KeywordRefiner")
        if isinstance(table, Mapping):
            self.table: dict[str, tuple[str, ...]] = {
                str(group): tuple(str(term) for term in terms) for group, terms in table.items()
            }
        else:
            if table is not None:
                checks.path("table", table, "KeywordRefiner")
            self.table = _read(PACKAGED if table is None else table)

    @property
    def name(self) -> str:
        """``"keyword-refiner"``."""
        return "keyword-refiner"

    @property
    def repeats(self) -> str:
        """Why all answers to a prompt are equal."""
        return "it follows rules"

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
            InputError: a chat does not come from a refinement prompt, or its group is missing from
                the table.
        """
        for index, chat in enumerate(chats):
            if not {"keywords", "group"} <= set(chat.facts):
                raise InputError(
                    "KeywordRefiner: expected a refinement prompt with the facts 'keywords' and "
                    f"'group', got {sorted(chat.facts)}"
                )
            keywords = words(str(chat.facts["keywords"]))
            added = self._next_terms(keywords, chat.facts["group"])
            # a list, so that a long query is not read as a sentence
            yield index, Completion(json.dumps([*keywords, *added], ensure_ascii=False), 0, 0, 0.0)

    def _next_terms(self, keywords: Sequence[str], group: Sequence[str]) -> list[str]:
        present = {word.lower() for word in keywords}
        added = []
        for part in group:
            if part not in self.table:
                raise InputError(
                    f"KeywordRefiner: unknown group {part!r}{did_you_mean(part, self.table)} (to "
                    f"add terms, pass a copy of {PACKAGED.name} as table)"
                )
            new = [t for t in self.table[part] if not set(t.lower().split()) <= present]
            added += new[: self.terms]
        return added


def _read(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return the distinct terms of each group, in the file's order."""
    rows = read_table(path)
    rows.require(["group", "term"], "a table of terms")
    terms: dict[str, dict[str, None]] = {}
    for column in ("group", "term"):
        rows.as_ids(column)
    for group, term in rows.frame[["group", "term"]].astype(str).itertuples(index=False):
        terms.setdefault(group, {})[term] = None
    return {group: tuple(of_group) for group, of_group in terms.items()}
