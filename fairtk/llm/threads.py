"""Calls that wait for a server, several at a time, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Event

from fairtk.llm.chat import Chat, Outcome


def outcomes_in_threads(
    ask: Callable[[Chat], Outcome], chats: Iterable[Chat], concurrency: int, stopped: Event
) -> Iterator[tuple[int, Outcome]]:
    """Yield the number of each chat and its outcome, as they arrive.

    The next chat is taken from `chats`, in the caller's thread, only when a call can start: who
    gives the chats can end the work between two calls. If a call raises, no other starts, those
    that run are waited for and yielded, and then the exception is raised. `stopped` is set when
    the work ends early, for calls that wait to be tried again.
    """
    left = iter(chats)
    running: dict[Future[Outcome], int] = {}
    failed: Exception | None = None
    number = 0
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="fairtk-llm")
    try:
        more = True
        while more or running:
            while more and len(running) < concurrency:
                try:
                    chat = next(left)
                except StopIteration:
                    more = False
                    break
                running[pool.submit(ask, chat)] = number
                number += 1
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=running.__getitem__):
                place = running.pop(future)
                error = future.exception()
                if error is None:
                    yield place, future.result()
                elif isinstance(error, Exception):
                    failed = failed or error
                    more = False
                    stopped.set()
        if failed is not None:
            raise failed
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)
