"""The study of FAIR-QR: a comparison with baselines, saved and resumable.

For example::

    from fairtk.llm import KeywordRefiner
    from fairtk_papers.fair_qr import QrStudy, from_trec_fair

    results = QrStudy(from_trec_fair("my/folder"), "study", KeywordRefiner()).run()
    print(results.table)
    results.save("study")

``fairtk qr`` does the same from the command line. Chen & Fang 2025, "FAIR-QR: Enhancing
Fairness-aware Information Retrieval through Query Refinement", arXiv 2503.21092.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
