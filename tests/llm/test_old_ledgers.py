"""Ledgers and a store that fairtk 0.2 wrote: no recorded answer is asked for again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import old_calls
import pytest

pytest.importorskip("openai")

import fairtk
from fairtk.llm import Failure, Ledger
from fairtk.llm.store import FORMAT

FILES = Path(__file__).parents[1] / "golden" / "old_ledgers"
REQUESTS = json.loads((FILES / "requests.json").read_text())


@pytest.fixture(scope="module")
def server():
    server = old_calls.Server()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / old_calls.LOCAL).symlink_to(fairtk.demo.model_folder())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copied(name, folder):
    folder.mkdir(exist_ok=True)
    return shutil.copy(FILES / name, folder / name)


def told(outcome):
    if isinstance(outcome, Failure):
        return {"failure": outcome.reason}
    names = ("text", "prompt_tokens", "completion_tokens", "finish")
    return {name: getattr(outcome, name) for name in names}


@pytest.mark.parametrize("form", ["arguments", "stored_as"])
@pytest.mark.parametrize("backup", [True, False])
def test_recorded_answers_are_served(server, folder, form, backup):
    path = copied("ledger.sqlite", folder)
    if backup:  # what is read of a damaged old ledger is of use, too
        with Ledger(path):
            pass
    with Ledger(path) as ledger:
        for call in REQUESTS["calls"]:
            arguments = {k: v for k, v in (call[form] or {}).items() if k != "base_url"}
            if not arguments:
                continue
            before = len(server.asked)
            llm = ledger.wrap(old_calls.server_model(arguments, server.url))
            outcomes = llm.complete([old_calls.chat(messages) for messages in call["chats"]])
            assert [told(outcome) for outcome in outcomes] == call["outcomes"], call["what"]
            # what failed was not kept
            assert len(server.asked) - before == ("failure" in call["outcomes"][0]), call["what"]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (FORMAT,)


def test_other_models_and_their_keys(folder):
    with Ledger(copied("ledger.sqlite", folder), offline=True) as ledger:
        for name, (model, chats) in old_calls.local_models().items():
            llm = ledger.wrap(model)
            assert [llm.key(chat) for chat in chats] == REQUESTS["models"][name]["keys"]
            outcomes = [told(outcome) for outcome in llm.complete(chats)]
            assert outcomes == REQUESTS["models"][name]["outcomes"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")  # of other versions than then
@pytest.mark.parametrize("adapted", [True, False])
def test_a_store_is_taken_over(server, folder, adapted):
    copied("experiment.sqlite", folder / "store")
    before = len(server.asked)
    with Ledger(copied("users_ledger.sqlite", folder)) as mine:
        runs = old_calls.experiments(server.url, mine, adapted)
        for name, (systems, topics, qrels, measures) in runs.items():
            kept = REQUESTS["experiments"][name]
            found = fairtk.Experiment(systems, topics, qrels, measures, save_dir="store", threads=1)
            for system, rows in kept["systems"].items():
                frame = found.rankings(system)[rows["columns"]]
                assert json.loads(frame.to_json(orient="values")) == rows["rows"]
                if "answers" in rows:
                    answers = found.answers(system).to_json(orient="values")
                    assert json.loads(answers) == rows["answers"]["rows"]
            assert json.loads(found.means.to_json()) == kept["means"], name
    assert len(server.asked) == before
    # each answer is there once: under the key of what was asked for, or what was sent at last
    with closing(sqlite3.connect("store/experiment.sqlite")) as database:
        checked = database.execute("SELECT count(*) FROM cells WHERE checksum IS NULL")
        assert checked.fetchone() == (0,)
