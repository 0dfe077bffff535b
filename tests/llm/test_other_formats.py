"""Files of other formats: the message names the format, and the version that wrote the file."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pandas as pd
import pytest
from earlier_formats import ARCHIVES

import fairtk
from fairtk.errors import FormatError, StoreError
from fairtk.experiment import open_results, stored_results
from fairtk.experiment.store import FILE
from fairtk.llm import Completion, FunctionModel, Ledger
from fairtk.llm.chat import questions
from fairtk.llm.store import FORMAT

TOPICS = pd.DataFrame({"qid": ["1"], "query": ["a"], "docno": ["d"], "score": [1.0], "rank": [0]})


def ledger(folder):
    with Ledger(folder / FILE) as opened:
        opened.wrap(FunctionModel(lambda prompts: prompts, "f")).complete(questions(["a"]))


def store(folder):
    system = fairtk.identified(fairtk.FairSampler(n_samples=2, cutoff=1), "s, v1")
    fairtk.Experiment({"s": system}, TOPICS, save_dir=folder)


def run_sql(path, *statements):
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


@pytest.mark.parametrize("write", [ledger, store])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_a_newer_format_names_its_writer(tmp_path, write, read_only):
    write(tmp_path)
    newer = FORMAT + 3
    run_sql(
        tmp_path / FILE,
        f"PRAGMA user_version = {newer}",
        "UPDATE writers SET version = '9.8.7'",
    )
    content = (tmp_path / FILE).read_bytes()
    uses = [lambda: Ledger(tmp_path / FILE, offline=True), lambda: open_results(tmp_path)]
    uses += [] if read_only else [lambda: Ledger(tmp_path / FILE), lambda: store(tmp_path)]
    uses += [lambda: stored_results(tmp_path)]
    for use in uses:
        with pytest.raises((FormatError, StoreError)) as caught:
            use()
        message = str(caught.value)
        for part in (FILE, "fairtk 9.8.7", f"format {newer}", fairtk.__version__, f"to {FORMAT}"):
            assert part in message
    assert (tmp_path / FILE).read_bytes() == content  # nothing is lost


def test_a_file_of_an_older_format_is_refused_with_its_number(tmp_path):
    ledger(tmp_path)
    run_sql(tmp_path / FILE, "PRAGMA user_version = 3")
    with pytest.raises(FormatError, match="formats 4 to"):
        Ledger(tmp_path / FILE)


def test_a_file_names_each_version_that_wrote_it(tmp_path):
    ledger(tmp_path)
    query = "SELECT version FROM writers"
    with Ledger(tmp_path / FILE) as opened:
        assert opened.store.file.read(query) == [(fairtk.__version__,)]


def test_the_newest_of_several_writers_is_named(tmp_path):
    ledger(tmp_path)
    run_sql(
        tmp_path / FILE,
        f"PRAGMA user_version = {FORMAT + 1}",
        "INSERT INTO writers VALUES ('0.10.0')",
        "INSERT INTO writers VALUES ('0.9.0')",
        "INSERT INTO writers VALUES ('0.10.0rc1')",
    )
    with pytest.raises(FormatError, match=r"install fairtk 0\.10\.0 "):
        Ledger(tmp_path / FILE)


def test_a_newer_build_of_the_same_version_is_not_a_remedy(tmp_path):
    ledger(tmp_path)
    run_sql(tmp_path / FILE, f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(FormatError, match=r"install a newer fairtk to read it, or"):
        Ledger(tmp_path / FILE)


def test_a_file_of_another_program_is_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"junk " * 1000)
    with pytest.raises(FormatError, match=r"not a database\); use another file, or"):
        Ledger(tmp_path / FILE)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
@pytest.mark.parametrize("offline", [False, True])
def test_answers_of_earlier_formats_are_found(tmp_path, monkeypatch, archive, offline):
    shutil.unpack_archive(archive, tmp_path)
    path = tmp_path / "answers.sqlite"
    if offline:
        monkeypatch.setattr("os.access", lambda place, mode: False)  # the tests may run as root
    before = path.read_bytes()
    with Ledger(path, offline=offline) as opened:
        model = FunctionModel(lambda prompts: 1 / 0, "function")
        texts = [f"the movie {word} is" for word in ("harbour", "lantern")]
        answers = opened.wrap(model).complete(questions(texts))
        # "the movie harbour is" and "the movie lantern is" have 20 characters
        assert [answer.text for answer in answers] == ["function 20", "function 20"]
        version_now = opened.store.file.read("PRAGMA user_version")[0][0]
    number = int(archive.stem.removeprefix("format_"))
    assert version_now == (number if offline else FORMAT)
    assert (path.read_bytes() == before) == (offline or number == FORMAT)


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("name", ["content", "identity"])
@pytest.mark.parametrize("digest", ["abc1", "0a1b", "00ff", "9f3a", "1234"])
def test_earlier_answers_of_local_models_have_an_unknown_end(
    tmp_path, monkeypatch, name, digest, offline
):
    """Whatever the digest of the model: format 6 recorded "stop" for all its answers."""
    path = tmp_path / FILE
    with Ledger(path) as opened:
        for parameters in ({name: digest}, {"temperature": 0}):
            opened.store.put_answers("m", parameters, {"?": Completion("Paris")})
    drops = [
        f"ALTER TABLE {table} DROP COLUMN tokens" for table in ("payments", "claims", "owners")
    ]
    run_sql(path, "ALTER TABLE answers DROP COLUMN cached_tokens", *drops)
    run_sql(path, "PRAGMA user_version = 6")
    if offline:
        monkeypatch.setattr("os.access", lambda place, mode: False)  # the tests may run as root
    with Ledger(path, offline=offline) as opened:
        rows = opened.store.file.read("SELECT parameters, finish FROM answers")
    ends = {"server" if "temperature" in parameters else "local": end for parameters, end in rows}
    assert ends == {"local": "unknown", "server": "stop"}
