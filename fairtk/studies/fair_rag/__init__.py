"""The study of *Towards Fair RAG* (Kim and Diaz 2024, arXiv 2409.11598)."""

from __future__ import annotations

from fairtk.studies.fair_rag.intervals import baselines, fairness_intervals
from fairtk.studies.fair_rag.normalizing import normalized_utility
from fairtk.studies.fair_rag.published import beside_paper, paper_numbers
from fairtk.studies.fair_rag.slopes import trade_offs, uniform_end

__all__ = [
    "baselines",
    "beside_paper",
    "fairness_intervals",
    "normalized_utility",
    "paper_numbers",
    "trade_offs",
    "uniform_end",
]
