"""The backup of a ledger: every answer again as a line of JSON, which no other line can damage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairtk.errors import FormatError
from fairtk.files import atomic_write
from fairtk.llm.rows import Row


class Backup:
    """A file of lines beside a ledger; an answer is in it before it is in the ledger.

    Later lines of a key count. Several processes may append at once.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(f"{ledger.name}.backup")

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        # the line break comes first: what a full disk cut off harms no later line
        left = memoryview(b"".join(b"\n" + _line(row) for row in rows))
        try:
            number = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                while left:
                    left = left[os.write(number, left) :]
            finally:
                os.close(number)
        except OSError as error:
            raise FormatError(
                f"the backup of the ledger cannot be written ({error.strerror})", self.path
            ) from None

    def begin(self, rows: Iterable[Row]) -> None:
        """Write the file anew."""
        with atomic_write(self.path) as part:
            number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(number, "wb") as stream:
                for row in rows:
                    stream.write(b"\n" + _line(row))

    def rows(self) -> Iterator[Row]:
        """Yield the rows that are whole, in their order; none if there is no file."""
        try:
            stream = self.path.open("rb")
        except OSError:
            return
        with stream:
            for line in stream:
                try:
                    row = Row(*json.loads(line))
                    if row.sound:
                        yield row
                except (ValueError, TypeError, RecursionError):
                    continue


def _line(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
