"""The benchmark of GPUs where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


def test_without_a_gpu_it_says_so_in_one_line():
    script = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    call = [sys.executable, str(script)]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0 and not done.stderr
    line = "benchmarks/gpu.py: no GPU here (or no torch that sees one), so nothing was run\n"
    assert done.stdout == line
