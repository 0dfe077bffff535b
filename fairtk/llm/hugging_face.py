"""What the Hugging Face backends share: generating in batches, without sampling by default."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fairtk.backends import loading
from fairtk.backends.memory import batch_tokens as fitting_tokens
from fairtk.backends.model import HuggingFaceModel, at_least_one, optional
from fairtk.backends.protocol import PromptLengthError
from fairtk.backends.running import in_batches
from fairtk.backends.sampling import GumbelNoise
from fairtk.backends.window import UNLIMITED, PromptTokenizer, declared_window, longer_than
from fairtk.errors import InputError, ParameterError
from fairtk.frames.arrays import IntArray

# Set over the sampling defaults that a model's generation_config.json may have.
_NO_SAMPLING: dict[str, Any] = {
    "do_sample": False,
    "max_length": None,
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p")),
}


class HuggingFaceBackend(HuggingFaceModel, ABC):
    """A Hugging Face model that generates without sampling, in batches of similar length.

    Model and tokenizer are loaded on first use, from safetensors only, and code of a repository
    is never run. Each distinct prompt is generated once per call; batches depend on the lengths
    of the prompts. In float32 the answers are those of one prompt at a time, but where two
    candidates differ by rounding alone; in half precision rounding depends more on the batch, so
    compare runs of equal settings (with ``batch_tokens`` given, if machines differ).

    Args:
        model: a hub name or a local folder with safetensors weights.
        device: ``"auto"`` (CUDA if there is one, else CPU) or a torch device.
        dtype: ``"auto"`` (on CUDA bfloat16, or float16 where that is missing; else float32),
            ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        num_beams: beams per prompt, at least 1.
        max_new_tokens: the most tokens of an answer, at least 1.
        max_prompt_tokens: the most tokens of a prompt, special ones included; None for what the
            tokenizer's ``model_max_length`` or the model's configuration says.
        batch_tokens: the most tokens of a batch, padding and room for the answers included; None
            for what fits into memory. Halved, and the batch tried again, when memory runs out.
        revision: branch, tag or commit on the hub; None for its default.

    Raises:
        ParameterError: a setting is out of its range.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        "model",
        "device",
        "dtype",
        "num_beams",
        "max_new_tokens",
        "max_prompt_tokens",
        "batch_tokens",
        "revision",
    )

    samples: ClassVar[bool] = True
    """Whether `stream` takes a temperature."""

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        num_beams: int = 4,
        max_new_tokens: int = 128,
        max_prompt_tokens: int | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
    ) -> None:
        super().__init__(model, device, dtype, batch_tokens, revision)
        where = type(self).__name__
        self.num_beams = at_least_one(num_beams, "num_beams", where)
        self.max_new_tokens = at_least_one(max_new_tokens, "max_new_tokens", where)
        self.max_prompt_tokens = optional(max_prompt_tokens, "max_prompt_tokens", where)

    @cached_property
    def tokenizer(self) -> PromptTokenizer:
        """The tokenizer with the prompt's window; loads the tokenizer, not the weights."""
        declared = declared_window(self._tokenizer)
        longest = self.max_prompt_tokens or self._longest_prompt(declared)
        return PromptTokenizer(self._tokenizer, longest or UNLIMITED)

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order, without surrounding white space.

        Raises:
            InputError: a prompt is not a string.
            PromptLengthError: a prompt is longer than the model takes; nothing is generated.
            ModelError: the model cannot be loaded, or memory does not hold a single prompt.
            MissingExtraError: torch or transformers is not installed.
        """
        for index, prompt in enumerate(prompts):
            if not isinstance(prompt, str):
                raise InputError(f"{self.name!r}: prompt {index} is no string: {prompt!r}")
        distinct = list(dict.fromkeys(prompts))
        try:
            found = dict(itertools.chain.from_iterable(self.stream(distinct)))
        except PromptLengthError as error:
            error.index = list(prompts).index(distinct[error.index])
            raise
        answers = {distinct[number]: text for number, text in found.items()}
        return [answers[prompt] for prompt in prompts]

    def stream(
        self, prompts: Sequence[Any], temperature: float = 0.0, seed: int = 0
    ) -> Iterator[list[tuple[int, str]]]:
        """Yield the numbers of prompts and their answers, each batch as soon as it is generated.

        Args:
            prompts: texts; for models with a chat template also chats, as sequences of (role,
                content).
            temperature: above 0: answers are sampled, without beams; a prompt's answer depends on
                the seed and the prompt alone.
            seed: of the sampling.

        Raises:
            ParameterError: a temperature above 0, and the backend does not sample.
            PromptLengthError: a prompt is longer than the model takes; nothing is generated.
            ModelError: the model cannot be loaded, or memory does not hold a single prompt.
        """
        if temperature and not self.samples:
            raise ParameterError(f"{type(self).__name__} does not sample: leave temperature at 0")
        if not len(prompts):
            return
        tokens = self._encode(prompts)
        too_long = longer_than(self.tokenizer, self._positions, tokens)
        if too_long:
            first = too_long[0]
            raise PromptLengthError(
                f"{len(too_long)} of {len(prompts)} prompts are longer than the "
                f"{self.tokenizer.model_max_length} tokens that {self.model!r} takes (the first "
                f"has {len(tokens[first])}): use a prompt that keeps to the window, as "
                "fairtk.prompts does by default, or raise max_prompt_tokens if the model allows "
                "it (T5's positions are relative)",
                first,
            )
        lengths: IntArray = np.array([len(row) for row in tokens], dtype=np.int64)

        def run(rows: list[list[int]]) -> list[str]:
            return self._generate(
                rows, GumbelNoise(temperature, seed, rows) if temperature else None
            )

        for batch, texts in in_batches(
            lengths,
            self.batch_tokens or self._fitting_tokens(),
            self.max_new_tokens,
            lambda batch: run([tokens[i] for i in batch]),
            self._device,
            self.model,
            "use a smaller model, fewer beams, a smaller max_new_tokens, or dtype='bfloat16'",
        ):
            yield [(i, text.strip()) for i, text in zip(batch.tolist(), texts, strict=True)]

    # What a kind of model decides -------------------------------------------------------------

    @abstractmethod
    def _auto_class(self) -> Any:
        """Return the class of transformers that loads the model."""

    @abstractmethod
    def _longest_prompt(self, declared: int | None) -> int | None:
        """Return the window, given the tokenizer's own ``model_max_length``."""

    @abstractmethod
    def _encode(self, prompts: Sequence[Any]) -> list[list[int]]:
        """Return the token ids of prompts, special tokens included, never cut."""

    @abstractmethod
    def _pad(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Return ids and attention mask, padded to one length."""

    def _inputs(self, ids: Any, mask: Any) -> dict[str, Any]:
        """Return what the model generates from, for padded prompts as tensors."""
        return {"input_ids": ids, "attention_mask": mask}

    @abstractmethod
    def _answers_of(self, output: Any, padded: int) -> Any:
        """Return the ids of the answers alone; ``padded`` is the prompts' padded length."""

    # Loading ----------------------------------------------------------------------------------

    @cached_property
    def _model(self) -> Any:
        from transformers import GenerationConfig

        model = loading.load_model(
            self._auto_class(), self._folder, self.model, self._device, self.dtype
        )
        # On the model, not in the call: what a call leaves out is filled in from the model's.
        model.generation_config = GenerationConfig.from_dict(
            model.generation_config.to_dict()
            | _NO_SAMPLING
            | {
                "num_beams": self.num_beams,
                "max_new_tokens": self.max_new_tokens,
                "pad_token_id": self._tokenizer.pad_token_id,
            }
        )
        return model

    # Generating -------------------------------------------------------------------------------

    def _fitting_tokens(self) -> int:
        return fitting_tokens(self._model, self._device, self.num_beams, self.max_new_tokens)

    def _generate(self, rows: list[list[int]], noise: GumbelNoise | None) -> list[str]:
        import torch
        from transformers import LogitsProcessorList

        ids, mask = (torch.from_numpy(each).to(self._device) for each in self._pad(rows))
        sampling: dict[str, Any] = {}
        if noise is not None:
            sampling = {"num_beams": 1, "logits_processor": LogitsProcessorList([noise])}
        output = self._model.generate(**self._inputs(ids, mask), **sampling)
        texts: list[str] = self._tokenizer.batch_decode(
            self._answers_of(output, ids.shape[1]).cpu(), skip_special_tokens=True
        )
        return texts
