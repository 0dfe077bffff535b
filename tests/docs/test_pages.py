"""Code that the site's build does not run: in the README and on the page about credit."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import fairtk
from fairtk.cli.group import cli

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_first_pipeline_of_the_readme_prints_its_table(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## The first pipeline")[2]
    code, table = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", section, re.DOTALL).groups()
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - the README's own code
    assert capsys.readouterr().out.endswith(table)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # PyTerrier's doc_score
def test_the_examples_of_credit_are_true(tmp_path, monkeypatch):
    """All of them in one session; the command, on the frames of the example above it."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "concepts" / "credit.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("".join(cells), {}, "credit.md", None, 0)
    assert len(cells) == 5
    failures = []
    doctest.DocTestRunner().run(test, out=failures.append, clear_globs=False)
    assert failures == []
    names = test.globs
    fairtk.io.write_qrels(names["qrels"], tmp_path / "qrels.txt")
    fairtk.io.write_run(names["first"], tmp_path / "bm25.run")
    names["authors"].to_csv(tmp_path / "authors.tsv", sep="\t", index=False)
    command = shlex.split(re.search(r"^fairtk providers .*$", text, re.MULTILINE).group())
    result = CliRunner().invoke(cli, command[1:])
    assert result.exit_code == 0 and "Kim" in result.stdout
    assert (tmp_path / "lorenz.svg").exists()
