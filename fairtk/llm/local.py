"""Local chat models: Hugging Face models, any object that generates, and rules without a model."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from fairtk import checks
from fairtk.errors import FormatError, InputError, ParameterError, did_you_mean
from fairtk.frames import EqualByContent, digest
from fairtk.frames.texts import words
from fairtk.io.lines import text_lines
from fairtk.llm.backends import FAILED, Backend, NoAnswerError, PromptLengthError, as_backend, texts
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Outcome, questions
from fairtk.llm.hugging_face import HuggingFaceBackend, HuggingFaceCausal, checked_sampling

# They affect speed and location, not answers.
_NOT_ABOUT_ANSWERS = ("device", "batch_tokens", "model", "revision")
_TOGETHER = 512  # prompts


class LocalChat(ChatModel):
    """A chat model that calls a generation backend.

    A model with a chat template gets the messages with their roles; other models get the messages
    as one text. Hugging Face models sample at a temperature above 0, and an answer depends only on
    the seed and the prompt. For other backends the temperature has no effect. A prompt that exceeds
    the model's window is a `Failure`.

    Args:
        backend: a `fairtk.llm.Backend` such as ``HuggingFaceCausal("...")``, a pyterrier_rag
            backend, or a function from a list of prompts to a list of answers. A ledger identifies
            a function or a third-party backend by its name, so choose a specific one.
        temperature: the temperature of the sampling; 0 for no sampling. `fairtk.FairQR` sets the
            paper's 0.3.
        seed: the seed of the sampling.

    Raises:
        ParameterError: the object cannot generate, or a setting is out of its range.
    """

    identity_name = "fairtk.LocalChat"
    output_version = 1

    def __init__(self, backend: Any, temperature: float = 0.0, seed: int = 42) -> None:
        self.backend: Backend = as_backend(backend)
        self.temperature, self.seed = checked_sampling(temperature, seed, "LocalChat")

    @property
    def local(self) -> bool:
        """Whether the model runs in this process; other backends may call servers."""
        return isinstance(self.backend, HuggingFaceBackend)

    @property
    def samples(self) -> bool:
        """Whether the backend can sample."""
        return isinstance(self.backend, HuggingFaceBackend) and self.backend.samples

    def at_temperature(self, temperature: float) -> LocalChat:
        """Return the same model, loaded once, at another temperature."""
        if not self.samples or temperature == self.temperature:
            return self
        return LocalChat(self.backend, temperature, self.seed)

    @property
    def name(self) -> str:
        """The backend's name."""
        return str(self.backend.name)

    @property
    def tokenizer(self) -> Any:
        """The backend's tokenizer."""
        return self.backend.tokenizer

    def parameters(self) -> dict[str, Any]:
        """Return the backend's class, the digest of its files, and its settings.

        Settings that do not affect answers are omitted.

        Raises:
            ModelError: the files cannot be found.
        """
        backend = self.backend
        names = getattr(backend, "SETTINGS", ("max_prompt_tokens",))
        settings = {n: getattr(backend, n, None) for n in names if n not in _NOT_ABOUT_ANSWERS}
        content = getattr(backend, "content_digest", None)
        files = {"content": content()} if callable(content) else {}
        sampling = {"temperature": self.temperature, "seed": self.seed}
        parameters = {"backend": type(backend).__name__, **files, **settings}
        return parameters | (sampling if self.temperature else {})

    def digest(self) -> str:
        """Return a digest of the model; functions and third-party backends count by identity."""
        inner = getattr(self.backend, "digest", None)
        return f"{super().digest()}{inner() if callable(inner) else ''}"

    def __repr__(self) -> str:
        sampling = f", temperature={self.temperature}, seed={self.seed}" * bool(self.temperature)
        return f"LocalChat({self.backend!r}{sampling})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they are generated, in the backend's batches.

        Raises:
            ModelError: the model cannot be loaded.
        """
        takes_chats = isinstance(self.backend, HuggingFaceCausal) and self.backend.chats
        numbered = enumerate(tuple(chat.messages) if takes_chats else chat.text for chat in chats)
        # in parts, so that a ledger stores the answers of each part
        while prompts := dict(itertools.islice(numbered, _TOGETHER)):
            yield from self._generated(prompts)

    def _generated(self, prompts: dict[int, Any]) -> Iterator[tuple[int, Outcome]]:
        while prompts:
            indices = list(prompts)
            batches = self._batches([prompts[index] for index in indices])
            while True:
                begin = time.perf_counter()
                try:
                    batch = next(batches, None)
                except PromptLengthError as error:  # try the others without it
                    del prompts[indices[error.index]]
                    yield indices[error.index], Failure(str(error))
                    break
                if batch is None:
                    return
                seconds = (time.perf_counter() - begin) / len(batch)
                for number, answer in batch:
                    index = indices[number]
                    yield index, self._outcome(prompts[index], answer, seconds)

    def _batches(self, prompts: list[Any]) -> Iterator[list[tuple[int, str]]]:
        """Yield lists of (index of the prompt, answer) pairs, one list per batch."""
        if isinstance(self.backend, HuggingFaceBackend):
            yield from self.backend.stream(prompts, self.temperature, self.seed)
        else:
            answers = texts(self.backend.generate(prompts), len(prompts), self.name, failed=True)
            yield list(enumerate(answers))

    def _outcome(self, prompt: Any, answer: str, seconds: float) -> Outcome:
        if answer in FAILED:
            return Failure(f"{self.name!r}: the call failed ({answer})")
        text = prompt if isinstance(prompt, str) else "\n\n".join(text for _, text in prompt)
        return Completion(answer, self._count(text), self._count(answer), seconds)

    def _count(self, text: str) -> int | None:
        tokenizer = self.backend.tokenizer
        return None if tokenizer is None else len(tokenizer.tokenize(text))


def as_chat_model(model: Any) -> ChatModel:
    """Return a chat model for a chat model, a generation backend, or a function.

    Args:
        model: a `ChatModel`, which is returned as it is; any other object becomes a `LocalChat`.

    Raises:
        ParameterError: the object cannot generate.
    """
    if isinstance(model, str):
        raise ParameterError(
            f"llm must be a model, e.g. OpenAICompatible({model!r}), "
            f"LocalChat(HuggingFaceCausal({model!r})) or KeywordRefiner(), got {model!r}"
        )
    return model if isinstance(model, ChatModel) else LocalChat(model)


class ChatBackend(EqualByContent):
    """A `fairtk.llm.Backend` that sends each prompt to a chat model as the user's only message.

    Refusals and truncated answers are returned like any other answer.

    Args:
        model: the model, possibly behind a ledger.
    """

    identity_name = "fairtk.ChatBackend"
    output_version = 1

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self._answers: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def concurrency(self) -> int:
        """The maximum number of calls at a time."""
        return self.model.concurrency

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, `None` if prompts are never truncated."""
        return self.model.tokenizer

    def digest(self) -> str:
        """Return the model's digest."""
        return self.model.digest()

    def __repr__(self) -> str:
        return repr(self.model)

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order. Each distinct prompt is sent once.

        Raises:
            NoAnswerError: a call failed. The other answers are kept for the next attempt.
            LLMError: no call would succeed, or the budget is spent.
            OfflineError: an answer is missing, and the ledger is offline.
        """
        answer_of, prompts = self._answers, checks.listed("prompts", prompts)
        unanswered = [prompt for prompt in dict.fromkeys(prompts) if prompt not in answer_of]
        outcomes = self.model.complete(questions(unanswered))
        errors: dict[str, str] = {}
        for prompt, outcome in zip(unanswered, outcomes, strict=True):
            if not isinstance(outcome, Completion):
                errors[prompt] = outcome.reason
            elif outcome.finish == "unreadable":
                errors[prompt] = "the response of the server is not text"
            else:
                answer_of[prompt] = outcome.text.strip()
        if errors:
            first = next(index for index, prompt in enumerate(prompts) if prompt in errors)
            raise NoAnswerError(
                f"no answer to {len(errors)} of {len(set(prompts))} prompts (the first: "
                f"{errors[prompts[first]]}); run again to retry only these",
                first,
            )
        answers = [answer_of[prompt] for prompt in prompts]
        answer_of.clear()
        return answers

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "_answers": {}}


Table = Mapping[str, Sequence[str]]

PACKAGED = Path(__file__).parent / "group_terms.tsv"
"""The packaged table. To change it, edit a copy and pass its path."""


class KeywordRefiner(ChatModel):
    """A deterministic refiner that adds terms of the group from a table, without a model.

    It is a free baseline. Each step adds the next terms, in the table's order, that are not in the
    query yet. A few words are a crude picture of a group, so read the table before you interpret a
    result. If the terms resemble the rules that labeled a collection, they retrieve the documents
    that these rules labeled.

    Args:
        table: a TSV file with a header line and the columns ``group`` and ``term``, or a mapping
            from group to terms. `None` for the packaged table (`fairtk.llm.local.PACKAGED`), with
            the genders and the 20 regions of TREC Fair Ranking 2022.
        terms: the number of terms to add in one step, at least 1.

    Raises:
        ParameterError: `terms` is below 1.
        FormatError: the file is not such a table.
    """

    identity_name = "fairtk.KeywordRefiner"
    output_version = 1
    free: ClassVar[bool] = True
    reads_facts: ClassVar[bool] = True

    def __init__(self, table: str | PathLike[str] | Table | None = None, terms: int = 3) -> None:
        self.terms = checks.integer("terms", terms, "KeywordRefiner")
        if isinstance(table, Mapping):
            self.table: dict[str, tuple[str, ...]] = {
                str(group): tuple(str(term) for term in terms) for group, terms in table.items()
            }
        else:
            self.table = read_table(PACKAGED if table is None else table)

    @property
    def name(self) -> str:
        """``"keyword-refiner"``."""
        return "keyword-refiner"

    def parameters(self) -> dict[str, Any]:
        """Return the number of terms and a digest of the table."""
        return {"terms": self.terms, "table": self._table_digest}

    @cached_property
    def _table_digest(self) -> str:
        return digest(self.table)

    def __repr__(self) -> str:
        return f"KeywordRefiner({len(self.table)} groups #{self._table_digest[:8]}, {self.terms})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the refined keywords of each chat, as a JSON list.

        Raises:
            InputError: a chat does not come from a refinement prompt, or its group is missing from
                the table.
        """
        for index, chat in enumerate(chats):
            if not {"keywords", "group"} <= set(chat.facts):
                raise InputError(
                    "KeywordRefiner: expected a refinement prompt with the facts 'keywords' and "
                    f"'group', got {sorted(chat.facts)}"
                )
            keywords = words(str(chat.facts["keywords"]))
            added = self._next_terms(keywords, chat.facts["group"])
            # a list, so that a long query is not read as a sentence
            yield index, Completion(json.dumps([*keywords, *added], ensure_ascii=False), 0, 0, 0.0)

    def _next_terms(self, keywords: Sequence[str], group: Sequence[str]) -> list[str]:
        present = {word.lower() for word in keywords}
        added = []
        for part in group:
            if part not in self.table:
                raise InputError(
                    f"KeywordRefiner: unknown group {part!r}{did_you_mean(part, self.table)} (to "
                    f"add terms, pass a copy of {PACKAGED.name} as table)"
                )
            new = [t for t in self.table[part] if not set(t.lower().split()) <= present]
            added += new[: self.terms]
        return added


_HEADER = "the first line must be 'group', a tab, 'term'"


def read_table(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return the terms of each group, in the file's order.

    Args:
        path: a TSV file (UTF-8) with the columns ``group`` and ``term``. Lines that begin with
            ``#`` are comments.

    Raises:
        InputError: the file cannot be opened.
        FormatError: a line is not UTF-8 or has no group or term. The error names the line.
    """
    terms_of: dict[str, list[str]] = {}
    header = False
    for number, line in text_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        row = line.rstrip("\r\n").split("\t")
        if not header:
            header = row == ["group", "term"]
            if not header:
                raise FormatError(_HEADER, path, number)
        elif len(row) != 2 or not row[0].strip() or not row[1].strip():
            raise FormatError(f"expected group, tab, term, got {row!r}", path, number)
        else:
            terms_of.setdefault(row[0].strip(), []).append(row[1].strip())
    if not header:
        raise FormatError(_HEADER, path, 1)
    return {group: tuple(dict.fromkeys(terms)) for group, terms in terms_of.items()}
