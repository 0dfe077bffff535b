"""Chat models of this machine: local models, any object that generates, and rules in place of a
model.
"""

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
from fairtk.errors import FormatError, InputError, ParameterError, suggestion
from fairtk.frames import ByContent, digest
from fairtk.frames.texts import words
from fairtk.io.lines import text_lines
from fairtk.llm.backends import FAILED, Backend, NoAnswerError, PromptLengthError, as_backend, texts
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Outcome, questions
from fairtk.llm.hugging_face import HuggingFaceBackend, HuggingFaceCausal, checked_sampling

# They change speed and place, not answers.
_NOT_ABOUT_ANSWERS = ("device", "batch_tokens", "model", "revision")
_TOGETHER = 512  # prompts


class LocalChat(ChatModel):
    """A generation backend as a chat model: Hugging Face models, pyterrier_rag's, functions.

    A model with a chat template gets the messages with their roles; any other one prompt, the
    messages below each other. Hugging Face models sample at a temperature above 0; an answer
    depends on seed and prompt, not on what is asked beside it. Other backends do not sample, and a
    temperature changes nothing. A prompt that is longer than the model takes is a `Failure`. Each
    batch of answers is given as soon as it is there.

    Args:
        backend: a `fairtk.llm.Backend` such as ``HuggingFaceCausal("...")``, a pyterrier_rag
            backend, or a function from a list of prompts to a list of answers. A ledger knows a
            function or a foreign backend by its name alone, so name it by what it does.
        temperature: of the sampling; 0: none. `fairtk.FairQR` sets the paper's 0.3.
        seed: of the sampling.

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
        """Whether the model is of this machine; functions and foreign backends may ask others."""
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
        """Return the backend's class, the digest of the model's files if it has them, and the
        settings, less those that only speed depends on.

        Raises:
            ModelError: the files cannot be found.
        """
        backend = self.backend
        settings = getattr(backend, "SETTINGS", ("max_prompt_tokens",))
        own = {n: getattr(backend, n, None) for n in settings if n not in _NOT_ABOUT_ANSWERS}
        content = getattr(backend, "content_digest", None)
        files = {"content": content()} if callable(content) else {}
        sampling = {"temperature": self.temperature, "seed": self.seed}
        made = {"backend": type(backend).__name__, **files, **own}
        return made | (sampling if self.temperature else {})

    def digest(self) -> str:
        """Return a digest of the model; a function or foreign backend counts by identity."""
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
        whole = isinstance(self.backend, HuggingFaceCausal) and self.backend.chats
        numbered = enumerate(tuple(chat.messages) if whole else chat.text for chat in chats)
        # a ledger keeps what is there after each part
        while prompts := dict(itertools.islice(numbered, _TOGETHER)):
            yield from self._generated(prompts)

    def _generated(self, prompts: dict[int, Any]) -> Iterator[tuple[int, Outcome]]:
        while prompts:
            places = list(prompts)
            batches = self._batches([prompts[place] for place in places])
            while True:
                begin = time.perf_counter()
                try:
                    batch = next(batches, None)
                except PromptLengthError as error:  # the others are tried without it
                    del prompts[places[error.index]]
                    yield places[error.index], Failure(str(error))
                    break
                if batch is None:
                    return
                each = (time.perf_counter() - begin) / len(batch)
                for number, answer in batch:
                    yield places[number], self._outcome(prompts[places[number]], answer, each)

    def _batches(self, prompts: list[Any]) -> Iterator[list[tuple[int, str]]]:
        """Yield prompts' numbers and answers, batch by batch."""
        if isinstance(self.backend, HuggingFaceBackend):
            yield from self.backend.stream(prompts, self.temperature, self.seed)
        else:
            answers = texts(self.backend.generate(prompts), len(prompts), self.name, failed=True)
            yield list(enumerate(answers))

    def _outcome(self, prompt: Any, answer: str, seconds: float) -> Outcome:
        if answer in FAILED:
            return Failure(f"{self.name!r}: the call failed ({answer})")
        asked = prompt if isinstance(prompt, str) else "\n\n".join(text for _, text in prompt)
        return Completion(answer, self._count(asked), self._count(answer), seconds)

    def _count(self, text: str) -> int | None:
        tokenizer = self.backend.tokenizer
        return None if tokenizer is None else len(tokenizer.tokenize(text))


def as_chat_model(model: Any) -> ChatModel:
    """Return a chat model for a chat model, a generation backend, or a function.

    Args:
        model: a `ChatModel` is used as it is; all else becomes a `LocalChat`.

    Raises:
        ParameterError: the object cannot generate.
    """
    if isinstance(model, str):
        raise ParameterError(
            "llm must be a model, e.g. KeywordRefiner(), OpenAICompatible(name) or "
            f"LocalChat(HuggingFaceCausal(name)); found the text {model!r}"
        )
    return model if isinstance(model, ChatModel) else LocalChat(model)


class ChatBackend(ByContent):
    """A chat model as a `fairtk.llm.Backend`: a prompt is the user's only message.

    What was cut off, refused or withheld is an answer like any other: what the model said.

    Args:
        model: the model, or one behind a ledger: its budget, prices and records count.
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
        """The most calls at a time."""
        return self.model.concurrency

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer; None: prompts are never cut."""
        return self.model.tokenizer

    def digest(self) -> str:
        """Return the model's digest."""
        return self.model.digest()

    def __repr__(self) -> str:
        return repr(self.model)

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order; each distinct prompt is asked once.

        Raises:
            NoAnswerError: a call failed; the answers of the others are kept for the next time.
            LLMError, BudgetError, OfflineError: the model cannot be asked.
        """
        answered = self._answers
        asked = [prompt for prompt in dict.fromkeys(prompts) if prompt not in answered]
        outcomes = self.model.complete(questions(asked))
        lost: dict[str, str] = {}
        for prompt, outcome in zip(asked, outcomes, strict=True):
            if not isinstance(outcome, Completion):
                lost[prompt] = outcome.reason
            elif outcome.finish == "unreadable":
                lost[prompt] = "what the server sent is no text"
            else:
                answered[prompt] = outcome.text.strip()
        if lost:
            first = next(index for index, prompt in enumerate(prompts) if prompt in lost)
            raise NoAnswerError(
                f"{len(lost)} of {len(set(prompts))} prompts have no answer, the first: "
                f"{lost[prompts[first]]}; run again to ask for these alone",
                first,
            )
        answers = [answered[prompt] for prompt in prompts]
        answered.clear()
        return answers

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "_answers": {}}


Table = Mapping[str, Sequence[str]]

PACKAGED = Path(__file__).parent / "group_terms.tsv"
"""The packaged table; copy it, edit it, and give its path."""


class KeywordRefiner(ChatModel):
    """Refines a query without a model: adds the next terms of the group that are not in it yet.

    Deterministic and free: a baseline that any model has to beat, and a way to run everything
    without one. The terms are the table's, in the table's order; when all are in the query, it
    stays as it is. A few words from a table are a crude picture of a group: look at the table
    before you read anything into a result, and note that terms which resemble the rules that
    labeled a collection find what these rules found.

    Args:
        table: a TSV file with a header line and the columns ``group`` and ``term``, or a mapping
            from group to terms; None: the packaged one, for the genders and the 20 regions of TREC
            Fair Ranking 2022 (`fairtk.llm.local.PACKAGED`).
        terms: how many are added in one step, at least 1.

    Raises:
        ParameterError: `terms` is below 1.
        FormatError: the file is not such a table.
    """

    identity_name = "fairtk.KeywordRefiner"
    output_version = 1
    free: ClassVar[bool] = True
    reads_facts: ClassVar[bool] = True

    def __init__(self, table: str | PathLike[str] | Table | None = None, terms: int = 3) -> None:
        self.terms = checks.whole("terms", terms, "KeywordRefiner")
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
            InputError: a chat was not made by a refinement prompt, or the table lacks its group.
        """
        for place, chat in enumerate(chats):
            if not {"keywords", "group"} <= set(chat.facts):
                raise InputError(
                    "KeywordRefiner answers refinement prompts only (their facts are 'keywords' "
                    f"and 'group'); found the facts {sorted(chat.facts)}"
                )
            keywords = words(str(chat.facts["keywords"]))
            added = self._next_terms(keywords, chat.facts["group"])
            # a list, so that words of a long query are not taken for a sentence
            yield place, Completion(json.dumps([*keywords, *added], ensure_ascii=False), 0, 0, 0.0)

    def _next_terms(self, keywords: Sequence[str], group: Sequence[str]) -> list[str]:
        """Return the next terms of each part of a group."""
        have = {word.lower() for word in keywords}
        added = []
        for part in group:
            if part not in self.table:
                raise InputError(
                    f"KeywordRefiner: the table has no terms for the group {part!r}"
                    f"{suggestion(part, self.table)} (add lines to a copy of {PACKAGED.name} and "
                    "give its path as table=)"
                )
            fresh = [t for t in self.table[part] if not set(t.lower().split()) <= have]
            added += fresh[: self.terms]
        return added


def read_table(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return the terms of each group, in the file's order.

    Args:
        path: a TSV file (UTF-8) with the columns ``group`` and ``term``; lines that begin with
            ``#`` are comments.

    Raises:
        InputError: the file cannot be opened.
        FormatError: a line is no text, or has no group or term; names it.
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
                raise FormatError("the first line must be 'group', a tab, 'term'", path, number)
        elif len(row) != 2 or not row[0].strip() or not row[1].strip():
            raise FormatError(f"expected group, tab, term; found {row!r}", path, number)
        else:
            terms_of.setdefault(row[0].strip(), []).append(row[1].strip())
    if not header:
        raise FormatError("the first line must be 'group', a tab, 'term'", path, 1)
    return {group: tuple(dict.fromkeys(terms)) for group, terms in terms_of.items()}
