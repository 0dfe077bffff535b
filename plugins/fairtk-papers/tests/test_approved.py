"""Commands of studies give the outputs that are committed in approved/*.txt."""

import importlib.metadata
from pathlib import Path

import pytest
from approved_outputs import check_approved


def test_outputs_are_approved(tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    points = importlib.metadata.entry_points(group="fairtk.commands")
    if "rag" not in points.names:
        pytest.skip("fairtk-papers is not installed")
    check_approved(Path(__file__).parent / "approved", tmp_path)
