"""Generation backends: prompts in, answers in the same order out; a function or object that
generates is one.
"""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from fairtk.errors import FairtkError, InputError, ParameterError
from fairtk.frames import ByContent, digest

UNLIMITED = 10**30
"""The window of a model without one, as Hugging Face tokenizers write it."""

REMEMBERED = 2**24
"""The most tokens that are remembered: of some fifty thousand prompts, in 64 MB."""


def declared_window(tokenizer: Any) -> int | None:
    """Return a Hugging Face tokenizer's ``model_max_length``, or None if it has none."""
    window = getattr(tokenizer, "model_max_length", None)
    return None if window is None or window >= 10**9 else int(window)


class PromptTokenizer:
    """Counts like the wrapped Hugging Face tokenizer, but with the backend's window.

    The wrapped tokenizer is not changed, and does not warn about texts that are counted only to
    be cut. What was counted to fit a prompt is remembered for when it is generated from. The
    window counts special tokens, too.
    """

    def __init__(self, tokenizer: Any, model_max_length: int) -> None:
        self.wrapped = tokenizer
        self.model_max_length = model_max_length
        self._quiet = {"verbose": False} if hasattr(tokenizer, "backend_tokenizer") else {}
        self._known: dict[str, array[int]] = {}
        self._remembered = 0

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens."""
        tokens: list[str] = self.wrapped.tokenize(text, **self._quiet)
        return tokens

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, special tokens included, never cut."""
        # each alone: a text's tokens do not depend on others
        return [list(self._ids(text)) for text in texts]

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special tokens."""
        if not self._quiet:  # may do no more than tokenize
            return len(self.tokenize(text))
        return len(self._ids(text)) - self.num_special_tokens_to_add()

    def _ids(self, text: str) -> array[int]:
        ids = self._known.get(text)
        if ids is None:
            ids = self._known[text] = array("i", self._encoded(text))
            self._remembered += len(ids)
            while self._remembered > REMEMBERED:  # the oldest goes first
                self._remembered -= len(self._known.pop(next(iter(self._known))))
        return ids

    def _encoded(self, text: str) -> list[int]:
        # A call leaves the tokenizer below without truncation and padding. From then on that one
        # is asked, which gives the same ids in two thirds of the time: it skips offsets.
        below = getattr(self.wrapped, "backend_tokenizer", None)
        if below is not None and below.truncation is None and below.padding is None:
            ids: list[int] = below.encode_batch_fast([text])[0].ids
            return ids
        # return_token_type_ids=False is not enough for every tokenizer: only the ids are taken
        encoded = self.wrapped(text, truncation=False, padding=False, verbose=False)
        return list(encoded["input_ids"])

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the text of tokens."""
        text: str = self.wrapped.convert_tokens_to_string(tokens)
        return text

    def num_special_tokens_to_add(self) -> int:
        """Return how many special tokens are put around a prompt."""
        special = getattr(self.wrapped, "num_special_tokens_to_add", None)
        return int(special()) if callable(special) else 0


class Backend(Protocol):
    """Turns prompts into answers.

    `generate` must be deterministic, give one answer per prompt in the order of the prompts, and
    may be called with repeated prompts. A backend that is printed with all its settings makes
    transformers that use it comparable.
    """

    @property
    def name(self) -> str:
        """A short name for messages, e.g. the model's."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that prompts are measured by, or None when prompts are never cut."""

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order."""


class PromptLengthError(InputError):
    """A prompt is longer than the model takes.

    Attributes:
        index: the place of the (first such) prompt in the list that `Backend.generate` got.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class NoAnswerError(FairtkError):
    """The call for one of several prompts failed.

    Attributes:
        index: the place of the first such prompt.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


_MISSING = object()
_PARTS = ("name", "tokenizer")


class CallableBackend(ByContent):
    """A function from a list of prompts to a list of answers.

    Each distinct prompt is handed over once per call. Two such backends are equal when they wrap
    the same function with the same settings.

    Args:
        function: takes a list of prompts, returns one answer per prompt: a string, or an object
            with the answer in ``text`` (pyterrier_rag's ``BackendOutput``).
        name: for messages; None for the function's own.
        tokenizer: a Hugging Face tokenizer that prompts are measured by; None: prompts are not
            cut, and ``truncate="fair-rag"`` cannot be used.
        max_prompt_tokens: the most tokens of a prompt; None for the tokenizer's.
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
            raise ParameterError(f"CallableBackend needs a function; found {function!r}")
        self.function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))
        self.max_prompt_tokens = max_prompt_tokens
        self._tokenizer = tokenizer

    @property
    def tokenizer(self) -> Any:
        """The tokenizer with the prompt's window, or None."""
        if self._tokenizer is None or self.max_prompt_tokens is None:
            return self._tokenizer
        return PromptTokenizer(self._tokenizer, self.max_prompt_tokens)

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order, without surrounding white space."""
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
        """Return a digest of the very objects that are wrapped, and the settings.

        Identity, not `repr`: two objects that print alike may generate differently.
        """
        function = self.function
        owner, method = getattr(function, "__self__", function), getattr(function, "__name__", "")
        return digest([id(owner), method, self.name, id(self._tokenizer), self.max_prompt_tokens])


FAILED = frozenset({"ERROR::reduce_length", "ERROR::response_filtered", "ERROR::other"})
"""What pyterrier_rag's backends give in place of an answer when a call fails."""


def texts(outputs: Iterable[Any], expected: int, name: str, failed: bool = False) -> list[str]:
    """Return the outputs of a backend as strings, one per prompt.

    Args:
        outputs: what the backend returned.
        expected: how many prompts there were.
        name: of the backend.
        failed: whether `FAILED` may be among them.

    Raises:
        InputError: there are more or fewer outputs than prompts, or one has no text.
        NoAnswerError: a call failed.
    """
    if isinstance(outputs, str | bytes):  # its characters would pass for answers
        raise InputError(
            f"the backend {name!r} must return a list with one answer per prompt; found the text "
            f"{outputs[:40]!r}"
        )
    answers = [getattr(output, "text", output) for output in outputs]
    if len(answers) != expected:
        raise InputError(
            f"the backend {name!r} must return one answer per prompt: got {len(answers)} answers "
            f"for {expected} prompts"
        )
    for text in answers:
        if not isinstance(text, str):
            raise InputError(
                f"the backend {name!r} must return strings (or objects with a string in `text`); "
                f"found {text!r}"
            )
    lost = [index for index, text in enumerate(answers) if text in FAILED and not failed]
    if lost:
        raise NoAnswerError(
            f"{len(lost)} of {expected} calls to the backend {name!r} failed "
            f"({answers[lost[0]]}; pyterrier_rag printed why)",
            lost[0],
        )
    return answers


def as_backend(generator: Any) -> Backend:
    """Return a backend for a backend, a pyterrier_rag backend, or a function.

    An object with `name`, `tokenizer` and ``generate(prompts)`` is used as it is. A function, an
    object with ``generate`` alone, and pyterrier_rag's backends (known by ``max_input_length``,
    where they cut prompts silently, and not told apart by how they print) are wrapped in a
    `CallableBackend`, so that prompts are built to fit.

    Raises:
        ParameterError: the object cannot generate.
    """
    generate = getattr(generator, "generate", None)
    if isinstance(generator, type) or not (callable(generate) or callable(generator)):
        raise ParameterError(
            "backend must be an object with generate(prompts) or a function from prompts to "
            f"answers; found {generator!r} (FlanT5(model=...) takes the name of a model)"
        )
    if not callable(generate):
        return CallableBackend(generator)
    # looked up statically: the attribute itself may load a tokenizer
    whole = all(inspect.getattr_static(generator, a, _MISSING) is not _MISSING for a in _PARTS)
    limit = getattr(generator, "max_input_length", _MISSING)
    if whole and limit is _MISSING:
        backend: Backend = generator
        return backend
    return CallableBackend(
        generate,
        name=str(getattr(generator, "model_id", type(generator).__name__)),
        tokenizer=getattr(generator, "tokenizer", None),
        max_prompt_tokens=limit if isinstance(limit, int) else None,
    )
