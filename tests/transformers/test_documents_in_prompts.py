"""Which documents a prompt has, and what a reader of answers must know about them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import tiny_models
from word_tokenizer import WordTokenizer

import fairtk
from fairtk import Generator
from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.llm import Chat, FunctionModel, HuggingFaceCausal, HuggingFaceSeq2Seq, Ledger, Message
from fairtk.llm.chat import questions
from fairtk.llm.encoders import MeanEncoder
from fairtk.llm.tokenizers import PromptTokenizer
from fairtk.remarks import DROPPED_DOCUMENTS, EMPTY_DOCUMENTS, UNKNOWN_TOKENS


def ranking(n, words=20, query="who is it ?"):
    return pd.DataFrame(
        {
            "qid": "q1",
            "query": query,
            "docno": [f"d{i}" for i in range(n)],
            "score": np.arange(n, 0, -1.0),
            "text": " ".join(["word"] * words),
        }
    )


def remarks_of(stage, frame):
    """Return the output of a stage, and its remarks by kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = fairtk.Experiment(
            {"s": fairtk.identified(stage, "s")}, frame, None, [], executor="serial"
        )
    return results.rankings("s"), {remark.kind: remark for remark in results.remarks}


@pytest.mark.parametrize(
    ("window", "n_documents"),
    [
        (1000, 20),
        # The prompt without documents, "Answer the question with the help of the passages.
        # Question: who is it ? Answer:", has 9 + 6 = 15 words. An entry has at least 8 of its 22
        # words: (64 - 15) // 8 = 6 of 20 documents are in it.
        (64, 6),
        (31, 2),
    ],
)
def test_a_column_says_which_documents_a_prompt_has(window, n_documents):
    prompts = []

    def answer(texts):
        prompts.extend(texts)
        return ["it"] * len(texts)

    model = FunctionModel(answer, tokenizer=WordTokenizer(), max_prompt_tokens=window)
    rows, remarks = remarks_of(Generator(model, cutoff=20), ranking(25))
    is_in_prompt = [f"Passage {i + 1}:" in prompts[0] for i in range(25)]
    assert rows["in_prompt"].tolist() == is_in_prompt
    assert rows["in_prompt"].dtype == bool and sum(is_in_prompt) == n_documents
    if n_documents == 20:
        assert not remarks
        return
    remark = remarks[DROPPED_DOCUMENTS]
    # all documents are dropped or cut: an entry has 22 words
    assert remark.count == 20 and remark.qids == ("q1",)
    assert f"{20 - n_documents} left out and {n_documents} cut of 20" in remark.detail
    # 15 + 22 m <= window
    fitting = (window - 15) // 22
    assert (f"cutoff={fitting} fits" if fitting else "no cutoff fits") in remark.detail
    fits = FunctionModel(answer, tokenizer=WordTokenizer(), max_prompt_tokens=window)
    if fitting:
        rows, remarks = remarks_of(Generator(fits, cutoff=fitting), ranking(25))
        assert not remarks


def test_the_column_is_the_same_in_and_outside_of_experiments():
    frame = ranking(6).sample(frac=1, random_state=1)
    generator = Generator(lambda prompts: ["it"] * len(prompts), cutoff=4)
    out = generator(frame)
    assert out.set_index("docno")["in_prompt"].sort_index().tolist() == [True] * 4 + [False] * 2
    rows, _ = remarks_of(generator, frame)
    pd.testing.assert_frame_equal(rows[out.columns], out.reset_index(drop=True))
    assert "in_prompt" not in generator(frame[["qid", "query"]][:1])


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_documents_without_text(text):
    frame = ranking(4)
    frame.loc[[1, 3], "text"] = text
    generator = Generator(lambda prompts: ["it"] * len(prompts), cutoff=3)
    _, remarks = remarks_of(generator, frame)
    assert (remarks[EMPTY_DOCUMENTS].count, remarks[EMPTY_DOCUMENTS].detail) == (1, "d1")
    with pytest.warns(DataWarning, match="d1"):
        generator(frame)


@pytest.mark.parametrize(("word", "is_remark"), [("harbour", False), ("日本語", True)])
def test_unknown_tokens(t5_folder, word, is_remark):
    model = HuggingFaceSeq2Seq(str(t5_folder), max_new_tokens=2, num_beams=1, device="cpu")
    frame = ranking(1).assign(text=f"{word} {word} {word}", query="harbour")
    prompt = fairtk.prompts.get("template", template="{documents} {question}")  # in lower case
    _, remarks = remarks_of(Generator(model, prompt), frame)
    assert (UNKNOWN_TOKENS in remarks) == is_remark


@pytest.fixture(scope="session")
def t5_folder(tmp_path_factory):
    return tiny_models.save_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    return tiny_models.save_llama(tmp_path_factory.mktemp("llama"))


def test_the_share_of_unknown_tokens(t5_folder):
    tokenizer = PromptTokenizer(tiny_models.make_tokenizer(), 64)
    ids = tiny_models.make_tokenizer()("harbour 日")["input_ids"][:-1]  # without </s>
    assert tokenizer.unknown_share("harbour 日") == ids.count(2) / len(ids) > 0


class Messages:
    """A prompt of a system message and the question."""

    name, fields = "messages", ()

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, question, documents, tokenizer):
        pairs = [("system", "Be short."), ("user", question)]
        if self.kind is Chat:
            return Chat(tuple(Message(*pair) for pair in pairs))
        if self.kind is dict:
            return [{"role": role, "content": content} for role, content in pairs]
        return pairs


@pytest.mark.parametrize("kind", [Chat, dict, tuple])
def test_a_prompt_may_be_messages(kind):
    chats = []

    class Model(FunctionModel):
        def outcomes(self, given):
            given = list(given)
            chats.extend(given)
            yield from super().outcomes(given)

    generator = Generator(Model(lambda prompts: ["it"] * len(prompts)), Messages(kind))
    expected = (Message("system", "Be short."), Message("user", "who is it ?"))
    assert generator(ranking(2))["qanswer"].tolist() == ["it", "it"]
    rows, _ = remarks_of(generator, ranking(2))
    assert rows["qanswer"].tolist() == ["it", "it"]
    assert [chat.messages for chat in chats] == [expected, expected]


@pytest.mark.parametrize("prompt", [3, None, [], [("user",)], [{"role": "user"}], [("user", 3)]])
def test_what_is_no_prompt(prompt):
    class Builder:
        name, fields = "odd", ()

        def __call__(self, question, documents, tokenizer):
            return prompt

    with pytest.raises(InputError, match="qid 'q1'"):
        Generator(lambda prompts: prompts, Builder())(ranking(1))


def test_prompts_longer_than_the_positions_are_refused(llama_folder):
    model = HuggingFaceCausal(str(llama_folder), max_new_tokens=4, device="cpu")
    most = model._positions - 4 - model._template_tokens
    for n_tokens, fits in ((most, True), (most + 1, False)):
        longer = HuggingFaceCausal(
            str(llama_folder), max_new_tokens=4, max_prompt_tokens=n_tokens, device="cpu"
        )
        if fits:
            assert longer.tokenizer.model_max_length == most
        else:
            with pytest.raises(ParameterError, match=f"{most}.*{most + 1}"):
                longer.complete(questions(["harbour"]))


def test_a_name_of_a_model_names_the_classes():
    with pytest.raises(ParameterError, match="HuggingFaceCausal\\('some/model'\\)"):
        Generator("some/model")


def test_local_models_are_not_asked_again(llama_folder, tmp_path):
    model = HuggingFaceCausal(str(llama_folder), max_new_tokens=4, device="cpu")
    with (
        Ledger(tmp_path / "a.sqlite", retry_unusable=True) as ledger,
        pytest.raises(ParameterError, match="retry_unusable"),
    ):
        ledger.wrap(model)


def test_texts_that_an_encoder_cuts(tmp_path):
    import tiny_encoders

    encoder = MeanEncoder(str(tiny_encoders.save(tmp_path)), max_tokens=5, device="cpu")
    texts = ["harbour"] * 3 + ["harbour lantern willow ladder vector kernel"]
    with pytest.warns(fairtk.errors.TruncationWarning, match="1 of 4 texts.*25%.*max_tokens=5"):
        encoder.encode(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode(texts[:3])


class Merged(WordTokenizer):
    """A tokenizer with one token for ten words."""

    def tokenize(self, text):
        return super().tokenize(text)[::10]


def test_a_local_model_reads_the_whole_prompt():
    """Its own count of tokens may be below the number of words; only a server cuts prompts."""
    model = FunctionModel(lambda texts: ["it"] * len(texts), tokenizer=Merged())
    rows, _ = remarks_of(Generator(model, cutoff=5), ranking(5))
    assert set(rows["answer_status"]) == {"ok"}
