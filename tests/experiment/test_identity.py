"""Content identity: what tells stages apart, what does not, and what is refused."""

import ast
import importlib.metadata
import importlib.util
import threading
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from experiment_stages import Retriever

import fairtk
from fairtk import (
    AWRF,
    BM25Scorer,
    Candidates,
    FairSampler,
    FlanT5,
    Generator,
    Groups,
    OracleSampler,
    PerSample,
    demo,
)
from fairtk.errors import IdentityError, WorkerError
from fairtk.experiment import identified, identity
from fairtk.experiment import identity as adapters
from fairtk.experiment.identity import (
    _BY_NAME,
    _PYTERRIER,
    _RAG,
    CHEAP,
    _owners,
    describe,
    describe_stage,
    differences,
    key_of,
)
from fairtk.experiment.store import Asker
from fairtk.experiment.work import _REDUCERS, from_parent, to_worker
from fairtk.frames import identity_name
from fairtk.frames.columns import DOCNO
from fairtk.llm import (
    ChatBackend,
    CTranslate2Seq2Seq,
    HuggingFaceCausal,
    HuggingFaceSeq2Seq,
    KeywordRefiner,
    Ledger,
    LocalChat,
    OpenAICompatible,
)


def key(stage):
    return key_of(describe_stage(stage))


QRELS = pd.DataFrame({"qid": ["q"], "docno": ["d"], "label": [1]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: FairSampler(alpha=2),
        lambda: OracleSampler(QRELS),
        lambda: OracleSampler(QRELS.copy()),
        lambda: PerSample(pt.Transformer.identity(), joint=True),
        lambda: (Retriever() % 5) + Retriever(seed=1),
        lambda: Retriever() ** Retriever(seed=2),
        lambda: pt.apply.rename({"a": "b"}),
        lambda: pt.Transformer.from_df(QRELS),
        lambda: 0.5 * Retriever(),
        lambda: Candidates(demo.load().dataset),
        lambda: FlanT5(model=demo.model_folder(), prompt="lamp-2"),
        lambda: identified(pt.apply.generic(lambda f: f), "mine, v1"),
    ],
)
def test_equal_settings_have_one_identity(make):
    assert key(make()) == key(make())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FairSampler(alpha=2), FairSampler(alpha=3)),
        (FairSampler(seed=1), FairSampler(seed=2)),
        (OracleSampler(QRELS), OracleSampler(QRELS.assign(label=2))),
        (pt.apply.rename({"a": "b"}), pt.apply.rename({"a": "c"})),  # these print alike
        (pt.Transformer.from_df(QRELS), pt.Transformer.from_df(QRELS.assign(label=0))),
        (PerSample(Retriever()), PerSample(Retriever(), joint=True)),
        (Retriever() + Retriever(seed=1), Retriever() | Retriever(seed=1)),
        (0.5 * Retriever(), 0.6 * Retriever()),
        (identified(Retriever(), "mine, v1"), identified(Retriever(), "mine, v2")),
        (
            FlanT5(model=demo.model_folder(), num_beams=4),
            FlanT5(model=demo.model_folder(), num_beams=1),
        ),
        (
            FlanT5(model=demo.model_folder(), prompt="rag"),
            FlanT5(model=demo.model_folder(), prompt="lamp-2"),
        ),
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
        (pt.apply.generic(lambda frame: frame), "ApplyGenericTransformer"),
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


def test_a_class_of_a_script_is_refused():
    space = {"__name__": "__main__", "FairSampler": FairSampler}
    exec("class Mine(FairSampler):\n    'a class of a notebook'\n", space)
    with pytest.raises(IdentityError, match="defined in a script or notebook"):
        describe_stage(space["Mine"]())


def test_language_models_count_by_name_and_parameters():
    assert describe(KeywordRefiner(), "") == describe(KeywordRefiner(), "")


def test_the_owner_of_a_package_is_found_as_importlib_finds_it():
    expected = importlib.metadata.packages_distributions()
    for package in ("pandas", "pyterrier", "fairtk", "pytest", "yaml", "nothing"):
        assert sorted(_owners(package)) == sorted(set(expected.get(package, [])))


def test_identified_needs_a_name_and_a_transformer():
    with pytest.raises(IdentityError, match="needs a name"):
        identified(Retriever(), " ")
    with pytest.raises(IdentityError, match="takes a PyTerrier transformer"):
        identified(len, "len")


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
    with pytest.raises(WorkerError, match="PerSample cannot travel to a worker"):
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


# Identities survive moves -------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
EXTRAS = {"fastchat", "jinja2", "pyterrier_pisa", "pyterrier_rag"}  # may be missing

ANSWERS = {
    "seq2seq": (
        lambda model: HuggingFaceSeq2Seq(model, device="cpu"),
        "9be1c5f9dd4b02bdd3494b0e8f4bd1db",
    ),
    "FlanT5": (
        lambda model: FlanT5(model=model, device="cpu").backend,
        "9be1c5f9dd4b02bdd3494b0e8f4bd1db",
    ),
    "CTranslate2": (
        lambda model: CTranslate2Seq2Seq(model, device="cpu"),
        "942f0a64217652c85a7f40e409575cef",
    ),
    "causal": (
        lambda model: HuggingFaceCausal(model, device="cpu"),
        "2733bf49fd10645b699638615eca7bfe",
    ),
    "method": (
        lambda model: Generator(HuggingFaceSeq2Seq(model, device="cpu").generate).backend,
        "89291716fa46afbbe5f59e14c125548e",
    ),
    "method of a chat": (
        lambda model: Generator(ChatBackend(_chat(model)).generate).backend,
        "9fe8edb6ebbc324e5dbe48552e1f49f3",
    ),
    "method of a recorded chat": (
        lambda model: (
            Generator(ChatBackend(Ledger("ledger.sqlite").wrap(_chat(model))).generate).backend
        ),
        "54780267428e7161a1598eeb09c19ee0",
    ),
    "method of a server": (
        lambda model: Generator(ChatBackend(OpenAICompatible("m")).generate).backend,
        "6270920a9745cf99e59c137095f7c3cb",
    ),
}
"""Backends, and the keys of an answer as they were when names of classes were module paths."""


def _chat(model):
    return LocalChat(HuggingFaceSeq2Seq(model, device="cpu"))


@pytest.fixture
def fixed_versions(monkeypatch):
    """Versions are in identities: fixed, so that keys can be written down."""
    monkeypatch.setattr(fairtk, "__version__", "0.2.0")
    for module in (adapters, identity):
        monkeypatch.setattr(module, "version", lambda name: "1")


@pytest.mark.usefixtures("fixed_versions")
@pytest.mark.parametrize(("make", "expected"), ANSWERS.values(), ids=list(ANSWERS))
def test_answers_that_stores_have_are_found(make, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = key_of(describe(make(demo.model_folder()), ""))
    asker = Asker(told, "demo", {"identity": told, "threads": 2})
    assert asker.keys(["why?"]) == {"why?": expected}


@pytest.mark.usefixtures("fixed_versions")
def test_keys_stay():
    frame = pd.DataFrame({DOCNO: ["a", "b"], "group": ["x", "y"], "weight": [1.0, 1.0]})
    measure = AWRF(groups=Groups.from_frame(frame, name="g")) @ 5
    flan = FlanT5(model=demo.model_folder(), prompt="lamp-2", device="cpu")
    assert key(FairSampler(alpha=2)) == "adf9da5da28139fb0ee01722f5a9ce7b"
    assert key(BM25Scorer()) == "ad32b87f8af8827b9120697bca48a595"
    assert key(flan) == "887aace3072dfe90c05bb7f11ec37530"
    assert key_of(describe(measure, "")) == "f4080e4205654cb5a21cbff4165b1d8a"
    assert FairSampler(alpha=2).digest() == "b61237b6734942b5"
    assert BM25Scorer().digest() == "b392e58bec5fe395"


def _classes(nodes, prefix=""):
    """Yield qualified names and declared identities of the classes in a syntax tree."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            declared = {
                child.target.id: child.value.value
                for child in node.body
                if isinstance(child, ast.AnnAssign) and child.target.id == "identity_name"
            }
            yield f"{prefix}{node.name}", declared
            yield from _classes(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(node.body, f"{prefix}{node.name}.<locals>.")
        else:
            yield from _classes(ast.iter_child_nodes(node), prefix)


@pytest.fixture(scope="module")
def own_classes():
    """All classes of fairtk and its plugins as (identity, declared or not, module, name)."""
    found = []
    for pattern in ("fairtk/**/*.py", "plugins/*/fairtk_*/**/*.py", "plugins/*/fairtk_*.py"):
        for path in ROOT.glob(pattern):
            parts = path.relative_to(ROOT).with_suffix("").parts[2 * pattern.startswith("plu") :]
            module = ".".join(parts).removesuffix(".__init__")
            for name, declared in _classes(ast.parse(path.read_text(encoding="utf-8")).body):
                place = {"__module__": module, "__qualname__": name}
                like = type(name.rpartition(".")[2], (), place | declared)
                found.append((identity_name(like), bool(declared), module, name))
    return found


def test_two_classes_never_share_an_identity(own_classes):
    names = [name for name, *_ in own_classes]
    assert len(names) > 300
    assert {name for name in names if names.count(name) > 1} == set()


def test_the_names_in_keys_of_answers_are_frozen(own_classes):
    assert {name for name, declared, *_ in own_classes if declared} == {
        "fairtk.backends.adapter.CallableBackend",
        "fairtk.backends.causal.HuggingFaceCausal",
        "fairtk.backends.ct2_seq2seq.CTranslate2Seq2Seq",
        "fairtk.backends.seq2seq.HuggingFaceSeq2Seq",
        "fairtk.llm.local.ChatBackend",
        "fairtk.llm.local.LocalChat",
        "fairtk.llm.recorded.Recorded",
        "fairtk.llm.server.OpenAICompatible",
    }


@pytest.mark.parametrize("name", sorted({*_PYTERRIER, *_RAG, *_BY_NAME, *CHEAP, *_REDUCERS}))
def test_each_name_of_the_tables_matches_a_class(name, own_classes):
    package = name.partition(".")[0]
    if package in EXTRAS and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    module, _, own = name.rpartition(".")
    if package == "fairtk":
        (module,) = (place for known, _, place, _ in own_classes if known == name)
    cls = getattr(importlib.import_module(module), own)
    assert isinstance(cls, type) and identity_name(cls) == name


def _moved(cls, module):
    """Return a copy of a class as if it were defined in another module."""
    own = {k: v for k, v in vars(cls).items() if k == "identity_name"}
    return type(
        cls.__name__, (cls,), own | {"__module__": module, "__qualname__": cls.__qualname__}
    )


@pytest.mark.parametrize("cls", [BM25Scorer, FairSampler])
def test_a_stage_that_moved_is_known(cls):
    moved = _moved(cls, "fairtk.elsewhere")()
    assert key(moved) == key(cls()) and moved.digest() == cls().digest()
    assert identity_name(type(moved)) in CHEAP


def test_a_backend_that_moved_is_known():
    model = demo.model_folder()
    here = HuggingFaceSeq2Seq(model)
    there = _moved(HuggingFaceSeq2Seq, "fairtk.elsewhere")(model)
    assert key_of(describe(there, "")) == key_of(describe(here, ""))

    class Mine(HuggingFaceSeq2Seq):
        """Inherits the declared name, which is not its own."""

    assert identity_name(Mine).endswith("<locals>.Mine")


def test_names_that_need_their_module_keep_it():
    def named(module, name):
        return identity_name(type("C", (), {"__module__": module, "__qualname__": name}))

    assert named("fairtk.a", "Stage") == named("fairtk.b", "Stage") == "fairtk.Stage"
    assert named("fairtk_baselines.a", "Stage") == "fairtk_baselines.Stage"
    assert named("others.a", "Stage") == "others.a.Stage" != named("others.b", "Stage")
    assert named("fairtk_others.a", "Stage") != named("fairtk_others.b", "Stage")
    assert named("fairtk.a", "_Stage") != named("fairtk.b", "_Stage")
    assert named("fairtk.a", "f.<locals>.Stage") != named("fairtk.b", "f.<locals>.Stage")
    assert identity_name(describe) == "fairtk.experiment.identity.describe"  # others may be, too
