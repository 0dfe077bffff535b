"""What is kept and then damaged: ledgers, stores and saved results give what they gave, or say so.

Each example keeps something small, damages it, and reads it again: every answer and every number is
what it was, or an error of fairtk's names the file in one line. Strategies of hypothesis damage.

    pytest -m slow tests/campaign/test_campaign_kept.py --campaign-cases 9000 --campaign-seed 7
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import campaign_paying
import pytest
from campaign_files import call
from campaign_machine import echoed
from experiment_stages import Echo, Retriever, world
from hypothesis import strategies as st
from ir_measures import nDCG

import fairtk
from fairtk.errors import DataWarning, FairtkError, FairtkWarning
from fairtk.experiment import Results
from fairtk.experiment.store import stored_systems
from fairtk.llm import Ledger

pytestmark = pytest.mark.slow

# Damages ------------------------------------------------------------------------------------------

PLACES = st.integers(0, 1 << 24)
ODD = st.one_of(
    st.sampled_from([None, 0, 1, -1, 1 << 62, 1.5, "", "x", "[]", "{", b"\xff", "d800", "\0"]),
    st.integers(-9, 9),
    st.floats(allow_nan=False, width=32),
    st.text(max_size=4),
)


def _at(raw, place, more):
    return raw[: place % len(raw)] + more + raw[place % len(raw) + len(more) :]


BYTES = {
    "a flipped bit": lambda raw, p, n: _at(raw, p, bytes([raw[p % len(raw)] ^ 1 << n % 8])),
    "a byte": lambda raw, p, n: _at(raw, p, bytes([n])),
    "some bytes": lambda raw, p, n: _at(raw, p, bytes([n]) * (n + 1)),
    "cut off": lambda raw, p, n: raw[: p % len(raw)],
    "longer": lambda raw, p, n: raw + bytes([n]) * (n + 1),
    "empty": lambda raw, p, n: b"",
    "one byte": lambda raw, p, n: bytes([n]),
    "text": lambda raw, p, n: b"some text\n" * n,
    "deep": lambda raw, p, n: b"[" * 100_000 + b"]" * 100_000,
}
OF_BYTES = st.tuples(
    st.one_of(st.just("a flipped bit"), st.sampled_from(sorted(BYTES))), PLACES, st.integers(0, 255)
)
OF_ROWS = st.tuples(
    st.sampled_from(["set", "swapped", "deleted", "dropped", "renamed", "lost column", "header"]),
    PLACES, PLACES, ODD,
)  # fmt: skip
OF_DATABASES = st.one_of(OF_BYTES, OF_ROWS)


def damage_bytes(path, kind, place, number):
    """Change the bytes of a file."""
    path.write_bytes(BYTES[kind](path.read_bytes() or b"\0", place, number))


def damage_rows(path, kind, place, other, value):
    """Change a table as someone with SQL would, checksums left as they are; or the header."""
    with closing(sqlite3.connect(path)) as database, database:
        tables = [name for name, in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' "
            "ORDER BY name")]  # fmt: skip
        table = tables[place % len(tables)]
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column, key = columns[other % len(columns)], ", ".join(columns[:3])
        count = max(1, database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        row = f"({key}) = (SELECT {key} FROM {table} LIMIT 1 OFFSET {place // 7 % count})"
        another = f"(SELECT {column} FROM {table} LIMIT 1 OFFSET {other // 7 % count})"
        statements = {
            "set": (f"UPDATE {table} SET {column} = ? WHERE {row}", (value,)),
            "swapped": (f"UPDATE {table} SET {column} = {another} WHERE {row}", ()),
            "deleted": (f"DELETE FROM {table} WHERE {row}", ()),
            "dropped": (f"DROP TABLE {table}", ()),
            "renamed": (f"ALTER TABLE {table} RENAME TO other", ()),
            "lost column": (f"ALTER TABLE {table} RENAME COLUMN {column} TO other", ()),
            "header": (f"PRAGMA {'user_version' if place % 2 else 'application_id'} = "
                       f"{other % 6}", ()),
        }  # fmt: skip
        with contextlib.suppress(sqlite3.IntegrityError):
            database.execute(*statements[kind])


def damage(path, drawn):
    """Damage a file in the way that was drawn."""
    (damage_bytes if drawn[0] in BYTES else damage_rows)(path, *drawn)


@contextlib.contextmanager
def copied(folder):
    """Give a copy of a folder that may be damaged."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder, scratch, dirs_exist_ok=True)
        yield Path(scratch)


@contextlib.contextmanager
def heard():
    """Collect fairtk's warnings; others are errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", FairtkWarning)
        yield caught


def in_one_line(error, *places):
    """Check that an error is one line that names one of some places."""
    assert "\n" not in str(error) and any(str(place) in str(error) for place in places), error


# Ledgers ------------------------------------------------------------------------------------------

ASKED = range(12)
OF_LEDGERS = st.tuples(
    OF_DATABASES, st.one_of(st.just("whole"), st.just("gone"), OF_BYTES), st.booleans()
)


def test_ledgers(campaign, tmp_path):
    """Without a word nothing is lost that bytes hold; with its backup nothing is lost at all."""
    with Ledger(tmp_path / "answers.sqlite") as ledger:
        for number in ASKED:
            campaign_paying.ask(ledger.wrap(campaign_paying.echo), number)

    def check(drawn):
        main, backup, offline = drawn
        with copied(tmp_path) as folder:
            path = folder / "answers.sqlite"
            beside = folder / "answers.sqlite.backup"
            damage(path, main)
            if backup == "gone":
                beside.unlink()
            elif backup != "whole":
                damage(beside, backup)
            served = 0
            with heard() as caught:
                try:
                    with Ledger(path, offline=offline, max_calls=0) as ledger:
                        llm = ledger.wrap(campaign_paying.echo)
                        for number in ASKED:
                            with contextlib.suppress(FairtkError):
                                assert campaign_paying.ask(llm, number) == echoed(number)
                                served += 1
                except FairtkError as error:
                    in_one_line(error, path)
                    # a newer version is not mended; nothing else refuses what a backup has
                    assert backup != "whole" or "newer" in str(error), error
                    return "refused"
        # no sum says which rows there are: who deletes one, or gives it another key, is believed
        row_by_row = main[0] in ("deleted", "set", "swapped")
        if served < len(ASKED) and not row_by_row:
            assert backup != "whole" and any(w.category is DataWarning for w in caught), served
        return "whole" if served == len(ASKED) else "in part"

    campaign("ledgers", OF_LEDGERS, check)


# Stores -------------------------------------------------------------------------------------------

TOPICS, QRELS = world(5, 6)


def experiment(folder=None):
    """Run a small experiment, or what a store lacks of it."""
    sampler = fairtk.FairSampler(alpha=1, n_samples=2, cutoff=3)
    answer = fairtk.Generator(Echo(), prompt="rag", cutoff=2)
    systems = {"sampled": Retriever(6) >> sampler >> answer, "fixed": Retriever(6, seed=1) % 3}
    measures = [fairtk.EE_D @ 3, fairtk.E(nDCG @ 3)]
    run = {"save_dir": folder, "batch_size": 3, "baseline": "fixed"}
    return fairtk.Experiment(systems, TOPICS, QRELS, measures, **run)


def tables(results):
    """Return all numbers and rows of results."""
    frames = [results.means, results.per_query, results.counts, results.failures]
    for name in results.systems:
        frames += [results.rankings(name), results.notes(name)]
    # repr: a number counts to its last bit
    return [results.baseline, *(repr(frame.to_dict("split")) for frame in frames)]


def test_stores(campaign, tmp_path):
    """A store that was damaged gives the same tables, or says what is damaged."""
    expected = tables(experiment(tmp_path))
    rows = {s.name: s.rows for s in stored_systems(tmp_path)}

    def check(drawn):
        with copied(tmp_path) as folder:
            damage(folder / "experiment.sqlite", drawn)
            with heard():
                try:
                    for system in stored_systems(folder):
                        if system.rows is not None:
                            known = rows.get(system.name)
                            assert known is not None, f"unknown system {system.name!r}"
                            joint = known.merge(system.rows)
                            assert len(joint) == len(system.rows), f"other rows of {system.name}"
                except FairtkError as error:
                    in_one_line(error, folder)
                try:
                    assert tables(experiment(folder)) == expected
                except FairtkError as error:
                    in_one_line(error, folder)
                    return "refused"
        return "whole"

    campaign("stores", OF_DATABASES, check)


# Saved results ------------------------------------------------------------------------------------

OF_JSON = st.tuples(st.just("a value"), PLACES, st.one_of(ODD, st.just("gone"), st.just([[1]])))
OF_FRAMES = st.tuples(
    st.sampled_from(["a cell", "fewer rows", "fewer columns", "a row twice"]), PLACES, PLACES
)
OF_FILES = st.tuples(st.sampled_from(["gone", "a folder", "another's content"]), PLACES)
OF_RESULTS = st.tuples(
    PLACES, st.one_of(OF_BYTES, OF_JSON, OF_FRAMES, OF_FILES), st.integers(0, 9)
)  # fmt: skip


def damage_json(path, _, place, value):
    """Put another value at a place of a JSON file, or take it away."""
    if isinstance(value, bytes):
        value = value.hex()
    content = json.loads(path.read_text(encoding="utf-8"))
    places, waiting = [], [content]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        places += [(one, key) for key in keys]
        waiting += [one[key] for key in keys if isinstance(one[key], dict | list)]
    container, key = places[place % len(places)]
    if value == "gone":
        del container[key]
    else:
        container[key] = value
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def damage_frame(path, kind, place, other):
    """Change a table as someone with pandas would."""
    import pandas as pd

    frame = pd.read_parquet(path)
    if frame.empty:
        return
    if kind == "a cell":
        column, row = frame.columns[place % len(frame.columns)], other % len(frame)
        own = frame[column].tolist()
        own[row] = own[row] + 0.25 if isinstance(own[row], int | float) else own[row - 1]
        frame[column] = own
    elif kind == "fewer columns":
        frame = frame.drop(columns=frame.columns[place % len(frame.columns)])
    else:
        own = frame.index.to_list()
        changed = own[:-1] if kind == "fewer rows" else [*own, own[place % len(own)]]
        frame = frame.loc[changed].reset_index(drop=True)
    frame.to_parquet(path)


def damage_file(path, kind, place):
    """Take a file away, or put something else in its place."""
    others = [p for p in sorted(path.parent.iterdir()) if p.suffix == path.suffix]
    content = others[place % len(others)].read_bytes()
    path.unlink()
    if kind == "a folder":
        path.mkdir()
    elif kind != "gone":
        path.write_bytes(content)


def test_saved_results(campaign, tmp_path):
    """Saved results that were damaged load as they were, or say which file is damaged."""
    experiment().save(tmp_path)
    expected = tables(Results.load(tmp_path))
    names = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())

    def check(drawn):
        place, how, page = drawn
        with copied(tmp_path) as folder:
            some = names
            if how[0] == "a value":
                some = [name for name in names if name.endswith(".json")]
            elif how[0] in ("a cell", "fewer rows", "fewer columns", "a row twice"):
                some = [name for name in names if name.endswith(".parquet")]
            path = folder / some[place % len(some)]
            if how[0] in BYTES:
                damage_bytes(path, *how)
            elif how[0] == "a value":
                damage_json(path, *how)
            elif len(how) == 3:
                damage_frame(path, *how)
            else:
                damage_file(path, *how)
            with heard():
                try:
                    results = Results.load(folder)
                    assert tables(results) == expected, path.name
                    outcome = "whole"
                except FairtkError as error:
                    in_one_line(error, folder)
                    outcome = "refused"
            if page == 0:
                code, _, said = call(["report", str(folder), "-o", str(folder / "page.html")])
                assert code in (0, 1, 2) and "shows where" not in said, said[-600:]
                assert code == 0 or said.count("Error: ") == 1, said[-600:]
        return outcome

    campaign("saved results", OF_RESULTS, check)
