"""Contracts that plugins are tested against, and small frames to test with.

A contract is a class of tests for pytest. Subclass it, name the subclass ``Test...``, and say what
is under test:

    from fairtk.testing import MeasureContract

    class TestTopShare(MeasureContract):
        measure = TopShare() @ 5

fairtk's own measures, transformers, utilities, prompts and data pass the same contracts.
"""

from fairtk.testing.dataset import DatasetContract
from fairtk.testing.measure import MeasureContract
from fairtk.testing.prompt import PromptContract, ToyTokenizer
from fairtk.testing.study_system import StudySystemContract, study_setting
from fairtk.testing.toys import (
    toy_answers,
    toy_documents,
    toy_groups,
    toy_qrels,
    toy_run,
    toy_samples,
    toy_topics,
)
from fairtk.testing.transformer import TransformerContract
from fairtk.testing.utility import UtilityContract

__all__ = [
    "DatasetContract",
    "MeasureContract",
    "PromptContract",
    "StudySystemContract",
    "ToyTokenizer",
    "TransformerContract",
    "UtilityContract",
    "study_setting",
    "toy_answers",
    "toy_documents",
    "toy_groups",
    "toy_qrels",
    "toy_run",
    "toy_samples",
    "toy_topics",
]
