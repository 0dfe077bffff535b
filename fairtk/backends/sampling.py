"""Sampling that does not depend on the batch: noise from the seed and the prompt alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairtk.backends.model import at_least_one
from fairtk.errors import ParameterError
from fairtk.frames.content import digest


def checked_sampling(temperature: Any, seed: Any, where: str) -> tuple[float, int]:
    """Return temperature (0 or above; 0: no sampling) and seed (an integer of at least 0)."""
    number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not number or not (math.isfinite(temperature) and temperature >= 0):
        raise ParameterError(
            f"{where}: temperature must be a number of at least 0; found {temperature!r}"
        )
    return float(temperature), 0 if seed == 0 else at_least_one(seed, "seed", where)


class GumbelNoise:
    """A logits processor that makes greedy choice a draw from the softmax at a temperature.

    argmax(z / T + g) with g of the standard Gumbel distribution has the probabilities softmax(z /
    T) (Gumbel 1954; Maddison, Tarlow & Minka 2014, "A* Sampling", section 2). Each prompt, given
    by its token ids, has a stream of its own, so that an answer is the same whatever else is in
    its batch.
    """

    def __init__(self, temperature: float, seed: int, prompts: Sequence[Sequence[int]]) -> None:
        self.temperature = temperature
        self._streams = [
            np.random.default_rng(int(digest([seed, list(prompt)], 16), 16)) for prompt in prompts
        ]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores of the next token, (prompts, vocabulary), with noise."""
        import torch

        del input_ids
        noise = np.stack([stream.gumbel(size=scores.shape[1]) for stream in self._streams])
        return scores.float() / self.temperature + torch.from_numpy(noise).to(scores.device)
