"""Files: one strict reader and one writer for every format, and the line where something stands."""

from __future__ import annotations

from fairtk.files.atomic import atomic_text, atomic_write
from fairtk.files.content import JSON_ENTRY, decoded, naming, opened, text_lines
from fairtk.files.fingerprints import folder_digest
from fairtk.files.json_reading import described, json_objects, parse_json, read_json
from fairtk.files.rows import Rows
from fairtk.files.tables import read_parquet, read_table, write_parquet, write_table

__all__ = [
    "JSON_ENTRY",
    "Rows",
    "atomic_text",
    "atomic_write",
    "decoded",
    "folder_digest",
    "json_objects",
    "described",
    "naming",
    "opened",
    "parse_json",
    "read_json",
    "read_parquet",
    "read_table",
    "text_lines",
    "write_parquet",
    "write_table",
]
