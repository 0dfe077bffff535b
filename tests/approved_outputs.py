"""The comparison of outputs with approved ones, which plugins' tests share."""

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

WRITE = Path(__file__).parent / "approved" / "write.py"


def check_approved(cases, folder):
    """Hold the outputs of the cases in a folder, written to another, to be the approved ones."""
    subprocess.run([sys.executable, WRITE, cases, folder], check=True)
    differences = []
    for path in sorted(cases.glob("*.txt")):
        approved = path.read_text(encoding="utf-8").splitlines()
        written = (folder / path.name).read_text(encoding="utf-8").splitlines()
        names = f"approved/{path.name}", f"written/{path.name}"
        differences += difflib.unified_diff(approved, written, *names, lineterm="")
    if differences:
        advice = f"If this is intended, run python {WRITE} {cases} and commit the files."
        pytest.fail("\n".join([advice, *differences]), pytrace=False)
