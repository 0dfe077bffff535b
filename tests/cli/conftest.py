import click.testing
import pytest

from fairtk.cli.group import cli

QRELS = """\
q1 0 a 1
q1 0 b 0
q1 0 c 0
q2 0 a 0
q2 0 b 1
q2 0 c 1
"""
PLAIN = """\
q1 Q0 a 1 3.0 t
q1 Q0 b 2 2.0 t
q2 Q0 a 1 3.0 t
q2 Q0 b 2 2.0 t
"""
SAMPLED = """\
q1 0 a 1 3.0 t
q1 1 b 1 3.0 t
q2 0 b 1 3.0 t
q2 1 c 1 3.0 t
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with qrels.txt, plain.run and fair.run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "plain.run").write_text(PLAIN)
    (tmp_path / "fair.run").write_text(SAMPLED)
    return tmp_path


@pytest.fixture
def fairtk():
    """Run the command line in this process: ``fairtk("evaluate", ...)``."""
    runner = click.testing.CliRunner()
    return lambda *words, stdin=None: runner.invoke(cli, [str(w) for w in words], input=stdin)
