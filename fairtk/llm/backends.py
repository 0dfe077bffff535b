"""Anything that generates, as a backend: a function, or an object such as pyterrier_rag's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from fairtk.backends.protocol import Backend, NoAnswerError
from fairtk.backends.window import PromptTokenizer
from fairtk.errors import InputError, ParameterError
from fairtk.frames.content import ByContent, digest

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

    identity_name: ClassVar[str] = "fairtk.backends.adapter.CallableBackend"
    """As in the keys of answers that are kept; never changed."""

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
        self._given = tokenizer

    @property
    def tokenizer(self) -> Any:
        """The tokenizer with the prompt's window, or None."""
        if self._given is None or self.max_prompt_tokens is None:
            return self._given
        return PromptTokenizer(self._given, self.max_prompt_tokens)

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
            f"tokenizer={type(self._given).__name__}, max_prompt_tokens={self.max_prompt_tokens})"
        )

    def digest(self) -> str:
        """Return a digest of the very objects that are wrapped, and the settings.

        Identity, not `repr`: two objects that print alike may generate differently.
        """
        function = self.function
        owner, method = getattr(function, "__self__", function), getattr(function, "__name__", "")
        return digest([id(owner), method, self.name, id(self._given), self.max_prompt_tokens])


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
    found = [getattr(output, "text", output) for output in outputs]
    if len(found) != expected:
        raise InputError(
            f"the backend {name!r} must return one answer per prompt: got {len(found)} answers "
            f"for {expected} prompts"
        )
    for text in found:
        if not isinstance(text, str):
            raise InputError(
                f"the backend {name!r} must return strings (or objects with a string in `text`); "
                f"found {text!r}"
            )
    lost = [index for index, text in enumerate(found) if text in FAILED and not failed]
    if lost:
        raise NoAnswerError(
            f"{len(lost)} of {expected} calls to the backend {name!r} failed "
            f"({found[lost[0]]}; pyterrier_rag printed why)",
            lost[0],
        )
    return found


def as_backend(given: Any) -> Backend:
    """Return a backend for a backend, a pyterrier_rag backend, or a function.

    An object with `name`, `tokenizer` and ``generate(prompts)`` is used as it is. A function, an
    object with ``generate`` alone, and pyterrier_rag's backends (known by ``max_input_length``,
    where they cut prompts silently, and not told apart by how they print) are wrapped in a
    `CallableBackend`, so that prompts are built to fit.

    Raises:
        ParameterError: the object cannot generate.
    """
    generate = getattr(given, "generate", None)
    if isinstance(given, type) or not (callable(generate) or callable(given)):
        raise ParameterError(
            "backend must be an object with generate(prompts) or a function from prompts to "
            f"answers; found {given!r} (FlanT5(model=...) takes the name of a model)"
        )
    if not callable(generate):
        return CallableBackend(given)
    # looked up statically: the attribute itself may load a tokenizer
    whole = all(inspect.getattr_static(given, a, _MISSING) is not _MISSING for a in _PARTS)
    limit = getattr(given, "max_input_length", _MISSING)
    if whole and limit is _MISSING:
        backend: Backend = given
        return backend
    return CallableBackend(
        generate,
        name=str(getattr(given, "model_id", type(given).__name__)),
        tokenizer=getattr(given, "tokenizer", None),
        max_prompt_tokens=limit if isinstance(limit, int) else None,
    )
