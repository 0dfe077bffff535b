"""With the real pyterrier_rag: its backends in Generator, its Readers in PerSample."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest

pytest.importorskip("openai")
from chat_server import KEY, error, serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports
    rag = pytest.importorskip(
        "pyterrier_rag",
        reason="pyterrier_rag does not import (.ci/run shows how it is installed)",
        exc_type=ImportError,
    )
    from pyterrier_rag.backend import OpenAIBackend
    from pyterrier_rag.prompt import Concatenator
    from pyterrier_rag.readers import Reader

from fairtk import EE_D, FairSampler, Generator, PerSample
from fairtk.llm import Ledger, UnansweredError, as_chat_model

TEXTS = {"a": "apple", "b": "bread", "c": "cheese"}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def sampled():
    rows = [(q, f"query {q}", d, float(i)) for q in "12" for i, d in enumerate(TEXTS)]
    run = pd.DataFrame(rows, columns=["qid", "query", "docno", "score"])
    run["text"] = run["docno"].map(TEXTS)
    return FairSampler(alpha=1, n_samples=4, seed=3)(run)


def first_word(prompt, count):
    """Answer with the query's number and the document that the prompt names first."""
    number = prompt[prompt.index("query ") :].split()[1]
    place = {text: prompt.index(text) for text in TEXTS.values()}
    return f"{number} {min(place, key=place.get)}"


def backend(server):
    return OpenAIBackend("toy", base_url=server.url, max_retries=0, parallel=2)


def expected(out):
    first = out.sort_values(["qid", "sample", "rank"]).groupby(["qid", "sample"])["docno"].first()
    return {pair: f"{pair[0]} {TEXTS[docno]}" for pair, docno in first.items()}


def test_readers_answer_each_sample_and_documents_stay():
    run = sampled()
    with serving(first_word) as server:
        readers = Concatenator(in_fields=["text"]) >> Reader(backend(server))
        for system in (PerSample(readers), PerSample(readers, joint=True)):
            out = system(run)
            assert len(out) == len(run)
            columns = ["qid", "sample", "docno", "rank", "score"]
            key = ["qid", "sample", "rank"]
            got, given = (f[columns].sort_values(key, ignore_index=True) for f in (out, run))
            pd.testing.assert_frame_equal(got, given)
            answers = out.groupby(["qid", "sample"])["qanswer"].agg(set)
            assert {pair: {text} for pair, text in expected(run).items()} == answers.to_dict()
            # it is a run still, which exposure is measured on
            qrels = pd.DataFrame({"query_id": ["1", "2"], "doc_id": "a", "relevance": 1})
            renamed = {"qid": "query_id", "docno": "doc_id"}
            one, two = (
                (EE_D @ 2).calc_aggregate(qrels, f.rename(columns=renamed)) for f in (out, run)
            )
            assert one == two
        assert len(PerSample(readers)(run[:0])) == 0
        unsampled = run[run["sample"] == 0].drop(columns="sample")
        assert PerSample(readers)(unsampled)["docno"].tolist() == unsampled["docno"].tolist()


def test_its_backends_generate(tmp_path):
    run = sampled()
    with serving(first_word) as server:
        plain = Generator(backend(server))(run)
        answers = plain.groupby(["qid", "sample"])["qanswer"].first()
        assert answers.to_dict() == expected(run)
        with Ledger(tmp_path / "l") as ledger:
            generator = Generator(ledger.wrap(backend(server)))
            assert generator(run).equals(plain)
            before = len(server.requests)
            assert Generator(ledger.wrap(as_chat_model(backend(server))))(run).equals(plain)
            assert len(server.requests) == before


def test_its_failed_calls_are_no_answers(tmp_path, capsys):
    def rule(prompt, count):
        return error(500, "down") if "query 2" in prompt else first_word(prompt, count)

    run = sampled()
    with serving(rule) as server, Ledger(tmp_path / "l") as ledger:
        with pytest.raises(UnansweredError, match="qid '2'.*'toy'"):
            Generator(backend(server))(run)
        with pytest.raises(UnansweredError, match="qid '2'"):
            Generator(ledger.wrap(backend(server)))(run)
        assert len(ledger) == len(set(run[run["qid"] == "1"].groupby("sample")["docno"].agg(tuple)))
