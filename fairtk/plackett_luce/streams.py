"""A random stream for every query, from (seed, qid) alone.

Random numbers of a query never depend on other queries, on batches or on how many samples are
asked for: sample i always reads the same numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.frames.arrays import FloatArray


class Stream:
    """Uniform random numbers addressed by (seed, key, stage, row).

    The state of a PCG64-DXSM generator is set to a 256-bit digest of (seed, key, stage). That is as
    good as seeding and much cheaper than a generator per query, so one `Stream` serves all queries
    in turn.

    Args:
        seed: the user's seed; any integer.
    """

    def __init__(self, seed: int) -> None:
        # the key is length-prefixed by its position at the end: nothing follows it
        self._prefix = f"fairtk.plackett_luce|{int(seed)}|"
        self._bits = np.random.PCG64DXSM(0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._key = ""

    def open(self, key: str) -> None:
        """Turn to the numbers of another key (a qid)."""
        self._key = key

    def rows(self, stage: int, count: int, width: int) -> FloatArray:
        """Return rows 0 to count - 1 of a stage; uniform in [0, 1), shape (count, width)."""
        self._rewind(stage)
        return self._generator.random((count, width))

    def some_rows(self, stage: int, which: npt.NDArray[np.intp], width: int) -> FloatArray:
        """Return the rows `which` (ascending) of a stage; uniform in [0, 1)."""
        count = len(which)
        last = int(which[-1]) + 1
        if last <= 4 * count:
            found = self.rows(stage, last, width)
            return found if last == count else found[which]
        found = np.empty((count, width))
        self._rewind(stage)
        at = 0
        for place, row in enumerate(which.tolist()):
            self._bits.advance((row - at) * width)
            self._generator.random(out=found[place])
            at = row + 1
        return found

    def _rewind(self, stage: int) -> None:
        text = f"{self._prefix}{stage}|{self._key}".encode("utf-8", "surrogatepass")
        raw = hashlib.blake2b(text, digest_size=32).digest()
        self._state["state"] = {
            "state": int.from_bytes(raw[:16], "little"),
            "inc": int.from_bytes(raw[16:], "little") | 1,  # increments are odd
        }
        self._bits.state = self._state
