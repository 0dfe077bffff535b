"""What the tests of faults need: small disks, processes that are gone afterwards, paid answers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
import warnings

import campaign_paying
import pytest

from fairtk.errors import DataWarning, FairtkError
from fairtk.llm import Ledger


@contextlib.contextmanager
def small_disk(folder, size="64k", more=""):
    """Mount a small disk at a folder, where this process may; skip the test elsewhere."""
    folder.mkdir(exist_ok=True)
    options = f"size={size}{more}"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"no right to mount a small disk: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def started(*arguments):
    """Start Python as a process of its own; it is gone at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def python(code, *arguments):
    """Start Python with some code."""
    return started("-c", textwrap.dedent(code), *arguments)


def until(holds, seconds=600):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def fairtk_command(*arguments):
    """Run the command line as a process of its own."""
    with python("from fairtk.cli import main; main()", *arguments) as process:
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err


def paying(path, start, stop):
    """Start a process that pays for answers."""
    return started(campaign_paying.__file__, path, start, stop)


def answered(path, numbers):
    """Return which of the prompts a ledger answers as they were answered, asking nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of what was moved aside
        with Ledger(path, offline=True) as ledger:
            llm = ledger.wrap(campaign_paying.echo)
            found = []
            for number in numbers:
                with contextlib.suppress(FairtkError):
                    assert campaign_paying.ask(llm, number) == echoed(number)
                    found.append(number)
            return found


def echoed(number):
    """Return the answer to a numbered prompt."""
    return campaign_paying.echo([f"prompt {number}"])[0]
