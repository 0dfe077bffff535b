"""Pages that begin with nothing are followed as a reader does: in an empty folder, cell by cell."""

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairtk

DOCS = Path(__file__).parents[2] / "docs"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HIDDEN = ":tags: [remove-cell]\n"


def shell(command, folder):
    """Run a command as a shell does that has this Python's `fairtk`; return what it wrote."""
    code = f'fairtk() {{ "{sys.executable}" -m fairtk "$@"; }}\n{command}'
    return subprocess.run(
        ["bash", "-c", code], cwd=folder, capture_output=True, text=True, timeout=900
    )


def follow(page, hidden=True):
    """Run the cells of a page; yield each command with what it wrote."""
    names = {}
    for cell in CELL.findall((DOCS / page).read_text(encoding="utf-8")):
        if cell.startswith(HIDDEN) and not hidden:
            continue
        source = cell.removeprefix(HIDDEN)
        commands = [line[1:] for line in source.splitlines() if line.startswith("!")]
        if commands:
            assert len(commands) == len(source.splitlines()), "Python and commands in one cell"
            for command in commands:
                yield command, shell(command, Path.cwd())
        else:
            exec(compile(source, page, "exec"), names)  # noqa: S102 - the page's own code


def downloads(page):
    """Return the files that a page offers."""
    text = (DOCS / page).read_text(encoding="utf-8")
    links = re.findall(r"{download}`[^<`]*<([^>]*)>`", text)
    return [(DOCS / page).parent / link for link in links]


@pytest.mark.slow
def test_own_retriever(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    said = list(follow("cookbook/own_retriever.md"))
    assert len(said) > 8
    for command, result in said:
        assert result.returncode == 0, f"{command}: {result.stderr}"


def test_first_number_from_an_empty_folder(tmp_path, monkeypatch):
    """What a reader has: the files that the page offers, and its visible cells."""
    monkeypatch.chdir(tmp_path)
    files = downloads("first_number.md")
    assert {file.name for file in files} == {"qrels.txt", "bm25.run"}
    for file in files:
        shutil.copy(file, tmp_path)
    said = dict(follow("first_number.md", hidden=False))
    assert len(said) > 5
    for command, result in said.items():
        assert result.returncode == 0 and result.stdout + result.stderr, f"{command}: {result}"
    first = said["fairtk evaluate qrels.txt bm25.run -m EE_D@5 -m EE_R@5 -m nDCG@5"]
    assert first.stdout.splitlines()[2].split()[:3] == ["bm25", "30", "1.0000"]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # PyTerrier's doc_score
def test_the_examples_of_credit_are_true(tmp_path, monkeypatch):
    """All of them in one session; the command, on the frames of the example above it."""
    text = (DOCS / "concepts" / "credit.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("".join(cells), {}, "credit.md", None, 0)
    assert len(cells) == 4
    said = []
    doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
    assert said == []
    monkeypatch.chdir(tmp_path)
    names = test.globs
    fairtk.io.write_qrels(names["qrels"], "qrels.txt")
    fairtk.io.write_run(names["first"], "bm25.run")
    names["authors"].to_csv("authors.tsv", sep="\t", index=False)
    command = re.search(r"^fairtk providers .*$", text, re.MULTILINE).group()
    result = shell(command, tmp_path)
    assert result.returncode == 0 and "Kim" in result.stdout, result.stderr
    assert (tmp_path / "lorenz.svg").exists()
