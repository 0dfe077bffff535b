"""The benchmark of GPUs where there is none."""

import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch, capfd):
    script = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.syspath_prepend(script.parent)
    runpy.run_path(str(script), run_name="__main__")
    line = "benchmarks/gpu.py: no GPU here (or no torch that sees one), so nothing was run\n"
    assert capfd.readouterr() == (line, "")
