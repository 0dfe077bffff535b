"""Frames: the names of columns, runs and qrels checked once, and digests of content."""

from __future__ import annotations

from fairtk.frames.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import (
    DOC_ID,
    DOCNO,
    EXPOSURE,
    GOLD_ANSWER,
    GROUP,
    LABEL,
    QANSWER,
    QID,
    QUERY,
    QUERY_ID,
    QUESTION,
    RANK,
    RELEVANCE,
    SAMPLE,
    SCORE,
    TEXT,
    TO_IR_MEASURES,
    WEIGHT,
    as_numbers,
    from_ir_measures,
    ours,
    require,
)
from fairtk.frames.content import ByContent, digest
from fairtk.frames.given import as_frame, is_plain
from fairtk.frames.ids import Ids, as_strings, distinct_ids, encode_ids
from fairtk.frames.matching import warn_of_other_docnos, warn_of_other_qids, warn_of_strangers
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import LOST_SAMPLES, Rankings, describe, encode_run, rankings_of
from fairtk.frames.runs import Run
from fairtk.frames.texts import queries_of, texts_of, topics_of

__all__ = [
    "BoolArray",
    "ByContent",
    "DOCNO",
    "DOC_ID",
    "EXPOSURE",
    "FloatArray",
    "GOLD_ANSWER",
    "GROUP",
    "Ids",
    "IntArray",
    "LABEL",
    "LOST_SAMPLES",
    "ObjectArray",
    "QANSWER",
    "QID",
    "QUERY",
    "QUERY_ID",
    "QUESTION",
    "Qrels",
    "RANK",
    "RELEVANCE",
    "Rankings",
    "Run",
    "SAMPLE",
    "SCORE",
    "TEXT",
    "TO_IR_MEASURES",
    "WEIGHT",
    "as_frame",
    "as_numbers",
    "as_strings",
    "describe",
    "digest",
    "distinct_ids",
    "encode_ids",
    "encode_run",
    "from_ir_measures",
    "is_plain",
    "ours",
    "queries_of",
    "rankings_of",
    "require",
    "texts_of",
    "topics_of",
    "warn_of_other_docnos",
    "warn_of_other_qids",
    "warn_of_strangers",
]
