"""Files: runs, qrels and answers, in TREC's text formats, TSV, JSON lines and Parquet.

Every reader takes plain, gzipped and Parquet files (told apart by content, not by name), keeps ids
as the strings they are (``001``, ``NA`` and ``null`` too), and says which line is broken. Every
writer chooses the format by the suffix and replaces the file in one step, so that a reader never
sees half of it.
"""

from __future__ import annotations

from fairtk.files.atomic import atomic_write
from fairtk.io.answers import add_answers, read_answers, read_gold_answers, write_answers
from fairtk.io.qrels import read_qrels, write_qrels
from fairtk.io.runs import read_run, write_run
from fairtk.io.saving import save_format
from fairtk.io.trec_fair import read_task_run, write_task_run

__all__ = [
    "add_answers",
    "atomic_write",
    "read_answers",
    "read_gold_answers",
    "read_qrels",
    "read_run",
    "read_task_run",
    "save_format",
    "write_answers",
    "write_qrels",
    "write_run",
    "write_task_run",
]
