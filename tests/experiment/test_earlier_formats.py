"""Files that an earlier version wrote: results are found, and nothing is requested again."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import asdict

import earlier_formats
import pytest
from chat_server import KEY, serving
from earlier_formats import ARCHIVES

from fairtk.batch import Batches
from fairtk.llm import DeferredError, Ledger
from fairtk.llm.chat import questions
from fairtk.llm.store import FORMAT
from fairtk.remarks import FAILED

pytest.importorskip("openai")


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.stem)
def folder(request, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    shutil.unpack_archive(request.param, tmp_path)
    monkeypatch.chdir(tmp_path)  # the path of the model is part of the keys of its answers
    earlier_formats.move(tmp_path, "FOLDER", str(tmp_path.resolve()))
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


def format_of(path):
    """Return the format of a file."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def test_there_is_a_copy_of_each_format():
    assert [path.stem for path in ARCHIVES] == [f"format_{n}" for n in range(4, FORMAT + 1)]


@pytest.mark.parametrize(
    "topics", [earlier_formats.TOPICS, earlier_formats.CHANGED], ids=["first", "changed"]
)
def test_an_experiment_with_a_server(folder, expected, topics):
    path = folder / "server/experiment.sqlite"
    before, number = answers(path), format_of(path)
    with serving(earlier_formats.by_prompt) as server:
        systems = earlier_formats.server_systems(server.url)
        results = earlier_formats.run(systems, topics, folder / "server")
        requests = {prompt for prompt, *_ in server.requests}
    # calls that the server refused are stored from format 6 on, and tried again before
    assert all("vector tag" in prompt for prompt in requests)
    assert bool(requests) == (number < 6)
    assert answers(path) == before and format_of(path) == FORMAT
    if topics is earlier_formats.CHANGED:
        contents = earlier_formats.contents(results)
        for name, rankings in expected["server"]["rankings"].items():
            assert contents["rankings"][name] == rankings
        assert contents["failures"] == expected["server"]["failures"]
        remarks = json.loads(json.dumps(list(map(asdict, results.remarks))))
        known = expected.get("remarks", remarks)
        kinds = {remark["kind"] for remark in known}
        for remark in (*remarks, *known):
            if remark["kind"] == FAILED:  # it had the errors of all systems
                remark.pop("detail", None)
        assert [remark for remark in remarks if remark["kind"] in kinds] == known != []


@pytest.mark.parametrize("name", ["t5", "function"])
def test_an_experiment_with_a_local_model(folder, expected, name):
    if name == "t5":
        pytest.importorskip("transformers")
    before = answers(folder / "local/experiment.sqlite")
    systems = {name: earlier_formats.local_systems()[name]}
    results = earlier_formats.run(systems, earlier_formats.TOPICS, folder / "local")
    contents = earlier_formats.contents(results)
    assert contents["rankings"][name] == expected["local"]["rankings"][name]
    assert answers(folder / "local/experiment.sqlite") == before


def test_a_ledger(folder, expected):
    pytest.importorskip("transformers")
    before = answers(folder / "answers.sqlite")
    with Ledger(folder / "answers.sqlite", offline=True) as ledger:
        for name, llm in earlier_formats.ledger_models(earlier_formats.NOBODY).items():
            outcomes = ledger.wrap(llm).complete(questions(earlier_formats.PROMPTS))
            assert [outcome.text for outcome in outcomes] == expected["answers"][name]
    assert answers(folder / "answers.sqlite") == before


def test_a_batch_folder(folder):
    prompts, results = folder / "batch/prompts", folder / "batch/results"
    with Ledger(folder / "batch/answers.sqlite") as ledger:
        batches, systems = Batches(ledger), earlier_formats.batch_systems(ledger)
        with pytest.raises(DeferredError, match="6 of 6"):  # they are in the second file
            earlier_formats.run(systems, earlier_formats.TOPICS, results)
        second = folder / "second.jsonl"
        lines = earlier_formats.answer_lines(prompts / "batch-0002.jsonl")
        second.write_text(lines, encoding="utf-8")
        assert batches.read(prompts, [folder / "batch/answers.jsonl"]).counts["known"] == 6
        assert batches.read(prompts, [second]).counts["taken"] == 6
        result = earlier_formats.run(systems, earlier_formats.TOPICS, results)
    assert result.answers("both")["qid"].tolist() == earlier_formats.TOPICS["qid"].tolist()
