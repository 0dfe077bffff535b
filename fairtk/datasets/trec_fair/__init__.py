"""TREC Fair Ranking 2022: topics with keywords, articles, groups and official targets.

The datasets ``trec-fair/2022/train/keywords`` and ``trec-fair/2022/eval`` come from the official
addresses, or from a local folder with the official files:

    from fairtk.datasets import trec_fair
    dataset = trec_fair.from_folder("my/folder", split="eval")
    gender = trec_fair.groups(dataset, "gender")
    measure = AWRF(groups=gender, target=trec_fair.targets(dataset, "gender")) @ 500

Ekstrand, McDonald, Raj, Johnson: Overview of the TREC 2022 Fair Ranking Track. TREC 2022.
"""

from fairtk.datasets.trec_fair.alignment import dimensions, groups, levels, targets, work_needed
from fairtk.datasets.trec_fair.dataset import build, from_folder, ids
from fairtk.datasets.trec_fair.oracle import oracle_run
from fairtk.datasets.trec_fair.records import TrecFairDoc, TrecFairQuery
from fairtk.datasets.trec_fair.year_2021 import geography_2021, is_2021, targets_2021

__all__ = [
    "TrecFairDoc",
    "TrecFairQuery",
    "build",
    "dimensions",
    "from_folder",
    "geography_2021",
    "groups",
    "ids",
    "is_2021",
    "levels",
    "oracle_run",
    "targets",
    "targets_2021",
    "work_needed",
]
