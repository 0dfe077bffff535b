"""Studies with a server's model that are killed, or that run twice at once; see `killing`."""

from __future__ import annotations

from functools import cache

import pytest
import qr_world
from killing import CONCURRENCY, WORKERS, check_killed_and_resumed, check_two_at_once, of

from fairtk import demo

COMMAND = """
import os, sys
os.environ["FAIRTK_PLUGINS"] = "fairtk-papers"
from matplotlib.figure import Figure
from fairtk.cli.group import cli
def touch(figure, file, **options):
    file.touch() if hasattr(file, "touch") else file.write("<svg/>")
Figure.savefig = touch  # no table depends on a figure, and rendering takes half of the time
cli(sys.argv[1:], "fairtk", standalone_mode=False)
"""
QR = """
folder = "{data}"
attributes = ["gender"]
systems = ["fair-qr", "fair-qr (no re-ranking)"]
cutoff = 5
candidates = 10
[tuning.fair-qr]
max_iterations = [1, 2]
[variations]
max_iterations = [1, 2]
[llm]
backend = "openai"
model = "toy"
base_url = "{url}"
concurrency = {concurrency}
timeout = 900
[engine]
executor = "{executor}"
{workers}
"""


def qr(folder, url, executor):
    """Return the program and arguments of ``fairtk qr``."""
    data, config = folder.parent / "collection", folder.parent / f"{folder.name}.toml"
    if not data.exists():
        qr_world.write_world(data)
    workers = "" if executor == "serial" else f"workers = {WORKERS}"
    config.write_text(
        QR.format(data=data, url=url, concurrency=CONCURRENCY, executor=executor, workers=workers)
    )
    return COMMAND, "qr", config, "-o", folder


def rag(folder, url, executor):
    """Return the program and arguments of ``fairtk rag``."""
    options = ["-t", 2, "--limit", 2, "-n", 2, "-a", 0, "-a", 8, "--executor", executor]
    server = ["-g", "openai:toy", "--base-url", url, "--set", "timeout=900"]
    server += ["--set", f"concurrency={CONCURRENCY}"]
    return COMMAND, "rag", demo.collection_folder(), *options, *server, "-o", folder


@cache
def tags():
    return demo.load().topics[["query", "gold_answer"]].to_numpy().tolist()


def tag(prompt):
    """Answer a prompt of LaMP-2: the right tag, if one of its documents has it."""
    documents, _, question = prompt.partition("Which tag")
    gold = next(gold for query, gold in tags() if question.endswith(query))
    return gold if f"is {gold}" in documents else "none"


ANSWERS = {qr: qr_world.adds_a_term, rag: tag}


@pytest.mark.parametrize(
    ("kind", "executor", "kills"),
    [
        of(qr, "serial"),
        *(of(kind, "serial", often=True) for kind in ANSWERS),
        of(qr, "processes", often=True),
    ],
)
def test_killed_and_resumed_it_makes_the_same_tables(tmp_path, kind, executor, kills):
    if kind is qr:
        pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa here")
    check_killed_and_resumed(tmp_path, kind, ANSWERS[kind], executor, kills)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ANSWERS)
def test_two_at_once_send_each_prompt_once(tmp_path, kind):
    check_two_at_once(tmp_path, kind, ANSWERS[kind])
