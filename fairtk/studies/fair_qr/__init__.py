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

if TYPE_CHECKING:
    from fairtk.experiment.tuner import folds as folds
    from fairtk.studies.fair_qr.data import StudyData as StudyData
    from fairtk.studies.fair_qr.data import from_trec_fair as from_trec_fair
    from fairtk.studies.fair_qr.results import StudyResults as StudyResults
    from fairtk.studies.fair_qr.search import CollectionBM25 as CollectionBM25
    from fairtk.studies.fair_qr.setting import Setting as Setting
    from fairtk.studies.fair_qr.settings import Settings as Settings
    from fairtk.studies.fair_qr.settings import read_study as read_study
    from fairtk.studies.fair_qr.study import Study as Study
    from fairtk.studies.fair_qr.texts import Texts as Texts

__getattr__, __dir__, __all__ = lazily(__name__)
