"""What is printed while plugins are imported is no output of a command."""

import sys
import threading

import pytest

from fairtk.plugins.printing import load_target, to_stderr


def test_a_target_is_imported_and_what_it_prints_goes_to_stderr(tmp_path, monkeypatch, capsys):
    (tmp_path / "chatty_target.py").write_text("print('hello')\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_target("chatty_target:value") == 3
    assert capsys.readouterr() == ("", "hello\n")


def test_a_target_that_is_not_there():
    with pytest.raises(ImportError, match="fairtk.nowhere"):
        load_target("fairtk.nowhere:X")
    with pytest.raises(AttributeError, match="NO_COLUMN"):
        load_target("fairtk.frames.columns:NO_COLUMN")


def test_threads_may_leave_in_any_order(capsys):
    """Enter first and leave last: what the other's end prints is still no output."""
    entered, left = threading.Event(), threading.Event()

    def other():
        with to_stderr():
            entered.set()
            left.wait()
            print("the other is still within")

    thread = threading.Thread(target=other)
    before = sys.stdout
    with to_stderr():
        thread.start()
        entered.wait()
    left.set()
    thread.join()
    print("output")
    assert sys.stdout is before
    assert capsys.readouterr() == ("output\n", "the other is still within\n")
