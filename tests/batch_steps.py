"""A batch from writing to answers, in processes that are killed at a point: run as a script.

``batch_steps.py FOLDER POINTS`` kills one process at each of so many points, spread over all that
are passed, and runs another one. It prints the contents of the ledgers as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from batch_answers import answered

from fairtk.batch import Batches, batches, files
from fairtk.llm import Ledger, OpenAICompatible
from fairtk.llm.chat import questions
from fairtk.llm.store import Database

PROMPTS = 12
NOBODY = "http://127.0.0.1:9/v1"  # never asked


def go(folder):
    """Do the remaining steps of a batch."""
    with Ledger(folder / "answers.sqlite") as ledger:
        llm = ledger.wrap(OpenAICompatible("toy", base_url=NOBODY))
        own = Batches(ledger)
        texts = [f"{folder.name}, prompt {number}" for number in range(PROMPTS)]
        own.write(lambda: llm.complete(questions(texts)), folder / "prompts")
        own.read(folder / "prompts", answers_of(folder))


def answers_of(folder):
    """Return files of answers in another order, some of them twice."""
    made = []
    for path in sorted((folder / "prompts").glob("*.jsonl")):
        lines = [json.dumps(answered(json.loads(line))) for line in path.open(encoding="utf-8")]
        made.append(folder / path.name)
        made[-1].write_text("\n".join([*lines[::-1], lines[0]]), encoding="utf-8")
    return made


def watched(point):
    """Count what is passed; end this process at a point. Return the counter."""
    passed = [0]

    def step():
        passed[0] += 1
        if passed[0] == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(owner, name):
        inner = getattr(owner, name)

        def outer(*args, **options):
            step()
            value = inner(*args, **options)
            step()
            return value

        setattr(owner, name, outer)

    around(Database, "write")
    around(os, "replace")
    around(files.PromptWriter, "_write")
    return passed


def in_a_process(work):
    """Return how a process ended that did something."""
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1]
    try:
        work()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def end_leases(folder):
    """End the leases of processes that were killed, as time would do."""
    with Ledger(folder / "answers.sqlite") as ledger:
        ledger.store.file.write(
            lambda database: database.execute(
                "UPDATE owners SET expires = 0 WHERE expires IS NOT NULL"
            )
        )


def state_of(folder):
    with Ledger(folder / "answers.sqlite") as ledger:
        counts = {
            name: ledger.store.file.read(f"SELECT count(*) FROM {name}")[0][0]
            for name in ("answers", "payments", "claims", "owners")
        }
    # a file that was being written at a kill stays, hidden
    return {**counts, "files": sorted(path.name for path in (folder / "prompts").glob("[!.]*"))}


def main(place, points):
    files.MOST_LINES = batches._TOGETHER = 5  # several files, several commits

    def count():
        passed = watched(0)
        go(whole)
        (place / "steps").write_text(str(passed[0]))

    whole = place / "whole"
    whole.mkdir()
    assert in_a_process(count) == 0
    steps = int((place / "steps").read_text())
    states = {"whole": {**state_of(whole), "steps": steps}}
    for number in range(points):
        point = 1 + number * (steps - 1) // (points - 1)
        folder = place / f"point {point}"
        folder.mkdir()

        def killed(folder=folder, point=point):
            watched(point)
            go(folder)

        ended = in_a_process(killed)
        assert os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL, ended
        end_leases(folder)
        assert in_a_process(lambda folder=folder: go(folder)) == 0, point
        states[folder.name] = state_of(folder)
    print(json.dumps(states))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
