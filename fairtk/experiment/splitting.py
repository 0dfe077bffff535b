"""Topics to train on and topics to test on, never the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairtk.errors import InputError, ParameterError, listed
from fairtk.frames.content import digest
from fairtk.transformers.settings import whole


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


def as_folds(
    qids: Sequence[str], given: int | Mapping[str, int], seed: int, where: str
) -> dict[str, int]:
    """Return the fold of each topic, whether folds are counted or given.

    Raises:
        ParameterError: there are fewer than two folds, or fewer topics than folds.
        InputError: a topic has no fold.
    """
    if isinstance(given, Mapping):
        lost = [qid for qid in qids if qid not in given]
        if lost:
            raise InputError(f"{where}: folds lack the topics {listed(lost)}")
        found = {qid: int(given[qid]) for qid in qids}
        if len(set(found.values())) < 2:
            raise ParameterError(f"{where}: the topics must be in two folds at least")
        return found
    if whole("folds", given, where, least=2) > len(qids):
        raise ParameterError(
            f"{where}: {len(qids)} topics cannot be split into {given} folds; ask for at most "
            f"{len(qids)}"
        )
    return folds(qids, given, seed)
