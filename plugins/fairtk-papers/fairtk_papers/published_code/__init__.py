"""Measures as in published code, which departs from the papers.

``EE_D_fair_rag``, ``EE_R_fair_rag`` and ``EE_L_fair_rag`` follow the code of *Towards Fair RAG*.
``EE_D_expeval``, ``EE_R_expeval`` and ``EE_L_expeval`` follow expeval, the code of Diaz et al.
2020, and ``GroupEE_D_expeval``, ``GroupEE_R_expeval`` and ``GroupEE_L_expeval`` follow its form for
groups. The papers' definitions are fairtk's EE_D, EE_R and EE_L.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
