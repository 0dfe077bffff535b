"""Sessions in experiments: what was seen is stored, and comes back on resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from session_agents import Catalog, Repeated, Scripted, Threads

import fairtk
from fairtk import FairSampler, Seen
from fairtk.errors import DataWarning, InputError
from fairtk.transformers import leave_notes

TOPICS = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["a,b;b", "c", "a;a"]})
QRELS = pd.DataFrame({"qid": ["1", "2", "3"], "docno": ["a", "c", "b"], "label": 1})
EXPECTED = {("1", "a"): 0.5, ("1", "b"): 1.0, ("2", "c"): 1.0, ("3", "a"): 1.0}
RBP = {"browsing": "RBP(p=0)", "cutoff": 1}


def values(frame):
    keys = zip(frame["qid"], frame["docno"], strict=True)
    return dict(zip(keys, frame["exposure"], strict=True))


def experiment(system, topics=TOPICS, **options):
    return fairtk.Experiment({"agent": system}, topics, **options)


@pytest.mark.parametrize(
    ("executor", "durable"),
    [
        ("serial", True),
        ("serial", False),
        pytest.param("processes", True, marks=pytest.mark.slow),
        pytest.param("processes", False, marks=pytest.mark.nightly),
    ],
)
def test_turns_are_stored_and_come_back(tmp_path, executor, durable):
    options = {"executor": executor, "batch_size": 2, "save_dir": tmp_path if durable else None}
    if executor == "processes":
        options["workers"] = 2
    for _ in range(2):
        seen = Seen(Catalog())
        seen(TOPICS.head(1))  # an earlier search is not of the experiment
        results = experiment(Scripted(seen), **options)
        frame = seen.exposure(cutoff=2)
        assert values(frame) == {**EXPECTED, ("1", "a"): 1.0}
        assert values(seen.exposure("total", cutoff=1)) == {
            ("1", "a"): 1.0,
            ("1", "b"): 1.0,
            ("2", "c"): 1.0,
            ("3", "a"): 2.0,
        }
        notes = results.notes("agent")
        assert list(notes["qid"]) == ["1", "2", "3"] and set(notes["stage"]) == {"Scripted"}
        assert seen.exposure(cutoff=2, notes=notes).equals(frame)
    if durable:
        saved = results.save(tmp_path / "saved") or fairtk.Results.load(tmp_path / "saved")
        assert Seen(Catalog()).exposure(cutoff=2, notes=saved.notes("agent")).equals(frame)


def test_threads_of_a_stage():
    seen = Seen(Catalog())
    results = experiment(Threads(seen))
    assert values(seen.exposure(cutoff=2)) == {**EXPECTED, ("1", "a"): 1.0}
    assert len(results.notes("agent")) == 3


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_sessions_of_an_agent_do_not_depend_on_the_batch(batch_size):
    alone, seen = Seen(Catalog()), Seen(Catalog())
    Repeated(alone)(TOPICS)
    experiment(Repeated(seen), batch_size=batch_size)
    assert values(seen.exposure(cutoff=2)) == {**EXPECTED, ("1", "a"): 1.0}
    assert seen.exposure(cutoff=2).equals(alone.exposure(cutoff=2))
    assert seen.records.equals(alone.records)


def test_a_sampler_in_a_pipeline():
    """A stage that draws rankings and records them; measures get the stage's rows as before."""
    sampler = FairSampler(alpha=1, n_samples=20, cutoff=1, seed=1)
    seen = Seen(Catalog() >> sampler)
    results = fairtk.Experiment(
        {"seen": seen, "plain": Catalog() >> sampler}, TOPICS, QRELS, ["EE_D@1", "EE_R@1"]
    )
    assert results.means.loc["seen"].equals(results.means.loc["plain"])
    means = fairtk.evaluate(QRELS, seen.exposure(cutoff=1), ["EE_D@1", "EE_R@1"]).means
    assert means.iloc[0].tolist() == pytest.approx(results.means.loc["seen"].tolist(), abs=1e-12)


def test_a_question_without_a_search_is_named():
    seen = Seen(Catalog())
    topics = pd.concat([TOPICS, pd.DataFrame({"qid": ["4"], "query": [""]})])
    experiment(Scripted(seen), topics)
    with pytest.warns(DataWarning, match="'4'"):
        assert set(seen.exposure()["qid"]) == {"1", "2", "3"}


def test_each_system_has_its_own_turns():
    shared, own = Seen(Catalog()), Seen(Catalog())
    other = own >> FairSampler(n_samples=2)
    systems = {"a": Scripted(shared), "b": shared >> FairSampler(n_samples=1), "c": other}
    results = fairtk.Experiment(systems, TOPICS)
    assert len(results.notes("a")) == len(results.notes("c")) == 3
    with pytest.raises(InputError, match="'a', 'b'"):
        shared.exposure()
    assert set(shared.exposure(notes=results.notes("a"))["qid"]) == {"1", "2", "3"}
    # the prefix of b and c is one stage, and ran once
    assert own.exposure(cutoff=9).equals(shared.exposure(cutoff=9, notes=results.notes("c")))


class Both(Scripted):
    """An agent that asks two retrievers."""

    SETTINGS = ("retriever", "other")

    def __init__(self, retriever, other):
        self.retriever, self.other = retriever, other

    def transform(self, inp):
        Scripted(self.other).transform(inp)
        return super().transform(inp)


def test_two_retrievers_of_an_agent():
    first, second = Seen(Catalog()), Seen(Catalog() % 1)
    results = experiment(Both(first, second))
    assert len(first.records) == 6 and len(second.records) == 5
    assert len(first.exposure(notes=results.notes("agent"))) == 4
    total = first.exposure("total", cutoff=2, notes=results.notes("agent"))
    assert values(total)[("3", "a")] == 4.0


def test_a_stage_keeps_its_own_notes():
    class Noting(Scripted):
        leaves_notes = True

        def transform(self, inp):
            notes = {"1": {"mine": 1}, "2": "text"}
            leave_notes(self, {qid: note for qid, note in notes.items() if qid in set(inp["qid"])})
            return super().transform(inp)

    notes = experiment(Noting(Seen(Catalog()))).notes("agent").set_index("qid")["note"]
    assert notes["1"]["mine"] == 1 and notes["2"]["note"] == "text"
    assert [set(note) for note in notes] == [{"mine", "seen"}, {"note", "seen"}, {"seen"}]


PROGRAM = """
import os, signal, sys, pandas as pd, fairtk
from session_agents import Catalog, Scripted
seen = fairtk.Seen(Catalog())
class Kills(Scripted):
    identity_name, output_version = "tests.Kills", 1
    def transform(self, inp):
        if "KILL" in os.environ and "3" in set(inp["qid"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().transform(inp)
topics = pd.read_json(sys.argv[1], dtype=str)
fairtk.Experiment({"agent": Kills(seen)}, topics, save_dir=sys.argv[2], batch_size=1)
print(seen.exposure(cutoff=2).to_json(), len(seen.records))
"""


@pytest.mark.slow
def test_a_killed_session(tmp_path):
    TOPICS.to_json(tmp_path / "topics.json")
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]

    def run(folder, **variables):
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "topics.json"), str(tmp_path / folder)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("killed", KILL="1").returncode == -signal.SIGKILL
    again, once = run("killed"), run("whole")
    assert again.stdout == once.stdout != "" and again.returncode == 0, again.stderr
