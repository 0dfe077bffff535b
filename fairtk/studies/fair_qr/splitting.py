"""Topics to train on and topics to test on, never the same."""

from __future__ import annotations

from collections.abc import Sequence

from fairtk.frames.content import digest


def folds(qids: Sequence[str], count: int = 4, seed: int = 42) -> dict[str, int]:
    """Return the fold of each topic: equally large ones (to a topic), in an order made by chance.

    The order comes from (seed, qid): the order in which topics are given does not matter.

    Args:
        qids: the topics.
        count: how many folds, at most one per topic.
        seed: of the order.
    """
    shuffled = sorted(qids, key=lambda qid: digest([seed, str(qid)], 16))
    return {qid: place % count for place, qid in enumerate(shuffled)}
