"""A long file is read with a bar on a terminal, and without a word elsewhere."""

import contextlib
import gzip
import io
import sys

import pytest

from fairtk.cli import output as progress
from fairtk.io import lines, read_run


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("opener", [open, gzip.open])
@pytest.mark.parametrize("slow", [True, False])
def test_a_bar_of_the_bytes_that_were_read(tmp_path, monkeypatch, opener, slow):
    path = tmp_path / "long.run"
    with opener(path, "wt") as file:
        file.writelines(f"q{i} Q0 d 1 {i} t\n" for i in range(60_000))
    monkeypatch.setattr(progress, "AFTER", 0.0 if slow else 1e9)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(lines, "READ_PROGRESS", progress.reading_bar)
    assert len(read_run(path)) == 60_000
    stderr = sys.stderr.getvalue()
    assert ("reading long.run" in stderr) == ("100%" in stderr) == slow


def test_a_bar_ends_with_its_line_when_reading_fails(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("four")
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with (
        contextlib.suppress(ValueError),
        progress.reading_bar(tmp_path / "x") as progress_bar,
    ):
        progress_bar(2)
        raise ValueError
    assert sys.stderr.getvalue().endswith("\n")
