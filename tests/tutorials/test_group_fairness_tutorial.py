"""Tutorial 04 runs on files that it writes, and on a folder that it is given."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "tutorials" / "04_group_fairness_trec_fair.py"

pytestmark = pytest.mark.slow


def run(folder, *arguments):
    environment = os.environ | {
        "FAIRTK_TUTORIAL_FAST": "1",
        "FAIRTK_TUTORIAL_OUT": str(folder),
        "TMPDIR": str(folder),
    }
    return subprocess.run(
        [sys.executable, str(TUTORIAL), *map(str, arguments)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1200,
    )


def row(output, name):
    line = re.search(rf"^{re.escape(name)} .*$", output, flags=re.MULTILINE).group()
    return [float(x) for x in re.findall(r"-?\d+\.\d+", line[len(name) :])]


def test_on_invented_files_and_on_their_folder(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 0, result.stderr
    output = result.stdout
    for figure in ("04_explain.png", "04_change.png"):
        assert (tmp_path / figure).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert row(output, "nDCG_TREC@20")[2] == 1  # the oracle shows relevant articles only
    gender, both = row(output, "AWRF gender"), row(output, "AWRF gender x place")
    assert all(one > two for one, two in zip(gender, both, strict=True))
    assert both[2] > both[0]  # and is nearer to the target than BM25
    total = re.search(r"^cost \(1 - AWRF\): ([\d.]+)", output, flags=re.MULTILINE).group(1)
    assert float(total) == pytest.approx(1 - both[0], abs=1e-4)
    low, high = re.search(r"between ([\d.]+) and ([\d.]+)", output).groups()
    assert float(low) < float(high)
    assert row(output, "task1")[0] == gender[0]  # the command line says the same
    assert "groups survive the file: True" in output
    assert "lies on groups that no document has" in output

    [folder] = tmp_path.glob("fairtk-trec-fair-*/invented")
    again = run(tmp_path, folder)
    assert again.returncode == 0, again.stderr
    assert row(again.stdout, "AWRF gender x place") == both


def test_a_folder_that_is_none(tmp_path):
    result = run(tmp_path, "no-folder")
    assert result.returncode == 1
    assert "no-folder is no folder" in result.stderr
