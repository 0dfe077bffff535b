"""Files that an earlier version wrote: results are found, and nothing is requested again."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import format_4
import pytest
from chat_server import KEY, serving

from fairtk.batch import Batches
from fairtk.llm import DeferredError, Ledger
from fairtk.llm.chat import questions

pytest.importorskip("openai")
ARCHIVE = Path(__file__).with_name("format_4.zip")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    shutil.unpack_archive(ARCHIVE, tmp_path)
    monkeypatch.chdir(tmp_path)  # the path of the model is part of the keys of its answers
    format_4.move(tmp_path, "FOLDER", str(tmp_path.resolve()))
    return tmp_path


@pytest.fixture
def expected(folder):
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def answers(path):
    """Return all stored answers without their ends, and the number of payments."""
    columns = "key, model, parameters, prompt, answer, prompt_tokens, seconds, created"
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(f"SELECT {columns} FROM answers ORDER BY key").fetchall()
        return rows, database.execute("SELECT count(*) FROM payments").fetchone()


@pytest.mark.parametrize("topics", [format_4.TOPICS, format_4.CHANGED], ids=["first", "changed"])
def test_an_experiment_with_a_server(folder, expected, topics):
    before = answers(folder / "server/experiment.sqlite")
    with serving(format_4.by_prompt) as server:
        results = format_4.run(format_4.server_systems(server.url), topics, folder / "server")
        # calls that the server refused are tried again
        assert server.requests
        assert all("vector tag" in prompt for prompt, *_ in server.requests)
    assert answers(folder / "server/experiment.sqlite") == before
    if topics is format_4.CHANGED:
        assert format_4.contents(results) == expected["server"]


@pytest.mark.parametrize("name", ["t5", "function"])
def test_an_experiment_with_a_local_model(folder, expected, name):
    if name == "t5":
        pytest.importorskip("transformers")
    before = answers(folder / "local/experiment.sqlite")
    systems = {name: format_4.local_systems()[name]}
    results = format_4.run(systems, format_4.TOPICS, folder / "local")
    assert format_4.contents(results)["rankings"][name] == expected["local"]["rankings"][name]
    assert answers(folder / "local/experiment.sqlite") == before


def test_a_ledger(folder, expected):
    pytest.importorskip("transformers")
    before = answers(folder / "answers.sqlite")
    with Ledger(folder / "answers.sqlite", offline=True) as ledger:
        for name, llm in format_4.ledger_models(format_4.NOBODY).items():
            outcomes = ledger.wrap(llm).complete(questions(format_4.PROMPTS))
            assert [outcome.text for outcome in outcomes] == expected["answers"][name]
    assert answers(folder / "answers.sqlite") == before


def test_a_batch_folder(folder):
    prompts, results = folder / "batch/prompts", folder / "batch/results"
    with Ledger(folder / "batch/answers.sqlite") as ledger:
        batches, systems = Batches(ledger), format_4.batch_systems(ledger)
        with pytest.raises(DeferredError, match="6 of 6"):  # they are in the second file
            format_4.run(systems, format_4.TOPICS, results)
        second = folder / "second.jsonl"
        second.write_text(format_4.answer_lines(prompts / "batch-0002.jsonl"), encoding="utf-8")
        assert batches.read(prompts, [folder / "batch/answers.jsonl"]).counts["known"] == 6
        assert batches.read(prompts, [second]).counts["taken"] == 6
        found = format_4.run(systems, format_4.TOPICS, results)
    assert found.answers("both")["qid"].tolist() == format_4.TOPICS["qid"].tolist()
