"""Decoder-only models, with the chat template of the tokenizer where it has one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from fairtk.backends.batching import padded
from fairtk.backends.hugging_face import HuggingFaceBackend


class HuggingFaceCausal(HuggingFaceBackend):
    """A decoder-only model from the hub or a folder; greedy by default (``num_beams=1``).

    A prompt is put into the tokenizer's chat template, if it has one, as the user's message; a chat
    (`chats` says whether it is taken) with its roles, the system's message before the user's where
    the template has no place for it. The answer is what the model adds. The window is the model's
    context less ``max_new_tokens`` and the template's own tokens.

    See `HuggingFaceBackend` for the settings.
    """

    identity_name: ClassVar[str] = "fairtk.backends.causal.HuggingFaceCausal"
    """As in the keys of answers that are kept; never changed."""

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

    @property
    def chats(self) -> bool:
        """Whether the model has a chat template, so that `stream` takes chats."""
        return bool(self._tokenizer.chat_template)

    @cached_property
    def _template_tokens(self) -> int:
        """Tokens that the chat template puts around a prompt, plain special tokens apart."""
        if not self.chats:
            return 0
        return len(self._encode(["."])[0]) - 1

    def _encode(self, prompts: Sequence[Any]) -> list[list[int]]:
        chat = self.chats
        texts = [self._chat(prompt) if chat else prompt for prompt in prompts]
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

    def _chat(self, prompt: str | Sequence[tuple[str, str]]) -> str:
        """Return a prompt in the chat template."""
        from jinja2.exceptions import TemplateError

        given = [("user", prompt)] if isinstance(prompt, str) else prompt
        system = "\n\n".join(content for role, content in given if role == "system")
        try:
            text = self._filled(given)
        except TemplateError:  # some templates refuse the system's role
            text = ""
            if not system:
                raise
        if system.strip() not in text:  # and some leave it out silently
            rest = [(role, content) for role, content in given if role != "system"]
            role, content = rest[0] if rest else ("user", "")
            text = self._filled([(role, f"{system}\n\n{content}".strip()), *rest[1:]])
        return text

    def _filled(self, messages: Sequence[tuple[str, str]]) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [{"role": role, "content": content} for role, content in messages],
            tokenize=False,
            add_generation_prompt=True,
        )
        return text

    def _pad(self, rows: list[list[int]]) -> tuple[Any, Any]:
        # Answers go on where prompts end, so the padding stands before them.
        return padded(rows, self._tokenizer.pad_token_id, left=True)

    def _answers_of(self, output: Any, padded: int) -> Any:
        return output[:, padded:]
