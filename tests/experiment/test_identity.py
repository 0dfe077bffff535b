"""Content identity: what tells stages apart, what does not, and what is refused."""

import importlib.metadata
import importlib.util
import threading

import pandas as pd
import pyterrier as pt
import pytest
from experiment_stages import Retriever

from fairtk import (
    BM25Scorer,
    FairSampler,
    FlanT5,
    Generator,
    Groups,
    OracleSampler,
    PerSample,
    demo,
)
from fairtk.errors import IdentityError, WorkerError
from fairtk.experiment import identified
from fairtk.experiment.identity import (
    _BY_NAME,
    _MADE_AGAIN,
    _PYTERRIER,
    _RAG,
    _owners,
    describe,
    describe_stage,
    differences,
    key_of,
)
from fairtk.experiment.work import _REDUCERS, from_parent, to_worker
from fairtk.frames import identity_name
from fairtk.frames.columns import DOCNO
from fairtk.llm import (
    ChatModel,
    KeywordRefiner,
    Ledger,
)


def key(stage):
    return key_of(describe_stage(stage))


QRELS = pd.DataFrame({"qid": ["q"], "docno": ["d"], "label": [1]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: (Retriever() % 5) + 0.5 * Retriever(seed=1),
        lambda: Retriever() ** Retriever(seed=2),
        lambda: pt.apply.rename({"a": "b"}),
        lambda: pt.Transformer.from_df(QRELS),
        lambda: identified(pt.apply.generic(lambda f: f), "mine, v1"),
    ],
)
def test_equal_settings_have_one_identity(make):
    assert key(make()) == key(make())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FairSampler(alpha=2), FairSampler(alpha=3)),
        (OracleSampler(QRELS), OracleSampler(QRELS.assign(label=2))),
        (pt.apply.rename({"a": "b"}), pt.apply.rename({"a": "c"})),  # these print alike
        (pt.Transformer.from_df(QRELS), pt.Transformer.from_df(QRELS.assign(label=0))),
        (PerSample(Retriever()), PerSample(Retriever(), joint=True)),
        (Retriever() + Retriever(seed=1), Retriever() | Retriever(seed=1)),
        (0.5 * Retriever(), 0.6 * Retriever()),
        (identified(Retriever(), "mine, v1"), identified(Retriever(), "mine, v2")),
        (FlanT5(demo.model_folder(), num_beams=4), FlanT5(demo.model_folder(), num_beams=1)),
    ],
)
def test_other_settings_have_another_identity(one, other):
    assert key(one) != key(other)


def test_a_model_is_known_by_its_files_and_not_by_their_folder(tmp_path):
    copy = tmp_path / "model"
    copy.mkdir()
    for path in demo.model_folder().iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    here, there = FlanT5(model=demo.model_folder()), FlanT5(model=copy)
    assert key(here) == key(there)
    config = copy / "generation_config.json"
    config.write_text(config.read_text().replace("{", '{"repetition_penalty": 1.5,', 1))
    assert key(here) != key(there)


def test_groups_count_by_content():
    frame = pd.DataFrame({DOCNO: ["a", "b"], "group": ["x", "y"], "weight": [1.0, 1.0]})
    one, same = (Groups.from_frame(frame, name="g") for _ in range(2))
    other = Groups.from_frame(frame.assign(group=["x", "x"]), name="g")
    assert describe(one, "") == describe(same, "") != describe(other, "")


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (pt.apply.query(lambda row: row["query"]), "ApplyQueryTransformer"),
        (Retriever() + pt.apply.doc_score(lambda row: 1), "Sum.right"),
        (PerSample(pt.apply.generic(lambda frame: frame)), "PerSample.transformer"),
        (Generator(lambda prompts: prompts), "is a function"),
    ],
)
def test_what_has_no_content_identity_is_refused_with_a_remedy(stage, said):
    with pytest.raises(IdentityError, match=said) as caught:
        describe_stage(stage)
    assert "fairtk.identified(transformer" in str(caught.value)


@pytest.mark.parametrize("recorded", [False, True])
def test_the_model_of_a_generator_has_the_name_of_its_parameter(tmp_path, recorded):
    space = {"__name__": "__main__", "ChatModel": ChatModel}
    body = "name = 'mine'; parameters = outcomes = lambda self, *_: {}"
    exec(f"class Mine(ChatModel): {body}\n", space)
    llm = Ledger(tmp_path / "l").wrap(space["Mine"]()) if recorded else space["Mine"]()
    with pytest.raises(IdentityError, match=r"the class Mine of Generator\.llm is "):
        describe_stage(Generator(llm))
    with pytest.raises(IdentityError, match=r"Generator\.llm, a .*Silent"):
        describe_stage(Generator(Silent()))


class Silent:
    """An object with all parts of a model that has no identity."""

    name, tokenizer = "silent", None

    def generate(self, prompts):
        return prompts


def test_a_class_of_a_script_is_refused():
    space = {"__name__": "__main__", "FairSampler": FairSampler}
    exec("class Mine(FairSampler):\n    'a class of a notebook'\n", space)
    with pytest.raises(IdentityError):
        describe_stage(space["Mine"]())


def test_language_models_count_by_name_and_parameters():
    assert describe(KeywordRefiner(), "") == describe(KeywordRefiner(), "")


def test_the_owner_of_a_package_is_found_as_importlib_finds_it():
    expected = importlib.metadata.packages_distributions()
    for package in ("pandas", "pyterrier", "fairtk", "pytest", "yaml", "nothing"):
        assert sorted(_owners(package)) == sorted(set(expected.get(package, [])))


def test_identified_needs_a_name_and_a_transformer():
    with pytest.raises(IdentityError):
        identified(Retriever(), " ")
    with pytest.raises(IdentityError, match="PyTerrier"):
        identified("len", "len")


def test_differences_name_the_setting():
    before, now = (
        [describe_stage(Retriever()), describe_stage(FairSampler(alpha=a))] for a in (1, 2)
    )
    assert list(differences(before, now)) == ["FairSampler.alpha: 1, now 2"]
    other = [describe_stage(Retriever()), describe_stage(OracleSampler(QRELS))]
    assert "FairSampler, now OracleSampler" in next(differences(before, other))
    assert list(differences(before, now[:1])) == ["stages: Retriever >> FairSampler, now Retriever"]


def test_pisa_counts_by_all_settings_and_its_files(tmp_path):
    pisa = pytest.importorskip("pyterrier_pisa")

    def index(folder, text):
        found = pisa.PisaIndex(str(folder), text_field="text")
        documents = [{"docno": f"d{i}", "text": f"{text} number {i}"} for i in range(20)]
        found.index(documents)
        return found

    one, same = index(tmp_path / "a", "words"), index(tmp_path / "b", "words")
    other = index(tmp_path / "c", "works")
    assert key(one.bm25()) == key(same.bm25()) != key(other.bm25())
    plain = key(one.bm25())
    for changed in (
        one.bm25(k1=1.1),
        one.bm25(num_results=10),
        one.bm25(query_weighted=True),  # these two print like the plain one
        one.bm25(toks_scale=10.0),
        one.qld(),
    ):
        assert key(changed) != plain
    assert key(one.bm25(threads=2)) == plain


def test_what_holds_something_open_is_made_anew_by_a_worker(tmp_path):
    pisa = pytest.importorskip("pyterrier_pisa")
    index = pisa.PisaIndex(str(tmp_path / "index"), text_field="text")
    index.index([{"docno": f"d{i}", "text": f"words number {i}"} for i in range(20)])
    stage = index.bm25(k1=1.3, num_results=3, toks_scale=7.0)
    there = from_parent(to_worker(stage >> FairSampler()))
    assert key(there) == key(stage >> FairSampler())
    topics = pd.DataFrame({"qid": ["q"], "query": ["words number 3"]})
    pd.testing.assert_frame_equal(there[0].transform(topics), stage.transform(topics))


def test_what_cannot_travel_is_named():
    stage = PerSample(Retriever())
    stage.lock = threading.Lock()
    with pytest.raises(WorkerError, match="PerSample"):
        to_worker(stage)


def test_readers_of_pyterrier_rag(monkeypatch):
    rag = pytest.importorskip("pyterrier_rag.backend")
    readers = pytest.importorskip("pyterrier_rag.readers")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    def reader(prompt="a {{query}} {{qcontext}}", **settings):
        backend = rag.OpenAIBackend("m", base_url="http://127.0.0.1:1/v1", **settings)
        return readers.Reader(backend, prompt=prompt)

    assert key(reader()) == key(reader())
    assert key(reader()) != key(reader(max_new_tokens=5))
    assert key(reader()) != key(reader("b {{query}} {{qcontext}}"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    assert key(reader()) == key(from_parent(to_worker(reader())))
    assert b"sk-other" not in to_worker(reader())
    there = from_parent(to_worker(reader()))
    frame = pd.DataFrame({"qid": ["q"], "query": ["why"], "qcontext": ["because"]})
    assert there.prompt(frame)["prompt"].equals(reader().prompt(frame)["prompt"])


# Identities survive moves and versions ------------------------------------------------------------

EXTRAS = {"fastchat", "jinja2", "pyterrier_pisa", "pyterrier_rag"}  # may be missing


class Ours(FairSampler):
    """As of a third party that declares both."""

    identity_name = "acme.Ours"
    output_version = 3


class Theirs(FairSampler):
    """As of a third party that declares neither."""


def test_a_class_is_known_by_its_output_versions():
    assert describe(FairSampler(), "")["made by"] == "fairtk.FairSampler 1"
    ours = describe(Ours(), "")
    assert (ours["class"], ours["made by"]) == ("acme.Ours", "acme.Ours 3, fairtk.FairSampler 1")


def test_a_class_without_an_output_version_is_known_by_its_file_or_distribution():
    theirs = describe(Theirs(), "")
    assert theirs["class"] == f"{__name__}.Theirs"
    file, _, base = theirs["made by"].partition(", ")
    assert file.startswith(f"{__name__} #") and base == "fairtk.FairSampler 1"
    owner = describe(Retriever() % 5, "")["made by"]
    assert owner == f"pyterrier {importlib.metadata.version('pyterrier')}"


@pytest.mark.parametrize("name", sorted({*_PYTERRIER, *_RAG, *_BY_NAME, *_MADE_AGAIN, *_REDUCERS}))
def test_each_name_of_the_tables_matches_a_class(name):
    package = name.partition(".")[0]
    if package in EXTRAS and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    module, _, own = name.rpartition(".")
    cls = getattr(importlib.import_module(module), own)
    assert isinstance(cls, type) and identity_name(cls) == name


@pytest.mark.parametrize("cls", [BM25Scorer, FairSampler])
def test_a_stage_that_moved_or_was_renamed_is_known(cls):
    before = key(cls()), cls().digest()
    place = cls.__module__, cls.__qualname__
    try:
        cls.__module__, cls.__qualname__ = "fairtk.elsewhere", "Renamed"
        assert (key(cls()), cls().digest()) == before
        assert cls.is_cheap
    finally:
        cls.__module__, cls.__qualname__ = place


def test_an_inherited_name_is_not_ones_own():
    assert identity_name(Theirs) == f"{__name__}.Theirs"
