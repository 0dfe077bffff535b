"""A prompt from the user's own template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, ClassVar

from fairtk.errors import ParameterError, suggestion
from fairtk.prompts.builder import Prompt
from fairtk.prompts.truncation import Entry

_OWN = ("question", "documents")
_RANK = "rank"


@dataclass(frozen=True)
class Template(Prompt):
    """A template with ``{question}`` and, unless it is closed-book, ``{documents}``.

    Args:
        template: the prompt; ``{question}`` must be in it, ``{documents}`` may.
        document: one document; its names are columns of the frame, ``{rank}`` is the 1-based
            rank. When room is short, the value of the last name is what is cut.
        joiner: what stands between two documents.

    Braces are written twice, as in `str.format`; formats (``{x:.2f}``) and attributes are refused.
    """

    template: str
    document: str = "{text}"
    joiner: str = "\n"

    name: ClassVar[str] = "template"

    def __post_init__(self) -> None:
        names = _names(self.template, "template")
        for found in names:
            if found not in _OWN:
                raise ParameterError(
                    f"the template knows {{question}} and {{documents}}; found {{{found}}}"
                    f"{suggestion(found, _OWN)}"
                )
        if "question" not in names:
            raise ParameterError(f"the template must contain {{question}}; found {self.template!r}")
        if "documents" in names and not self._document_names:
            raise ParameterError(
                f"document must contain a column name like {{text}}; found {self.document!r}"
            )

    @property
    def _document_names(self) -> list[str]:
        return [found for found in _names(self.document, "document") if found != _RANK]

    @property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""
        if "documents" not in _names(self.template, "template"):
            return ()
        return tuple(dict.fromkeys(self._document_names))

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return the document's entry, split around the value of its last column."""
        if not self.fields:
            return Entry("", "")
        pieces = ["", "", ""]  # head, body, tail
        names = len(self._document_names)
        for literal, name, _, _ in Formatter().parse(self.document):
            pieces[2 if pieces[1] else 0] += literal
            if name == _RANK:
                pieces[2 if pieces[1] else 0] += str(rank + 1)
            elif name is not None:
                names -= 1
                if names:
                    pieces[0] += self.value(document, name)
                else:
                    pieces[1] = self.value(document, name)
        return Entry(*pieces)

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the filled-in template."""
        return self.template.format(question=question, documents=self.joiner.join(entries))


def _names(text: str, what: str) -> list[str]:
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise ParameterError(f"{what} cannot be read: {error}; found {text!r}") from None
    names = [name for _, name, _, _ in parts if name is not None]
    plain = all(not spec and not conversion for _, _, spec, conversion in parts)
    for name in names:
        if not name.isidentifier() or not plain:
            raise ParameterError(
                f"{what} takes plain names in braces like {{text}}, without formats, numbers or "
                f"attributes; found {text!r}"
            )
    return names
