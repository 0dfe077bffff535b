"""The file of answers: what is stored comes back, and what cannot be read is refused."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest
from ledger_files import change, lapse

from fairtk.errors import FormatError
from fairtk.llm import Chat, Completion, KeywordRefiner, Ledger, Message
from fairtk.llm.store import FORMAT, TABLES, Database, answer_row

MODEL = KeywordRefiner({"a": ["b"]})
CHAT = Chat((Message("user", "p"),))


def row(key, text, **changes):
    return answer_row(key, "m", {}, CHAT, Completion(text))._replace(**changes)


def test_answers_come_back_unchanged(tmp_path):
    odd = {
        "surrogate": Completion("a \ud800 b"),
        "nul": Completion("a\0b"),
        "counts": Completion("c", 1 << 70, -1),
        "floats": Completion("d", 1.5, True, float("nan")),
        "finish": Completion("e", finish="\udfff"),
        "long": Completion("x" * 3_000_000),
    }
    prompt = Chat((Message("user", "\ud800"),))
    with Ledger(tmp_path / "l") as ledger:
        for key, answer in odd.items():
            new = answer_row(key, MODEL.name, MODEL.parameters(), prompt, answer)
            assert ledger.store.put_many([new]) == {key: answer}
        assert len(Ledger(tmp_path / "m").wrap(MODEL).key(prompt)) == 32
    with Ledger(tmp_path / "l") as ledger:
        answers = ledger.store.get(odd)
    assert answers == odd
    assert answers["surrogate"].text == "a \\ud800 b" and answers["nul"].text == "a\\x00b"
    assert (answers["counts"].prompt_tokens, answers["counts"].completion_tokens) == (None, None)
    assert (answers["floats"].prompt_tokens, answers["floats"].seconds) == (None, 0.0)


def test_the_first_answer_stays_unless_it_is_unusable(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        rows = [row("a", "A"), row("b", "B"), row("b", "other"), row("c", "", created="1")]
        stored = ledger.store.put_many(rows)
        assert {key: answer.text for key, answer in stored.items()} == {"a": "A", "b": "B", "c": ""}
        assert set(ledger.store.get("abc", since="2")) == {"a", "b"}
        rows = [row("a", "late"), row("c", "C"), row("d", "D")]
        count = ledger.store.file.write(lambda database: ledger.store.insert(database, rows, "2"))
        assert count == 2
        texts = {key: answer.text for key, answer in ledger.store.get("abcd").items()}
        assert texts == {"a": "A", "b": "B", "c": "C", "d": "D"}


def test_only_the_owner_may_read_it(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        ledger.store.put_many([row("a", "A")])
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("l", "l-wal", "l-shm"), 0o600)


def test_twelve_tables_and_durable_answers(tmp_path):
    with closing(Database(tmp_path / "f")) as file:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        assert {name for (name,) in file.read(names)} == set(TABLES)
        assert len(TABLES) == 12
        assert file.read("PRAGMA journal_mode") == [("wal",)]
        for durable, level in ((True, 2), (False, 1)):  # FULL, NORMAL
            file.write(lambda _: None, durable=durable)
            assert file.read("PRAGMA synchronous") == [(level,)]


# What is refused ---------------------------------------------------------------------------------


def foreign(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (x)")


WRONG = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("my notes, not a ledger\n" * 50),
    "page": lambda path: path.write_bytes(path.read_bytes()[:100] + b"\7" * 5000),
    "foreign": foreign,
    "older": lambda path: change(path, "PRAGMA user_version = 3"),
    "newer": lambda path: change(path, f"PRAGMA user_version = {FORMAT + 1}"),
    **{name: lambda path, name=name: change(path, f"DROP TABLE {name}") for name in TABLES},
}


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_other_files_are_refused_and_left_alone(tmp_path, wrong, offline):
    path = tmp_path / "answers.sqlite"
    with Ledger(path) as ledger:
        ledger.store.put_many([row("a", "A")])
    WRONG[wrong](path)
    content = path.read_bytes()
    with pytest.raises(FormatError, match=r"answers\.sqlite: ") as caught:
        Ledger(path, offline=offline)
    if wrong in TABLES:
        assert repr(wrong) in str(caught.value)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == [path.name]


def test_a_log_that_a_deleted_file_left_behind_is_not_read(tmp_path):
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        ledger.store.put_many([row("a", "A")])
        log = (tmp_path / "l-wal").read_bytes()
    path.unlink()
    (tmp_path / "l-wal").write_bytes(log)
    with Ledger(path) as ledger:
        assert len(ledger) == 0
        ledger.close()  # a second time is no error


def test_folders(tmp_path):
    with pytest.raises(FormatError, match="no.l"):
        Ledger(tmp_path / "no" / "l")
    with pytest.raises(FormatError, match=tmp_path.name):
        Ledger(tmp_path)


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    from fairtk.llm import store

    mounts = tmp_path / "mounts"
    mounts.write_text(f"a / ext4 rw 0 0\nserver:/x {tmp_path}/home nfs4 rw 0 0\n")
    monkeypatch.setattr(store, "_MOUNTS", mounts)
    (tmp_path / "home").mkdir()
    assert store.network_of(tmp_path / "l") == ""
    with pytest.raises(FormatError, match="nfs4"):
        Ledger(tmp_path / "home" / "l")
    assert os.listdir(tmp_path / "home") == []


def test_a_ledger_that_may_only_be_read_opens_offline(tmp_path, monkeypatch):
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        ledger.store.put_many([row("a", "A")])
    before = sorted(p.name for p in tmp_path.iterdir())
    monkeypatch.setattr("os.access", lambda place, mode: False)  # the tests may run as root
    with Ledger(path, offline=True) as ledger:
        assert ledger.store.get("a")["a"].text == "A"
        ledger.store.mark({"a": True})
        with pytest.raises(FormatError, match="readonly"):
            ledger.store.put_many([row("b", "B")])
    assert sorted(p.name for p in tmp_path.iterdir()) == before


# Processes ---------------------------------------------------------------------------------------

FORKED = """
import os, sys, threading
from fairtk.llm import Chat, FunctionModel, Ledger, Message

def chats(*texts):
    return [Chat((Message("user", text),)) for text in texts]

def upper(prompts):
    return [prompt.upper() for prompt in prompts]

ledger = Ledger(sys.argv[1])
llm = ledger.wrap(FunctionModel(upper, "upper"))
llm.complete(chats("a"))
token = ledger.store.file.token
child = os.fork()
answers = llm.complete(chats("a", "child" if child == 0 else "parent"))
assert (ledger.store.file.token == token) == (child != 0)
renewing = [thread.name for thread in threading.enumerate()].count("fairtk-leases")
assert renewing == 1, renewing
ledger.close()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_forked_process_opens_the_file_itself(tmp_path):
    call = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "l")]
    done = subprocess.run(call, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    with Ledger(tmp_path / "l") as ledger:
        answers = ledger.store.file.read("SELECT answer FROM answers ORDER BY answer")
        assert answers == [("A",), ("CHILD",), ("PARENT",)]
        assert ledger.store.file.read("SELECT count(*) FROM payments") == [(3,)]
    lapse(tmp_path / "l")  # closes without a warning, too
