"""The section of docs/internals.md about one evaluation agrees with a trace of it."""

import re
import sys
from pathlib import Path

import fairtk
from fairtk.llm import claims, ledger, store

HEADING = "## EE_D@5 from file to number\n"
PAGE = Path(__file__).parents[2] / "docs" / "internals.md"
PACKAGE = Path(fairtk.__file__).parent


def trace(function):
    """Return the calls, as (file, qualified name), and the types whose methods were called."""
    calls, types = [], set()

    def record(frame, event, argument):
        if event == "call":
            calls.append((frame.f_code.co_filename, frame.f_code.co_qualname))
            types.add(type(frame.f_locals.get("self")))

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(before)
    names = {cls.__name__ for cls in types if cls.__module__.startswith("fairtk.")}
    return calls, names


def test_the_steps_from_a_file_to_a_number(tmp_path):
    qrels, run = tmp_path / "qrels.txt", tmp_path / "bm25.run"
    qrels.write_text("q1 0 d1 1\nq1 0 d2 0\n")
    run.write_text("q1 Q0 d1 1 2.0 bm25\nq1 Q0 d2 2 1.0 bm25\n")

    def evaluate():
        fairtk.evaluate(qrels, [run], ["EE_D@5"])

    evaluate()  # imports and plugins are not part of the way
    calls, types = trace(evaluate)

    section = PAGE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    steps, other = section.split("Not counted", 1)
    named = re.findall(r"`([\w.]+)` \(`([\w/]+\.py)`\)", steps)
    assert len(named) == len(re.findall(r"^\d+\. ", steps, re.M)) > 10
    remaining = iter(calls)
    for name, file in named:
        assert (str(PACKAGE / file), name) in remaining, f"{name} of {file} is not called here"

    counted = re.findall(r"\*\*`(\w+)`\*\*", steps)
    assert len(counted) <= 8
    uncounted = set(re.findall(r"`(\w+)`", other))
    assert types == set(counted) | uncounted


def test_the_section_on_the_file_has_its_format_tables_and_seconds():
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## One file: results, answers, claims")[2].partition("\n## ")[0]
    assert f"the format of the tables: {store.FORMAT}.\n" in section
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.M)) == sorted(store.TABLES)
    section = text.partition("## How a prompt is answered")[2].partition("\n## ")[0]
    seconds = [int(n) for n in re.findall(r"(\d+) s\b", section)]
    assert seconds == [claims.LEASE, claims.RENEWAL, ledger._QUIET]


def test_each_file_of_experiments_has_one_subject():
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## The files of `experiment`")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+\.py)`", section)
    files = {path.name for path in (PACKAGE / "experiment").glob("*.py")}
    assert sorted(named) == sorted(files - {"__init__.py"})
