"""Words that the index does not see: PISA's, in the loop, and in the packaged table."""

from __future__ import annotations

import re
import warnings
from types import SimpleNamespace

import pandas as pd
import pytest
from test_fair_qr import Search, answering, fair_qr, topics

from fairtk.errors import DataWarning, ParameterError
from fairtk.llm import KeywordRefiner
from fairtk.transformers import CollectionBM25
from fairtk.transformers.candidates import dropped_words, index_tokens

pisa = pytest.importorskip("pyterrier_pisa")


class Stopping(Search):
    """A retriever that drops two words, and says so."""

    def transform(self, inp):
        texts = inp["query"].map(lambda text: " ".join(self.tokens(text)))
        result = super().transform(inp.assign(query=texts))
        return result.drop(columns="query").merge(inp[["qid", "query"]], on="qid")

    @staticmethod
    def tokens(text):
        return [word for word in text.split() if word not in ("she", "her")]


def test_what_the_index_does_not_see_is_asked_for_again():
    table = KeywordRefiner({"f": ["she", "woman"], "m": ["man"]}, terms=1)
    system = fair_qr(table, retriever=Stopping())
    with pytest.warns(DataWarning, match="2 of 2.*'she'"):
        out = system(topics())
    trace = system.trace[system.trace["qid"] == "1"]
    assert trace["query"].tolist()[:3] == ["ships", "ships she", "ships she woman"]
    # the second row is no iteration: nothing was retrieved with it
    assert trace["iteration"].tolist()[:3] == [0, 1, 1] and trace["kept"].tolist()[:3] == [1, 0, 1]
    assert trace["retrieved"].isna().tolist()[:3] == [False, True, False]
    assert "retried" in trace["note"].iloc[1]
    plain = fair_qr(KeywordRefiner({"f": ["woman"], "m": ["man"]}, terms=1))
    assert out["docno"].tolist() == plain(topics())["docno"].tolist()
    columns = ["divergence", "AWRF", "AWRF_reranked"]
    pd.testing.assert_frame_equal(
        system.trace.dropna(subset="retrieved")[columns].reset_index(drop=True),
        plain.trace.dropna(subset="retrieved")[columns].reset_index(drop=True),
    )


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_retries_limit_how_often_the_model_is_asked_again(retries):
    model = answering("ships she", "ships she her", "ships her", "never")
    system = fair_qr(model, retriever=Stopping(), retries=retries)
    with pytest.warns(DataWarning, match="'she'"):
        system(topics(("1", "ships")))
    assert system.trace["iteration"].tolist() == [0, 1, 1, 1][: retries + 2]
    assert system.trace["note"].iloc[-1] == "the index sees no new keywords"


def test_only_another_number_of_retries_is_a_setting():
    assert fair_qr(retries=2) == fair_qr() != fair_qr(retries=0)
    assert "retries" not in fair_qr().settings()
    with pytest.raises(ParameterError, match="retries"):
        fair_qr(retries=-1)


def test_words_of_the_original_query_are_no_news():
    system = fair_qr(retriever=Stopping())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        system(topics(("1", "her ships")))


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    words = ["woman", "tries", "actress", "transgender"]
    docs = [{"docno": word, "text": f"{word} filler"} for word in words]
    return CollectionBM25(tmp_path_factory.mktemp("tokens"), lambda: iter(docs))


def test_words_that_are_dropped_are_whole():
    kept = ["ships"]
    result = dropped_words("Ships फिल्म she-ships", lambda word: [w for w in kept if w == word])
    assert result == ["फिल्म", "she"]  # marks belong to their letters


def test_tokens_are_what_pisa_finds(bm25):
    assert bm25.tokens("Woman, she-her: HERS going tried!") == ["woman", "tri"]
    for word, tokens in (("woman", 1), ("hers", 0), ("going", 0), ("tried", 1), ("she", 0)):
        result = bm25(pd.DataFrame([["1", word]], columns=["qid", "query"]))
        assert len(bm25.tokens(word)) == tokens == len(result)
    inner = index_tokens(bm25._opened())  # PISA's own retriever, alone and in a pipeline
    cut = index_tokens(bm25._opened() % 2)
    assert inner("she tried") == cut("she tried") == bm25.tokens("she tried") == ["tri"]
    index = pisa.PisaIndex(str(bm25._opened().index.path), stops=pisa.PisaStopwords.none)
    assert index_tokens(index.bm25())("she tried") == ["she", "tri"]


def test_terriers_stop_words_and_what_is_not_known():
    terrier = SimpleNamespace(properties={"termpipelines": "Stopwords,PorterStemmer"})
    assert dropped_words("Woman she her", index_tokens(terrier)) == ["she", "her"]
    bare = SimpleNamespace(properties={"termpipelines": "PorterStemmer"})
    assert dropped_words("Woman she her", index_tokens(bare)) == []
    assert index_tokens(Search()) is None


def test_the_packaged_terms_can_be_found(bm25):
    for group, terms in KeywordRefiner().table.items():
        for term in terms:
            dropped = dropped_words(term, bm25.tokens)
            assert not dropped, f"{group}: {term}"
            assert re.search(r"\w", term)
