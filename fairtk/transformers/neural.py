"""Neural scorers of candidates: one vector per text, and an inner product."""

from __future__ import annotations

from os import PathLike, fspath
from typing import ClassVar

import numpy as np
import pandas as pd

from fairtk.backends import Encoder, MeanEncoder, SpladeEncoder, require_packages
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.transformers.scorer import Scorer


class NeuralScorer(Scorer):
    """R -> R: scores by the inner product of the vectors of query and text.

    The frames are `Scorer`'s. All distinct texts of a frame, queries among them, are encoded once,
    in batches of similar length; equal texts have equal scores. The model is loaded on first use,
    from a local folder, the hub's cache or the hub. It needs the extra ``t5``. Memory: the vectors
    of a frame's distinct texts.

    Args:
        model: a hub name, or a local folder with config.json, weights and tokenizer.json.
        device: ``"auto"`` (CUDA if there is one, else CPU) or a torch device.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, or ``"auto"`` (on CUDA a half
            precision, which makes ties and near ties fall differently; else float32).
        max_tokens: the most tokens of a text, special ones included; what is behind is not seen.
            None for what the model takes (512 for BERT).
        batch_tokens: the most tokens of a batch; None for what fits into memory.
        revision: branch, tag or commit on the hub.
        allow_pickled_weights: whether weights are read that are there as pickles only, with
            ``torch.load(weights_only=True)``: as the published models have them. Safetensors are
            taken where there are any.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ParameterError: a setting is out of its range.
    """

    SETTINGS = Encoder.SETTINGS

    _ENCODER: ClassVar[type[Encoder]]
    _MODEL: ClassVar[str]

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        *,
        device: str = "auto",
        dtype: str = "float32",
        max_tokens: int | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
        allow_pickled_weights: bool = False,
    ) -> None:
        super().__init__()
        require_packages(type(self).__name__)
        self.encoder = self._ENCODER(
            self._MODEL if model is None else fspath(model),
            device=device,
            dtype=dtype,
            max_tokens=max_tokens,
            batch_tokens=batch_tokens,
            revision=revision,
            allow_pickled_weights=allow_pickled_weights,
        )
        for name in self.SETTINGS:
            setattr(self, name, getattr(self.encoder, name))

    def scores(self, query: IntArray, texts: list[str], queries: list[str]) -> FloatArray:
        """Return the inner product of each candidate and its query; see `Scorer.scores`."""
        # sorted: batches, and with them the last digits, do not depend on the order of rows
        code, distinct = pd.factorize(np.array([*queries, *texts], dtype=object), sort=True)
        vectors = self.encoder.encode(list(distinct))
        of_query, of_text = code[: len(queries)], code[len(queries) :]
        return self.encoder.inner_products(vectors, of_query[query], of_text)


class ContrieverScorer(NeuralScorer):
    """Scores by a dense encoder: mean of the last layer over a text's tokens, inner product.

    Izacard et al. 2022, "Unsupervised Dense Information Retrieval with Contrastive Learning". The
    default, ``facebook/contriever``, has pickled weights only: ``allow_pickled_weights=True``. See
    `NeuralScorer` for frames and settings.
    """

    _ENCODER = MeanEncoder
    _MODEL = "facebook/contriever"


class SpladeScorer(NeuralScorer):
    """Scores by a learned sparse encoder: largest log(1 + relu(score)) over a text's tokens.

    Formal et al. 2021, "SPLADE v2" (equation 6). The default, ``naver/splade_v2_max``, has pickled
    weights only: ``allow_pickled_weights=True``. See `NeuralScorer` for frames and settings.
    """

    _ENCODER = SpladeEncoder
    _MODEL = "naver/splade_v2_max"
