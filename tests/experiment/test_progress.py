"""What long work says where there is no terminal: a line a minute."""

import io
import threading
from contextlib import redirect_stderr

import pytest

from fairtk.experiment import engine


class Log(io.StringIO):
    """A log that tells when a line is in it."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def write(self, text):
        super().write(text)
        self.written.set()


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(engine, "MINUTE", 0.001)
    return Log()


def test_a_line_also_while_nothing_is_done(log):
    with redirect_stderr(log), engine.progress_bar("answers", 2000, "prompt") as add:
        add(1200)
        log.written.clear()
        assert log.written.wait(60)
    assert log.getvalue().splitlines()[-1] == "answers: 1,200 of 2,000 (prompt)"
    assert not [t for t in threading.enumerate() if t.name == "fairtk minutes"]


def test_no_line_where_a_listener_is_told(log):
    calls = []
    listening = engine.telling(lambda *call: calls.append(call))
    with redirect_stderr(log), listening, engine.progress_bar("x", 2, "y") as add:
        assert not [t for t in threading.enumerate() if t.name == "fairtk minutes"]
        add(2)
    assert log.getvalue() == ""
    assert calls == [("x", 0, 2), ("x", 2, 2)]
