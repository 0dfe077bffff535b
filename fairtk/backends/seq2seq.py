"""Encoder-decoder models: T5, FLAN-T5, BART."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from fairtk.backends.batching import padded
from fairtk.backends.beams import shared, shares_beams
from fairtk.backends.hugging_face import HuggingFaceBackend


class HuggingFaceSeq2Seq(HuggingFaceBackend):
    """An encoder-decoder model from the hub or a folder; beam search with 4 beams.

    The prompt's window is the tokenizer's ``model_max_length`` (512 for T5), or else the model's
    ``max_position_embeddings`` or ``n_positions``. T5's positions are relative, so a larger
    ``max_prompt_tokens`` works there, at the price of lengths not seen in training.

    See `HuggingFaceBackend` for the settings.
    """

    identity_name: ClassVar[str] = "fairtk.backends.seq2seq.HuggingFaceSeq2Seq"
    """As in the keys of answers that are kept; never changed."""

    def _auto_class(self) -> Any:
        from transformers import AutoModelForSeq2SeqLM

        return AutoModelForSeq2SeqLM

    def _longest_prompt(self, declared: int | None) -> int | None:
        positions = self._positions or getattr(self._config, "n_positions", None)
        return declared or positions

    def _encode(self, prompts: Sequence[Any]) -> list[list[int]]:
        return self.tokenizer.encode(prompts)

    def _pad(self, rows: list[list[int]]) -> tuple[Any, Any]:
        return padded(rows, self._tokenizer.pad_token_id, left=False)

    @cached_property
    def _shares_beams(self) -> bool:
        return shares_beams(self._model)

    def _inputs(self, ids: Any, mask: Any) -> dict[str, Any]:
        if not self._shares_beams:
            return super()._inputs(ids, mask)
        return shared(self._model, ids, mask)

    def _answers_of(self, output: Any, padded: int) -> Any:
        return output
