"""The systems of ``fairtk qr`` keep to the contract of the study's systems."""

import pytest

pytest.importorskip("fairtk_papers")

from fairtk_papers.testing import StudySystemContract


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
