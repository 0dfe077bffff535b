import json
import shutil

import numpy as np
import pandas as pd
import pytest
import sentence_models
import torch
from fairtk_baselines import encoders
from fairtk_baselines.encoders import LsaEncoder
from hypothesis import given
from hypothesis import strategies as st
from pyterrier_dr import SBertBiEncoder

from fairtk.errors import FormatError, InputError, ModelError, ParameterError
from fairtk.testing import toy_documents

CATS = [{"docno": "d1", "text": "cat cat"}, {"docno": "d2", "text": "dog"}]
TOPICS = [
    "car road",
    "automobile road",
    "car engine",
    "automobile engine",
    "soup spoon",
    "broth spoon",
    "soup kitchen",
    "broth kitchen",
]


def docs(texts):
    return [{"docno": f"d{i}", "text": text} for i, text in enumerate(texts)]


def cosine(encoder, one, other):
    left, right = encoder.encode_docs([one, other])
    return float(left @ right)


# The vectors ---------------------------------------------------------------------------------


def test_full_rank_keeps_the_tfidf_cosines():
    # both words are in one of two documents, so their idf is the same; "cat" and "dog" are the two
    # dimensions. "cat dog" = (1, 1) / sqrt 2. "cat cat dog" = (1 + ln 2, 1): its cosine with "cat"
    # is 1.693147 / sqrt(1.693147^2 + 1) = 1.693147 / 1.966393 = 0.861042
    encoder = LsaEncoder.fit(CATS)
    assert encoder.size == 2
    assert cosine(encoder, "cat", "dog") == pytest.approx(0, abs=1e-6)
    assert cosine(encoder, "Cat!", "cat cat cat") == pytest.approx(1)
    assert cosine(encoder, "cat dog", "cat") == pytest.approx(0.5**0.5)
    assert cosine(encoder, "cat cat dog", "cat") == pytest.approx(0.861042, abs=1e-5)


def test_vectors_are_single_precision_and_of_length_1_or_0():
    vectors = LsaEncoder.fit(CATS).encode_queries(["cat", "", "zebra", "a", "dog zebra"])
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 0, 0, 1])


def test_directions_without_weight_are_left_out():
    # three documents and three words, but two documents are the same: rank 2
    encoder = LsaEncoder.fit(docs(["cat hat", "cat hat", "dog"]))
    assert encoder.size == 2


@pytest.mark.parametrize(("texts", "size"), [(["cat"], 1), (["cat dog", "hat dog", "cat"], 3)])
def test_no_more_dimensions_than_documents_and_words(texts, size):
    encoder = LsaEncoder.fit(docs(texts), dimensions=100)
    assert encoder.size == size
    assert encoder.encode_docs(["cat"]).shape == (1, size)


def test_rare_and_superfluous_words_are_left_out():
    assert LsaEncoder.fit(docs(["cat dog", "cat hat"]), min_documents=2).terms == ["cat"]
    assert LsaEncoder.fit(docs(["cat dog", "cat hat"]), max_terms=1).terms == ["cat"]


@given(
    st.lists(
        st.lists(st.sampled_from(["cat", "dog", "hat", "ox", "é"])).map(" ".join), max_size=12
    ),
    st.integers(1, 5),
)
def test_batches_change_no_vector(texts, size):
    encoder = LsaEncoder.fit(docs(TOPICS) + CATS)
    whole = encoder.encode_docs(texts)
    assert whole.shape == (len(texts), encoder.size)
    assert np.array_equal(encoder.encode_docs(iter(texts), batch_size=size), whole)
    for text, vector in zip(texts, whole, strict=True):
        assert np.array_equal(encoder.encode_queries([text])[0], vector)


def test_fitting_repeats_and_leaves_global_random_states_alone():
    np.random.seed(1)
    torch.manual_seed(1)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    one = LsaEncoder.fit(docs(TOPICS), dimensions=3, seed=5)
    np.random.seed(2)
    assert one == LsaEncoder.fit(docs(TOPICS), dimensions=3, seed=5)
    np.random.seed(1)
    assert np.array_equal(before[0], np.random.get_state()[1])
    assert torch.equal(before[1], torch.get_rng_state())


def test_encoders_of_other_collections_differ_for_pyterrier_too():
    one, other = LsaEncoder.fit(CATS), LsaEncoder.fit(docs(TOPICS))
    again = LsaEncoder.fit(CATS)
    assert one == again and hash(one) == hash(again) and repr(one) == repr(again)
    assert one != other and repr(one) != repr(other) and one != "lsa"
    assert one.query_encoder() == again.query_encoder()
    assert one.doc_encoder() != other.doc_encoder()  # pyterrier_dr's own comparison


@pytest.mark.parametrize(
    "settings",
    [
        {"dimensions": 0},
        {"max_terms": 1.5},
        {"min_documents": "1"},
        {"seed": -1},
        {"seed": 2**32},
    ],
)
def test_settings_out_of_range(settings):
    with pytest.raises(ParameterError, match=rf"\b{[*settings][-1]}\b"):
        LsaEncoder.fit(CATS, **settings)


@pytest.mark.parametrize(
    ("documents", "named"),
    [
        ([], "no word occurs .*check that there are documents with texts"),
        (docs(["", "a"]), "no word occurs"),
        ([{"docno": "d1", "text": None}], "'d1' must be a string, got None"),
        ([{"docno": 1, "text": "cat"}], "position 0"),
        (["cat"], "position 0"),
        (7, "got int"),
    ],
)
def test_documents_that_cannot_be_used(documents, named):
    with pytest.raises(InputError, match=named):
        LsaEncoder.fit(documents)


def test_a_text_that_is_no_string():
    with pytest.raises(InputError, match="got nan.*position 1"):
        LsaEncoder.fit(CATS).encode_docs(["cat", float("nan")])


# Files ---------------------------------------------------------------------------------------


def test_files_give_back_the_same_encoder(tmp_path):
    encoder = LsaEncoder.fit(docs(["naïve cat", "dog", "日本語 cat"]))
    encoder.save(tmp_path / "new" / "folder")
    back = LsaEncoder.load(tmp_path / "new" / "folder")
    assert back == encoder and back.fit_settings == encoder.fit_settings
    texts = ["naive", "日本語 cat", ""]
    assert np.array_equal(back.encode_docs(texts), encoder.encode_docs(texts))
    assert encoders.get(str(tmp_path / "new" / "folder")) == encoder


def test_a_folder_of_something_else_stays_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FormatError):
        encoders.get("lsa", CATS, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def _change(folder, **values):
    path = folder / "lsa.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda f: _change(f, terms=["cat"]), "1 words, not 2"),
        (lambda f: _change(f, digest="0"), "other content"),
    ],
)
def test_damaged_files_are_named(tmp_path, damage, named):
    LsaEncoder.fit(CATS).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(FormatError, match=named) as error:
        LsaEncoder.load(tmp_path)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


# get -----------------------------------------------------------------------------------------


def test_get_fits_once_and_again_when_something_changed(tmp_path, monkeypatch):
    fitted = []
    fit = LsaEncoder.fit.__func__

    def counting(cls, documents, **settings):
        fitted.append(settings)
        return fit(cls, documents, **settings)

    monkeypatch.setattr(LsaEncoder, "fit", classmethod(counting))
    first = encoders.get("lsa", CATS, tmp_path)
    assert encoders.get("lsa", CATS, tmp_path) == first
    assert encoders.get("lsa", lambda: iter(CATS), tmp_path) == first
    assert encoders.get("lsa", pd.DataFrame(CATS), tmp_path) == first
    assert encoders.get("lsa", folder=tmp_path) == first
    assert len(fitted) == 1
    for change in (
        {"documents": docs(TOPICS)},
        {"seed": 1},
        {"dimensions": 1},
        {"collection": "named"},
    ):
        encoders.get("lsa", **{"documents": CATS, "folder": tmp_path, **change})
    assert len(fitted) == 5
    assert encoders.get("lsa", CATS, tmp_path, collection="named").fit_settings == {
        "dimensions": 256,
        "max_terms": 100_000,
        "min_documents": 1,
        "seed": 42,
        "collection": "named",
    }
    assert len(fitted) == 5


def test_get_reads_a_generator_once():
    assert encoders.get("lsa", (d for d in CATS)) == encoders.get("lsa", CATS)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "requires documents"),
        ({"documents": CATS, "colour": 3}, "colour"),
        ({"encoder": LsaEncoder.fit(CATS), "dimensions": 3}, "only the encoder 'lsa'"),
        ({"encoder": 3}, "got int"),
    ],
)
def test_get_refuses(arguments, named):
    with pytest.raises(ParameterError, match=named):
        encoders.get(**arguments)


# sentence-transformers -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    return sentence_models.write(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def model(saved_model, tmp_path):
    return shutil.copytree(saved_model, tmp_path / "model")


def test_a_local_sentence_model(model, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    encoder = encoders.get(str(model))
    assert isinstance(encoder, SBertBiEncoder)
    vectors = encoder.encode_docs(["red fox", "ships in the sea"])
    assert vectors.shape == (2, 16) and vectors.dtype == np.float32
    assert encoder.encode_queries(["red fox"])[0] == pytest.approx(vectors[0], abs=1e-5)
    out = encoder.query_encoder()(pd.DataFrame({"qid": ["1"], "query": ["red fox"]}))
    assert out["query_vec"].iloc[0] == pytest.approx(vectors[0], abs=1e-5)


def test_a_model_is_known_by_its_content(model, tmp_path):
    one = encoders.identity(encoders.get(model))
    copied = shutil.copytree(model, tmp_path / "copied")
    assert encoders.identity(encoders.get(copied)) == one
    other = sentence_models.write(tmp_path / "other", seed=1)
    assert encoders.identity(encoders.get(other)) != one


def test_pickled_weights_are_never_loaded(model):
    torch.save({}, model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"pytorch_model\.bin, which is never loaded"):
        encoders.get(str(model))


def test_code_of_a_model_is_never_run(model, tmp_path):
    said = tmp_path / "said"
    (model / "evil.py").write_text(f"open({str(said)!r}, 'w').write('run')\nclass Evil: pass\n")
    config = json.loads((model / "config.json").read_text())
    automatic = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}
    changed = {**config, "auto_map": automatic, "model_type": "evil"}
    (model / "config.json").write_text(json.dumps(changed))
    with pytest.raises(ModelError):
        encoders.get(str(model))
    (model / "config.json").write_text(json.dumps(config))
    modules = (model / "modules.json").read_text()
    name = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
    assert name in modules
    (model / "modules.json").write_text(modules.replace(name, "evil.Evil"))
    with pytest.raises(ModelError, match=r"its own code \('evil.Evil'\)"):
        encoders.get(str(model))
    assert not said.exists()


def test_a_folder_that_is_no_sentence_model(model):
    for name in ("config.json", "modules.json"):
        (model / name).unlink()
        with pytest.raises(ModelError, match=f"no {name}"):
            encoders.get(str(model))
        (model / name).write_text("{")
    with pytest.raises(ModelError, match=r"modules\.json"):
        encoders.get(str(model))


def test_names_that_lead_nowhere(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="LocalEntryNotFoundError"):
        encoders.get("nobody/nothing")
    with pytest.raises(ModelError, match="got nothing"):
        encoders.get("./nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="got a"):
        encoders.get(tmp_path / "file")


# identity ------------------------------------------------------------------------------------


class Bare:
    pass


class Named:
    def __init__(self, model_name, batch_size=1):
        self.model_name = model_name
        self.batch_size = batch_size


def test_identity():
    assert encoders.identity(None) is None
    assert encoders.identity("lsa") == "lsa"
    assert encoders.identity(Named("a")) == encoders.identity(Named("a", batch_size=9))
    assert encoders.identity(Named("a")) != encoders.identity(Named("b"))
    one, other = Bare(), Bare()
    assert encoders.identity(one) == encoders.identity(one)
    assert encoders.identity(one) != encoders.identity(other)
    assert encoders.identity(LsaEncoder.fit(CATS)) == encoders.identity(LsaEncoder.fit(CATS))
    toys = LsaEncoder.fit(toy_documents())
    assert encoders.identity(LsaEncoder.fit(CATS)) != encoders.identity(toys)


def test_an_error_of_the_users_documents_is_theirs():
    def read():
        yield {"docno": "d1", "text": "cat"}
        raise ValueError("line 2 is torn")

    with pytest.raises(ValueError, match="^line 2 is torn$"):
        LsaEncoder.fit(read, collection="torn")


def test_a_fitted_encoder_is_used_where_nothing_can_be_written(tmp_path, monkeypatch):
    """On a read-only disk a lock cannot be taken either, and none is needed."""
    fitted = encoders.get("lsa", CATS, tmp_path)

    def read_only(*_args, **_kwargs):
        raise PermissionError("read-only")

    monkeypatch.setattr(encoders, "FileLock", read_only)
    assert encoders.get("lsa", CATS, tmp_path) == fitted
    with pytest.raises(PermissionError, match="read-only"):
        encoders.get("lsa", CATS, tmp_path, seed=1)


def test_against_the_singular_value_decomposition_of_numpy():
    """The weights by their definition, (1 + ln tf) (ln((1 + n) / (1 + df)) + 1), then U S V'."""
    rng = np.random.default_rng(5)
    words = np.array([f"w{i}" for i in range(12)])
    texts = [" ".join(rng.choice(words, 6)) for _ in range(9)]
    counts = np.array([[text.split().count(w) for w in words] for text in texts])
    idf = np.log((1 + 9) / (1 + (counts > 0).sum(axis=0))) + 1
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    wanted = weights @ np.linalg.svd(weights)[2][:4].T
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    found = LsaEncoder.fit(docs(texts), dimensions=4).encode_docs(texts)
    # directions may differ by signs: compare what they are for, the cosines
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-4)


def test_an_encoder_that_is_replaced_while_it_is_read_is_not_taken(tmp_path, monkeypatch):
    encoders.get("lsa", CATS, tmp_path, seed=1)
    load = LsaEncoder.load

    def slow(folder):
        LsaEncoder.fit(docs(TOPICS), seed=2).save(folder)  # another process
        monkeypatch.undo()
        return load(folder)

    monkeypatch.setattr(LsaEncoder, "load", slow)
    found = encoders.get("lsa", CATS, tmp_path, seed=1)
    assert found == LsaEncoder.fit(CATS, seed=1)
    assert load(tmp_path).fit_settings["seed"] == 1


def test_a_damaged_encoder_is_an_error_and_one_of_other_settings_is_replaced(tmp_path):
    encoders.get("lsa", CATS, tmp_path)
    next(tmp_path.glob("*.safetensors")).write_bytes(b"")
    with pytest.raises(FormatError):
        encoders.get("lsa", CATS, tmp_path)
    assert encoders.get("lsa", CATS, tmp_path, seed=1) == LsaEncoder.load(tmp_path)
