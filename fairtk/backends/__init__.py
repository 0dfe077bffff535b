"""Models: generation backends (prompts in, answers in the same order out) and encoders of texts.

Importing this package loads neither torch nor transformers; a backend loads its model on first
use. Any object with ``generate(prompts)`` can stand in, see `as_backend`.
"""

from __future__ import annotations

from fairtk.backends.adapter import CallableBackend, as_backend
from fairtk.backends.causal import HuggingFaceCausal
from fairtk.backends.ct2_seq2seq import CTranslate2Seq2Seq
from fairtk.backends.encoders import Encoder, MeanEncoder, SpladeEncoder
from fairtk.backends.loading import require_packages
from fairtk.backends.protocol import Backend, NoAnswerError, PromptLengthError
from fairtk.backends.seq2seq import HuggingFaceSeq2Seq

__all__ = [
    "Backend",
    "CTranslate2Seq2Seq",
    "CallableBackend",
    "Encoder",
    "HuggingFaceCausal",
    "HuggingFaceSeq2Seq",
    "MeanEncoder",
    "NoAnswerError",
    "PromptLengthError",
    "SpladeEncoder",
    "as_backend",
    "require_packages",
]
