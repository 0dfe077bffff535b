"""What studies write for their users: names of files, JSON and texts, each file in one step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fairtk.files import atomic_text
from fairtk.frames import digest

_SIZE = 180  # longer file names are refused by some file systems


def file_name(text: str) -> str:
    """Return a name for a file that differs for different texts, whatever is in them."""
    safe = quote(text, safe=" ").replace(".", "%2E")
    if not safe or len(safe) > _SIZE or safe != safe.lower():
        # some file systems do not tell upper from lower case; "=" comes from nowhere else
        return f"{safe[:_SIZE]}={digest(text)}"
    return safe


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as stream:
        stream.write(text)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, in one step; see `plain`."""
    write_text(path, json.dumps(plain(value), indent=2, sort_keys=True) + "\n")


def plain(value: Any) -> Any:
    """Return a value as JSON values: objects by their printed form."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
