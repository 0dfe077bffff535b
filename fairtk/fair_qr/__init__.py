"""FAIR-QR: `FairQR` and `QueryRefiner`, the loop that they share, and its trace."""

from __future__ import annotations

from fairtk.fair_qr.outcome import Outcome
from fairtk.fair_qr.parsing import AnswerError, parse_keywords
from fairtk.fair_qr.query_refiner import QueryRefiner
from fairtk.fair_qr.transformer import FairQR

__all__ = ["AnswerError", "FairQR", "Outcome", "QueryRefiner", "parse_keywords"]
