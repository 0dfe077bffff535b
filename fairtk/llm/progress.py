"""Progress of generation: a bar on a terminal, else a line each minute."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from fairtk import stage_context
from fairtk.llm.chat import Completion, Outcome
from fairtk.plugins.streams import on_terminal

MINUTE = 60.0
"""Seconds between two lines on progress without a terminal."""


@contextlib.contextmanager
def _each_minute(line: Callable[[], str]) -> Iterator[None]:
    """Write a line to stderr each minute."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(MINUTE):
            print(line(), file=sys.stderr, flush=True)

    thread = threading.Thread(target=write, name="fairtk minutes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def progress_bar(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Yield a function for the number of finished units, which updates a progress bar.

    Without a terminal, a line each minute reports progress and remaining time. Answers from a
    server count before their batch is finished, with tokens per second. Within another bar, e.g.
    that of an experiment, nothing is reported.
    """
    from tqdm import tqdm

    if stage_context.current().on_answers is not None:
        yield lambda number: None
        return
    begin = time.monotonic()
    settled = answered = tokens = 0  # answered: prompts of the current batch

    def done() -> int:
        return settled + min(answered, total - settled)

    def speed() -> str:
        return f"{tokens / max(time.monotonic() - begin, 0.1):,.0f} tokens/s" if tokens else ""

    def line() -> str:
        parts = [f"{what}: {done():,} of {total:,} ({unit})", speed()]
        if done():
            rest = (time.monotonic() - begin) * (total - done()) / done()
            parts.append(f"about {tqdm.format_interval(rest)} left")
        return ", ".join(filter(None, parts))

    # disable=None: only on a terminal
    with (
        contextlib.nullcontext() if on_terminal(sys.stderr) else _each_minute(line),
        tqdm(total=total, desc=what, unit=unit, delay=2, disable=None, leave=False) as bar,
    ):

        def move() -> None:
            bar.update(done() - bar.n)

        def add(number: int) -> None:
            nonlocal settled, answered
            settled, answered = settled + number, 0
            move()

        def count(outcomes: Sequence[Outcome]) -> None:
            nonlocal answered, tokens
            completions = [outcome for outcome in outcomes if isinstance(outcome, Completion)]
            tokens += sum(outcome.completion_tokens or 0 for outcome in completions)
            bar.set_postfix_str(speed(), refresh=False)
            if unit == "prompt":
                answered += len(completions)
                move()

        add(0)
        with stage_context.changed(on_answers=count):
            yield add
