"""A damaged ledger: nothing altered is served, and next to nothing is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
import warnings
from contextlib import closing

import pytest

from fairtk.errors import DataWarning, FormatError
from fairtk.llm import Chat, ChatModel, Completion, KeywordRefiner, Ledger, Message, answer_row
from fairtk.llm.store import AnswerStore

MODEL = KeywordRefiner({"a": ["b"]})
CHAT = Chat((Message("user", "p"),))


def filled(path, count=60, seed=1):
    """Write a ledger and return what it holds."""
    rng = random.Random(seed)
    answers = {
        f"{rng.getrandbits(128):032x}": Completion(
            "".join(rng.choices("abc é\n", k=rng.randint(1, 900))), i, 2 * i, rng.random()
        )
        for i in range(count)
    }
    with Ledger(path) as ledger:
        ledger.store.put_many([answer_row(k, "m", {}, CHAT, a) for k, a in answers.items()])
    return answers


def served(path, keys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with Ledger(path) as ledger:
            return ledger.store.get(keys)


def served_or_refused(path, keys):
    try:
        return served(path, keys)
    except FormatError as error:
        assert "expected 3" in str(error) or "no backup" in str(error)
        return None


@pytest.mark.parametrize("backup", [True, False])
def test_a_flipped_byte_alters_nothing(tmp_path, backup):
    wanted = filled(tmp_path / "whole")
    raw, lines = ((tmp_path / f"whole{end}").read_bytes() for end in ("", ".backup"))
    rng = random.Random(2)
    # anywhere, and in the header, where everything hangs on a byte
    places = [rng.randrange(len(raw)) for _ in range(25)] + list(range(0, 100, 7)) + [3500, 4000]
    shares = []
    for number, place in enumerate(places):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << rng.randrange(8)
        path = tmp_path / f"l{number}"
        path.write_bytes(damaged)
        if backup:
            (tmp_path / f"l{number}.backup").write_bytes(lines)
        found = served_or_refused(path, wanted)
        if found is None:  # what is where stands on the first page; 60 to 63: the version
            assert place < 4096 and (60 <= place < 64 or not backup), place
            continue
        assert all(found[key] == wanted[key] for key in found), place
        shares.append(len(found) / len(wanted))
    # without its backup, of 60 answers on 12 pages, those on the page are lost
    assert (
        min(shares) == 1.0 if backup else min(shares) >= 0.85 and sum(shares) / len(shares) > 0.97
    )


def test_a_damaged_answer_comes_from_the_backup_or_is_asked_for_again(tmp_path):
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        for key in ("one", "two"):
            ledger.store.put(key, MODEL, CHAT, Completion(f"answer {key}"))
    damaged = path.read_bytes().replace(b"answer one", b"answer 0ne")
    for content, message, left in (
        (None, "1 answers .* damaged: 1 were taken from its backup$", {"one", "two"}),
        (b"", "damaged: 0 were taken from its backup, 1 are lost", {"two"}),
    ):
        path.write_bytes(damaged)
        if content is not None:
            (tmp_path / "l.backup").write_bytes(content)
        with Ledger(path) as ledger:
            with pytest.warns(DataWarning, match=message):
                found = ledger.store.get(["one", "two"])
            assert {k: c.text for k, c in found.items()} == {k: f"answer {k}" for k in left}
            assert ledger.store.get(["one", "two"]) == found  # and is said once


def test_the_backup_is_lines_that_do_not_harm_each_other(tmp_path):
    path, backup = tmp_path / "l", tmp_path / "l.backup"
    wanted = filled(path, 10)
    lines = backup.read_bytes().split(b"\n")
    lines[4] = lines[4][:30]  # cut off by a full disk
    lines[7] = lines[7].replace(b'"m"', b'"m', 1)
    backup.write_bytes(b"\n".join(lines))
    path.write_bytes(b"lost")
    with pytest.warns(DataWarning):
        ledger = Ledger(path)
    with ledger:
        found = ledger.store.get(wanted)
    assert len(found) == 8 and all(found[key] == wanted[key] for key in found)


def test_damaged_parameters_in_the_backup_do_not_stop_the_mending(tmp_path):
    path, backup = tmp_path / "l", tmp_path / "l.backup"
    answers = filled(path, 3)
    raw = backup.read_bytes()
    assert b'"{}"' in raw
    for other in (b'"{"', b'"[]"', b"null"):
        backup.write_bytes(raw.replace(b'"{}"', other))
        path.write_bytes(b"")
        # what is no text at all is a row that nobody wrote
        assert served(path, answers) == (answers if other[:1] == b'"' else {})


def test_a_file_that_is_damaged_while_it_is_open_is_mended(tmp_path):
    path = tmp_path / "l"
    with Ledger(path) as one, Ledger(path) as two:
        one.store.put("a", MODEL, CHAT, Completion("A"))
        path.unlink()  # by hand; or replaced, by a process that found it damaged
        with pytest.warns(DataWarning):
            two.store.put("b", MODEL, CHAT, Completion("B"))
        one.store.put("c", MODEL, CHAT, Completion("C"))  # into the new file
        assert set(two.store.get("abc")) == {"b", "c"}


def test_whatever_is_answered_is_kept(tmp_path):
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
            assert ledger.store.put(key, MODEL, prompt, answer) == answer
        assert len(Ledger(tmp_path / "m").wrap(MODEL).key(prompt)) == 32
    with Ledger(tmp_path / "l") as ledger:
        found = ledger.store.get(odd)
    assert found == odd
    assert found["surrogate"].text == "a \\ud800 b" and found["nul"].text == "a\\x00b"
    assert (found["counts"].prompt_tokens, found["counts"].completion_tokens) == (None, None)
    assert (found["floats"].prompt_tokens, found["floats"].seconds) == (None, 0.0)
    for line in (tmp_path / "l.backup").read_bytes().split(b"\n")[1:]:
        json.loads(line)


def test_only_the_owner_may_read_it(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        ledger.store.put("a", MODEL, CHAT, Completion("A"))
        names = {"l", "l.backup", "l-wal", "l-shm"}
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
        assert modes == dict.fromkeys(names, 0o600)


def test_other_tables_live_beside_the_answers(tmp_path):
    path = tmp_path / "store.sqlite"
    Ledger(path).close()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE cells (key TEXT)")
        database.execute("INSERT INTO cells VALUES ('x')")
    database.close()
    with Ledger(path) as ledger:
        ledger.store.put("a", MODEL, CHAT, Completion("A"))
        rows = [answer_row(k, "m", {}, CHAT, Completion(k.upper())) for k in "abb"]
        assert {k: c.text for k, c in ledger.store.put_many(rows).items()} == {"a": "A", "b": "B"}
        assert set(ledger.store.get("abc")) == {"a", "b"}
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT * FROM cells").fetchall() == [("x",)]
    database.close()


def test_a_network_file_system_has_one_process_at_a_time(tmp_path, monkeypatch):
    from fairtk.io import atomic as places

    mounts = tmp_path / "mounts"
    mounts.write_text(f"a / ext4 rw 0 0\nserver:/x {tmp_path}/home nfs4 rw 0 0\n")
    monkeypatch.setattr(places, "_MOUNTS", mounts)
    (tmp_path / "home").mkdir()
    assert places.network_of(tmp_path / "l") == ""
    assert places.network_of(tmp_path / "home" / "l") == "nfs4"
    monkeypatch.setattr("fairtk.llm.store._PATIENCE", 0.1)
    with closing(AnswerStore(tmp_path / "home" / "l")) as store:
        store.put("a", MODEL, CHAT, Completion("A"))
        assert not (tmp_path / "home" / "l-wal").exists()
        with pytest.raises(FormatError, match=r"locked; on a network file system \(nfs4\) one pro"):
            AnswerStore(tmp_path / "home" / "l")
    with closing(AnswerStore(tmp_path / "home" / "l")) as store:
        assert store.get("a")["a"].text == "A"


def lose_tables(path, content):
    """Replace a file's content; `None` renames its tables."""
    if content is not None:
        path.write_bytes(content)
        return
    with closing(sqlite3.connect(path)) as database, database:
        for name in ("answers", "claims", "payments"):
            database.execute(f"ALTER TABLE {name} RENAME TO gone_{name}")


@pytest.mark.parametrize("content", [b"", b"S", None])
def test_a_ledger_without_tables_is_restored_from_the_backup_or_refused(tmp_path, content):
    path = tmp_path / "l"
    answers = filled(path)
    lose_tables(path, content)
    with pytest.warns(DataWarning, match="60"):
        ledger = Ledger(path)
    with ledger:
        assert ledger.store.get(answers) == answers
    lose_tables(path, content)
    path.with_name("l.backup").unlink()
    for offline in (False, True):
        with pytest.raises(FormatError):
            Ledger(path, offline=offline)


def test_a_ledger_that_may_only_be_read_opens_offline(tmp_path, monkeypatch):
    path = tmp_path / "l"
    answers = filled(path)
    content = path.read_bytes()
    before = sorted(p.name for p in tmp_path.iterdir())
    monkeypatch.setattr("os.access", lambda place, mode: False)  # the tests may run as root
    with Ledger(path, offline=True) as ledger:
        assert ledger.store.file.read_only
        assert ledger.store.get(answers) == answers
        ledger.store.reject(next(iter(answers)))
        with pytest.raises(FormatError, match="readonly"):
            ledger.store.put("a", MODEL, CHAT, Completion("A"))
    path.write_bytes(content.replace(b"abc", b"abd", 1))
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    path.write_bytes(b"")
    with pytest.raises(FormatError):
        Ledger(path, offline=True)


def test_backups_hold_what_came_from_a_server_and_no_local_answers(tmp_path):
    class Remote(ChatModel):
        name = "remote"
        free = False

        def parameters(self):
            return {}

        def outcomes(self, chats):
            for place, chat in enumerate(chats):
                yield place, Completion(chat.text.upper())

    keyword = Chat((Message("user", "x"),), {"keywords": "q", "group": ("a",)})
    path = tmp_path / "l"
    for _ in range(2):  # a backup that is made later has no more
        with Ledger(path) as ledger:
            ledger.wrap(Remote()).complete([CHAT])
            ledger.wrap(MODEL).complete([keyword])
            assert len(ledger) == 2
        lines = path.with_name("l.backup").read_bytes().strip().split(b"\n")
        assert [json.loads(line)[1] for line in lines] == ["remote"]
        path.with_name("l.backup").unlink()


@pytest.mark.parametrize("length", [0, 100_000])
def test_an_older_copy_takes_what_it_lacks_from_the_backup(tmp_path, length):
    path, old = tmp_path / "l", tmp_path / "old"
    answers = filled(path, 3)
    again = next(iter(answers))  # of no use, and asked for once more
    shutil.copy(path, old)
    texts = {"more": "m" * length + ".", again: "another"}
    rows = [answer_row(k, "m", {}, CHAT, Completion(text)) for k, text in texts.items()]
    with Ledger(path) as ledger:
        ledger.store.file.write(lambda database: ledger.store.insert(database, rows))
    os.replace(old, path)  # or a ledger that was copied without its log
    with pytest.warns(DataWarning):
        ledger = Ledger(path)
    with ledger:
        kept = ledger.store.get([*answers, "more"])
    assert {k: kept[k].text for k in texts} == texts
    assert len(kept) == 4 and all(kept[k] == answers[k] for k in answers if k != again)
    with warnings.catch_warnings(action="error"), Ledger(path) as ledger:  # it is said once
        assert len(ledger) == 4
