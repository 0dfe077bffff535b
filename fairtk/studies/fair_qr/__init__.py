"""The study of FAIR-QR: its systems against baselines, saved and resumable.

    from fairtk.llm import KeywordRefiner
    from fairtk.studies.fair_qr import Study, from_trec_fair

    results = Study(from_trec_fair("my/folder"), "study", KeywordRefiner()).run()
    print(results.table)
    results.save("study")

``fairtk qr`` does the same from the command line. Chen & Fang 2025, "FAIR-QR: Enhancing
Fairness-aware Information Retrieval through Query Refinement", arXiv 2503.21092.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily
from fairtk.studies.fair_qr.setting import Setting

if TYPE_CHECKING:
    from fairtk.experiment.tuner import folds
    from fairtk.studies.fair_qr.data import StudyData, from_trec_fair
    from fairtk.studies.fair_qr.results import StudyResults
    from fairtk.studies.fair_qr.search import CollectionBM25
    from fairtk.studies.fair_qr.settings import Settings, read_study
    from fairtk.studies.fair_qr.study import Study
    from fairtk.studies.fair_qr.texts import Texts

__all__ = [
    "CollectionBM25",
    "StudyResults",
    "Setting",
    "Settings",
    "Study",
    "StudyData",
    "Texts",
    "folds",
    "from_trec_fair",
    "read_study",
]

# What plugins need to offer a system is loaded at once; PyTerrier is not.
__getattr__ = lazily(
    __name__,
    {
        "data": ("StudyData", "from_trec_fair"),
        "layout": ("folds",),
        "results": ("StudyResults",),
        "search": ("CollectionBM25",),
        "settings": ("Settings", "read_study"),
        "study": ("Study",),
        "texts": ("Texts",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
