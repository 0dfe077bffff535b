"""Generation backends, which return one answer per prompt."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from fairtk import checks
from fairtk.errors import FairtkError, InputError, ParameterError
from fairtk.frames import EqualByContent, digest

UNLIMITED = 10**30
"""The ``model_max_length`` of Hugging Face tokenizers that have no limit."""

MAX_CACHED = 2**24
"""The maximum number of cached tokens: about fifty thousand prompts, in 64 MB."""


def declared_window(tokenizer: Any) -> int | None:
    """Return a Hugging Face tokenizer's ``model_max_length``, `None` if it has no limit."""
    window = getattr(tokenizer, "model_max_length", None)
    return None if window is None or window >= 10**9 else int(window)


class PromptTokenizer:
    """A Hugging Face tokenizer with the backend's window, special tokens included.

    The wrapped tokenizer is not changed, and does not warn about long texts. The tokens of a
    prompt that was counted are cached for its generation.
    """

    def __init__(self, tokenizer: Any, model_max_length: int) -> None:
        self.wrapped = tokenizer
        self.model_max_length = model_max_length
        self._quiet = {"verbose": False} if hasattr(tokenizer, "backend_tokenizer") else {}
        self._known: dict[str, array[int]] = {}
        self._n_cached = 0

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens."""
        tokens: list[str] = self.wrapped.tokenize(text, **self._quiet)
        return tokens

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, special tokens included, never truncated."""
        # one by one: a text's tokens do not depend on the others
        return [list(self._ids(text)) for text in texts]

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special tokens."""
        if not self._quiet:  # such a tokenizer may have no other method
            return len(self.tokenize(text))
        return len(self._ids(text)) - self.num_special_tokens_to_add()

    def _ids(self, text: str) -> array[int]:
        ids = self._known.get(text)
        if ids is None:
            ids = self._known[text] = array("i", self._encoded(text))
            self._n_cached += len(ids)
            while self._n_cached > MAX_CACHED:  # the oldest first
                self._n_cached -= len(self._known.pop(next(iter(self._known))))
        return ids

    def _encoded(self, text: str) -> list[int]:
        # The first call turns off truncation and padding in the fast tokenizer. From then on it is
        # called directly: it gives the same ids in two thirds of the time, as it skips offsets.
        fast = getattr(self.wrapped, "backend_tokenizer", None)
        if fast is not None and fast.truncation is None and fast.padding is None:
            ids: list[int] = fast.encode_batch_fast([text])[0].ids
            return ids
        # not every tokenizer supports return_token_type_ids=False: take only the ids
        encoded = self.wrapped(text, truncation=False, padding=False, verbose=False)
        return list(encoded["input_ids"])

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the text of tokens."""
        text: str = self.wrapped.convert_tokens_to_string(tokens)
        return text

    def num_special_tokens_to_add(self) -> int:
        """Return the number of special tokens around a prompt."""
        special = getattr(self.wrapped, "num_special_tokens_to_add", None)
        return int(special()) if callable(special) else 0


class Backend(Protocol):
    """An object that turns prompts into answers.

    `generate` must be deterministic and accept repeated prompts. Transformers that use a backend
    can be compared if its `repr` contains all its settings.
    """

    @property
    def name(self) -> str:
        """A short name for messages, e.g. the name of the model."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that counts a prompt's tokens, `None` if prompts are never truncated."""

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order."""


class PromptLengthError(InputError):
    """A prompt is longer than the model's window.

    Attributes:
        index: the index of the first such prompt in the input of `Backend.generate`.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class NoAnswerError(FairtkError):
    """The calls for one or more prompts failed.

    Attributes:
        index: the index of the first such prompt.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


_MISSING = object()
_PARTS = ("name", "tokenizer")


class CallableBackend(EqualByContent):
    """A backend that calls a function with a list of prompts.

    Each distinct prompt is passed to the function once per call. Two backends are equal if they
    wrap the same function with the same settings.

    Args:
        function: takes a list of prompts, returns one answer per prompt: a string, or an object
            with the answer in ``text`` (pyterrier_rag's ``BackendOutput``).
        name: a name for messages; `None` for the function's name.
        tokenizer: a Hugging Face tokenizer that counts a prompt's tokens. `None` to never truncate
            prompts; ``truncate="fair-rag"`` is then not supported.
        max_prompt_tokens: the maximum number of tokens of a prompt; `None` for the tokenizer's.
    """

    identity_name = "fairtk.CallableBackend"
    output_version = 1

    def __init__(
        self,
        function: Callable[[list[str]], Iterable[Any]],
        name: str | None = None,
        tokenizer: Any = None,
        max_prompt_tokens: int | None = None,
    ) -> None:
        if not callable(function):
            raise ParameterError(f"CallableBackend: function must be callable, got {function!r}")
        if name is not None:
            checks.text("name", name, "CallableBackend")
        if max_prompt_tokens is not None:
            checks.integer("max_prompt_tokens", max_prompt_tokens, "CallableBackend")
        self.function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))
        self.max_prompt_tokens = max_prompt_tokens
        self._tokenizer = tokenizer

    @property
    def tokenizer(self) -> Any:
        """The tokenizer with the prompt's window, `None` if absent."""
        if self._tokenizer is None or self.max_prompt_tokens is None:
            return self._tokenizer
        return PromptTokenizer(self._tokenizer, self.max_prompt_tokens)

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order, without surrounding white space."""
        prompts = checks.listed("prompts", prompts, self.name)
        distinct = list(dict.fromkeys(prompts))
        if not distinct:
            return []
        answers = texts(self.function(distinct), len(distinct), self.name, failed=True)
        answer = dict(zip(distinct, (text.strip() for text in answers), strict=True))
        return [answer[prompt] for prompt in prompts]

    def __repr__(self) -> str:
        return (
            f"CallableBackend(function={self.function!r}, name={self.name!r}, "
            f"tokenizer={type(self._tokenizer).__name__}, "
            f"max_prompt_tokens={self.max_prompt_tokens})"
        )

    def digest(self) -> str:
        """Return a digest of the settings and the identity of the wrapped objects.

        Two objects with the same `repr` may generate different answers.
        """
        function = self.function
        owner, method = getattr(function, "__self__", function), getattr(function, "__name__", "")
        return digest([id(owner), method, self.name, id(self._tokenizer), self.max_prompt_tokens])


FAILED = frozenset({"ERROR::reduce_length", "ERROR::response_filtered", "ERROR::other"})
"""The outputs of pyterrier_rag's backends for failed calls."""


def texts(outputs: Iterable[Any], expected: int, name: str, failed: bool = False) -> list[str]:
    """Return the outputs of a backend as strings, one per prompt.

    Args:
        outputs: the backend's outputs.
        expected: the number of prompts.
        name: the name of the backend.
        failed: whether `FAILED` outputs are accepted.

    Raises:
        InputError: the number of outputs differs from that of prompts, or an output has no text.
        NoAnswerError: a call failed.
    """
    if isinstance(outputs, str | bytes):  # its characters would be taken for answers
        raise InputError(
            f"the backend {name!r} must return a list of answers, got the text {outputs[:40]!r}"
        )
    answers = [getattr(output, "text", output) for output in outputs]
    if len(answers) != expected:
        raise InputError(
            f"the backend {name!r} must return one answer per prompt, got {len(answers)} answers "
            f"for {expected} prompts"
        )
    for text in answers:
        if not isinstance(text, str):
            raise InputError(
                f"the backend {name!r} must return strings (or objects with a string in `text`), "
                f"got {text!r}"
            )
    failures = [index for index, text in enumerate(answers) if text in FAILED and not failed]
    if failures:
        raise NoAnswerError(
            f"{len(failures)} of {expected} calls to the backend {name!r} failed "
            f"({answers[failures[0]]}; pyterrier_rag printed why)",
            failures[0],
        )
    return answers


def as_backend(generator: Any) -> Backend:
    """Return a backend for a backend, a pyterrier_rag backend, or a function.

    An object with `name`, `tokenizer` and ``generate(prompts)`` is used as it is. A function, an
    object with only ``generate``, and pyterrier_rag's backends (recognized by
    ``max_input_length``) are wrapped in a `CallableBackend`. pyterrier_rag's backends truncate
    prompts without a warning, and their `repr` omits settings.

    Raises:
        ParameterError: the object cannot generate.
    """
    generate = getattr(generator, "generate", None)
    if isinstance(generator, type) or not (callable(generate) or callable(generator)):
        raise ParameterError(
            "backend must be a function from prompts to answers or an object with "
            f"generate(prompts), got {generator!r}; for the name of a model, use FlanT5(model=...)"
        )
    if not callable(generate):
        return CallableBackend(generator)
    # looked up statically: the attribute itself may load a tokenizer
    is_backend = all(
        inspect.getattr_static(generator, name, _MISSING) is not _MISSING for name in _PARTS
    )
    limit = getattr(generator, "max_input_length", _MISSING)
    if is_backend and limit is _MISSING:
        backend: Backend = generator
        return backend
    return CallableBackend(
        generate,
        name=str(getattr(generator, "model_id", type(generator).__name__)),
        tokenizer=getattr(generator, "tokenizer", None),
        max_prompt_tokens=limit if isinstance(limit, int) else None,
    )
