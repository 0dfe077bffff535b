"""All built-in kinds of models keep their contracts, and each promise that is broken is found."""

from __future__ import annotations

import itertools

import pytest
from failing import assert_found, failing, flawed

from fairtk.errors import ModelError
from fairtk.llm import (
    Chat,
    ChatModel,
    Completion,
    Failure,
    KeywordRefiner,
    Message,
    OpenAICompatible,
    build_model,
    list_model_kinds,
)
from fairtk.llm.refinement import Refinement, RefinementPrompt
from fairtk.testing import ChatModelContract, ToyTokenizer
from fairtk.testing.models import QUESTIONS

SMALL = {"max_new_tokens": 4, "device": "cpu"}
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}answer"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    pytest.importorskip("torch")
    import tiny_models

    place = tmp_path_factory.mktemp("models")
    return {
        "t5": str(tiny_models.save_t5(place / "t5")),
        "ct2": str(place / "t5"),
        "causal": str(tiny_models.save_llama(place / "llama", TEMPLATE)),
    }


SHORT = ("movie", "silver market", "title for the movie", "harbour lantern tag", "a question")


class OfKind(ChatModelContract):
    kind: str

    @pytest.fixture(autouse=True)
    def _set(self, folders):
        self.folder = folders[self.kind]

    def chats(self):
        return [Chat((Message("user", text),)) for text in SHORT]

    def build(self, **settings):
        spec = list_model_kinds("answers")[self.kind]
        return build_model(spec, {"model": self.folder, **SMALL, **settings})

    def make(self):
        return self.build()

    def others(self):
        return [self.build(max_new_tokens=5), self.build(num_beams=3)]


class TestT5(OfKind):
    kind = "t5"


class TestCausal(OfKind):
    kind = "causal"


class TestSampled(TestCausal):
    def build(self, **settings):
        return super().build(temperature=0.7, **settings)

    def others(self):
        return [self.build(seed=1), OfKind.build(self)]


@pytest.mark.slow
class TestCTranslate2(OfKind):
    kind = "ct2"

    @pytest.fixture(autouse=True)
    def _needs(self, monkeypatch, tmp_path):
        pytest.importorskip("ctranslate2")


class TestOpenAI(ChatModelContract):
    @pytest.fixture(autouse=True)
    def _serve(self, monkeypatch):
        pytest.importorskip("openai")
        from chat_server import error, serving

        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

        def rule(prompt, count):
            return error(400, "too long") if len(prompt) > 10_000 else f"an answer to {prompt}"

        with serving(rule) as server:
            self.url = server.url
            yield

    def make(self, **settings):
        spec = list_model_kinds("answers")["openai"]
        address = {"base_url": self.url, "api_key_env": None, "backoff": 0.01, "timeout": 300.0}
        return build_model(spec, {"model": "toy", **address, **settings})

    def others(self):
        return [self.make(model="other"), self.make(temperature=0.9), self.make(max_tokens=9)]


class TestKeyword(ChatModelContract):
    def make(self, **settings):
        return build_model(list_model_kinds("refinement")["keyword"], settings)

    def others(self):
        return [self.make(terms=2), self.make(table={"female": ["woman"]})]

    def chats(self):
        refine, groups = RefinementPrompt(), itertools.cycle(self.make().table)
        return [refine(Refinement(q, q, (next(groups),))) for q in QUESTIONS]

    def long_chat(self):
        return None


# One flaw each -----------------------------------------------------------------------------------


class Echo:
    """A good object that generates: the words of the prompt, turned round."""

    tokenizer = None

    def __init__(self, shout=False):
        self.name, self.shout = "echo", shout

    def generate(self, prompts):
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, prompt):
        text = " ".join(prompt.split()[::-1][:9])
        return text.upper() if self.shout else text

    def __repr__(self):
        return f"{type(self).__name__}({self.shout})"

    def digest(self):
        return repr(self)


class Windowed(Echo):
    """It takes nine words."""

    def __init__(self, shout=False):
        super().__init__(shout)
        self.tokenizer = ToyTokenizer(10)

    def answer(self, prompt):
        return "ERROR::reduce_length" if len(prompt.split()) > 9 else super().answer(prompt)


def object_failures(cls, only="test_"):
    class Contract(ChatModelContract):
        def make(self):
            return cls()

        def others(self):
            return [cls(shout=True)]

        def chats(self):
            return [Chat((Message("user", f"{word} a b c d"),)) for word in "abcd"]

    return failing(Contract, only)


def test_good_objects_pass():
    assert object_failures(Echo) == {}
    assert object_failures(Windowed) == {}


def break_on_long(self, prompt):
    if len(prompt) > 10_000:
        raise RuntimeError("CUDA error")
    return Echo.answer(self, prompt)


CALLS = itertools.count()
OBJECT_FLAWS = {
    "breaks on long prompts": ("test_long_chats", {"answer": break_on_long}),
    "sorts the prompts": (
        "test_order_repeats_and_batches_do_not_matter",
        {"generate": lambda self, prompts: Echo.generate(self, sorted(prompts))},
    ),
    "counts the prompts": (
        "test_order_repeats_and_batches_do_not_matter",
        {
            "generate": lambda self, prompts: [
                f"{answer} {len(set(prompts))}" for answer in Echo.generate(self, prompts)
            ]
        },
    ),
    "answers otherwise the next time": (
        "test_order_repeats_and_batches_do_not_matter",
        {"answer": lambda self, prompt: f"{Echo.answer(self, prompt)} {next(CALLS)}"},
    ),
    "prints an address": ("test_printable", {"__repr__": object.__repr__}),
    "has one digest for all settings": (
        "test_identity test_parameters",
        {"digest": lambda self: "echo"},
    ),
    "has a new digest each time": (
        "test_identity test_parameters",
        {"digest": lambda self: f"{next(CALLS)}"},
    ),
    "is another one in another process": (
        "test_identity",
        {"__reduce__": lambda self: (type(self), (not self.shout,))},
    ),
}


@pytest.mark.parametrize("flaw", OBJECT_FLAWS)
def test_a_flaw_of_an_object_is_found(flaw):
    cls = flawed(Echo, OBJECT_FLAWS[flaw][1])
    assert_found(OBJECT_FLAWS[flaw], lambda test: object_failures(cls, test))


class Parrot(ChatModel):
    """A good chat model."""

    free = True

    def __init__(self, tone="soft", temperature=0.0):
        self.tone, self.temperature = tone, temperature

    @property
    def name(self):
        return "parrot"

    def parameters(self):
        return {"tone": self.tone, "temperature": self.temperature}

    def __repr__(self):
        return f"{type(self).__name__}({self.tone!r}, {self.temperature})"

    def at_temperature(self, temperature):
        return type(self)(self.tone, temperature)

    def outcomes(self, chats):
        for place, chat in reversed(list(enumerate(chats))):
            yield place, self.answer(chat)

    def answer(self, chat):
        if len(chat.text) > 10_000:
            return Failure("too long")
        return Completion(chat.text + self.tone)


def chat_failures(cls, only="test_"):
    class Contract(ChatModelContract):
        def make(self):
            return cls()

        def others(self):
            return [cls("loud")]

    return failing(Contract, only)


def test_a_good_chat_model_passes():
    assert chat_failures(Parrot) == {}


def raise_for_long(self, chat):
    if len(chat.text) > 10_000:
        raise ModelError("too long")
    return Parrot.answer(self, chat)


def count_chats(self, chats):
    n_chats = len(list(chats))
    return [(position, Completion(f"{n_chats}")) for position in range(n_chats)]


def fail_together(self, chats):
    chats = list(chats)
    fails = any(len(chat.text) > 10_000 for chat in chats)
    for position, outcome in Parrot.outcomes(self, chats):
        yield position, Failure("too long") if fails else outcome


CHAT_FLAWS = {
    "has no name": ("test_declarations", {"name": None}),
    "forgets a chat in its batches": (
        "test_batches",
        {"batches": lambda self, chats: [[i] for i in range(1, len(chats))]},
    ),
    "has batches in the order of chats": (
        "test_batches",
        {"batches": lambda self, chats: [[i] for i in range(len(chats))]},
    ),
    "leaves a chat out": (
        "test_one_outcome_per_chat",
        {"outcomes": lambda self, chats: list(Parrot.outcomes(self, chats))[1:]},
    ),
    "gives plain texts": (
        "test_one_outcome_per_chat",
        {"answer": lambda self, chat: chat.text},
    ),
    "answers no chats": (
        "test_one_outcome_per_chat",
        {"outcomes": lambda self, chats: Parrot.outcomes(self, [*chats] or [Chat(())])},
    ),
    "counts the chats": (
        "test_order_repeats_and_batches_do_not_matter",
        {"outcomes": count_chats},
    ),
    "raises for a long chat": ("test_long_chats", {"answer": raise_for_long}),
    "fails others with a long chat": ("test_long_chats", {"outcomes": fail_together}),
    "has parameters that are not JSON": (
        "test_parameters",
        {"parameters": lambda self: {"tone": {self.tone}}},
    ),
    "has no parameters": ("test_parameters test_identity", {"parameters": lambda self: {}}),
    "keeps the first temperature": (
        "test_temperature",
        {
            "at_temperature": lambda self, temperature: type(self)(
                self.tone, self.temperature or temperature
            )
        },
    ),
    "is a new one each time": (
        "test_answers_are_kept",
        {"parameters": lambda self: {"tone": self.tone, "made": next(CALLS)}},
    ),
}


@pytest.mark.parametrize("flaw", CHAT_FLAWS)
def test_a_flaw_of_a_chat_model_is_found(flaw):
    cls = flawed(Parrot, CHAT_FLAWS[flaw][1])
    assert_found(CHAT_FLAWS[flaw], lambda test: chat_failures(cls, test))


def test_every_built_in_kind_is_under_contract():
    built_in = {"t5", "causal", "ct2", "openai", "keyword"}
    assert built_in == set(list_model_kinds("refinement"))
    assert isinstance(KeywordRefiner(), ChatModel) and issubclass(OpenAICompatible, ChatModel)
