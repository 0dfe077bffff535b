"""Neural scorers: a plain computation, the files of real models, and what must not matter."""

from __future__ import annotations

import json
import pickle
import shutil

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import tiny_encoders

from fairtk import ContrieverScorer, SpladeScorer
from fairtk.errors import (
    ColumnError,
    InputError,
    MissingExtraError,
    ModelError,
    ParameterError,
)
from fairtk.experiment.identity import describe
from fairtk.testing import ScorerContract, toy_run

torch = pytest.importorskip("torch")
SCORERS = [ContrieverScorer, SpladeScorer]
# texts are longer than tiny models read
pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tiny_encoders.save(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "model")


LONG = " ".join(tiny_encoders.WORDS * 3)  # longer than the window


def run(n_queries=3, n_docs=5):
    rng = np.random.default_rng(1)

    def words(most):
        return " ".join(rng.choice(tiny_encoders.WORDS, rng.integers(1, most)))

    rows = [
        (f"q{q}", query, f"d{q}/{d}", words(30))
        for q in range(n_queries)
        for query in [words(4)]
        for d in range(n_docs)
    ]
    rows += [("q0", rows[0][1], "long", LONG), ("q0", rows[0][1], "empty", "")]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text"])


@pytest.mark.parametrize(
    ("scorer", "kind"), [(ContrieverScorer, "bert"), (SpladeScorer, "distilbert")]
)
def test_scores_are_those_of_one_text_at_a_time(scorer, kind, folder, tmp_path):
    made = folder if kind == "bert" else tiny_encoders.save(tmp_path, kind)
    inp = run()
    sparse = scorer is SpladeScorer
    vectors = {
        text: tiny_encoders.plain_vector(made, text, sparse)
        for text in {*inp["text"], *inp["query"]}
    }
    wanted = {
        (row.qid, row.docno): vectors[row.query] @ vectors[row.text] for row in inp.itertuples()
    }
    for tokens in (None, 1, 40, 10_000):  # batches of one text, of a few, of all
        out = scorer(made, batch_tokens=tokens)(inp)
        keys = list(zip(out["qid"], out["docno"], strict=True))
        np.testing.assert_allclose(out["score"], [wanted[key] for key in keys], rtol=2e-5)
        for _, part in out.groupby("qid"):
            assert part["score"].is_monotonic_decreasing
            assert part["rank"].tolist() == list(range(len(part)))
    assert len({round(score, 6) for score in wanted.values()}) == len(wanted)


@pytest.mark.parametrize("scorer", SCORERS)
def test_every_distinct_text_is_encoded_once(scorer, folder, monkeypatch):
    stage = scorer(folder)
    inp = run()
    inp = pd.concat([inp, inp.assign(docno=inp["docno"] + "'")])  # each text twice
    seen = []
    vectors = stage.encoder._vectors
    monkeypatch.setattr(stage.encoder, "_vectors", lambda rows: seen.extend(rows) or vectors(rows))
    out = stage(inp)
    assert len(seen) == inp["text"].nunique() + inp["query"].nunique()
    twins = out.assign(docno=out["docno"].str.rstrip("'")).groupby(["qid", "docno"])["score"]
    assert (twins.nunique() == 1).all()  # to the last digit


@pytest.mark.parametrize("scorer", SCORERS)
def test_max_tokens(scorer, folder):
    inp = pd.DataFrame({"qid": "q", "query": "movie", "docno": ["a", "b"], "text": [LONG, "tag"]})
    cut = inp.assign(text=[" ".join(LONG.split()[:3]), "tag"])
    # 5 tokens: three words, [CLS] and [SEP]
    short = scorer(folder, max_tokens=5)(inp)
    pd.testing.assert_frame_equal(
        short[["docno", "score"]], scorer(folder)(cut)[["docno", "score"]]
    )
    whole = scorer(folder)(inp)
    pd.testing.assert_frame_equal(scorer(folder, max_tokens=24)(inp), whole)
    with pytest.raises(ParameterError, match="max_tokens must be at most 24.*25"):
        scorer(folder, max_tokens=25)(inp)


# Files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scorer", SCORERS)
def test_weights_in_several_files(scorer, folder, tmp_path):
    sharded = tiny_encoders.save(tmp_path / "sharded", shard="8KB")
    assert (sharded / "model.safetensors.index.json").is_file()
    assert len(list(sharded.glob("model-*.safetensors"))) > 1
    pd.testing.assert_frame_equal(scorer(sharded)(run()), scorer(folder)(run()))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("scorer", SCORERS)
def test_pickled_weights_need_a_word(scorer, shards, folder, copied):
    tiny_encoders.pickle_weights(copied, shards)
    with pytest.raises(ModelError) as error:
        scorer(copied)(run())
    text = str(error.value)
    assert "\n" not in text and "which is not loaded: a pickled file can run code" in text
    assert "allow_pickled_weights=True" in text and "weights_only=True" in text
    out = scorer(copied, allow_pickled_weights=True)(run())
    pd.testing.assert_frame_equal(out, scorer(folder)(run()))


def test_safetensors_come_first(folder, copied):
    (copied / "pytorch_model.bin").write_bytes(b"no pickle at all")
    out = ContrieverScorer(copied, allow_pickled_weights=True)(run())
    pd.testing.assert_frame_equal(out, ContrieverScorer(folder)(run()))


class _Evil:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_a_pickle_that_runs_code_is_refused(copied, tmp_path):
    (copied / "model.safetensors").unlink()
    ran = tmp_path / "ran"
    for save in (lambda weights, path: path.write_bytes(pickle.dumps(weights, 2)), torch.save):
        save({"weight": _Evil(ran)}, copied / "pytorch_model.bin")
        with pytest.raises(ModelError):
            ContrieverScorer(copied, allow_pickled_weights=True)(run())
    assert not ran.exists()


def test_other_kinds_of_models(tmp_path, folder):
    from fairtk import demo

    for scorer in SCORERS:
        with pytest.raises(ModelError, match=r"encoder such as BERT.*\(t5\)"):
            scorer(demo.model_folder())(run())
    bare = tiny_encoders.save(tmp_path / "bare", head=False)
    # an encoder without the head: its scores over the vocabulary would be random numbers
    with pytest.raises(ModelError, match=r"expected a BertForMaskedLM .*\d+ weights"):
        SpladeScorer(bare)(run())
    assert len(ContrieverScorer(bare)(run())) == len(run())


# Identity ---------------------------------------------------------------------------------------


def identity(stage):
    return describe(stage, "stage")


def test_identity_is_by_content(folder, copied, tmp_path):
    one = identity(ContrieverScorer(folder))
    assert identity(ContrieverScorer(copied)) == one  # wherever it lies
    assert one != identity(SpladeScorer(folder))
    for other in ({"dtype": "bfloat16"}, {"max_tokens": 7}, {"batch_tokens": 99}):
        assert identity(ContrieverScorer(copied, **other)) != one
    text = json.dumps(one)
    assert str(folder) not in text and '"dtype": "float32"' in text and '"device": "cpu"' in text
    assert identity(ContrieverScorer(copied, allow_pickled_weights=True)) == one
    tiny_encoders.pickle_weights(copied)
    pickled = identity(ContrieverScorer(copied, allow_pickled_weights=True))
    assert pickled != one
    weights = torch.load(copied / "pytorch_model.bin", weights_only=True)
    name = next(iter(weights))
    torch.save(weights | {name: weights[name] + 1}, copied / "pytorch_model.bin")
    assert identity(ContrieverScorer(copied, allow_pickled_weights=True)) != pickled


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_used_scorer_travels_without_its_model(scorer, folder):
    stage = scorer(folder)
    wanted = stage(run())
    packed = cloudpickle.dumps(stage)
    assert len(packed) < 2000
    arrived = cloudpickle.loads(packed)
    assert arrived == stage
    pd.testing.assert_frame_equal(arrived(run()), wanted)


def test_half_precision_is_near(folder):
    whole = ContrieverScorer(folder)(run()).set_index(["qid", "docno"])["score"]
    half = ContrieverScorer(folder, dtype="bfloat16")(run()).set_index(["qid", "docno"])["score"]
    assert not half[whole.index].equals(whole)
    np.testing.assert_allclose(half[whole.index], whole, atol=0.1 * whole.abs().max())


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scorer", SCORERS)
def test_bad_frames(scorer, folder):
    stage = scorer(folder)
    with pytest.raises(ColumnError, match=f"{scorer.__name__}: expected one ranking per query"):
        stage(run().assign(sample=0))
    with pytest.raises(InputError, match=rf"{scorer.__name__}: the text of qid 'q0', docno 'd0/0'"):
        stage(run().assign(text=None))


@pytest.mark.parametrize("scorer", SCORERS)
def test_bad_settings(scorer, folder, monkeypatch):
    for settings, message in (
        ({"dtype": "float16x"}, "dtype must be one of .*'float16x'"),
        ({"max_tokens": 0}, "max_tokens must be an integer of at least 1, got 0"),
        ({"batch_tokens": 1.5}, "batch_tokens must be an integer of at least 1, got 1.5"),
        ({"allow_pickled_weights": 1}, "allow_pickled_weights must be True or False, got 1"),
    ):
        with pytest.raises(ParameterError, match=message):
            scorer(folder, **settings)
    with pytest.raises(ModelError, match=r"^\./missing: "):
        scorer("./missing")(run())
    with pytest.raises(ParameterError, match="'abacus'"):
        scorer(folder, device="abacus")(run())
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=f"{scorer.__name__} requires the package"):
        scorer(folder)


def test_the_published_models_are_the_defaults():
    assert ContrieverScorer().model == "facebook/contriever"
    assert SpladeScorer().model == "naver/splade_v2_max"


class TestContrieverScorer(ScorerContract):
    per_query = False  # other texts of a batch change the last digits
    scorer = ContrieverScorer

    @pytest.fixture(autouse=True)
    def _model(self, folder):
        self.folder = folder

    def make(self):
        return self.scorer(self.folder)

    def others(self):
        return [
            self.scorer(self.folder, dtype="bfloat16"),
            self.scorer(self.folder, max_tokens=9),
            self.scorer(),
        ]

    def other_values(self):
        return {"model": "./missing", "device": "cpu", "revision": "main"}

    def inp(self):
        return toy_run()


class TestSpladeScorer(TestContrieverScorer):
    scorer = SpladeScorer
