"""DetConstSort's order against the paper's swaps, also if a group has no candidates."""

import numpy as np
import pytest
from fairtk_baselines.deterministic_sorting import interval_sorted


def swapped(position, last, lag):
    """Return the order of Algorithm 3: each document moves up past documents that may fall."""
    last_of, placed = dict(zip(position, last, strict=True)), []
    for one in position:
        index = len(placed)
        placed.append(one)
        while index and placed[index - 1] > one and last_of[placed[index - 1]] + lag > index:
            placed[index] = placed[index - 1]
            index -= 1
            placed[index] = one
    return placed


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("shares", [(0.4, 0.3, 0.3), (0.25, 0.25), (0.5, 0.1), (0.45, 0.45)])
@pytest.mark.parametrize("is_by_group", [False, True])
def test_order(shares, lag, is_by_group):
    """The shares of (0.25, 0.25) leave half of the ranks to a group without candidates."""
    random = np.random.default_rng(len(shares) + lag)
    group = random.choice(len(shares), 300)
    group = np.sort(group)[::-1] if is_by_group else group
    last = np.empty(300)
    for index, share in enumerate(shares):
        size = (group == index).sum()
        last[group == index] = np.ceil(np.arange(1, size + 1) / share - 1e-9)
    entering = np.lexsort((np.arange(300), last))
    arguments = entering.tolist(), last[entering].tolist(), lag
    assert interval_sorted(*arguments) == swapped(*arguments)
