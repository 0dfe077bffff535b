"""Files of other formats: the message names the format, and the version that wrote the file."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import fairtk
from fairtk.errors import FormatError, StoreError
from fairtk.experiment import open_results, stored_results
from fairtk.experiment.store import FILE
from fairtk.llm import FunctionModel, Ledger
from fairtk.llm.chat import questions
from fairtk.llm.store import FORMAT

ARCHIVE = Path(__file__).parents[1] / "experiment" / "format_4.zip"
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


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("offline", [False, True])
def test_answers_of_earlier_formats_are_found(tmp_path, monkeypatch, version, offline):
    shutil.unpack_archive(ARCHIVE, tmp_path)
    path = tmp_path / "answers.sqlite"
    if version > 4:
        with Ledger(path):
            pass
        run_sql(
            path,
            f"PRAGMA user_version = {version}",
            "ALTER TABLE answers DROP COLUMN cached_tokens",
        )
    if version == 5:
        run_sql(
            path,
            "DROP TABLE failures",
            "DROP TABLE writers",
            "ALTER TABLE cells DROP COLUMN remarks",
        )
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
    assert version_now == (version if offline else FORMAT)
    assert (path.read_bytes() == before) == offline
