"""Reading the documents of a collection, as often as needed, and telling collections apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import pandas as pd

from fairtk.errors import InputError
from fairtk.frames import DOCNO, TEXT

Documents: TypeAlias = Iterable[Mapping[str, Any]] | Callable[[], Iterable[Mapping[str, Any]]]


class Collection:
    """The documents of a collection, read anew by each iteration.

    Mappings with ``docno`` and ``text``, a frame with these columns, or a function that gives such
    mappings; a generator's are kept in memory. `name` identifies the content, by default a digest.
    """

    def __init__(self, documents: Documents, where: str, name: str | None = None) -> None:
        if isinstance(documents, pd.DataFrame):
            documents = documents.to_dict(orient="records")
        elif isinstance(documents, Iterator):
            documents = list(documents)
        elif not callable(documents) and not isinstance(documents, Iterable):
            raise InputError(
                f"{where}: documents must be mappings with {DOCNO!r} and {TEXT!r}, or a function "
                f"that gives them; found {type(documents).__name__}"
            )
        self._documents = documents
        self._where = where
        self._name = name

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield docno and text of each document; an `InputError` if one is no string."""
        found = self._documents() if callable(self._documents) else self._documents
        for number, document in enumerate(found):
            if not isinstance(document, Mapping) or not isinstance(document.get(DOCNO), str):
                raise InputError(
                    f"{self._where}: every document must be a mapping with a string {DOCNO!r}; "
                    f"found {repr(document)[:80]} at position {number}"
                )
            docno, text = document[DOCNO], document.get(TEXT)
            if not isinstance(text, str):
                raise InputError(
                    f"{self._where}: the {TEXT!r} of docno {docno!r} must be a string; found "
                    f"{text!r}: leave documents without one out, or give them an empty text"
                )
            yield docno, text

    def mappings(self) -> Iterator[Mapping[str, str]]:
        """Yield the documents as mappings."""
        for docno, text in self:
            yield {DOCNO: docno, TEXT: text}

    @property
    def name(self) -> str:
        """The name given, or a digest of docnos and texts in the order in which they come."""
        if self._name is None:
            state = hashlib.blake2b(digest_size=8)
            for docno, text in self:
                for part in (docno.encode(), text.encode("utf-8", "surrogatepass")):
                    state.update(len(part).to_bytes(8, "little") + part)
            self._name = state.hexdigest()
        return self._name
