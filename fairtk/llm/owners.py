"""Who makes a call that is under way, and whether that process is still there."""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

BEAT = 5.0
"""Seconds between two signs of life of a process that has calls under way."""

SILENCE = 60.0
"""Seconds without a sign of life after which a process that cannot be looked up counts as dead."""

_PROC = Path("/proc")


def new_owner() -> str:
    """Return a name for a ledger that is open in this process: host, process, its start, chance."""
    pid = os.getpid()
    return f"{_host()}|{pid}|{_started(pid) or ''}|{secrets.token_hex(4)}"


def is_alive(owner: str, beat: float) -> bool:
    """Return whether the process of an owner is there.

    On the same host the process is looked up, by number and start, so that a model may take as
    long as it likes; elsewhere the time of its last sign of life (since 1970) decides.
    """
    host, pid, start, _ = owner.rsplit("|", 3)
    if start and host == _host():
        return _started(int(pid)) == start
    return time.time() - beat < SILENCE


def process_of(owner: str) -> str:
    """Return an owner in words."""
    host, pid, *_ = owner.rsplit("|", 3)
    return f"process {pid} on {host.partition('/')[0]}"


@cache
def _host() -> str:
    """Return the host, with what tells reboots and containers apart."""
    boot = _looked_up(lambda: (_PROC / "sys/kernel/random/boot_id").read_text().strip())
    space = _looked_up(lambda: os.readlink(_PROC / "self/ns/pid"))
    return f"{platform.node()}/{boot}/{space}".replace("|", "")


def _looked_up(read: Callable[[], str]) -> str:
    try:
        return read()
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return when a process began, in the kernel's ticks; None: it is dead, or not to be known."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # the name in brackets may hold anything, brackets too
    state, *rest = text[text.rindex(")") + 1 :].split()
    return None if state in ("Z", "X") else rest[18]
