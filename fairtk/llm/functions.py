"""Functions, and objects that generate, as chat models."""

from __future__ import annotations

import inspect
import itertools
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.frames import digest
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Outcome
from fairtk.llm.tokenizers import PromptTokenizer
from fairtk.wording import short

FAILED = {
    "ERROR::reduce_length": "the prompt is too long",
    "ERROR::response_filtered": "the response was filtered",
    "ERROR::other": "the call failed",
}
"""The outputs of pyterrier_rag for failed calls, and what they mean."""

_FUNCTION = "CallableBackend"
"""The kind of model in the keys of stored answers of functions, which must not change."""

_TOGETHER = 512  # prompts per call of a function
_MISSING = object()
_PARTS = ("name", "tokenizer")


def _lambda_digest(function: Any) -> str:
    variables = [repr(cell.cell_contents) for cell in function.__closure__ or ()]
    defaults = repr(function.__defaults__), repr(function.__kwdefaults__)
    return digest([_code(function.__code__), variables, defaults])


def _code(code: types.CodeType) -> list[Any]:
    """Return what determines the results of code, except for global variables, as JSON values."""
    constants = [_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code.hex(), constants, code.co_names]


class FunctionModel(ChatModel):
    """A function from a list of prompts to a list of answers, as a model.

    The function gets each chat as one text. A ledger identifies it by `name`, so choose a specific
    one, which changes whenever answers change. Two models are equal if they have the same function
    and the same settings.

    Args:
        function: returns one answer per prompt: a string, a `Completion`, or another object with
            the answer in ``text`` (pyterrier_rag's ``BackendOutput``); or an object with such a
            method ``generate``.
        name: the name of the model; `None` for that of the function. A lambda without a name is
            identified by its code and the variables that it uses.
        tokenizer: a Hugging Face tokenizer that counts a prompt's tokens. `None` to never truncate
            prompts; ``truncate="fair-rag"`` is then not supported.
        max_prompt_tokens: the maximum number of tokens of a prompt; `None` for the tokenizer's.

    Attributes:
        source: the object with ``generate``, or the function.

    Raises:
        ParameterError: the function cannot be called, or a setting is out of its range.
    """

    identity_name = f"fairtk.{_FUNCTION}"
    output_version = 1

    def __init__(
        self,
        function: Callable[[list[str]], Iterable[Any]],
        name: str | None = None,
        tokenizer: Any = None,
        max_prompt_tokens: int | None = None,
    ) -> None:
        generate = getattr(function, "generate", function)
        if isinstance(function, type) or not callable(generate):
            raise ParameterError(
                "llm must be a model, a function from prompts to answers, or an object with "
                f"generate(prompts), got {short(function)}"
            )
        if name is not None:
            checks.text("name", name, "FunctionModel")
        if max_prompt_tokens is not None:
            checks.integer("max_prompt_tokens", max_prompt_tokens, "FunctionModel")
        self.source: Any = function
        self.function: Callable[[list[str]], Iterable[Any]] = generate
        self.max_prompt_tokens = max_prompt_tokens
        self._name = str(name or getattr(function, "__name__", type(function).__name__))
        is_lambda = name is None and self._name == "<lambda>"
        self._code = {"code": _lambda_digest(function)} if is_lambda else {}
        self._tokenizer = tokenizer

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def tokenizer(self) -> Any:
        """The tokenizer with the prompt's window, `None` if absent."""
        if self._tokenizer is None or self.max_prompt_tokens is None:
            return self._tokenizer
        return PromptTokenizer(self._tokenizer, self.max_prompt_tokens)

    @property
    def is_described_by_source(self) -> bool:
        """Whether the source has all parts of a model, and so identifies it."""
        return self.function is not self.source and _has_all_parts(self.source)

    def parameters(self) -> dict[str, Any]:
        """Return the kind of the model, the maximum number of tokens, and a lambda's digest."""
        kind = type(self.source).__name__ if self.is_described_by_source else _FUNCTION
        return {"backend": kind, "max_prompt_tokens": self.max_prompt_tokens, **self._code}

    def digest(self) -> str:
        """Return a digest of the source, or of the function and the settings.

        Two functions with the same `repr` may generate different answers.
        """
        if self.is_described_by_source:  # by its own digest, or by its `repr`
            return digest([super().digest(), self.source])
        owner = getattr(self.function, "__self__", self.function)
        method = getattr(self.function, "__name__", "")
        return digest([id(owner), method, self.name, id(self._tokenizer), self.max_prompt_tokens])

    def __repr__(self) -> str:
        if self.is_described_by_source:
            return repr(self.source)
        return (
            f"FunctionModel(function={self.source!r}, name={self.name!r}, "
            f"tokenizer={type(self._tokenizer).__name__}, "
            f"max_prompt_tokens={self.max_prompt_tokens})"
        )

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes of chats, up to 512 per call of the function.

        Raises:
            InputError: the function does not return one text per prompt.
        """
        numbered = iter(enumerate(chats))
        while part := list(itertools.islice(numbered, _TOGETHER)):
            begin = time.perf_counter()
            answers = self._answers([chat.text for _, chat in part])
            seconds = (time.perf_counter() - begin) / len(part)
            for (index, chat), answer in zip(part, answers, strict=True):
                yield index, self._outcome(chat, answer, seconds)

    def _answers(self, prompts: list[str]) -> list[str | Completion]:
        """Return one text or completion per prompt."""
        outputs: Any = self.function(prompts)
        where = f"the model {self.name!r}"
        batch = f"{len(prompts)} prompts, the first {prompts[0][:80]!r}"
        # the characters of a text would be taken for answers
        if isinstance(outputs, str | bytes) or not isinstance(outputs, Iterable):
            raise InputError(
                f"{where} must return a list of answers, got {outputs!r:.80} for {batch}"
            )
        answers: list[Any] = [
            output if isinstance(output, Completion) else getattr(output, "text", output)
            for output in outputs
        ]
        if len(answers) != len(prompts):
            raise InputError(
                f"{where} must return one answer per prompt, got {len(answers)} answers for {batch}"
            )
        for prompt, answer in zip(prompts, answers, strict=True):
            if not isinstance(answer, str | Completion):
                raise InputError(
                    f"{where} must return strings (or objects with a string in `text`), got "
                    f"{answer!r:.80} for the prompt {prompt[:80]!r}"
                )
        return answers

    def _outcome(self, chat: Chat, answer: str | Completion, seconds: float) -> Outcome:
        if isinstance(answer, Completion):
            return answer
        if answer in FAILED:
            reason = f"{self.name!r}: {FAILED[answer]} ({answer})"
            return Failure(reason, can_pass=answer == "ERROR::other")
        return Completion(answer, self._count(chat.text), self._count(answer), seconds)

    def _count(self, text: str) -> int | None:
        tokenizer = self.tokenizer
        return None if tokenizer is None else len(tokenizer.tokenize(text))


def _has_all_parts(source: Any) -> bool:
    # looked up statically: the attribute itself may load a tokenizer
    has = [inspect.getattr_static(source, name, _MISSING) is not _MISSING for name in _PARTS]
    is_foreign = hasattr(source, "max_input_length")  # pyterrier_rag's truncate without a warning
    return all(has) and not is_foreign


def as_chat_model(model: Any) -> ChatModel:
    """Return a chat model for a model, a function, or an object that generates.

    Args:
        model: a `ChatModel`, which is returned as it is; a function from a list of prompts to a
            list of answers; or an object with ``generate(prompts)``, such as pyterrier_rag's
            models, whose window is in ``max_input_length``.

    Raises:
        ParameterError: the object cannot generate.
    """
    if isinstance(model, ChatModel):
        return model
    if isinstance(model, str):
        raise ParameterError(
            f"llm must be a model, e.g. OpenAICompatible({model!r}), HuggingFaceCausal({model!r}), "
            f"HuggingFaceSeq2Seq({model!r}) or KeywordRefiner(), got {model!r}"
        )
    if isinstance(model, type) or not callable(getattr(model, "generate", None)):
        return FunctionModel(model)
    if _has_all_parts(model):
        return FunctionModel(model, str(model.name), model.tokenizer)
    limit = getattr(model, "max_input_length", None)
    return FunctionModel(
        model,
        str(model.model_id) if hasattr(model, "model_id") else None,
        getattr(model, "tokenizer", None),
        limit if isinstance(limit, int) else None,
    )
