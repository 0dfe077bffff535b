"""Frames: the names of columns, runs and qrels checked once, and digests of content."""

from __future__ import annotations

from fairtk.frames.arrays import BoolArray, FloatArray, IntArray, ObjectArray
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
    from_ir_measures,
    ours,
    require,
)
from fairtk.frames.content import ByContent, digest, digests, identity_name
from fairtk.frames.given import as_frame
from fairtk.frames.ids import Ids, as_strings, encode_ids
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import Rankings, describe, encode_run
from fairtk.frames.runs import Run
from fairtk.frames.texts import queries_of, texts_of, topics_of

__all__ = [
    "BoolArray",
    "ByContent",
    "DOCNO",
    "EXPOSURE",
    "FloatArray",
    "GOLD_ANSWER",
    "GROUP",
    "Ids",
    "IntArray",
    "LABEL",
    "ObjectArray",
    "QANSWER",
    "QID",
    "QUERY",
    "QUESTION",
    "Qrels",
    "RANK",
    "Rankings",
    "Run",
    "SAMPLE",
    "SCORE",
    "TEXT",
    "WEIGHT",
    "as_frame",
    "as_strings",
    "describe",
    "digest",
    "digests",
    "encode_ids",
    "encode_run",
    "from_ir_measures",
    "identity_name",
    "ours",
    "queries_of",
    "require",
    "texts_of",
    "topics_of",
]
