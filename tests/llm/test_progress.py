"""What long work says where there is no terminal: a line a minute."""

import io
import re
import threading
from contextlib import redirect_stderr

import pytest
from chat_server import serving

from fairtk.llm import OpenAICompatible, progress
from fairtk.llm.chat import questions


class Log(io.StringIO):
    """A log that can be waited for."""

    def __init__(self):
        super().__init__()
        self.changed = threading.Condition()

    def write(self, text):
        with self.changed:
            super().write(text)
            self.changed.notify_all()

    def says(self, text, after=0):
        """Wait for a text; an earlier line may be on its way when it is asked for."""
        with self.changed:
            return self.changed.wait_for(lambda: text in self.getvalue()[after:], 300)


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(progress, "MINUTE", 0.001)
    return Log()


def test_a_line_also_while_nothing_is_done(log):
    with redirect_stderr(log), progress.progress_bar("answers", 2000, "prompt") as add:
        add(1200)
        assert log.says("1,200 of 2,000")
    line = log.getvalue().splitlines()[-1]
    assert re.fullmatch(r"answers: 1,200 of 2,000 \(prompt\), about [0-9:]+ left", line)
    assert not [t for t in threading.enumerate() if t.name == "fairtk minutes"]


def test_what_a_server_answered_counts_before_its_batch_is_done(log, monkeypatch):
    with serving(lambda prompt, count: "an answer") as server:
        # with several at a time, two could arrive together
        model = OpenAICompatible("m", base_url=server.url, api_key_env=None, concurrency=1)
        with redirect_stderr(log), progress.progress_bar("answers", 5, "prompt") as add:
            model.complete(questions("abc"))
            assert log.says("3 of 5")
            add(3)
            model.complete(questions("d"))
            assert log.says("4 of 5")
            add(2)
            assert log.says("5 of 5")
            model.complete(questions("e"))  # more than the expected answers
            length = len(log.getvalue())
            assert log.says(" of 5", length)
    done = [int(n) for n in re.findall(r"answers: (\d) of 5", log.getvalue())]
    assert done == sorted(done) and done[-1] == 5
    assert re.search(r"4 of 5 \(prompt\), [0-9,]+ tokens/s, about", log.getvalue())
