"""Tuned experiments with a server's model that are killed; see `killing`."""

from pathlib import Path

import pytest
from killing import check_killed_and_resumed, of


def tuning(folder, url, executor):
    """Return the program and arguments of a tuned experiment."""
    return Path(__file__).with_name("killed_tuning.py").read_text(), folder, url, executor


@pytest.mark.parametrize(
    ("kind", "executor", "kills"),
    [of(tuning, "serial", often=True), of(tuning, "processes", often=True)],
)
def test_killed_and_resumed_it_makes_the_same_tables(tmp_path, kind, executor, kills):
    check_killed_and_resumed(tmp_path, kind, lambda prompt: f"words {len(prompt)}", executor, kills)
