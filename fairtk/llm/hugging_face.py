"""Hugging Face models as backends: encoder-decoder and decoder-only, in batches that do not
change the answers.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import InputError, ModelError, ParameterError, suggestion
from fairtk.frames import IntArray, digest
from fairtk.llm import loading
from fairtk.llm.backends import (
    UNLIMITED,
    PromptLengthError,
    PromptTokenizer,
    declared_window,
)
from fairtk.llm.beams import shared, shares_beams
from fairtk.llm.loading import find_folder, is_out_of_memory, model_digest

DTYPES = ("auto", "float32", "bfloat16", "float16")


class HuggingFaceModel:
    """A model on the hub or in a folder, loaded on first use; code of a repository is never run.

    A subclass is a dataclass whose fields are its settings, and says what they mean.

    Raises:
        ParameterError: a setting is out of its range.
        MissingExtraError: torch or transformers is not installed.
    """

    SETTINGS: ClassVar[tuple[str, ...]]
    """Names of the settings, in the order in which they are printed."""

    COUNTS: ClassVar[tuple[str, ...]]
    """The settings that are integers from 1, or None where that is their default."""

    LIBRARIES: ClassVar[tuple[str, ...]] = ("torch", "transformers", "tokenizers")
    """The packages on whose versions the numbers depend."""

    AUTO: ClassVar[str]
    """The class of transformers that loads the model."""

    CPU_MOST: ClassVar[int] = 2**12
    GPU_MOST: ClassVar[int] = 2**18
    """Tokens of a batch. Larger ones are no faster: on a CPU the scores fall out of the cache."""

    model: str
    device: str
    dtype: str
    batch_tokens: int | None
    revision: str | None

    def __post_init__(self) -> None:
        where = type(self).__name__
        loading.require_packages(where)
        self.model, self.device = str(self.model), str(self.device)
        if self.dtype not in DTYPES:
            raise ParameterError(
                f"{where}: unknown dtype {self.dtype!r}{suggestion(str(self.dtype), DTYPES)}"
            )
        for name in self.COUNTS:
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:
                setattr(self, name, checks.whole(name, value, where, rule=checks.FROM_1))

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    def content_digest(self) -> str:
        """Return a digest of the model's files, wherever they are."""
        return model_digest(Path(self._folder))

    @property
    def _pickled(self) -> bool | None:
        """Whether pickled weights may be read; None: never, and there is no setting for it."""
        return getattr(self, "allow_pickled_weights", None)

    @cached_property
    def _folder(self) -> str:
        return str(find_folder(self.model, self.revision, self._pickled))

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
        return loading.load_model(
            self.AUTO, self._folder, self.model, self._device, self.dtype, self._pickled
        )

    @property
    def _positions(self) -> int | None:
        """Absolute positions of the model; None where positions are relative (T5)."""
        return getattr(self._config, "max_position_embeddings", None) or None

    @cached_property
    def _most(self) -> int:
        """The largest `cost` of a batch so far: the setting, halved where memory ran out."""
        return self.batch_tokens or (
            self.GPU_MOST if self._device.type == "cuda" else self.CPU_MOST
        )

    def _in_batches(
        self, lengths: IntArray, new_tokens: int, run: Callable[[IntArray], Any], remedy: str
    ) -> Iterator[tuple[IntArray, Any]]:
        """Yield the numbers of each batch's texts and what `run` made of them.

        A batch that memory does not hold is halved, and no batch as large is tried again.

        Args:
            lengths: tokens of each text; shape (n,).
            new_tokens: tokens that each answer may have; 0 where nothing is generated.
            run: does a batch; never returns None.
            remedy: what to do where memory does not hold one text.

        Raises:
            ModelError: memory does not hold one text.
        """
        from tqdm import tqdm

        waiting = plan_batches(lengths, self._most, new_tokens)[::-1]
        # disable=None: a bar on a terminal only; delay: only for work that takes a while
        with tqdm(
            total=len(lengths), desc=self.model, unit="text", delay=2, disable=None, leave=False
        ) as bar:
            while waiting:
                batch = waiting.pop()
                price = cost(len(batch), int(lengths[batch].max()), new_tokens)
                output = None
                if len(batch) == 1 or price <= self._most:
                    output = _unless_memory_runs_out(run, batch, self._device)
                if output is not None:
                    yield batch, output
                    bar.update(len(batch))
                elif len(batch) == 1:
                    raise ModelError(
                        f"memory on {self._device} does not hold one prompt of "
                        f"{lengths[batch[0]]} tokens for {self.model!r}: {remedy}"
                    )
                else:
                    self._most = min(self._most, max(1, price // 2))
                    middle = len(batch) // 2
                    waiting += [batch[middle:], batch[:middle]]

    def __getstate__(self) -> dict[str, Any]:
        # A loaded model does not travel to other processes; each loads its own.
        return {name: getattr(self, name) for name in self.SETTINGS}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.SETTINGS)
        return f"{type(self).__name__}({settings})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def cost(size: int, longest: int, new_tokens: int) -> int:
    """Return the cost of a batch in tokens: padded prompts plus the answers' room."""
    return size * (longest + new_tokens)


def plan_batches(lengths: IntArray, batch_tokens: int, new_tokens: int) -> list[IntArray]:
    """Return batches of prompt numbers, the longest prompts first.

    Sorting by length keeps padding small; starting with the longest shows at once whether a batch
    fits into memory. The plan depends on the lengths alone (equal lengths keep their order).

    Args:
        lengths: tokens of each prompt; shape (n,).
        batch_tokens: the largest `cost` of a batch; a prompt above it gets a batch of its own.
        new_tokens: tokens that each answer may have.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches = []
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        size = max(1, batch_tokens // max(1, longest + new_tokens))
        batches.append(order[start : start + size].astype(np.int64))
        start += size
    return batches


def padded(rows: list[list[int]], filler: int | None, left: bool, device: Any) -> tuple[Any, Any]:
    """Return token ids and attention mask as tensors on a device, of shape (n_prompts, longest).

    Args:
        rows: the token ids of prompts.
        filler: the id of padding; None: 0.
        left: whether the padding stands before the prompts.
        device: the torch device.
    """
    import torch

    longest = max(len(row) for row in rows)
    ids = np.full((len(rows), longest), filler or 0, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), None) if left else slice(None, len(row))
        ids[number, place] = row
        mask[number, place] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def _unless_memory_runs_out(run: Callable[[IntArray], Any], batch: IntArray, device: Any) -> Any:
    import torch

    try:
        with torch.inference_mode():
            return run(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return None


def checked_sampling(temperature: Any, seed: Any, where: str) -> tuple[float, int]:
    """Return temperature (0 or above; 0: no sampling) and seed (an integer of at least 0)."""
    rule = "be a number of at least 0"
    heat = checks.number("temperature", temperature, where, rule=rule)
    return heat, checks.whole("seed", seed, where, least=0)


class GumbelNoise:
    """A logits processor that makes greedy choice a draw from the softmax at a temperature.

    argmax(z / T + g) with g of the standard Gumbel distribution has the probabilities softmax(z /
    T) (Gumbel 1954; Maddison, Tarlow & Minka 2014, "A* Sampling", section 2). Each prompt, given
    by its token ids, has a stream of its own, so that an answer is the same whatever else is in
    its batch.
    """

    def __init__(self, temperature: float, seed: int, prompts: Sequence[Sequence[int]]) -> None:
        self.temperature = temperature
        self.streams = [
            np.random.default_rng(int(digest([seed, list(prompt)], 16), 16)) for prompt in prompts
        ]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores of the next token, (prompts, vocabulary), with noise."""
        import torch

        del input_ids
        noise = np.stack([stream.gumbel(size=scores.shape[1]) for stream in self.streams])
        return scores.float() / self.temperature + torch.from_numpy(noise).to(scores.device)


# Set over the sampling defaults that a model's generation_config.json may have.
_NO_SAMPLING: dict[str, Any] = {
    "do_sample": False,
    "max_length": None,
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p")),
}


@dataclass(eq=False, repr=False)
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
        batch_tokens: the most tokens of a batch, padding and room for the answers included; None:
            4,096 on a CPU, 262,144 on CUDA. Halved, and the batch tried again, when memory runs
            out.
        revision: branch, tag or commit on the hub; None for its default.

    Raises:
        ParameterError: a setting is out of its range.
    """

    COUNTS = ("num_beams", "max_new_tokens", "max_prompt_tokens", "batch_tokens")

    samples: ClassVar[bool] = True
    """Whether `stream` takes a temperature."""

    PADDED: ClassVar[str]
    """The side of prompts where padding stands: answers go on where a decoder's prompts end."""

    model: str
    _: KW_ONLY
    device: str = "auto"
    dtype: str = "auto"
    num_beams: int = 4
    max_new_tokens: int = 128
    max_prompt_tokens: int | None = None
    batch_tokens: int | None = None
    revision: str | None = None

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
            answer_of = dict(itertools.chain.from_iterable(self.stream(distinct)))
        except PromptLengthError as error:
            error.index = list(prompts).index(distinct[error.index])
            raise
        answers = {distinct[number]: text for number, text in answer_of.items()}
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
        limit = self._limit
        too_long = [number for number, row in enumerate(tokens) if len(row) > limit]
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

        for batch, texts in self._in_batches(
            lengths,
            self.max_new_tokens,
            lambda batch: run([tokens[i] for i in batch]),
            "use a smaller model, fewer beams, a smaller max_new_tokens, or dtype='bfloat16'",
        ):
            yield [(i, text.strip()) for i, text in zip(batch.tolist(), texts, strict=True)]

    @property
    def _limit(self) -> int:
        """The most tokens that are generated from, those around a prompt included."""
        # The published code cuts prompts at the window and puts T5's </s> behind that.
        window = self.tokenizer.model_max_length
        special = self.tokenizer.num_special_tokens_to_add()
        spare = special if self._positions is None else self._positions - window
        return window + max(0, min(special, spare))

    # What a kind of model decides -------------------------------------------------------------

    @abstractmethod
    def _longest_prompt(self, declared: int | None) -> int | None:
        """Return the window, given the tokenizer's own ``model_max_length``."""

    @abstractmethod
    def _encode(self, prompts: Sequence[Any]) -> list[list[int]]:
        """Return the token ids of prompts, special tokens included, never cut."""

    def _inputs(self, ids: Any, mask: Any) -> dict[str, Any]:
        """Return what the model generates from, for padded prompts as tensors."""
        return {"input_ids": ids, "attention_mask": mask}

    # Loading ----------------------------------------------------------------------------------

    @cached_property
    def _model(self) -> Any:
        from transformers import GenerationConfig

        model = super()._model
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

    def _generate(self, rows: list[list[int]], noise: GumbelNoise | None) -> list[str]:
        from transformers import LogitsProcessorList

        left = self.PADDED == "left"
        ids, mask = padded(rows, self._tokenizer.pad_token_id, left, self._device)
        sampling: dict[str, Any] = {}
        if noise is not None:
            sampling = {"num_beams": 1, "logits_processor": LogitsProcessorList([noise])}
        output = self._model.generate(**self._inputs(ids, mask), **sampling)
        texts: list[str] = self._tokenizer.batch_decode(
            output[:, ids.shape[1] if left else 0 :].cpu(), skip_special_tokens=True
        )
        return texts


HuggingFaceBackend.SETTINGS = tuple(field.name for field in fields(HuggingFaceBackend))


@dataclass(eq=False, repr=False, kw_only=True)
class HuggingFaceCausal(HuggingFaceBackend):
    """A decoder-only model from the hub or a folder; greedy by default (``num_beams=1``).

    A prompt is put into the tokenizer's chat template, if it has one, as the user's message; a chat
    (`chats` says whether it is taken) with its roles, the system's message before the user's where
    the template has no place for it. The answer is what the model adds. The window is the model's
    context less ``max_new_tokens`` and the template's own tokens.

    See `HuggingFaceBackend` for the settings.
    """

    identity_name = "fairtk.HuggingFaceCausal"
    output_version = 1

    AUTO = "AutoModelForCausalLM"
    PADDED = "left"

    num_beams: int = 1

    def _longest_prompt(self, declared: int | None) -> int | None:
        windows = [size for size in (declared, self._positions) if size]
        if not windows:
            return None
        return max(1, min(windows) - self.max_new_tokens - self._template_tokens)

    @property
    def _limit(self) -> int:
        return super()._limit + self._template_tokens

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

        messages = [("user", prompt)] if isinstance(prompt, str) else prompt
        system = "\n\n".join(content for role, content in messages if role == "system")
        try:
            text = self._filled(messages)
        except TemplateError:  # some templates refuse the system's role
            text = ""
            if not system:
                raise
        if system.strip() not in text:  # and some leave it out silently
            rest = [(role, content) for role, content in messages if role != "system"]
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


class HuggingFaceSeq2Seq(HuggingFaceBackend):
    """An encoder-decoder model from the hub or a folder; beam search with 4 beams.

    The prompt's window is the tokenizer's ``model_max_length`` (512 for T5), or else the model's
    ``max_position_embeddings`` or ``n_positions``. T5's positions are relative, so a larger
    ``max_prompt_tokens`` works there, at the price of lengths not seen in training.

    See `HuggingFaceBackend` for the settings.
    """

    identity_name = "fairtk.HuggingFaceSeq2Seq"
    output_version = 1

    AUTO = "AutoModelForSeq2SeqLM"
    PADDED = "right"

    def _longest_prompt(self, declared: int | None) -> int | None:
        positions = self._positions or getattr(self._config, "n_positions", None)
        return declared or positions

    def _encode(self, prompts: Sequence[Any]) -> list[list[int]]:
        return self.tokenizer.encode(prompts)

    @cached_property
    def _shares_beams(self) -> bool:
        return shares_beams(self._model)

    def _inputs(self, ids: Any, mask: Any) -> dict[str, Any]:
        if not self._shares_beams:
            return super()._inputs(ids, mask)
        return shared(self._model, ids, mask)
