"""Models of this machine, and any object that generates, as chat models."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any

from fairtk.backends import Backend, PromptLengthError, as_backend
from fairtk.backends.adapter import FAILED, texts
from fairtk.errors import ParameterError
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Outcome

# They change speed and place, not answers.
_NOT_ABOUT_ANSWERS = ("device", "batch_tokens", "model", "revision")
_TOGETHER = 512  # prompts


class LocalChat(ChatModel):
    """A generation backend as a chat model: Hugging Face models, pyterrier_rag's, functions.

    The messages of a chat are put below each other to one prompt (a decoder-only model's chat
    template is then put around it, as the user's message). Backends here do not sample, so a
    temperature changes nothing. A prompt that is longer than the model takes is a `Failure`.

    Args:
        backend: a `fairtk.backends.Backend` such as ``HuggingFaceCausal("...")``, a pyterrier_rag
            backend, or a function from a list of prompts to a list of answers. A ledger knows a
            function or a foreign backend by its name alone, so name it by what it does.

    Raises:
        ParameterError: the object cannot generate.
    """

    def __init__(self, backend: Any) -> None:
        self.backend: Backend = as_backend(backend)

    @property
    def name(self) -> str:
        """The backend's name."""
        return str(self.backend.name)

    @property
    def tokenizer(self) -> Any:
        """The backend's tokenizer."""
        return self.backend.tokenizer

    def parameters(self) -> dict[str, Any]:
        """Return the backend's class, the digest of the model's files if it has them, and the
        settings, less those that only speed depends on.

        Raises:
            ModelError: the files cannot be found.
        """
        backend = self.backend
        settings = getattr(backend, "SETTINGS", ("max_prompt_tokens",))
        kept = {n: getattr(backend, n, None) for n in settings if n not in _NOT_ABOUT_ANSWERS}
        content = getattr(backend, "content_digest", None)
        files = {"content": content()} if callable(content) else {}
        return {"backend": type(backend).__name__, **files, **kept}

    def digest(self) -> str:
        """Return a digest of the model; a function or foreign backend counts by identity."""
        inner = getattr(self.backend, "digest", None)
        return f"{super().digest()}{inner() if callable(inner) else ''}"

    def __repr__(self) -> str:
        return f"LocalChat({self.backend!r})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome per chat; many are generated together, in the backend's batches.

        Raises:
            ModelError: the model cannot be loaded.
        """
        numbered = enumerate(chat.text for chat in chats)
        # a ledger keeps what is there after each part
        while prompts := dict(itertools.islice(numbered, _TOGETHER)):
            yield from self._generated(prompts)

    def _generated(self, prompts: dict[int, str]) -> Iterator[tuple[int, Outcome]]:
        while prompts:
            places = list(prompts)
            begin = time.perf_counter()
            try:
                outputs = self.backend.generate([prompts[place] for place in places])
                answers = texts(outputs, len(places), self.name, failed=True)
            except PromptLengthError as error:
                # the others are tried without it
                place = places[error.index]
                del prompts[place]
                yield place, Failure(str(error))
                continue
            each = (time.perf_counter() - begin) / len(places)
            for place, answer in zip(places, answers, strict=True):
                if answer in FAILED:
                    yield place, Failure(f"{self.name!r}: the call failed ({answer})")
                    continue
                asked, told = self._count(prompts[place]), self._count(answer)
                yield place, Completion(answer, asked, told, each)
            return

    def _count(self, text: str) -> int | None:
        tokenizer = self.backend.tokenizer
        return None if tokenizer is None else len(tokenizer.tokenize(text))


def as_chat_model(given: Any) -> ChatModel:
    """Return a chat model for a chat model, a generation backend, or a function.

    Args:
        given: a `ChatModel` is used as it is; all else becomes a `LocalChat`.

    Raises:
        ParameterError: the object cannot generate.
    """
    if isinstance(given, str):
        raise ParameterError(
            "llm must be a model, e.g. KeywordRefiner(), OpenAICompatible(name) or "
            f"LocalChat(HuggingFaceCausal(name)); found the text {given!r}"
        )
    return given if isinstance(given, ChatModel) else LocalChat(given)
