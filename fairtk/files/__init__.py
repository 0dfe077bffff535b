"""Files: one strict reader and one writer for every format, and the line where something stands."""

from __future__ import annotations

from fairtk.files.atomic import atomic_text, atomic_write
from fairtk.files.content import (
    decoded,
    first_line,
    is_parquet_name,
    kind_of,
    opened,
    opened_text,
    read_parquet,
    write_parquet,
)
from fairtk.files.json_lines import json_objects
from fairtk.files.rows import Rows
from fairtk.files.tables import ALIASES, has_header, read_table, strings_or_lists, write_table
from fairtk.files.whitespace import fields_of, read_whitespace

__all__ = [
    "ALIASES",
    "Rows",
    "atomic_text",
    "atomic_write",
    "decoded",
    "fields_of",
    "first_line",
    "has_header",
    "is_parquet_name",
    "json_objects",
    "kind_of",
    "opened",
    "opened_text",
    "read_parquet",
    "read_table",
    "read_whitespace",
    "strings_or_lists",
    "write_parquet",
    "write_table",
]
