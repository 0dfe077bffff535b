"""What the Hugging Face backends share: settings, lazy loading, and the loop over batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fairtk.backends import loading
from fairtk.backends.batching import cost, plan_batches
from fairtk.backends.memory import batch_tokens as fitting_tokens
from fairtk.backends.memory import is_out_of_memory
from fairtk.backends.protocol import PromptLengthError
from fairtk.backends.weights import WANTED, find_folder
from fairtk.backends.window import UNLIMITED, PromptTokenizer, declared_window, longer_than
from fairtk.errors import InputError, ModelError, ParameterError, suggestion
from fairtk.files.fingerprints import folder_digest
from fairtk.frames.arrays import IntArray

DTYPES = ("auto", "float32", "bfloat16", "float16")

# Set over the sampling defaults that a model's generation_config.json may have.
_NO_SAMPLING: dict[str, Any] = {
    "do_sample": False,
    "max_length": None,
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p")),
}


class HuggingFaceBackend(ABC):
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
        where = type(self).__name__
        loading.require_packages(where)
        if dtype not in DTYPES:
            raise ParameterError(f"{where}: unknown dtype {dtype!r}{suggestion(dtype, DTYPES)}")
        self.model = str(model)
        self.device = str(device)
        self.dtype = dtype
        self.num_beams = _positive(num_beams, "num_beams", where)
        self.max_new_tokens = _positive(max_new_tokens, "max_new_tokens", where)
        self.max_prompt_tokens = (
            None
            if max_prompt_tokens is None
            else _positive(max_prompt_tokens, "max_prompt_tokens", where)
        )
        self.batch_tokens = (
            None if batch_tokens is None else _positive(batch_tokens, "batch_tokens", where)
        )
        self.revision = revision

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    def content_digest(self) -> str:
        """Return a digest of the model's files, wherever they are.

        Raises:
            ModelError: there is no such model.
        """
        return folder_digest(find_folder(self.model, self.revision), tuple(WANTED))

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
        distinct = {prompt: number for number, prompt in enumerate(dict.fromkeys(prompts))}
        if not distinct:
            return []
        tokens = self._encode(list(distinct))
        too_long = longer_than(self.tokenizer, self._positions, tokens)
        if too_long:
            first = too_long[0]
            raise PromptLengthError(
                f"{len(too_long)} of {len(distinct)} prompts are longer than the "
                f"{self.tokenizer.model_max_length} tokens that {self.model!r} takes (the first "
                f"has {len(tokens[first])}): use a prompt that keeps to the window, as "
                "fairtk.prompts does by default, or raise max_prompt_tokens if the model allows "
                "it (T5's positions are relative)",
                list(prompts).index(list(distinct)[first]),
            )
        answers = self._answer(tokens)
        return [answers[distinct[prompt]] for prompt in prompts]

    # What a kind of model decides -------------------------------------------------------------

    @abstractmethod
    def _auto_class(self) -> Any:
        """Return the class of transformers that loads the model."""

    @abstractmethod
    def _longest_prompt(self, declared: int | None) -> int | None:
        """Return the window, given the tokenizer's own ``model_max_length``."""

    @abstractmethod
    def _encode(self, prompts: list[str]) -> list[list[int]]:
        """Return the token ids of prompts, special tokens included, never cut."""

    @abstractmethod
    def _pad(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Return ids and attention mask, padded to one length."""

    @abstractmethod
    def _answers_of(self, output: Any, padded: int) -> Any:
        """Return the ids of the answers alone; ``padded`` is the prompts' padded length."""

    # Loading ----------------------------------------------------------------------------------

    @cached_property
    def _folder(self) -> str:
        loading.require_packages(type(self).__name__)
        return str(find_folder(self.model, self.revision))

    @cached_property
    def _tokenizer(self) -> Any:
        return loading.load_tokenizer(self._folder, self.model)

    @cached_property
    def _config(self) -> Any:
        return loading.load_config(self._folder, self.model)

    @cached_property
    def _device(self) -> Any:
        return loading.pick_device(self.device, type(self).__name__)

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

    def __getstate__(self) -> dict[str, Any]:
        # A loaded model does not travel to other processes; each loads its own.
        return {name: getattr(self, name) for name in self.SETTINGS}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.SETTINGS)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    # Generating -------------------------------------------------------------------------------

    @property
    def _positions(self) -> int | None:
        """Absolute positions of the model; None where positions are relative (T5)."""
        found = getattr(self._config, "max_position_embeddings", None)
        return int(found) if found else None

    def _answer(self, tokens: list[list[int]]) -> list[str]:
        from tqdm import tqdm

        lengths: IntArray = np.array([len(row) for row in tokens], dtype=np.int64)
        most = self.batch_tokens or fitting_tokens(
            self._model, self._device, self.num_beams, self.max_new_tokens
        )
        waiting = plan_batches(lengths, most, self.max_new_tokens)[::-1]
        answers = [""] * len(tokens)
        # disable=None: a bar on a terminal only; delay: only for work that takes a while
        bar = tqdm(
            total=len(tokens), desc=self.model, unit="prompt", delay=2, disable=None, leave=False
        )
        with bar:
            while waiting:
                batch = waiting.pop()
                price = cost(len(batch), int(lengths[batch].max()), self.max_new_tokens)
                texts = None
                if len(batch) == 1 or price <= most:
                    texts = self._try_batch([tokens[i] for i in batch])
                if texts is not None:
                    for i, text in zip(batch, texts, strict=True):
                        answers[i] = text.strip()
                    bar.update(len(batch))
                elif len(batch) == 1:
                    raise ModelError(
                        f"memory on {self._device} does not hold one prompt of "
                        f"{lengths[batch[0]]} tokens for {self.model!r}: use a smaller model, "
                        "fewer beams, a smaller max_new_tokens, or dtype='bfloat16'"
                    )
                else:
                    most = min(most, max(1, price // 2))
                    middle = len(batch) // 2
                    waiting += [batch[middle:], batch[:middle]]
        return answers

    def _try_batch(self, rows: list[list[int]]) -> list[str] | None:
        """Return the texts, or None when memory ran out."""
        import torch

        ids, mask = self._pad(rows)
        try:
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=torch.from_numpy(ids).to(self._device),
                    attention_mask=torch.from_numpy(mask).to(self._device),
                )
            texts: list[str] = self._tokenizer.batch_decode(
                self._answers_of(output, ids.shape[1]).cpu(), skip_special_tokens=True
            )
            return texts
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return None


def _positive(value: Any, name: str, where: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ParameterError(f"{where}: {name} must be an integer from 1; found {value!r}")
    return int(value)
