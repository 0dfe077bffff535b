"""The campaign: thousands of mutated files and frames, none of which may give a wrong number.

Each case makes a small random world from its seed, mutates one file or frame, and sends it through
the command line or through a measure, transformer or function; folders (LaMP, TREC Fair, studies)
go through the data sets and ``fairtk qr``. What had to come out is known without fairtk:
`campaign_reader` and `campaign_formulas` are a reader and the measures written a second time, as
simply as possible. See `campaign_case` for what a case expects.

    pytest -m slow tests/campaign                             the campaign, 3,000 cases a family
    pytest -m slow tests/campaign --campaign-cases 30000      a long one
    pytest -m slow tests/campaign --campaign-seed 90000       one of other seeds
    pytest -m slow tests/campaign -s --campaign-case files:17 one case, with all that it did

Where things are: `campaign_world` and `campaign_frame_world` make worlds, `campaign_writer` writes
files; `campaign_neutral`, `campaign_fatal` and `campaign_damage` mutate files,
`campaign_frame_mutations` and `campaign_frame_damage` frames, `campaign_folder_mutations` what
`campaign_folder_world` and `campaign_folders` make and judge; `campaign_doors` lists what frames go
through (with `campaign_transformers` and `campaign_functions`); `campaign_files` and
`campaign_frames` run and judge a case; `campaign_pool` and `campaign_worker` are the processes.
"""

from __future__ import annotations

import os
from collections import Counter

import campaign_worker
import pytest
from campaign_case import FATAL, MEANINGFUL, NEUTRAL, OK
from campaign_pool import run_all
from campaign_report import failures, table

pytestmark = pytest.mark.slow


@pytest.fixture
def one_case(request):
    """Return family and seed of the only case that is asked for, or None."""
    asked = request.config.getoption("--campaign-case")
    if asked is None:
        return None
    family, _, seed = asked.partition(":")
    return family, int(seed)


@pytest.mark.parametrize("family", ["files", "folders", "frames"])
def test_no_wrong_number_and_no_lost_place(family, one_case, request, tmp_path, record_property):
    if one_case is not None:
        pytest.skip("one case is asked for")
    number = request.config.getoption("--campaign-cases")
    number //= 5 if family == "folders" else 1
    first = request.config.getoption("--campaign-seed")
    workers = max(1, min(2, os.cpu_count() or 1))
    cases = [(family, seed) for seed in range(first, first + number)]
    verdicts = run_all(cases, tmp_path, workers)
    wrong = failures(verdicts)
    for line in [*table(verdicts), *wrong]:
        record_property("campaign", line)
    assert len(verdicts) == number
    assert not wrong, "\n".join(wrong)
    # a campaign that never reaches an answer, or never a refusal, would find nothing
    kinds = Counter((v.kind, v.got) for v in verdicts if v.outcome == OK)
    for reached in ((NEUTRAL, "value"), (MEANINGFUL, "value"), (MEANINGFUL, "error"),
                    (FATAL, "error")):  # fmt: skip
        assert kinds[reached] > number / 100 or number < 200, reached


def test_one_case(one_case, tmp_path):
    """Repeats one case in this process and prints everything."""
    if one_case is None:
        pytest.skip("no case is asked for with --campaign-case")
    campaign_worker.prepare()
    verdict = campaign_worker.run(*one_case, tmp_path, show=True)
    print(verdict)
    assert verdict["outcome"] == OK, verdict["detail"]
