"""Files: one strict reader and one writer for every format, and the line where something stands."""

from __future__ import annotations

from fairtk.files.atomic import atomic_text, atomic_write
from fairtk.files.content import (
    JSON_ENTRY,
    decoded,
    first_line,
    is_parquet_name,
    kind_of,
    naming,
    opened,
    text_lines,
)
from fairtk.files.fingerprints import folder_digest
from fairtk.files.json_reading import described, json_objects, parse_json, read_json
from fairtk.files.parquet import read_parquet, write_parquet
from fairtk.files.rows import Rows
from fairtk.files.tables import ALIASES, has_header, read_table, strings_or_lists, write_table
from fairtk.files.whitespace import fields_of, read_whitespace

__all__ = [
    "ALIASES",
    "JSON_ENTRY",
    "Rows",
    "atomic_text",
    "atomic_write",
    "decoded",
    "fields_of",
    "first_line",
    "folder_digest",
    "has_header",
    "is_parquet_name",
    "json_objects",
    "kind_of",
    "described",
    "naming",
    "opened",
    "parse_json",
    "read_json",
    "read_parquet",
    "read_table",
    "read_whitespace",
    "strings_or_lists",
    "text_lines",
    "write_parquet",
    "write_table",
]
