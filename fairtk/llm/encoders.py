"""Encoders: texts in, one vector each out, dense or over the vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np

from fairtk.errors import ModelError, ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk.llm.backends import declared_window
from fairtk.llm.hugging_face import HuggingFaceModel, padded

_PAIRS = 1 << 14
"""How many inner products are computed at a time."""


@dataclass(eq=False, repr=False)
class Encoder(HuggingFaceModel, ABC):
    """A Hugging Face encoder that turns each text into one vector, in batches of similar length.

    Vectors are computed in `dtype` and kept in float32; they are those of one text at a time but
    for rounding. Texts are cut at `max_tokens`.

    Args:
        model: a hub name or a local folder.
        device: ``"auto"`` (CUDA if there is one, else CPU) or a torch device.
        dtype: ``"auto"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        max_tokens: the most tokens of a text, special ones included; None for the model's own.
        batch_tokens: the most tokens of a batch; None: 4,096 on a CPU, on CUDA
            262,144 (32,768 where a vector has the vocabulary's size).
        revision: branch, tag or commit on the hub; None for its default.
        allow_pickled_weights: whether weights that are there as pickles only are read.

    Raises:
        ParameterError: a setting is out of its range.
        MissingExtraError: torch or transformers is not installed.
    """

    COUNTS = ("max_tokens", "batch_tokens")

    model: str
    _: KW_ONLY
    device: str = "auto"
    dtype: str = "float32"
    max_tokens: int | None = None
    batch_tokens: int | None = None
    revision: str | None = None
    allow_pickled_weights: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.allow_pickled_weights, bool):
            raise ParameterError(
                f"{type(self).__name__}: allow_pickled_weights must be True or False; found "
                f"{self.allow_pickled_weights!r}"
            )

    def encode(self, texts: Sequence[str]) -> Any:
        """Return one vector per text: the rows of an array, or of a sparse one (CSR).

        Raises:
            ModelError: the model cannot be loaded or is no encoder, or memory does not hold a text.
            ParameterError: `max_tokens` is more than the model takes.
        """
        if getattr(self._config, "is_encoder_decoder", False):
            raise ModelError(
                f"{self.model!r} is an encoder-decoder ({self._config.model_type}), and "
                f"{type(self).__name__} needs an encoder such as BERT"
            )
        tokens = self._tokens(texts)
        lengths: IntArray = np.array([len(row) for row in tokens], dtype=np.int64)
        # a text without tokens has the vector 0
        places, filled = [np.flatnonzero(lengths == 0)], np.flatnonzero(lengths)
        parts = [self._kept(np.zeros((len(places[0]), self._size), dtype=np.float32))]
        for batch, vectors in self._in_batches(
            lengths[filled],
            0,
            lambda batch: self._vectors([tokens[i] for i in filled[batch]]),
            "use a smaller model or a smaller max_tokens",
        ):
            places.append(filled[batch])
            parts.append(vectors)
        return self._stacked(parts)[np.argsort(np.concatenate(places))]

    def inner_products(self, vectors: Any, left: IntArray, right: IntArray) -> FloatArray:
        """Return the inner products of pairs of rows of vectors, shape (n,), summed in float64."""
        parts = [np.zeros(0)]
        for start in range(0, len(left), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            one, other = (vectors[rows[pairs]].astype(np.float64) for rows in (left, right))
            parts.append(np.asarray((one * other).sum(axis=1), dtype=np.float64))
        return np.concatenate(parts)

    # What a kind of encoder decides -----------------------------------------------------------

    @property
    @abstractmethod
    def _size(self) -> int:
        """The numbers of a vector."""

    @abstractmethod
    def _pool(self, output: Any, mask: Any) -> Any:
        """Return vectors, shape (n, size), from a model's output and the mask of its tokens."""

    @abstractmethod
    def _kept(self, vectors: Any) -> Any:
        """Return a batch's vectors as they are kept."""

    @abstractmethod
    def _stacked(self, parts: list[Any]) -> Any:
        """Return the kept vectors of all batches as one."""

    # Encoding ---------------------------------------------------------------------------------

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        windows = [n for n in (declared_window(self._tokenizer), self._positions) if n]
        window = min(windows, default=None)
        if self.max_tokens and window and self.max_tokens > window:
            raise ParameterError(
                f"{self.model!r} takes {window} tokens; found max_tokens={self.max_tokens}"
            )
        longest = self.max_tokens or window
        encoded = self._tokenizer(
            list(texts), truncation=longest is not None, max_length=longest, padding=False
        )
        tokens: list[list[int]] = encoded["input_ids"]
        return tokens

    def _vectors(self, rows: list[list[int]]) -> Any:
        ids, mask = padded(rows, self._tokenizer.pad_token_id, False, self._device)
        output = self._model(input_ids=ids, attention_mask=mask)
        return self._kept(self._pool(output, mask.bool().unsqueeze(-1)).cpu().numpy())


Encoder.SETTINGS = tuple(field.name for field in fields(Encoder))


class MeanEncoder(Encoder):
    """Dense vectors: the mean of the last layer over a text's tokens (Contriever).

    See `Encoder` for the settings. Izacard et al. 2022, "Unsupervised Dense Information Retrieval
    with Contrastive Learning".
    """

    identity_name = "fairtk.MeanEncoder"
    output_version = 1
    AUTO = "AutoModel"

    @property
    def _size(self) -> int:
        return int(self._config.hidden_size)

    def _pool(self, output: Any, mask: Any) -> Any:
        hidden = output.last_hidden_state.float().masked_fill(~mask, 0.0)
        return hidden.sum(dim=1) / mask.sum(dim=1)

    def _kept(self, vectors: Any) -> Any:
        return vectors

    def _stacked(self, parts: list[Any]) -> Any:
        return np.concatenate(parts)


class SpladeEncoder(Encoder):
    """Sparse vectors over the vocabulary: the largest log(1 + relu(score)) over a text's tokens.

    See `Encoder` for the settings. Formal et al. 2021, "SPLADE v2", equation 6 (max pooling).
    """

    identity_name = "fairtk.SpladeEncoder"
    output_version = 1
    AUTO = "AutoModelForMaskedLM"
    GPU_MOST = 2**15  # a score for each word of the vocabulary and token: 4 GB

    @property
    def _size(self) -> int:
        return int(self._config.vocab_size)

    def _pool(self, output: Any, mask: Any) -> Any:
        # log(1 + relu) grows with the score, so the largest score decides: one pass, not three
        largest = output.logits.masked_fill(~mask, 0.0).amax(dim=1)
        return largest.float().relu().log1p()

    def _kept(self, vectors: Any) -> Any:
        from scipy import sparse

        return sparse.csr_array(vectors)

    def _stacked(self, parts: list[Any]) -> Any:
        from scipy import sparse

        return sparse.vstack(parts, format="csr")
