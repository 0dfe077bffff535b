"""The module in the plugin guide works, and keeps all contracts."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from distributions import fairtk, write
from failing import failing

from fairtk import plugins
from fairtk.errors import FormatError
from fairtk.measures import parse
from fairtk.testing import ChatModelContract, MeasureContract, PromptContract, UtilityContract

GUIDE = Path(__file__).parents[2] / "docs" / "plugin_guide.md"


def module_with(text):
    """Return the one block of code of the guide that has this text."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    [module] = [block for block in blocks if text in block]
    return module


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """The guide's module, as an installed plugin."""
    (tmp_path / "lab.py").write_text(module_with("fairtk_chat_models"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    lab = importlib.import_module("lab")
    plugins.register(lab, "lab")
    yield lab
    plugins.unregister(lab)
    del sys.modules["lab"]


def test_the_measure_has_a_parameter(lab):
    assert parse("TopShare(rel=2)@5")["rel"] == 2

    class Contract(MeasureContract):
        measure = lab.TopShare() @ 2

    assert failing(Contract) == {}


def test_the_utility(lab):
    assert lab.SharedWords().score("A fox", "a red Fox") == 2 / 3  # a, fox of a, red, fox
    assert lab.SharedWords(fold=False).score("A fox", "a red Fox") == 0
    assert parse("EU(utility='shared-words(fold=False)')")["utility"] == lab.SharedWords(False)

    class Contract(UtilityContract):
        name, options = "shared-words", {"fold": False}

    assert failing(Contract) == {}


def test_the_prompt_and_the_model(lab):
    class Prompt(PromptContract):
        name = "numbered"

    class Model(ChatModelContract):
        def make(self):
            return lab.LastLine()

        def others(self):
            return [lab.LastLine("other")]

    assert failing(Prompt) == failing(Model) == {}


def test_the_study(tmp_path, monkeypatch):
    (tmp_path / "lab_study.py").write_text(module_with("fairtk_studies"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    study = importlib.import_module("lab_study")
    plugins.register(study, "lab-study")
    try:
        reader = plugins.registry.studies.load("depth")
        (tmp_path / "mine.toml").write_text("depths = [5, 10]")
        assert reader.read(tmp_path / "mine.toml") == {"depths": [5, 10]}
        (tmp_path / "other.toml").write_text("alphas = [1]")
        with pytest.raises(FormatError, match=r"other\.toml"):
            reader.read(tmp_path / "other.toml")
    finally:
        plugins.unregister(study)
        del sys.modules["lab_study"]


@pytest.mark.slow
def test_the_command(tmp_path):
    folder = write(tmp_path, "lab-depth", module_with("@click.command"), command="depth")
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2 t\nq1 Q0 b 2 1 t\nq2 Q0 a 1 1 t\n")
    assert fairtk(["depth", str(tmp_path / "run.txt")], folder) == ("q1 2\nq2 1\n", "")
