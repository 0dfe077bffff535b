"""The page on a study of one's own: the study is short, uses public names, and is resumed."""

import re
from pathlib import Path

import pytest
from test_architecture import private_names

import fairtk

ROOT = Path(__file__).parents[2]
CELL = re.compile(r"^```\{code-cell\} ipython3\n(?:%%writefile (\S+)\n)?(.*?)^```$", re.M | re.S)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Write the study to a folder; return its file."""
    page = (ROOT / "docs/cookbook/study.md").read_text(encoding="utf-8")
    [(name, code)] = [cell for cell in CELL.findall(page) if cell[0]]
    (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / name


def test_it_is_short_and_uses_public_names(study):
    lines = (ROOT / "docs" / "api.txt").read_text(encoding="utf-8").splitlines()
    decisions = {line.split()[0]: line.split()[1] for line in lines if line and line[0] != "#"}
    assert list(private_names(study, decisions)) == []
    code = study.read_text(encoding="utf-8").splitlines()
    assert sum(bool(line.strip()) for line in code) <= 60


def test_it_is_resumed_and_has_a_table_and_a_figure(study, tmp_path):
    pytest.importorskip("matplotlib")
    import even_study

    (tmp_path / "study.toml").write_text('output = "out"\nalphas = [1.0, 4.0]\n', encoding="utf-8")
    settings, demo = even_study.Settings.read("study.toml"), fairtk.demo.load()
    even_study.run(settings, demo, 2)
    work = fairtk.plan(even_study.systems(settings, demo.dataset), demo.topics[:4], save_dir="out")
    assert work.cells[["stored", "missing"]].to_numpy().tolist() == [[2, 2]] * 4
    results = even_study.run(settings, demo, 4)
    even_study.save(results, tmp_path)
    table = even_study.table(results)
    assert [row[0] for row in table.rows] == results.systems and len(table.rows) == 4
    assert (tmp_path / "means.tex").exists() and (tmp_path / "means.svg").exists()
    with pytest.raises(ValueError, match="alpha"):
        even_study.Settings(output="out", alpha=[1.0])
