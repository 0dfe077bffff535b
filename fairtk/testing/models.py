"""The contract of models."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fairtk.experiment import describe_stage
from fairtk.llm import Chat, ChatModel, Completion, Failure, Ledger, Message, as_chat_model
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


class ChatModelContract:
    """Tests of a `fairtk.llm.ChatModel`; subclass it and define `make`, and `others`.

    A function, or an object with ``generate``, is tested as the model that it becomes.

    Attributes:
        deterministic: whether equal chats always have equal answers.
    """

    deterministic: bool = True

    def make(self) -> Any:
        """Return a new model under test, or another argument of `fairtk.llm.as_chat_model`."""
        raise NotImplementedError(f"{type(self).__name__} must define make()")

    def others(self) -> Sequence[Any]:
        """Return models with other settings that change answers, and so identities."""
        return ()

    def chats(self) -> Sequence[Chat]:
        """Return distinct valid chats, of several lengths."""
        return [Chat((Message("system", "Be brief."), Message("user", q))) for q in QUESTIONS]

    def long_chat(self) -> Chat | None:
        """Return a chat that is too long, if there is one."""
        return Chat((Message("user", LONG),))

    def _model(self) -> ChatModel:
        return as_chat_model(self.make())

    def test_declarations(self) -> None:
        """It has a name, and a tokenizer for truncating prompts, or None."""
        model = self._model()
        name, tokenizer = model.name, model.tokenizer
        assert isinstance(name, str) and bool(name), f"the name must be a text, got {name!r}"
        for part in ("tokenize", "convert_tokens_to_string") if tokenizer is not None else ():
            assert callable(getattr(tokenizer, part, None)), f"{name}: the tokenizer has no {part}"

    def test_printable(self) -> None:
        """Its `repr` has no address, and is equal for a new model."""
        text = repr(self._model())
        assert not re.search(r"0x[0-9a-f]{6,}", text), (
            f"{text!r} has a memory address; print the settings"
        )
        assert text == repr(self._model()), f"{text!r} differs for a new model"

    def test_identity(self) -> None:
        """Equal settings have equal identities, also after pickling; other settings differ."""
        model = self._model()
        identity = _identity(model)
        assert _identity(self._model()) == identity, f"{model!r}: a new model has another identity"
        travelled = pickle.loads(pickle.dumps(model))  # noqa: S301 - made here
        assert _identity(travelled) == identity, f"{model!r}: pickling changes the identity"
        identities = [identity, *map(_identity, map(as_chat_model, self.others()))]
        for number, one in enumerate(identities):
            assert one not in identities[:number], (
                f"{model!r}: models with different settings have the same identity: {one}"
            )

    def test_one_outcome_per_chat(self) -> None:
        """Each chat has one `Completion` or `Failure`; without chats, none."""
        model, chats = self._model(), self.chats()
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
        model, chats = self._model(), list(self.chats())
        answers = [_text(outcome) for outcome in model.complete(chats)]
        again = [_text(outcome) for outcome in self._model().complete(chats)]
        assert again == answers, f"{model.name}: the answers of a new model differ"
        mixed = model.complete([*chats[::-1], *chats[:2]])
        expected = [*answers[::-1], *answers[:2]]
        assert [_text(o) for o in mixed] == expected, f"{model.name} depends on the order of chats"
        alone = [_text(model.complete([chat])[0]) for chat in chats]
        assert alone == answers, f"{model.name} depends on how chats are batched"

    def test_batches(self) -> None:
        """Its batches have each chat once, and do not depend on the order of chats."""
        model, chats = self._model(), list(self.chats())
        batches = model.batches(chats)
        indices = sorted(index for batch in batches for index in batch)
        assert indices == list(range(len(chats))), f"{model.name}: batches of {indices}"
        reverse = [[chats[::-1][i] for i in batch] for batch in model.batches(chats[::-1])]
        expected = [[chats[i] for i in batch] for batch in batches]
        assert reverse == expected, f"{model.name}: batches depend on the order of chats"
        assert model.batches([]) == [], f"{model.name}: batches without chats"

    def test_long_chats(self) -> None:
        """A chat that is too long is a `Failure` or answered; the others are answered."""
        long, chats = self.long_chat(), list(self.chats())
        if long is None:
            return
        model = self._model()
        try:
            first, _, last = model.complete([chats[0], long, chats[1]])
        except Exception as error:
            raise AssertionError(
                f"{model.name}: a chat that is too long must be a Failure, got "
                f"{type(error).__name__}: {error}"
            ) from error
        both = isinstance(first, Completion) and isinstance(last, Completion)
        assert both, f"{model.name}: a chat that is too long prevents the answers of others"
        longest = getattr(model.tokenizer, "model_max_length", None)
        if longest is None or longest > 10**6:
            return
        special = getattr(model.tokenizer, "num_special_tokens_to_add", int)()
        tokens = model.tokenizer.tokenize(long.text)[: longest - special]
        fitting = Chat((Message("user", model.tokenizer.convert_tokens_to_string(tokens)),))
        [outcome] = model.complete([fitting])
        assert isinstance(outcome, Completion), (
            f"{model.name}: its tokenizer allows {longest} tokens, but a chat of this length is "
            f"refused: {outcome}"
        )

    def test_parameters(self) -> None:
        """They are JSON values; the digest is of them, the name and the class."""
        model = self._model()
        try:
            json.dumps(model.parameters())
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"{model.name}: parameters() must be JSON values: {error}"
            ) from error
        assert model == self._model(), f"{model.name}: equal settings are not equal models"
        for other in map(as_chat_model, self.others()):
            assert model != other, f"{model!r} and {other!r} are equal"

    def test_temperature(self) -> None:
        """Another temperature is another model, unless the model does not sample."""
        warm, hot = (self._model().at_temperature(t) for t in (0.25, 0.75))
        assert warm.name == hot.name, f"{hot!r}: a temperature must not change the name"
        same = warm.at_temperature(0.75)
        assert same == hot, f"{hot!r}: the last temperature must count"

    def test_answers_are_kept(self) -> None:
        """With a ledger, earlier answers are returned without the model."""
        chats = list(self.chats())
        with TemporaryDirectory() as folder:
            path = Path(folder) / "answers.sqlite"
            with Ledger(path) as ledger:
                first = ledger.wrap(self._model()).complete(chats)
            with Ledger(path, offline=True) as ledger:
                again = ledger.wrap(self._model()).complete(chats)
        texts, ledger_texts = (
            [_text(outcome) for outcome in outcomes] for outcomes in (first, again)
        )
        assert ledger_texts == texts, (
            f"{self._model().name}: its ledger returned {ledger_texts}, not {texts}"
        )


def _identity(model: Any) -> str:
    return json.dumps(describe_stage(Generator(model)), sort_keys=True)


def _text(outcome: Any) -> str | None:
    return outcome.text if isinstance(outcome, Completion) else None
