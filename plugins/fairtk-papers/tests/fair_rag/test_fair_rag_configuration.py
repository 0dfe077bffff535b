"""RagSettings and configuration files of fairtk rag: what is refused, and with which words."""

import numpy as np
import pytest
from fairtk_papers.fair_qr import QrConfiguration
from fairtk_papers.fair_rag import RagConfiguration, RagSettings, RagStudy
from fairtk_papers.fair_rag.settings import make_retriever, read_tasks
from fairtk_papers.options import engine_options

from fairtk.errors import FormatError, InputError, NotFoundError, ParameterError


def test_the_defaults_are_the_paper():
    settings = RagSettings()
    assert (settings.alphas, settings.n_samples, settings.cutoff) == ((1.0, 2.0, 4.0, 8.0), 100, 5)
    assert list(settings.systems) == [
        *("alpha 1", "alpha 2", "alpha 4", "alpha 8", "oracle", "deterministic"),
    ]
    assert settings.get_label_utility(3).name == "mae"
    assert RagSettings(label_utility="code").get_label_utility(3).name == "accuracy"


def test_names_tell_settings_apart():
    names = {RagSettings().name, RagSettings(seed=1).name, RagSettings(min_useful=1).name}
    assert len(names) == 3
    assert RagSettings(alphas=(2, 1)).name == RagSettings(alphas=(1.0, 2.0)).name


@pytest.mark.parametrize(
    "given",
    [
        {"alphas": (float("nan"),)},
        {"alphas": (True,)},
        {"alphas": 1},
        {"limit": 0},
        {"seed": True},
        {"seed": 1.0},
        {"eu_deterministic": 1},
        {"utility": 1},
        {"truncation": "fair-rag"},  # its name in prompts
    ],
)
def test_settings_out_of_range(given):
    with pytest.raises(ParameterError, match=next(iter(given))):
        RagSettings(**given)


def test_values_have_the_type_of_their_setting():
    settings = RagSettings(alphas=[8, np.float64(0)], seed=np.int64(3), limit=None)
    assert settings == RagSettings(alphas=(0.0, 8.0), seed=3, limit=None)
    assert (type(settings.seed), [*map(type, settings.alphas)]) == (int, [float, float])


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
    changed = found.with_changes({"seed": 3, "cutoff": None}, data={"tasks": ()}, output="other")
    assert (changed.settings.seed, changed.settings.cutoff) == (3, 5)
    assert changed.data == found.data and changed.output == "other"
    assert found.with_changes({}, data={"tasks": (1,)}).data["tasks"] == (1,)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tasks = '4'", "'tasks'"),
        ("[engine]\nworker = 2", r"'worker' in \[engine\].*workers"),
        ("seed = " + "9" * 5000, "TOML"),
        ("alphas = " + "[" * 5000, "TOML"),
    ],
)
def test_files_that_are_wrong(tmp_path, text, place):
    path = written(tmp_path, f"folder = 'a'\n{text}")
    with pytest.raises(FormatError, match=place) as error:
        RagConfiguration.read(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("owner", "line", "place"),
    [
        ("t5:x", "num_beems = 3", "'t5:x': .*'num_beems'.*'num_beams'"),
        ("t5:x", "dtype = 3", "dtype .*got 3"),
        ("t5:y", "dtype = 'auto'", "'t5:y'.*'t5:x'"),
        ("bm25", "k3 = 1", "'bm25'.*'k3'"),
        ("bm25", "[[options.bm25]]", "bm25"),
        ("contriever", "model = 3", "'contriever'"),
    ],
)
def test_options_that_are_wrong(tmp_path, owner, line, place):
    models = "retrievers = ['bm25', 'contriever']\ngenerators = ['t5:x', 'openai:m']\n"
    table = line if line.startswith("[[") else f"[options.{owner!r}]\n{line}"
    path = written(tmp_path, f"datasets = ['lamp/4/dev']\n{models}{table}")
    with pytest.raises(FormatError, match=place) as error:
        RagStudy.from_configuration(RagConfiguration.read(path))
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_sources(tmp_path):
    assert RagConfiguration.from_source(str(tmp_path)).data == {"folder": str(tmp_path)}
    assert RagConfiguration.from_source("lamp/4/dev").data == {"datasets": ("lamp/4/dev",)}
    file = written(tmp_path, "folder = 'x'")
    for kind in (RagConfiguration, QrConfiguration):
        assert kind.from_source(str(file)).data == {"folder": str(tmp_path / "x")}
        for source in ("./nowhere", "none.toml", "/none/at/all"):
            with pytest.raises(InputError):
                kind.from_source(source)
    assert QrConfiguration.from_source("trec-fair/2022/eval").data == {
        "dataset": "trec-fair/2022/eval"
    }


def test_tasks_and_models_that_do_not_go_together(tmp_path):
    with pytest.raises(InputError):
        RagConfiguration({"datasets": ("lamp/4/dev",), "tasks": (4,)}).tasks  # noqa: B018
    with pytest.raises(ParameterError):
        read_tasks(tmp_path, (4, 4))
    with pytest.raises(ParameterError):
        make_retriever("bm25:x")


def test_what_is_made_has_short_names(tmp_path):
    names = ("t5:a/small", "t5:b/small", "t5:c/base")
    lamp = {"datasets": ("lamp/4/dev",)}
    study = RagStudy.from_configuration(RagConfiguration(lamp, models=names))
    assert list(study.generators) == ["t5:a/small", "t5:b/small", "base"]
    with pytest.raises(ParameterError, match="'bm25'"):
        RagStudy.from_configuration(RagConfiguration(lamp, retrievers=("bm25", "bm25")))
    with pytest.raises(NotFoundError):
        RagStudy.from_configuration(
            RagConfiguration({"folder": str(tmp_path)}, options={"t5:a/smal": {}})
        )
