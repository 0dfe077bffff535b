"""Public calls and commands give the outputs that are committed in tests/approved/*.txt."""

from pathlib import Path

from approved_outputs import check_approved


def test_outputs_are_approved(tmp_path):
    check_approved(Path(__file__).parent, tmp_path)
