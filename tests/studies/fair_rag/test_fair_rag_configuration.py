"""RagSettings and configuration files of fairtk rag: what is refused, and with which words."""

import pytest

from fairtk.cli.options import engine_options
from fairtk.errors import FormatError, InputError, NotFoundError, ParameterError
from fairtk.studies.fair_qr import QrConfiguration
from fairtk.studies.fair_rag import RagConfiguration, RagSettings, RagStudy, read_tasks
from fairtk.studies.fair_rag.settings import make_generator, make_retriever


def test_the_defaults_are_the_paper():
    settings = RagSettings()
    assert (settings.alphas, settings.n_samples, settings.cutoff) == ((1.0, 2.0, 4.0, 8.0), 100, 5)
    assert list(settings.systems) == [
        *("alpha 1", "alpha 2", "alpha 4", "alpha 8", "oracle", "deterministic"),
    ]
    assert settings.utility_of_labels(3).name == "mae"
    assert RagSettings(label_utility="code").utility_of_labels(3).name == "accuracy"


def test_names_tell_settings_apart():
    names = {RagSettings().name, RagSettings(seed=1).name, RagSettings(min_useful=1).name}
    assert len(names) == 3
    assert RagSettings(alphas=(2, 1)).name == RagSettings(alphas=(1.0, 2.0)).name


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"alphas": (1, 2, 1.0)}, "alpha 1 is given twice"),
        ({"alphas": ()}, "alphas must be a list"),
        ({"alphas": (-1,)}, "numbers from 0"),
        ({"alphas": (float("nan"),)}, "numbers from 0"),
        ({"n_samples": 0}, "n_samples"),
        ({"cutoff": 2.5}, "cutoff"),
        ({"limit": 0}, "limit"),
        ({"labels": "mine"}, "labels must be one of"),
        ({"grades": "all"}, "grades must be one of"),
        ({"eu_over": "all"}, "eu_over must be one of"),
        ({"truncation": "fair-rag"}, "truncation must be one of .*'published'"),
    ],
)
def test_settings_out_of_range(given, said):
    with pytest.raises(ParameterError, match=said):
        RagSettings(**given)


def test_the_default_truncation_leaves_the_name_as_it_was():
    """n100-k5-seed42-... of results from before there was a choice (of 792ea1b)."""
    assert RagSettings().name == "n100-k5-seed42-9eb1b2"
    assert RagSettings(truncation="published").name != "n100-k5-seed42-9eb1b2"
    assert RagSettings(truncation="published").as_json()["truncation"] == "published"


def written(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_all(tmp_path):
    path = written(
        tmp_path,
        """
        folder = "lamp"
        tasks = [4, 7]
        retrievers = ["bm25", "contriever:local"]
        generators = ["t5:models/a"]
        alphas = [0, 3]
        n_samples = 7
        output = "out"
        [options."t5:models/a"]
        num_beams = 1
        [engine]
        executor = "dask"
        scheduler = "tcp://10.0.0.1:8786"
        """,
    )
    found = RagConfiguration.read(path)
    assert found.data == {"folder": str(tmp_path / "lamp"), "tasks": (4, 7)}
    assert found.output == str(tmp_path / "out")
    assert found.retrievers == ("bm25", "contriever:local") and found.models == ("t5:models/a",)
    assert found.settings == RagSettings(alphas=(0, 3), n_samples=7)
    assert found.options == {"t5:models/a": {"num_beams": 1}}
    assert found.engine == {"executor": "dask", "scheduler": "tcp://10.0.0.1:8786"}
    options = {"executor": None, "workers": None, "scheduler": "tcp://10.0.0.2:8786"}
    assert engine_options(found.engine, options) == {"executor": "dask"} | {
        "scheduler": "tcp://10.0.0.2:8786"
    }
    changed = found.changed({"seed": 3, "cutoff": None}, data={"tasks": ()}, output="other")
    assert (changed.settings.seed, changed.settings.cutoff) == (3, 5)
    assert changed.data == found.data and changed.output == "other"
    assert found.changed({}, data={"tasks": (1,)}).data["tasks"] == (1,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("folder = 'a'\ncutof = 3", "unknown key 'cutof'.*cutoff"),
        ("folder = 'a'\ndatasets = ['lamp/4/dev']", "either 'folder'"),
        ("seed = 3", "either 'folder'"),
        ("folder = 'a'\ntasks = '4'", "'tasks' must be a list of numbers"),
        ("folder = 'a'\nalphas = [1, 1]", "alpha 1 is given twice"),
        ("folder = 'a'\n[engine]\nworker = 2", r"unknown key 'worker' in \[engine\].*workers"),
        ("folder = 'a'\noptions = 3", r"'options' must be a table"),
        ("folder = 'a'\n[engine]\nworkers = '2'", "'workers' must be an integer, 0 or above"),
        ("folder = 'a'\n[engine]\nexecutor = 2", "'executor' must be a text; found 2"),
        ("folder = [", "not TOML"),
        ("folder = 'a'\nseed = " + "9" * 5000, "not TOML .*4300 digits"),
        ("folder = 'a'\nalphas = " + "[" * 5000 + "]" * 5000, "nest too deep"),
        ("folder = 'a'\noptions" + ".a" * 600 + " = 1", "nest too deep"),
        ("folder = 'a'\nalphas = " + "{a=" * 5000 + "1" + "}" * 5000, "nest too deep"),
    ],
)
def test_files_that_are_wrong(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(FormatError, match=said) as error:
        RagConfiguration.read(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("owner", "line", "message"),
    [
        ("t5:x", "num_beems = 3", "'t5:x': unknown setting of .* 'num_beems'.*'num_beams'"),
        ("t5:x", "dtype = 3", "HuggingFaceSeq2Seq: dtype must be a text; found 3"),
        ("openai:m", "base_url = 3", "OpenAICompatible: base_url must be a text, .*; found 3"),
        ("t5:y", "dtype = 'auto'", "unknown retriever or generator .* 't5:y'; did you mean 't5:x'"),
        ("bm25", "k3 = 1", "'bm25' has no option 'k3'; known: b, epsilon, k1"),
        ("bm25", "k1 = 'x'", "k1 must be at least 0; found 'x'"),
        ("bm25", "[[options.bm25]]", "bm25"),
        ("contriever", "modle = 'x'", "has no option 'modle'; did you mean 'model'"),
        ("contriever", "model = 3", "'contriever': expected str, .*not int"),
    ],
)
def test_options_that_are_wrong(tmp_path, owner, line, message):
    models = "retrievers = ['bm25', 'contriever']\ngenerators = ['t5:x', 'openai:m']\n"
    table = line if line.startswith("[[") else f"[options.{owner!r}]\n{line}"
    path = written(tmp_path, f"datasets = ['lamp/4/dev']\n{models}{table}")
    with pytest.raises(FormatError, match=message) as error:
        RagStudy.of(RagConfiguration.read(path))
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_sources(tmp_path):
    assert RagConfiguration.of(str(tmp_path)).data == {"folder": str(tmp_path)}
    assert RagConfiguration.of("lamp/4/dev").data == {"datasets": ("lamp/4/dev",)}
    file = written(tmp_path, "folder = 'x'")
    for kind in (RagConfiguration, QrConfiguration):
        assert kind.of(str(file)).data == {"folder": str(tmp_path / "x")}
        for source in ("./nowhere", "none.toml", "/none/at/all"):
            with pytest.raises(InputError):
                kind.of(source)
    assert QrConfiguration.of("trec-fair/2022/eval").data == {"dataset": "trec-fair/2022/eval"}


def test_tasks_of_folders_and_ids(tmp_path):
    with pytest.raises(InputError, match=r"which of LaMP.s tasks.*numbers=\[4\]"):
        read_tasks(tmp_path)
    with pytest.raises(InputError):
        read_tasks("lamp/4/dev", (4,))
    with pytest.raises(NotFoundError):
        read_tasks("lamp/4/deev")
    with pytest.raises(ParameterError):
        read_tasks(tmp_path, (4, 4))


def test_retrievers_and_generators_by_name():
    with pytest.raises(NotFoundError, match="'bm25'"):
        make_retriever("bm52")
    with pytest.raises(ParameterError):
        make_retriever("bm25:x")
    with pytest.raises(NotFoundError, match="generator"):
        make_generator("gpt:4")
    with pytest.raises(ParameterError):
        make_generator("t5")


def test_what_is_made_has_short_names(tmp_path):
    names = ("t5:a/small", "t5:b/small", "t5:c/base")
    lamp = {"datasets": ("lamp/4/dev",)}
    study = RagStudy.of(RagConfiguration(lamp, models=names))
    assert list(study.generators) == ["t5:a/small", "t5:b/small", "base"]
    with pytest.raises(ParameterError, match="'bm25'"):
        RagStudy.of(RagConfiguration(lamp, retrievers=("bm25", "bm25")))
    with pytest.raises(NotFoundError):
        RagStudy.of(RagConfiguration({"folder": str(tmp_path)}, options={"t5:a/smal": {}}))
