import copy
import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fairtk_baselines import encoders
from fairtk_baselines.vector_search import VectorSearch
from fixed_encoder import FixedEncoder, documents
from hypothesis import given
from hypothesis import strategies as st

from fairtk.errors import (
    ColumnError,
    DataWarning,
    DuplicateError,
    FormatError,
    InputError,
    ParameterError,
)
from fairtk.testing import TransformerContract, toy_documents, toy_topics

HAS_FAISS = find_spec("faiss") is not None


def search(*vectors, encoder=None, folder=None, **settings):
    return VectorSearch(
        encoder or FixedEncoder(), documents(*vectors), folder, verbose=False, **settings
    )


def topics(*queries):
    return pd.DataFrame({"qid": [f"q{i}" for i in range(len(queries))], "query": queries})


def found(transformer, query):
    return transformer.transform(topics(query))["docno"].tolist()


class TestLsa(TransformerContract):
    def make(self):
        return VectorSearch(documents=toy_documents(), verbose=False)

    def others(self):
        toys = toy_documents()
        return [
            VectorSearch(documents=toys, num_results=2),
            VectorSearch(documents=toys, seed=1),
            VectorSearch(documents=toys, search="torch"),
            VectorSearch(documents=toys[1:]),
            VectorSearch(documents=toys, collection="toys"),
            VectorSearch(encoders.get("lsa", toys), toys),
            VectorSearch(encoders.get("lsa", toys, dimensions=2), toys),
        ]

    def other_values(self):
        toys = toy_documents()
        return {
            **{"encoder": encoders.get("lsa", toys), "documents": toys[1:]},
            **{"folder": tempfile.mkdtemp(), "search": "torch", "collection": "toys"},
        }

    def inp(self):
        return toy_topics()


class TestTorch(TestLsa):
    def make(self):
        return VectorSearch(documents=toy_documents(), search="torch", verbose=False)

    def others(self):
        return []

    def other_values(self):
        return super().other_values() | {"search": "numpy"}

    def inp(self):
        return toy_topics()


# By hand -------------------------------------------------------------------------------------


def test_cosines_where_the_encoder_says_so():
    # with (3, 4): (4, 3) 24/25, (30, 40) 1, (-3, -4) -1
    out = search("4 3", "30 40", "-3 -4", encoder=FixedEncoder(cosine=True)).transform(
        topics("3 4")
    )
    assert out["docno"].tolist() == ["d01", "d00", "d02"]
    assert out["score"].tolist() == pytest.approx([1, 0.96, -1])


def test_lsa_finds_what_says_it():
    out = VectorSearch(documents=toy_documents(), num_results=1, verbose=False)(toy_topics())
    assert out["docno"].tolist() == ["d1", "d2", "d6", "d5"]


@pytest.mark.parametrize("way", ["numpy", "torch"])
@pytest.mark.parametrize("wanted", [1, 3, 30])
def test_ties_are_ordered_by_docno_whatever_the_order_of_documents(way, wanted):
    docs = documents(*["1 0"] * 90, "2 0", *["0.5 0"] * 5)
    expected = ["d90", *[f"d{i:02}" for i in range(89, -1, -1)]][:wanted]
    for order in (docs, docs[::-1], docs[40:] + docs[:40]):
        transformer = VectorSearch(
            FixedEncoder(), order, num_results=wanted, search=way, verbose=False
        )
        out = transformer.transform(topics("1 0"))
        assert out["docno"].tolist() == expected
        assert (np.diff(out["score"]) < 0).all()
        assert out["score"].tolist() == pytest.approx([2, *[1] * (wanted - 1)])


def test_copies_far_apart_in_a_large_index_are_ties():
    # single-precision products of equal vectors differ with their place in a matrix
    rng = np.random.default_rng(3)
    texts = [" ".join(map(str, v)) for v in rng.normal(size=(3000, 48)).round(3)]
    copies = [5, 700, 1500, 2300, 2999]
    for i in copies:
        texts[i] = texts[5]
    docs = [{"docno": f"d{i:04}", "text": text} for i, text in enumerate(texts)]
    out = VectorSearch(FixedEncoder(), docs, num_results=4, verbose=False)(topics(texts[5]))
    assert out["docno"].tolist() == [f"d{i:04}" for i in copies[::-1][:4]]


@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1, max_size=40),
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3).filter(any), min_size=1, max_size=3),
    st.integers(1, 12),
    st.sampled_from(["numpy", "torch"]),
)
def test_against_brute_force(vectors, queries, wanted, way):
    texts = [" ".join(map(str, v)) for v in vectors]
    if not any(any(v) for v in vectors):
        return
    out = search(*texts, num_results=wanted, search=way).transform(
        topics(*(" ".join(map(str, q)) for q in queries))
    )
    for number, query in enumerate(queries):
        products = {f"d{i:02}": float(np.dot(v, query)) for i, v in enumerate(vectors) if any(v)}
        wished = sorted(products, key=lambda d: (products[d], d), reverse=True)[:wanted]
        own = out[out["qid"] == f"q{number}"]
        assert own["docno"].tolist() == wished
        assert own["score"].tolist() == pytest.approx([products[d] for d in wished])
        assert (np.diff(own["score"]) < 0).all() and own["rank"].tolist() == list(range(len(own)))


# Queries without a direction -----------------------------------------------------------------


def test_queries_and_documents_without_a_vector():
    transformer = search("1 1", "0 0", "1 0")
    with pytest.warns(DataWarning, match="'q0'.*'q1'.*'q3'"):
        out = transformer.transform(topics("", " \t", "0 1", "0 0"))
    assert list(zip(out["qid"], out["docno"], strict=True)) == [("q2", "d00"), ("q2", "d02")]
    with pytest.warns(DataWarning):
        nothing = transformer.transform(topics(""))
    assert list(nothing.columns) == list(out.columns) and not len(nothing)


def test_no_document_has_a_vector():
    with pytest.raises(InputError):
        search("0 0", "0 0").transform(topics("1 0"))
    with pytest.raises(InputError):
        VectorSearch(FixedEncoder(), []).transform(topics("1 0"))


def test_other_columns_of_topics_stay():
    inp = topics("1 0", "0 1").assign(question="why", docno="old", score=3, rank=1)
    out = search("1 1").transform(inp)
    assert list(out.columns) == ["qid", "query", "question", "docno", "score", "rank"]
    assert out["docno"].tolist() == ["d00", "d00"]


def test_topics_come_in_their_order():
    out = search("1 1").transform(topics("1 0", "0 1", "1 0").iloc[[2, 0, 1]])
    assert out["qid"].tolist() == ["q2", "q0", "q1"]


# The index -----------------------------------------------------------------------------------


def test_nothing_is_encoded_before_it_is_needed(tmp_path):
    encoder = FixedEncoder()
    transformer = search("1 0", encoder=encoder, folder=tmp_path / "index")
    transformer.transform(topics("1 0")[:0])
    assert encoder.encoded == 0 and not (tmp_path / "index").exists()


def test_an_index_is_used_again(tmp_path):
    first = search("1 0", "0 1", folder=tmp_path)
    wanted = first.transform(topics("1 0.5"))
    again = FixedEncoder(broken=1)  # the query alone
    pd.testing.assert_frame_equal(
        search("1 0", "0 1", encoder=again, folder=tmp_path).transform(topics("1 0.5")), wanted
    )
    opened = VectorSearch(FixedEncoder(broken=1), folder=tmp_path)
    assert opened == first
    pd.testing.assert_frame_equal(opened.transform(topics("1 0.5")), wanted)


def test_others_get_an_index_of_their_own_in_the_same_folder(tmp_path):
    assert found(search("1 0", "0 1", folder=tmp_path), "1 0.5") == ["d00", "d01"]
    assert found(search("0 1", "1 0", folder=tmp_path), "1 0.5") == ["d01", "d00"]
    other = FixedEncoder("other")
    search("1 0", "0 1", folder=tmp_path, encoder=other).transform(topics("1 0"))
    assert other.encoded == 3
    assert len(list(tmp_path.glob("index-*"))) == 3
    with pytest.raises(ParameterError, match="several"):
        VectorSearch(FixedEncoder(), folder=tmp_path)
    named = search("1 0", "0 1").collection
    assert found(VectorSearch(FixedEncoder(), folder=tmp_path, collection=named), "1 0.5") == [
        "d00",
        "d01",
    ]


def test_no_documents_and_no_index(tmp_path):
    for folder in (None, tmp_path, tmp_path / "none"):
        with pytest.raises(ParameterError, match="got none"):
            VectorSearch(folder=folder)


def test_a_temporary_folder_goes_with_its_last_user():
    transformer = search("1 0", "0 1")
    fused = transformer.fuse_rank_cutoff(1)
    folder = Path(transformer.index().index_path).parent
    del transformer
    assert found(fused, "1 0.5") == ["d00"] and folder.exists()
    del fused
    assert not folder.exists()


def test_an_encoder_that_breaks_leaves_nothing(tmp_path):
    vectors = ["1 0"] * 1500  # two batches
    with pytest.raises(RuntimeError, match="the encoder broke"):
        search(*vectors, encoder=FixedEncoder(broken=1100), folder=tmp_path).index()
    assert [p.name for p in tmp_path.iterdir()] in ([".lock"], [])
    assert len(search(*vectors, folder=tmp_path).index()) == 1500


KILLED = """
import os, signal
from fixed_encoder import FixedEncoder, documents
from fairtk_baselines.vector_search import VectorSearch
class Killed(FixedEncoder):
    def encode_docs(self, texts, batch_size=None):
        if self._encoded:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode_docs(texts)
Killed.__module__, Killed.__qualname__ = FixedEncoder.__module__, FixedEncoder.__qualname__
VectorSearch(Killed(), documents(*["1 0"] * 1500), {folder!r}, verbose=False).index()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_indexing_is_not_taken_for_a_whole_one(tmp_path):
    tests = Path(__file__).parent
    result = subprocess.run(
        [sys.executable, "-c", KILLED.format(folder=str(tmp_path))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])},
        cwd=tests.parents[2],
        capture_output=True,
        text=True,
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    left = list(tmp_path.glob(".part-*/index/vecs.f4"))
    assert len(left) == 1  # it was under way
    transformer = search(*["1 0"] * 1500, folder=tmp_path)
    assert len(transformer.index()) == 1500
    assert not list(tmp_path.glob(".part-*")) and len(list(tmp_path.glob("index-*"))) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "vecs.f4").write_bytes(b"1234"),
        lambda f: (f / "vecs.f4").unlink(),
        lambda f: (f / "pt_meta.json").write_text("{"),
        lambda f: (f / "fairtk.json").write_text("[]"),
        lambda f: (f / "fairtk.json").write_text('{"version": 9}'),
        lambda f: (f / "fairtk.json").unlink(),
    ],
)
def test_a_damaged_index_is_named(tmp_path, damage):
    search("1 0", "0 1", folder=tmp_path).index()
    (folder,) = tmp_path.glob("index-*")
    damage(folder)
    with pytest.raises(FormatError) as error:
        search("1 0", "0 1", folder=tmp_path).transform(topics("1 0"))
    assert str(folder) in str(error.value)


def test_docnos_of_any_script(tmp_path):
    names = ["ß", "日本", "a b", "0"]
    docs = [{"docno": name, "text": f"1 {i}"} for i, name in enumerate(names)]
    transformer = VectorSearch(FixedEncoder(), docs, tmp_path, verbose=False)
    assert found(transformer, "0 1") == names[::-1]


def test_document_vectors_for_later_stages():
    transformer = search("1 0", "0 1")
    out = transformer.index().vec_loader()(transformer(topics("1 0.5")))
    assert [v.tolist() for v in out["doc_vec"]] == [[1, 0], [0, 1]]


def test_documents_are_read_anew_from_a_function():
    times = []

    def read():
        times.append(1)
        return iter(documents("1 0", "0 1"))

    one = VectorSearch(FixedEncoder(), read, verbose=False)
    assert len(times) == 1  # for the digest
    named = VectorSearch(FixedEncoder(), read, collection="v1", verbose=False)
    assert len(times) == 1 and one != named
    assert found(named, "0 1") == ["d01", "d00"] and len(times) == 2


# With PyTerrier and other encoders -----------------------------------------------------------


def test_cutoff_is_fused_into_the_search():
    import pyterrier as pt

    transformer = search("1 0", "0 1", "1 1")
    assert transformer.fuse_rank_cutoff(2) == search("1 0", "0 1", "1 1", num_results=2)
    assert transformer.fuse_rank_cutoff(100) is None
    compiled = (transformer % 2).compile()
    pd.testing.assert_frame_equal(
        compiled(topics("1 0.5")), (transformer % 2)(topics("1 0.5")), check_dtype=False
    )
    assert pt.inspect.subtransformers(transformer) == {}


@pytest.mark.skipif(not HAS_FAISS, reason="faiss is not installed")
@pytest.mark.parametrize("way", ["faiss", "faiss-hnsw"])
def test_faiss_agrees(way):
    rng = np.random.default_rng(4)
    texts = [" ".join(map(str, v)) for v in rng.normal(size=(60, 4)).round(3)]
    assert found(search(*texts, search=way, num_results=5), texts[0]) == found(
        search(*texts, num_results=5), texts[0]
    )


# Errors --------------------------------------------------------------------------------------


@pytest.mark.skipif(HAS_FAISS, reason="faiss is installed")
def test_faiss_is_not_installed():
    with pytest.raises(ParameterError):
        search("1 0", search="faiss")


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_results": 0},
        {"seed": -1},
        {"search": "nunpy"},
    ],
)
def test_settings_out_of_range(arguments):
    with pytest.raises(ParameterError, match=rf"\b{[*arguments][-1]}\b"):
        search("1 0", **arguments)


@pytest.mark.parametrize(
    ("inp", "error", "named"),
    [
        (topics("1 0").drop(columns="query"), ColumnError, "VectorSearch: .*'query'"),
        (topics("nan 0"), InputError, "query 'nan 0' must be finite"),
    ],
)
def test_topics_that_cannot_be_used(inp, error, named):
    with pytest.raises(error, match=named):
        search("1 0").transform(inp)


@pytest.mark.parametrize(
    ("docs", "error", "named"),
    [
        (documents("1 0") * 2, DuplicateError, "duplicate docno 'd00'"),
        (documents("1 0", "inf 0"), InputError, "'d01' must be finite"),
        ([{"docno": "a"}], InputError, "'text' of docno 'a'"),
        ([{"text": "1 0"}], InputError, "position 0"),
    ],
)
def test_documents_that_cannot_be_used(docs, error, named):
    with pytest.raises(error, match=named):
        VectorSearch(FixedEncoder(), docs, verbose=False).transform(topics("1 0"))


class Flat(FixedEncoder):
    def encode_docs(self, texts, batch_size=None):
        return np.zeros(3)


def test_an_encoder_of_another_shape():
    with pytest.raises(InputError, match=r"one vector for each of 1 texts, got .*\(3,\)"):
        search("1 0", encoder=Flat()).transform(topics("1 0"))


def test_collections_and_seeds_lie_in_one_folder(tmp_path):
    docs = [{"docno": f"d{i}", "text": f"cat word{i % 3} dog{i}"} for i in range(9)]
    made = {"one": (docs[:4], 1), "two": (docs[3:], 1), "three": (docs, 2)}
    wanted = {
        name: VectorSearch("lsa", part, tmp_path, collection=name, seed=seed).transform(
            topics("cat word1")
        )
        for name, (part, seed) in made.items()
    }
    for name, (_, seed) in made.items():
        opened = VectorSearch("lsa", None, tmp_path, collection=name, seed=seed)
        pd.testing.assert_frame_equal(opened.transform(topics("cat word1")), wanted[name])
    with pytest.raises(ParameterError, match="'one'.*'lsa'"):
        VectorSearch("lsa", None, tmp_path, collection="one", seed=2).index()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "index").write_text("")
    with pytest.raises(FormatError, match="got a"):
        VectorSearch(FixedEncoder(), documents("1 0"), tmp_path / "index")


def test_deep_copies_share_the_index():
    made = search("1 0", "0 1")
    for opened in (False, True):
        other = copy.deepcopy(made)
        assert other == made and other is not made
        assert found(other, "0 1") == ["d01", "d00"], opened
    del made
    gc.collect()
    assert found(copy.deepcopy(other), "0 1") == ["d01", "d00"]  # the temporary folder stays


def test_another_process_may_get_an_open_index():
    toys = toy_documents()
    made = VectorSearch("lsa", toys)
    wanted = made.transform(toy_topics())
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(made)).transform(toy_topics()), wanted)


def test_no_progress_is_shown_of_quick_work(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("tqdm.std.time", lambda: 0.0)  # quick, however slow the machine is
    VectorSearch(FixedEncoder(), documents("1 0", "0 1")).index()
    assert stream.getvalue().strip("\r ") == ""
