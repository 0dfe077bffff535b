"""The campaign: thousands of mutated files and frames, none of which may give a wrong number.

Each case makes a small random world from its seed, mutates one file or frame, and passes it to
`fairtk evaluate`, a measure, transformer or function. The expected result is that of the world
without the mutation, or of the frames that `campaign_reader`, an independent reader, finds in the
files. `campaign_case` has the kinds of mutations.

    pytest -m slow tests/campaign                              150 cases of files and of frames
    pytest -m slow tests/campaign --campaign-cases 30000       many
    pytest -m slow tests/campaign --campaign-seed 90000        other seeds
    pytest -m slow tests/campaign -s --campaign-case files:17  one case, with all that it reads

`campaign_mutations` and `campaign_fatal` mutate the files and frames of `campaign_world`, and
`campaign_frame_mutations` frames alone. `campaign_files` runs the command, and `campaign_frames`
the entry points of `campaign_entry_points`.
"""

from __future__ import annotations

import signal
from collections import Counter

import campaign_files
import campaign_frames
import pytest
from campaign_case import FATAL, MEANINGFUL, NEUTRAL

pytestmark = pytest.mark.slow

FAMILIES = {"files": campaign_files.run_case, "frames": campaign_frames.run_case}
PARTS = 2
"""The tests of a family, which may run in parallel."""
SECONDS = 900
"""The time limit of a case: a busy machine may be slow."""


class Hang(BaseException):
    """A case takes too long; no handler of `Exception` stops it."""


@pytest.fixture
def time_limit():
    """Return a function that starts the time of a case."""

    def stop(*_):
        raise Hang

    handler = signal.signal(signal.SIGALRM, stop)
    yield lambda: signal.alarm(SECONDS)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_wrong_number_and_no_lost_place(
    family, part, request, tmp_path, time_limit, record_property
):
    """A crash or a hang leaves the folder of its case, named after the seed."""
    only, first = (request.config.getoption(f"--campaign-{name}") for name in ("case", "seed"))
    if only is not None:
        pytest.skip("only one case runs")
    n_cases = request.config.getoption("--campaign-cases")
    failures, outcomes = [], Counter()
    for seed in range(first + part, first + n_cases, PARTS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        time_limit()
        verdict = FAMILIES[family](seed, folder)
        if verdict.failure:
            failures.append(f"{family}:{seed} {verdict.case}: {verdict.failure}")
        outcomes[verdict.kind, verdict.got] += 1
        for path in [*folder.iterdir(), folder]:
            path.unlink() if path.is_file() else path.rmdir()
    counts = ", ".join(f"{kind} {got}: {n}" for (kind, got), n in sorted(outcomes.items()))
    record_property("campaign", f"{family}, part {part}: {counts}; {len(failures)} failures")
    assert not failures, "\n".join(failures)
    # a campaign without any value, or without any refusal, would find nothing
    for outcome in ((NEUTRAL, "value"), (MEANINGFUL, "value"), (MEANINGFUL, "error"),
                    (FATAL, "error")):  # fmt: skip
        assert outcomes[outcome] > n_cases / 100 / PARTS or n_cases < 100, outcome


def test_one_case(request, tmp_path):
    """Repeats one case and prints all that it reads."""
    case = request.config.getoption("--campaign-case")
    if case is None:
        pytest.skip("no --campaign-case")
    family, _, seed = case.partition(":")
    verdict = FAMILIES[family](int(seed), tmp_path, show=True)
    print(verdict)
    assert not verdict.failure
