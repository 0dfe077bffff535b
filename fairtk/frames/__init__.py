"""Frames: the names of columns, runs and qrels checked once, and digests of content."""

from __future__ import annotations

from fairtk.frames.columns import (
    DOCNO,
    EXPOSURE,
    GOLD_ANSWER,
    GROUP,
    LABEL,
    QANSWER,
    QID,
    QUERY,
    QUESTION,
    RANK,
    SAMPLE,
    SCORE,
    TEXT,
    WEIGHT,
    require,
)
from fairtk.frames.digest import digest
from fairtk.frames.rankings import Rankings, as_strings, describe, distinct_strings, encode_run

__all__ = [
    "DOCNO",
    "EXPOSURE",
    "GOLD_ANSWER",
    "GROUP",
    "LABEL",
    "QANSWER",
    "QID",
    "QUERY",
    "QUESTION",
    "RANK",
    "Rankings",
    "SAMPLE",
    "SCORE",
    "TEXT",
    "WEIGHT",
    "as_strings",
    "describe",
    "digest",
    "distinct_strings",
    "encode_run",
    "require",
]
