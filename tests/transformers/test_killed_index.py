"""An index whose process is killed, and one that two processes build."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")


def wait_for(happened, process):
    end = time.monotonic() + 900
    while not happened():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.002)


INDEXER = """
import sys, time
from pathlib import Path
import pandas as pd
from fairtk.transformers import CollectionBM25, candidates

candidates._BATCH = 5  # so that PISA writes before it has all documents
begun, awaited = Path(sys.argv[2]), [Path(path) for path in sys.argv[3:]]

def documents():
    for number in range(40):
        if number == 20:
            Path(f"{begun}-half").touch()
            while not all(path.exists() for path in awaited):
                time.sleep(0.01)
        yield {"docno": f"d{number}", "text": f"common word{number}"}

bm25 = CollectionBM25(sys.argv[1], documents)
begun.touch()
found = bm25(pd.DataFrame({"qid": ["1"], "query": ["common"]}))
print(len(found), flush=True)
"""


@pytest.mark.slow
def test_an_index_of_a_killed_process_is_never_used(tmp_path):
    place, begun = tmp_path / "indexes" / "index", tmp_path / "begun"
    command = [sys.executable, "-c", INDEXER, str(place), str(begun)]
    process = subprocess.Popen([*command, str(tmp_path / "never")], stdout=subprocess.PIPE)
    half = tmp_path / "begun-half"
    wait_for(lambda: half.exists() and list(tmp_path.rglob("*.part.*")), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(tmp_path.rglob("*.part.*"))  # left behind, under a name that nobody reads
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "40"
    assert not list(tmp_path.rglob("*.part.*"))  # and cleared away by who builds the index


@pytest.mark.slow
def test_two_processes_may_build_one_index(tmp_path):
    """One is in the middle of it when the other comes."""
    begun = [str(tmp_path / name) for name in ("one", "other")]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", INDEXER, str(tmp_path / "index"), own, *begun],
            stdout=subprocess.PIPE,
            text=True,
        )
        for own in begun
    ]
    outputs = [process.communicate()[0] for process in both]
    assert [p.returncode for p in both] == [0, 0]
    assert [output.split()[-1] for output in outputs] == ["40", "40"]
    assert not list(tmp_path.rglob("*.part.*"))
