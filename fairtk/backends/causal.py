"""Decoder-only models, with the chat template of the tokenizer where it has one."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fairtk.backends.batching import padded
from fairtk.backends.hugging_face import HuggingFaceBackend


class HuggingFaceCausal(HuggingFaceBackend):
    """A decoder-only model from the hub or a folder; greedy by default (``num_beams=1``).

    A prompt is put into the tokenizer's chat template, if it has one, as the user's message; the
    answer is what the model adds. The window is the model's context less ``max_new_tokens`` and
    the template's own tokens.

    See `HuggingFaceBackend` for the settings.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        num_beams: int = 1,
        max_new_tokens: int = 128,
        max_prompt_tokens: int | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
    ) -> None:
        super().__init__(
            model,
            device=device,
            dtype=dtype,
            num_beams=num_beams,
            max_new_tokens=max_new_tokens,
            max_prompt_tokens=max_prompt_tokens,
            batch_tokens=batch_tokens,
            revision=revision,
        )

    def _auto_class(self) -> Any:
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM

    def _longest_prompt(self, declared: int | None) -> int | None:
        known = [size for size in (declared, self._positions) if size]
        if not known:
            return None
        return max(1, min(known) - self.max_new_tokens - self._template_tokens)

    @cached_property
    def _template_tokens(self) -> int:
        """Tokens that the chat template puts around a prompt, plain special tokens apart."""
        if not self._tokenizer.chat_template:
            return 0
        return len(self._encode(["."])[0]) - 1

    def _encode(self, prompts: list[str]) -> list[list[int]]:
        chat = bool(self._tokenizer.chat_template)
        texts = [self._chat(prompt) for prompt in prompts] if chat else prompts
        encoded = self._tokenizer(
            # a chat template writes the special tokens itself
            texts,
            add_special_tokens=not chat,
            truncation=False,
            padding=False,
            verbose=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _chat(self, prompt: str) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        return text

    def _pad(self, rows: list[list[int]]) -> tuple[Any, Any]:
        # Answers go on where prompts end, so the padding stands before them.
        return padded(rows, self._tokenizer.pad_token_id, left=True)

    def _answers_of(self, output: Any, padded: int) -> Any:
        return output[:, padded:]
