"""Reads a large JSON array one element at a time, knowing where in the file each one lies.

LaMP's files are single JSON arrays of up to a few GB; `json.load` would hold one whole, several
times over. Memory here is a buffer of about twice the largest element.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple, NoReturn

from fairtk.errors import FormatError
from fairtk.files import JSON_ENTRY

_WHITESPACE = " \t\n\r"
_CHUNK = 1 << 20
# Where an element is cut off by the end of the buffer, the decoder stops within this many
# characters of it (inside a number, a word or an escape); an earlier stop is a real error.
_NEAR_END = 16


class Element(NamedTuple):
    """One element of the array."""

    number: int  # its 0-based number
    start: int  # its first byte in the file
    end: int  # the byte behind its last
    line: int  # the 1-based line it starts on
    value: Any  # what it is


def iterate_array(path: str | PathLike[str], chunk: int = _CHUNK) -> Iterator[Element]:
    """Yield the elements of the JSON array that the file is; errors name line and element."""
    with open(path, encoding="utf-8", newline="") as stream:
        yield from _Scanner(path, stream, chunk).elements()


class _Scanner:
    def __init__(self, path: str | PathLike[str], stream: Any, chunk: int) -> None:
        self.path = path
        self.stream = stream
        self.chunk = chunk
        self.buffer = ""
        self.at = 0  # position in the buffer
        self.byte = 0  # the same position, in bytes of the file
        self.line = 1
        self.ended = False
        self.decoder = json.JSONDecoder()

    def elements(self) -> Iterator[Element]:
        if self._peek() == "\ufeff":  # a byte order mark
            self._advance(1)
        self._expect("[", "a JSON array ('[')")
        index = 0
        if self._peek() == "]":
            self._advance(1)
        else:
            while True:
                yield self._element(index)
                index += 1
                if self._expect(",]", f"',' or ']' behind element {index - 1}") == "]":
                    break
        if self._peek():
            self._fail(f"expected the end of the file behind the array; found {self._here()}")

    def _element(self, index: int) -> Element:
        if not self._peek():
            self._fail(f"the file ends where element {index} should start; it is incomplete")
        while True:
            try:
                value, end = self.decoder.raw_decode(self.buffer, self.at)
            except RecursionError:
                self._fail(f"element {index} is nested too deep")
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string")
                if self.ended or not (cut or error.pos > len(self.buffer) - _NEAR_END):
                    line = self.line + self.buffer.count("\n", self.at, error.pos)
                    whole = "; the file ends inside it" if self.ended and self._ends(error) else ""
                    raise FormatError(
                        f"element {index} is not valid JSON: {error.msg}{whole}", self.path, line
                    ) from None
                self._fill(len(self.buffer) - self.at)  # twice as much: linear in all
                if len(self.buffer) - self.at > JSON_ENTRY and not self.ended:
                    self._fail(f"element {index} is longer than {JSON_ENTRY >> 20} MiB")
                continue
            except ValueError:
                self._fail(f"element {index} has a number with thousands of digits")
            # the buffer may end inside a number ("1", "1.", "1e+" of "1e+5")
            near = not self.ended and end > len(self.buffer) - _NEAR_END
            if near and isinstance(value, int | float):
                self._fill(self.chunk)
                continue
            start, line = self.byte, self.line
            self._advance(end - self.at)
            return Element(index, start, self.byte, line, value)

    def _ends(self, error: json.JSONDecodeError) -> bool:
        cut = error.msg.startswith("Unterminated string")
        return cut or error.pos >= len(self.buffer.rstrip(_WHITESPACE))

    def _fill(self, least: int) -> None:
        try:
            more = self.stream.read(max(self.chunk, least))
        except UnicodeDecodeError as error:
            raise FormatError(f"the file is not UTF-8 text ({error.reason})", self.path) from None
        self.ended = not more
        self.buffer = self.buffer[self.at :] + more
        self.at = 0

    def _peek(self) -> str:
        """Skip white space and return the next character, or ``""`` at the end of the file."""
        while True:
            stop = self.at
            while stop < len(self.buffer) and self.buffer[stop] in _WHITESPACE:
                stop += 1
            self._advance(stop - self.at)
            if self.at < len(self.buffer):
                return self.buffer[self.at]
            if self.ended:
                return ""
            self._fill(self.chunk)

    def _expect(self, allowed: str, what: str) -> str:
        found = self._peek()
        if not found or found not in allowed:
            self._fail(f"expected {what}; found {self._here()}")
        self._advance(1)
        return found

    def _advance(self, count: int) -> None:
        if count:
            passed = self.buffer[self.at : self.at + count]
            self.byte += len(passed) if passed.isascii() else len(passed.encode())
            self.line += passed.count("\n")
            self.at += count

    def _here(self) -> str:
        rest = self.buffer[self.at : self.at + 30]
        return repr(rest) if rest else "the end of the file"

    def _fail(self, message: str) -> NoReturn:
        raise FormatError(message, self.path, self.line)
