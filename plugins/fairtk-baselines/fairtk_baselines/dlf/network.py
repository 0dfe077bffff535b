"""The network that scores a pair of query and document from their vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

INPUTS = ("query", "document", "product")


class PairScorer(nn.Module):  # type: ignore[misc]
    """Scores pairs: a feed-forward network of the vectors, plus a multiple of their cosine.

    score = network([q, d, q * d]) + c * cos(q, d), for vectors of norm 1 (or 0). The network sees
    them multiplied by the square root of their dimension, so that inputs are of size 1 whatever
    the dimension. Hidden layers end in ReLU.

    Args:
        dimension: of the vectors.
        hidden: width of each hidden layer; empty: a linear model.
        inputs: which of ``"query"``, ``"document"`` and ``"product"`` the network sees.
        cosine: the first value of c, which is trained; None: there is no such term.
        flat: whether the network's last layer starts at 0: training then starts from c times the
            cosine.
        generator: of the first weights.
    """

    def __init__(
        self,
        dimension: int,
        hidden: Sequence[int],
        inputs: Sequence[str],
        cosine: float | None = None,
        flat: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.dimension = dimension
        self.inputs = tuple(inputs)
        widths = [dimension * len(self.inputs), *hidden, 1]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for layer, (before, after) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
            # drawn from a generator of our own: torch's layers would use the global one
            bound = 0.0 if flat and layer == len(widths) - 2 else 1.0 / math.sqrt(before)
            draw = torch.rand(after, before, generator=generator)
            self.weights.append(nn.Parameter((2.0 * draw - 1.0) * bound))
            self.biases.append(nn.Parameter(torch.zeros(after)))
        self.cosine = None if cosine is None else nn.Parameter(torch.tensor(float(cosine)))

    def forward(self, query: Tensor, document: Tensor) -> Tensor:
        """Return the score of each pair of vectors; shape (...) for shapes (..., dimension)."""
        root = math.sqrt(self.dimension)
        product = query * document
        parts = {
            "query": query * root,
            "document": document * root,
            "product": product * self.dimension,
        }
        x = torch.cat([parts[name] for name in self.inputs], dim=-1)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = nn.functional.linear(x, weight, bias)
            if layer < last:
                x = torch.relu(x)
        score = x.squeeze(-1)
        return score if self.cosine is None else score + self.cosine * product.sum(dim=-1)
