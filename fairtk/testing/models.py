"""Contracts of backends and chat models."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fairtk.errors import FairtkError
from fairtk.experiment import describe_stage
from fairtk.llm import Chat, Completion, Failure, Ledger, Message, PromptLengthError
from fairtk.transformers import Generator

QUESTIONS = (
    "Which animal hunts mice in winter?",
    "movie tag for the title",
    "Who keeps the light burning at the harbour, night after night, whatever the weather?",
    "a question",
    "What is silver worth on the market?",
)
LONG = " ".join(["movie"] * 20_000)
"""A prompt that is too long for most models."""


class _ModelContract:
    """Tests of identity and `repr`, shared by backends and chat models."""

    def make(self) -> Any:
        """Return a new model under test."""
        raise NotImplementedError(f"{type(self).__name__} must define make()")

    def others(self) -> Sequence[Any]:
        """Return models with other settings that change answers, and so identities."""
        return ()

    def test_declarations(self) -> None:
        """It has a name, and a tokenizer for truncating prompts, or None."""
        model = self.make()
        name, tokenizer = model.name, model.tokenizer
        assert isinstance(name, str) and bool(name), f"the name must be a text, got {name!r}"
        for part in ("tokenize", "convert_tokens_to_string") if tokenizer is not None else ():
            assert callable(getattr(tokenizer, part, None)), f"{name}: the tokenizer has no {part}"

    def test_printable(self) -> None:
        """Its `repr` has no address, and is equal for a new model."""
        text = repr(self.make())
        assert not re.search(r"0x[0-9a-f]{6,}", text), (
            f"{text!r} has a memory address; print the settings"
        )
        assert text == repr(self.make()), f"{text!r} differs for a new model"

    def test_identity(self) -> None:
        """Equal settings have equal identities, also after pickling; other settings differ."""
        model = self.make()
        identity = _identity(model)
        assert _identity(self.make()) == identity, f"{model!r}: a new model has another identity"
        travelled = pickle.loads(pickle.dumps(model))  # noqa: S301 - made here
        assert _identity(travelled) == identity, f"{model!r}: pickling changes the identity"
        identities = [identity, *map(_identity, self.others())]
        for number, one in enumerate(identities):
            assert one not in identities[:number], (
                f"{model!r}: models with different settings have the same identity: {one}"
            )


def _identity(model: Any) -> str:
    return json.dumps(describe_stage(Generator(model)), sort_keys=True)


class BackendContract(_ModelContract):
    """Tests of a `fairtk.llm.Backend`; subclass it and define `make`, and `others`.

    Attributes:
        prompts: distinct valid prompts, of several lengths.
        long_prompt: a prompt that is too long, if there is one.
    """

    prompts: Sequence[str] = QUESTIONS
    long_prompt: str = LONG

    def test_one_answer_per_prompt(self) -> None:
        """It returns one text per prompt, equal in new and in used objects."""
        backend = self.make()
        answers = self._answers(backend, self.prompts)
        for other, what in ((backend, "used twice"), (self.make(), "made again")):
            again = self._answers(other, self.prompts)
            assert again == answers, f"{backend.name}: answers differ when it is {what}"

    def test_no_prompts(self) -> None:
        """Without prompts, there are no answers."""
        answers = self.make().generate([])
        assert answers == [], f"an empty list of prompts must give [], got {answers!r}"

    def test_order_and_repeats_do_not_matter(self) -> None:
        """The answer to a prompt does not depend on its position or on repeats."""
        backend = self.make()
        answers = dict(zip(self.prompts, self._answers(backend, self.prompts), strict=True))
        mixed = [*self.prompts[::-1], *self.prompts[1:3], *self.prompts[1:2]]
        self._compare(backend, mixed, answers, "the order of prompts, or on repeats")

    def test_batches_do_not_matter(self) -> None:
        """Prompts have the same answers one by one, in parts and all at once."""
        backend = self.make()
        answers = dict(zip(self.prompts, self._answers(backend, self.prompts), strict=True))
        for size in (1, 2):
            for start in range(0, len(self.prompts), size):
                part = self.prompts[start : start + size]
                self._compare(backend, part, answers, "how prompts are batched")

    def test_long_prompts(self) -> None:
        """A prompt that is too long is answered or refused by its index; others are answered."""
        backend = self.make()
        first = self.prompts[0]
        try:
            self._answers(backend, [first, first, self.long_prompt])
        except PromptLengthError as error:
            assert error.index == 2, f"{backend.name}: prompt 2 is too long, not {error.index}"
        except FairtkError:
            raise
        except Exception as error:
            raise AssertionError(
                f"{backend.name}: a prompt that is too long must be a PromptLengthError with its "
                f"index, got {type(error).__name__}: {error}"
            ) from error
        longest = getattr(backend.tokenizer, "model_max_length", None)
        if longest is None or longest > 10**6:
            return
        special = getattr(backend.tokenizer, "num_special_tokens_to_add", int)()
        tokens = backend.tokenizer.tokenize(self.long_prompt)[: longest - special]
        fitting = backend.tokenizer.convert_tokens_to_string(tokens)
        try:
            self._answers(backend, [fitting])
        except PromptLengthError as error:
            raise AssertionError(
                f"{backend.name}: its tokenizer allows {longest} tokens, but a prompt of this "
                f"length is refused: {error}"
            ) from error

    def _compare(
        self, backend: Any, prompts: Sequence[str], answers: dict[str, str], what: str
    ) -> None:
        for prompt, answer in zip(prompts, self._answers(backend, prompts), strict=True):
            assert answer == answers[prompt], (
                f"{backend.name} depends on {what}: {prompt!r} has {answer!r}, but "
                f"{answers[prompt]!r} among all"
            )

    def _answers(self, backend: Any, prompts: Iterable[str]) -> list[str]:
        texts_in = list(prompts)
        answers: list[str] = backend.generate(texts_in)
        texts = isinstance(answers, list) and all(isinstance(text, str) for text in answers)
        assert texts, f"{backend.name} must return a list of texts, got {answers!r:.200}"
        count = f"{backend.name} returned {len(answers)} answers to {len(texts_in)} prompts"
        assert len(answers) == len(texts_in), count
        return answers


class ChatModelContract(_ModelContract):
    """Tests of a `fairtk.llm.ChatModel`; subclass it and define `make`, and `others`.

    Attributes:
        deterministic: whether equal chats always have equal answers.
    """

    deterministic: bool = True

    def chats(self) -> Sequence[Chat]:
        """Return distinct valid chats."""
        return [Chat((Message("system", "Be brief."), Message("user", q))) for q in QUESTIONS]

    def long_chat(self) -> Chat | None:
        """Return a chat that is too long, if there is one."""
        return Chat((Message("user", LONG),))

    def test_one_outcome_per_chat(self) -> None:
        """Each chat has one `Completion` or `Failure`; without chats, none."""
        model, chats = self.make(), self.chats()
        outcomes = list(model.outcomes(iter(chats)))
        places = sorted(place for place, _ in outcomes)
        assert places == list(range(len(chats))), f"{model.name}: outcomes of {places}"
        for _, outcome in outcomes:
            valid = isinstance(outcome, Completion | Failure)
            assert valid, f"{model.name}: {outcome!r} is neither Completion nor Failure"
        assert list(model.outcomes(iter(()))) == [], f"{model.name}: outcomes without chats"

    def test_order_repeats_and_batches_do_not_matter(self) -> None:
        """The answer to a chat does not depend on other chats, their order or repeats."""
        if not self.deterministic:
            return
        model, chats = self.make(), list(self.chats())
        answers = [_text(outcome) for outcome in model.complete(chats)]
        again = [_text(outcome) for outcome in self.make().complete(chats)]
        assert again == answers, f"{model.name}: the answers of a new model differ"
        mixed = model.complete([*chats[::-1], *chats[:2]])
        expected = [*answers[::-1], *answers[:2]]
        assert [_text(o) for o in mixed] == expected, f"{model.name} depends on the order of chats"
        alone = [_text(model.complete([chat])[0]) for chat in chats]
        assert alone == answers, f"{model.name} depends on how chats are batched"

    def test_long_chats(self) -> None:
        """A chat that is too long is a `Failure` or answered; the others are answered."""
        long, chats = self.long_chat(), list(self.chats())
        if long is None:
            return
        model = self.make()
        try:
            first, _, last = model.complete([chats[0], long, chats[1]])
        except Exception as error:
            raise AssertionError(
                f"{model.name}: a chat that is too long must be a Failure, got "
                f"{type(error).__name__}: {error}"
            ) from error
        both = isinstance(first, Completion) and isinstance(last, Completion)
        assert both, f"{model.name}: a chat that is too long prevents the answers of others"

    def test_parameters(self) -> None:
        """They are JSON values; the digest is of them, the name and the class."""
        model = self.make()
        try:
            json.dumps(model.parameters())
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"{model.name}: parameters() must be JSON values: {error}"
            ) from error
        assert model == self.make(), f"{model.name}: equal settings are not equal models"
        for other in self.others():
            assert model != other, f"{model!r} and {other!r} are equal"

    def test_temperature(self) -> None:
        """Another temperature is another model, unless the model does not sample."""
        warm, hot = (self.make().at_temperature(t) for t in (0.25, 0.75))
        assert warm.name == hot.name, f"{hot!r}: a temperature must not change the name"
        same = warm.at_temperature(0.75)
        assert same == hot, f"{hot!r}: the last temperature must count"

    def test_answers_are_kept(self) -> None:
        """With a ledger, earlier answers are returned without the model."""
        chats = list(self.chats())
        with TemporaryDirectory() as folder:
            path = Path(folder) / "answers.sqlite"
            with Ledger(path) as ledger:
                first = ledger.wrap(self.make()).complete(chats)
            with Ledger(path, offline=True) as ledger:
                again = ledger.wrap(self.make()).complete(chats)
        texts, ledger_texts = (
            [_text(outcome) for outcome in outcomes] for outcomes in (first, again)
        )
        assert ledger_texts == texts, (
            f"{self.make().name}: its ledger returned {ledger_texts}, not {texts}"
        )


def _text(outcome: Any) -> str | None:
    return outcome.text if isinstance(outcome, Completion) else None
