"""JSON lines: one object per line, plain or gzip; what is none is named with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from typing import Any

from fairtk.errors import FormatError
from fairtk.files.content import decoded, opened


def json_objects(path: str | PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the 1-based line number and the object of each line; empty lines are passed over.

    Args:
        path: the file.

    Raises:
        FormatError: a line is not UTF-8, not JSON, or not an object; names file and line.
    """
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            text = decoded(raw, path, number).removeprefix("\ufeff").strip()
            if not text:
                continue
            try:
                record = json.loads(text)
            except json.JSONDecodeError as error:
                raise FormatError(
                    f"this is not JSON ({error.msg} at character {error.pos}); one object per line "
                    "is needed",
                    path=path,
                    line=number,
                ) from None
            if not isinstance(record, dict):
                raise FormatError(
                    f"expected a JSON object, found a {type(record).__name__}",
                    path=path,
                    line=number,
                )
            yield number, record
