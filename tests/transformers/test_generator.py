"""Generator and FlanT5: which prompts are built, and where their answers go."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_answers import answers_of

from fairtk import prompts
from fairtk.errors import ColumnError, DataWarning, DuplicateError, InputError
from fairtk.llm import HuggingFaceSeq2Seq, UnansweredError
from fairtk.transformers.generator import FlanT5, Generator

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def t5_folder(tmp_path_factory):
    import tiny_models
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads slow models this small down
    yield tiny_models.save_t5(tmp_path_factory.mktemp("t5"), window=256)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def flan(t5_folder):
    return FlanT5(t5_folder, cutoff=2, max_new_tokens=6)


class Echo:
    """A model that answers with the prompt itself and counts what it is given."""

    name = "echo"
    tokenizer = None

    def __init__(self):
        self.given = []

    def generate(self, given):
        self.given += given
        return list(given)

    def __repr__(self):
        return "Echo()"


DOCUMENTS = prompts.get("template", template="{question}: {documents}", joiner=" ")
RUN = pd.DataFrame(
    [
        ["q1", "movie", "d1", 3.0, 0, "harbour"],
        ["q1", "movie", "d2", 2.0, 1, "lantern"],
        ["q1", "movie", "d3", 1.0, 2, "willow"],
        ["q2", "tag", "d2", 5.0, 0, "lantern"],
    ],
    columns=["qid", "query", "docno", "score", "rank", "text"],
)


def sampled(rankings, text=None):
    """Return a frame S from {(qid, sample): [docno, ...]}."""
    rows = [
        (qid, f"ask {qid}", sample, docno, float(-rank), rank, (text or str)(docno))
        for (qid, sample), docnos in rankings.items()
        for rank, docno in enumerate(docnos)
    ]
    columns = ["qid", "query", "sample", "docno", "score", "rank", "text"]
    return pd.DataFrame(rows, columns=columns)


def test_the_question_comes_before_the_query():
    out = Generator(Echo(), DOCUMENTS, cutoff=1)(RUN.assign(question=["A?"] * 3 + ["B?"]))
    assert out.qanswer.tolist() == ["A?: harbour"] * 3 + ["B?: lantern"]
    without_query = RUN.rename(columns={"query": "question"})
    assert Generator(Echo(), DOCUMENTS, cutoff=1)(without_query).qanswer[0] == "movie: harbour"


def test_topics_get_one_answer_per_query():
    topics = pd.DataFrame({"qid": ["2", "1"], "query": ["b", "a"], "extra": [1, 2]})
    out = Generator(Echo(), DOCUMENTS)(topics)
    assert out.columns.tolist() == ["qid", "query", "extra", "qanswer", "answer_status"]
    assert out.qanswer.tolist() == ["b:", "a:"]
    with pytest.raises(DuplicateError, match="qid '1'"):
        Generator(Echo())(pd.DataFrame({"qid": ["1", "1"], "query": ["b", "a"]}))


def test_equal_prompts_are_built_and_generated_once():
    rankings = {("q1", s): ["a", "b", "c"] if s % 2 else ["b", "a", "c"] for s in range(50)}
    rankings |= {("q2", s): ["a", "b"] for s in range(50)}
    built = []

    class Counting(prompts.Prompt):
        name = "counting"
        fields = ("text",)

        def entry(self, document, rank):
            return prompts.Entry("", document["text"])

        def join(self, question, entries):
            built.append(entries)
            return question + "|" + "".join(entries)

    echo = Echo()
    out = Generator(echo, Counting(), cutoff=2)(sampled(rankings))
    assert echo.given == ["ask q1|ba", "ask q1|ab", "ask q2|ab"]
    assert len(built) == 3
    by_sample = out.groupby(["qid", "sample"]).qanswer.unique()
    assert by_sample["q1", 0].tolist() == ["ask q1|ba"]
    assert by_sample["q1", 1].tolist() == ["ask q1|ab"]
    assert by_sample["q2", 7].tolist() == ["ask q2|ab"]


def test_documents_are_told_apart_by_their_text_not_their_name():
    run = sampled({("q", 0): ["a"], ("q", 1): ["a"], ("q", 2): ["b"]})
    run["text"] = ["one", "two", "one"]
    echo = Echo()
    out = Generator(echo, DOCUMENTS)(run)
    assert out.qanswer.tolist() == ["ask q: one", "ask q: two", "ask q: one"]
    assert len(echo.given) == 2


@given(
    rankings=st.dictionaries(
        st.tuples(st.sampled_from(["1", "2", "10"]), st.integers(0, 4)),
        st.permutations("abcd").map(list).flatmap(lambda d: st.integers(1, 4).map(lambda n: d[:n])),
        min_size=1,
    ),
    cutoff=st.integers(1, 5),
    seed=st.integers(0, 3),
)
def test_every_row_has_the_answer_of_its_own_ranking(rankings, cutoff, seed):
    run = sampled(rankings).sample(frac=1, random_state=seed)
    before = run.copy()
    out = Generator(Echo(), DOCUMENTS, cutoff=cutoff)(run)
    pd.testing.assert_frame_equal(run, before)
    for row in out.itertuples():
        docnos = rankings[row.qid, row.sample][:cutoff]
        assert row.qanswer == f"ask {row.qid}: {' '.join(docnos)}"


def test_an_earlier_answer_is_replaced():
    out = Generator(Echo(), DOCUMENTS, cutoff=1)(RUN.assign(qanswer="old"))
    assert "old" not in set(out.qanswer)


def test_prompts_with_several_fields_and_with_none():
    run = RUN.assign(title=["T1", "T2", "T3", "T4"], article=RUN.text)
    out = Generator(Echo(), "lamp-4", cutoff=1)(run)
    assert out.qanswer.tolist()[0] == "T1 is the title for harbour. movie"
    assert out.qanswer.tolist()[3] == "T4 is the title for lantern. tag"
    closed_book = prompts.get("template", template="{question}")
    out = Generator(Echo(), closed_book)(RUN.drop(columns="text"))
    assert out.qanswer.tolist() == ["movie"] * 3 + ["tag"]


@pytest.mark.filterwarnings("ignore:.*unknown to the model")  # the template has capitals
def test_real_model_answers_like_its_backend(flan, t5_folder):
    out = flan(RUN)
    backend = HuggingFaceSeq2Seq(t5_folder, max_new_tokens=6)
    rag = prompts.get("rag")
    documents = [{"text": "harbour"}, {"text": "lantern"}]
    rebuilt = [rag("movie", documents, backend.tokenizer), rag("tag", documents[1:], None)]
    first, second = answers_of(backend, rebuilt)
    assert first != second
    assert out.qanswer.tolist() == [first] * 3 + [second]


def test_empty_frames_inspection_and_schematic_load_nothing(monkeypatch):
    # PyTerrier fetches the index of its manual for links in a schematic; no network in tests
    monkeypatch.setattr(pt.documentation, "_cached_objects_inv", {})
    generator = FlanT5("never/loaded", prompt="lamp-4")
    run = ["qid", "query", "docno", "score", "title", "article"]
    assert pt.inspect.transformer_inputs(generator) == [run, ["qid", "query"]]
    assert pt.inspect.transformer_outputs(generator, run[:4], strict=False) is None
    assert generator(pd.DataFrame(columns=[*run, "sample"])).empty
    assert "FlanT5" in pt.schematic.draw(generator)
    assert "_model" not in vars(generator.llm)


def test_settings_and_equality():
    assert repr(FlanT5("m", "lamp-4", cutoff=3)).startswith(
        "FlanT5(model='m', prompt=Lamp4(truncate='keep-question'), cutoff=3, "
        "answer='after-thinking', answers=1, on_cut='keep', device='auto'"
    )
    for other in (FlanT5("m", num_beams=2), Generator(HuggingFaceSeq2Seq("m"))):
        assert FlanT5("m") != other
    assert FlanT5("m", "lamp-4") != FlanT5("m", prompts.get("lamp-4", truncate="fair-rag"))
    assert Generator(str.splitlines) == Generator(str.splitlines)
    assert Generator(str.splitlines) != Generator(str.split)


def test_missing_text_says_what_to_add():
    with pytest.raises(ColumnError) as error:
        Generator(Echo())(RUN.drop(columns="text"))
    message = str(error.value)
    assert "Generator: missing column 'text'" in message
    assert "dataset.text_loader" in message
    with pytest.raises(ColumnError, match="'article'"):
        FlanT5("never/loaded", "lamp-4")(RUN.assign(title="t"))


def test_nan_names_the_row():
    gaps = RUN.assign(text=["a", None, None, "d"])
    for cutoff, rows in ((5, 2), (2, 1)):  # d3 is not read at cutoff 2
        message = f"column 'text' for qid 'q1', docno 'd2' .{rows} such row"
        with pytest.raises(InputError, match=message):
            Generator(Echo(), cutoff=cutoff)(gaps)
    # below the cutoff a text may be missing: it is not read
    out = Generator(Echo(), DOCUMENTS, cutoff=1)(RUN.assign(text=["a", np.nan, None, "d"]))
    assert out.qanswer[0] == "movie: a"
    with pytest.raises(InputError, match="column 'question'.*qid 'q2'.*docno 'd2'"):
        Generator(Echo())(RUN.assign(question=["a", "a", "a", None]))
    with pytest.raises(InputError, match="column 'query'.*qid '2'"):
        Generator(Echo())(pd.DataFrame({"qid": ["1", "2"], "query": ["a", None]}))


def test_bad_rankings():
    with pytest.raises(DuplicateError, match="'q1'.*'d1'"):
        Generator(Echo())(RUN.assign(docno=["d1", "d1", "d3", "d2"]))
    with pytest.raises(InputError, match="'b', for qid 'q1', docno 'd2'"):
        Generator(Echo())(RUN.assign(query=["a", "b", "a", "c"]))
    with pytest.raises(InputError, match="qid 'q1'.*prompt 'lamp-1'"):
        Generator(Echo(), "lamp-1")(RUN.assign(title="t"))


class Raw:
    """A third party's builder, which does not keep to any window."""

    name = "raw"
    fields = ("text",)

    def __call__(self, question, documents, tokenizer):
        return question + " " + " ".join(document["text"] for document in documents)


@pytest.mark.filterwarnings("ignore:.*unknown to the model")  # the template has capitals
@pytest.mark.filterwarnings("ignore:.*no cutoff fits")
def test_a_prompt_longer_than_the_model_takes_names_the_query(t5_folder):
    run = RUN.assign(text=["movie", "movie", "movie", "movie " * 300])
    with pytest.raises(UnansweredError) as error:
        FlanT5(t5_folder, Raw(), max_new_tokens=6)(run)
    message = str(error.value)
    assert "FlanT5: " in message and "qid 'q2': " in message and "256 tokens" in message
    assert "max_prompt_tokens" in message and "\n" not in message
    # the built-in prompts cut the document instead, and keep the question
    assert len(FlanT5(t5_folder, max_new_tokens=6)(run)) == 4


def test_long_questions_are_not_cut_silently(t5_folder):
    flan = FlanT5(t5_folder, "lamp-7", max_new_tokens=6)
    long = RUN.assign(query=["movie " * 300] * 3 + ["tag"])
    with pytest.warns(DataWarning, match="'q1'"):
        cut = flan(long)
    assert cut.qanswer[0] == answers_of(flan.llm, ["movie " * 255])[0]
    full = RUN.assign(query=[" ".join(["movie"] * 250)] * 3 + ["tag"])
    with pytest.warns(DataWarning, match="'q1'"):
        flan(full)
