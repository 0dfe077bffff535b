"""All built-in kinds of models keep their contracts, and each promise that is broken is found."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from failing import failing

from fairtk.errors import ModelError
from fairtk.llm import (
    Chat,
    ChatModel,
    Completion,
    CTranslate2Seq2Seq,
    Failure,
    HuggingFaceCausal,
    HuggingFaceSeq2Seq,
    KeywordRefiner,
    LocalChat,
    Message,
    OpenAICompatible,
    PromptLengthError,
    build_model,
    kinds_of_models,
)
from fairtk.llm.refinement import Refinement, RefinementPrompt
from fairtk.testing import BackendContract, ChatModelContract, ToyTokenizer
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


class OfKind(BackendContract):
    kind: str
    prompts = SHORT

    @pytest.fixture(autouse=True)
    def _set(self, folders):
        self.folder = folders[self.kind]

    def build(self, **settings):
        spec = kinds_of_models("answers")[self.kind]
        return build_model(spec, {"model": self.folder, **SMALL, **settings})

    def make(self):
        return self.build()

    def others(self):
        return [self.build(max_new_tokens=5), self.build(num_beams=3)]


class TestT5(OfKind):
    kind = "t5"


class TestCausal(OfKind):
    kind = "causal"


class TestCTranslate2(OfKind):
    kind = "ct2"

    @pytest.fixture(autouse=True)
    def _needs(self, monkeypatch, tmp_path):
        pytest.importorskip("ctranslate2")


@pytest.mark.parametrize("kind", [HuggingFaceSeq2Seq, HuggingFaceCausal, CTranslate2Seq2Seq])
class TestLocalChat(ChatModelContract):
    @pytest.fixture(autouse=True)
    def _set(self, kind, folders):
        names = {HuggingFaceSeq2Seq: "t5", HuggingFaceCausal: "causal", CTranslate2Seq2Seq: "ct2"}
        if kind is CTranslate2Seq2Seq:
            pytest.importorskip("ctranslate2")
        self.backend = partial(kind, folders[names[kind]])

    def chats(self):
        return [Chat((Message("user", text),)) for text in SHORT]

    def make(self):
        return LocalChat(self.backend(**SMALL))

    def others(self):
        return [LocalChat(self.backend(**SMALL | {"max_new_tokens": 5}))]


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
        spec = kinds_of_models("answers")["openai"]
        address = {"base_url": self.url, "api_key_env": None, "backoff": 0.01, "timeout": 300.0}
        return build_model(spec, {"model": "toy", **address, **settings})

    def others(self):
        return [self.make(model="other"), self.make(temperature=0.9), self.make(max_tokens=9)]


class TestKeyword(ChatModelContract):
    def make(self, **settings):
        return build_model(kinds_of_models("refinement")["keyword"], settings)

    def others(self):
        return [self.make(terms=2), self.make(table={"female": ["woman"]})]

    def chats(self):
        refine, groups = RefinementPrompt(), itertools.cycle(self.make().table)
        return [refine(Refinement(q, q, (next(groups),))) for q in QUESTIONS]

    def long_chat(self):
        return None


# One flaw each -----------------------------------------------------------------------------------


class Echo:
    """A good backend: the words of the prompt, turned round."""

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

    index = None

    def generate(self, prompts):
        for index, prompt in enumerate(prompts):
            if len(prompt.split()) > 9:
                raise PromptLengthError("too long", index if self.index is None else self.index)
        return super().generate(prompts)


class WrongPlace(Windowed):
    index = 0


class BreaksOnLong(Echo):
    def answer(self, prompt):
        if len(prompt) > 10_000:
            raise RuntimeError("CUDA error")
        return super().answer(prompt)


class Sorts(Echo):
    def generate(self, prompts):
        return super().generate(sorted(prompts))


class CountsBatch(Echo):
    def generate(self, prompts):
        return [f"{answer} {len(set(prompts))}" for answer in super().generate(prompts)]


class NoneForNone(Echo):
    def generate(self, prompts):
        return super().generate(prompts) or None


class Bytes(Echo):
    def answer(self, prompt):
        return super().answer(prompt).encode()


class Ages(Echo):
    times = 0

    def generate(self, prompts):
        type(self).times += 1
        return [f"{answer} {self.times}" for answer in super().generate(prompts)]


class Nameless(Echo):
    def __init__(self, shout=False):
        super().__init__(shout)
        self.name = None


class OneDigest(Echo):
    def digest(self):
        return "echo"


class Address(Echo):
    __repr__ = object.__repr__


class NewDigest(Echo):
    def digest(self):
        return f"echo {id(self)}"


class Stays(Echo):
    def __reduce__(self):
        return Echo, (not self.shout,)


def backend_failures(cls, only="test_", prompts=tuple(["a", "b", "c", "d"])):
    class Contract(BackendContract):
        def make(self):
            return cls()

        def others(self):
            return [cls(shout=True)]

    Contract.prompts = [f"{p} {' '.join(prompts)}" for p in prompts]
    return failing(Contract, only)


def test_good_backends_pass():
    assert backend_failures(Echo) == {}
    assert backend_failures(Windowed) == {}


@pytest.mark.parametrize(
    ("cls", "test"),
    [
        (WrongPlace, "test_long_prompts"),
        (BreaksOnLong, "test_long_prompts"),
        (Sorts, "test_order_and_repeats_do_not_matter"),
        (CountsBatch, "test_batches_do_not_matter"),
        (NoneForNone, "test_no_prompts"),
        (Bytes, "test_one_answer_per_prompt"),
        (Ages, "test_one_answer_per_prompt"),
        (Nameless, "test_declarations"),
        (Address, "test_printable"),
        (OneDigest, "test_identity"),
        (NewDigest, "test_identity"),
        (Stays, "test_identity"),
    ],
)
def test_a_flaw_of_a_backend_is_found(cls, test):
    assert test in backend_failures(cls)


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


class Silent(Parrot):
    def outcomes(self, chats):
        yield from list(super().outcomes(chats))[1:]


class Plain(Parrot):
    def answer(self, chat):
        return chat.text


class Speaks(Parrot):
    def outcomes(self, chats):
        return super().outcomes([*chats] or [Chat(())])


class Counts(Parrot):
    def outcomes(self, chats):
        asked = list(chats)
        for place, outcome in super().outcomes(asked):
            yield place, Completion(f"{len(asked)}") if asked else outcome


class Raises(Parrot):
    def answer(self, chat):
        if len(chat.text) > 10_000:
            raise ModelError("too long")
        return super().answer(chat)


class TakesOthers(Parrot):
    def outcomes(self, chats):
        asked = list(chats)
        fails = any(len(chat.text) > 10_000 for chat in asked)
        for place, outcome in super().outcomes(asked):
            yield place, Failure("too long") if fails else outcome


class NoJson(Parrot):
    def parameters(self):
        return {"tone": {self.tone}}


class Deaf(Parrot):
    def parameters(self):
        return {}


class Sticks(Parrot):
    def at_temperature(self, temperature):
        return type(self)(self.tone, self.temperature or temperature)


class NewEachTime(Parrot):
    number = itertools.count()

    def __init__(self, tone="soft", temperature=0.0):
        super().__init__(tone, temperature)
        self.made = next(self.number)

    def parameters(self):
        return {**super().parameters(), "made": self.made}


def chat_failures(cls, only="test_"):
    class Contract(ChatModelContract):
        def make(self):
            return cls()

        def others(self):
            return [cls("loud")]

    return failing(Contract, only)


def test_a_good_chat_model_passes():
    assert chat_failures(Parrot) == {}


@pytest.mark.parametrize(
    ("cls", "test"),
    [
        (Silent, "test_one_outcome_per_chat"),
        (Plain, "test_one_outcome_per_chat"),
        (Speaks, "test_one_outcome_per_chat"),
        (Counts, "test_order_repeats_and_batches_do_not_matter"),
        (Raises, "test_long_chats"),
        (TakesOthers, "test_long_chats"),
        (NoJson, "test_parameters"),
        (Deaf, "test_parameters"),
        (Deaf, "test_identity"),
        (Sticks, "test_temperature"),
        (NewEachTime, "test_answers_are_kept"),
    ],
)
def test_a_flaw_of_a_chat_model_is_found(cls, test):
    assert test in chat_failures(cls)


def test_every_built_in_kind_is_under_contract():
    built_in = {"t5", "causal", "ct2", "openai", "keyword"}
    assert built_in == set(kinds_of_models("refinement")) - {"vllm"}  # a plugin's, with its own
    assert isinstance(KeywordRefiner(), ChatModel) and issubclass(OpenAICompatible, ChatModel)
