"""Public calls and commands give the outputs that are committed in tests/approved/*.txt."""

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_outputs_are_approved(tmp_path):
    subprocess.run([sys.executable, HERE / "write.py", tmp_path], check=True)
    differences = []
    for path in sorted(HERE.glob("*.txt")):
        approved = path.read_text(encoding="utf-8").splitlines()
        written = (tmp_path / path.name).read_text(encoding="utf-8").splitlines()
        names = f"approved/{path.name}", f"written/{path.name}"
        differences += difflib.unified_diff(approved, written, *names, lineterm="")
    if differences:
        advice = "If this is intended, run python tests/approved/write.py and commit the files."
        pytest.fail("\n".join([advice, *differences]), pytrace=False)
