"""The systems of the study keep to fairtk's contract; what they cite is in the references."""

import re
from pathlib import Path

import fairtk_baselines

from fairtk.testing import StudySystemContract


def test_what_is_cited_is_in_the_references_and_no_more():
    text = (Path(fairtk_baselines.__file__).parent / "references.bib").read_text(encoding="utf-8")
    given = [*fairtk_baselines.fairtk_transformers(), *fairtk_baselines.fairtk_study_systems()]
    cited = set(" ".join(spec.citation or "" for spec in given).split())
    assert cited == set(re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE))


class TestVectorSearch(StudySystemContract):
    name = "vector-search"


class TestDlf(StudySystemContract):
    name = "dlf"


class TestDeltr(StudySystemContract):
    name = "deltr"


class TestFaStarIr(StudySystemContract):
    name = "fa*ir"


class TestFaStarIrBinomial(StudySystemContract):
    name = "fa*ir"
    options = {"test": "binomial", "p": 0.3}


class TestMmr(StudySystemContract):
    name = "mmr"
