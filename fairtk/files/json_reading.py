"""JSON, one value or one object per line; what is none is named with its line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from os import PathLike
from typing import Any

from fairtk.errors import FormatError
from fairtk.files.content import JSON_ENTRY, decoded, opened, text_lines

_BLANK = " \t\r\n"
"""What JSON knows as white space."""


def parse_json(text: str, path: str | PathLike[str] | None = None, line: int | None = None) -> Any:
    """Return the value of a JSON text; file, and the line that it starts on, are for messages.

    Raises:
        FormatError: it is no JSON, is nested too deep, has a number of thousands of digits, or a
            key twice in one object.
    """
    try:
        return json.loads(text.rstrip(_BLANK), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at character {error.colno - 1}"
        line = None if line is None else line + error.lineno - 1
    except RecursionError:
        reason = "it is nested too deep"
    except FormatError as error:
        reason = error.reason
    except ValueError:
        reason = "it has a number with thousands of digits"
    raise FormatError(f"this is not JSON that can be read ({reason})", path=path, line=line)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise FormatError(f"the key {twice!r} occurs twice in an object")
    return found


def described(value: Any) -> str:
    """Return what a JSON value is, for messages."""
    if isinstance(value, dict):
        return f"an object with the keys {sorted(value)[:8]}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


def json_objects(path: str | PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the 1-based line number and the object of each line; empty lines are passed over."""
    for number, text in text_lines(path, JSON_ENTRY):
        if not text.isspace():
            record = parse_json(text.strip(_BLANK), path, number)
            if not isinstance(record, dict):
                raise FormatError(
                    f"expected a JSON object, found a {type(record).__name__}",
                    path=path,
                    line=number,
                )
            yield number, record


def read_json(path: str | PathLike[str]) -> Any:
    """Return the value of a JSON file, plain or gzipped, of at most `JSON_ENTRY` bytes."""
    with opened(path, JSON_ENTRY) as stream:
        raw = stream.read(JSON_ENTRY + 1)
    if len(raw) > JSON_ENTRY:
        raise FormatError(f"this JSON file is larger than {JSON_ENTRY >> 20} MiB", path=path)
    return parse_json(decoded(raw.removeprefix(b"\xef\xbb\xbf"), path, None), path, 1)
