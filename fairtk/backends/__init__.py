"""Generation backends: a list of prompts in, a list of answers in the same order out.

Importing this package loads neither torch nor transformers; a backend loads its model on first
use. Any object with ``generate(prompts)`` can stand in, see `as_backend`.
"""

from __future__ import annotations

from fairtk.backends.adapter import CallableBackend, as_backend
from fairtk.backends.causal import HuggingFaceCausal
from fairtk.backends.loading import require_packages
from fairtk.backends.protocol import Backend, NoAnswerError, PromptLengthError
from fairtk.backends.seq2seq import HuggingFaceSeq2Seq

__all__ = [
    "Backend",
    "CallableBackend",
    "HuggingFaceCausal",
    "HuggingFaceSeq2Seq",
    "NoAnswerError",
    "PromptLengthError",
    "as_backend",
    "require_packages",
]
