"""TREC Fair Ranking 2022: topics with keywords, articles, groups and official targets.

The datasets ``trec-fair/2022/train/keywords`` and ``trec-fair/2022/eval`` come from the official
URLs, or from a local folder with the official files::

    from fairtk.datasets import trec_fair
    dataset = trec_fair.from_folder("my/folder", split="eval")
    gender = trec_fair.groups(dataset, "gender")
    measure = AWRF(groups=gender, target=trec_fair.targets(dataset, "gender", task=1)) @ 500

Ekstrand, McDonald, Raj, Johnson: Overview of the TREC 2022 Fair Ranking Track. TREC 2022.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
