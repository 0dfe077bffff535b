"""Text encoders, dense and sparse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

import numpy as np

from fairtk import checks
from fairtk.errors import ModelError, ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk.llm.hugging_face import HuggingFaceModel, padded
from fairtk.llm.tokenizers import declared_window
from fairtk.remarks import CUT_TEXTS, Remark, emit

_PAIRS = 1 << 14
"""The number of inner products that are computed at a time."""


@dataclass(eq=False, repr=False)
class Encoder(HuggingFaceModel, ABC):
    """A Hugging Face encoder that maps each text to one vector, in batches of similar length.

    Vectors are computed in `dtype` and returned in float32. Batches change them only by rounding.
    Texts are truncated at `max_tokens`.

    Args:
        model: a hub name or a local folder.
        device: ``"auto"`` (CUDA if available, else CPU) or a torch device.
        dtype: ``"auto"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        max_tokens: the maximum number of tokens of a text, special tokens included; `None` for the
            model's limit.
        batch_tokens: the maximum number of tokens of a batch. `None` for 4,096 on a CPU and 262,144
            on CUDA (32,768 for sparse vectors).
        revision: branch, tag or commit on the hub; `None` for the default.
        allow_pickled_weights: whether to read pickled weights if there are no others.

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
        checks.boolean("allow_pickled_weights", self.allow_pickled_weights, type(self).__name__)

    def encode(self, texts: Sequence[str]) -> Any:
        """Return one vector per text: the rows of a dense or sparse (CSR) array.

        Raises:
            ModelError: the model cannot be loaded, is not an encoder, or runs out of memory for a
                single text.
            ParameterError: `max_tokens` exceeds the model's window.
        """
        if getattr(self._config, "is_encoder_decoder", False):
            raise ModelError(
                f"{type(self).__name__} requires an encoder such as BERT, got the encoder-decoder "
                f"{self.model!r} ({self._config.model_type})"
            )
        tokens = self._tokens(texts)
        lengths: IntArray = np.array([len(row) for row in tokens], dtype=np.int64)
        # a text without tokens has the vector 0
        indices, filled = [np.flatnonzero(lengths == 0)], np.flatnonzero(lengths)
        parts = [self._as_stored(np.zeros((len(indices[0]), self._size), dtype=np.float32))]
        for batch, vectors in self._in_batches(
            lengths[filled],
            0,
            lambda batch: self._vectors([tokens[i] for i in filled[batch]]),
            "use a smaller model or a smaller max_tokens",
        ):
            indices.append(filled[batch])
            parts.append(vectors)
        return self._stacked(parts)[np.argsort(np.concatenate(indices))]

    def inner_products(self, vectors: Any, left: IntArray, right: IntArray) -> FloatArray:
        """Return the inner products of pairs of rows of vectors, shape (n,), summed in float64."""
        parts = [np.zeros(0)]
        for start in range(0, len(left), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            one, other = (vectors[rows[pairs]].astype(np.float64) for rows in (left, right))
            parts.append(np.asarray((one * other).sum(axis=1), dtype=np.float64))
        return np.concatenate(parts)

    # Defined by subclasses --------------------------------------------------------------------

    @property
    @abstractmethod
    def _size(self) -> int:
        """The length of a vector."""

    @abstractmethod
    def _pool(self, output: Any, mask: Any) -> Any:
        """Return vectors, shape (n, size), from a model's output and the mask of its tokens."""

    @abstractmethod
    def _as_stored(self, vectors: Any) -> Any:
        """Return a batch's vectors in the form in which they are stored."""

    @abstractmethod
    def _stacked(self, parts: list[Any]) -> Any:
        """Return the stored vectors of all batches as one array."""

    # Encoding ---------------------------------------------------------------------------------

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        windows = [n for n in (declared_window(self._tokenizer), self._positions) if n]
        window = min(windows, default=None)
        if self.max_tokens and window and self.max_tokens > window:
            raise ParameterError(
                f"max_tokens must be at most {window}, the window of {self.model!r}, got "
                f"{self.max_tokens}"
            )
        longest = self.max_tokens or window
        encoded = self._tokenizer(
            list(texts), truncation=longest is not None, max_length=longest, padding=False
        )
        tokens: list[list[int]] = encoded["input_ids"]
        self._remark_on_cut_texts(texts, tokens, longest)
        return tokens

    def _remark_on_cut_texts(
        self, texts: Sequence[str], tokens: Sequence[Sequence[int]], longest: int | None
    ) -> None:
        full = [text for text, row in zip(texts, tokens, strict=True) if len(row) == longest]
        rows = self._tokenizer(full, truncation=False, verbose=False)["input_ids"] if full else []
        n_cut = sum(len(row) > (longest or 0) for row in rows)
        if n_cut:
            detail = (
                f"{n_cut} of {len(texts)} texts ({n_cut / len(texts):.0%}) have more than "
                f"max_tokens={longest} tokens of {self.model!r}"
            )
            emit([Remark(CUT_TEXTS, "", "", n_cut, 0, (), 0, detail)], stacklevel=4)

    def _vectors(self, rows: list[list[int]]) -> Any:
        ids, mask = padded(rows, self._tokenizer.pad_token_id, False, self._device)
        output = self._model(input_ids=ids, attention_mask=mask)
        return self._as_stored(self._pool(output, mask.bool().unsqueeze(-1)).cpu().numpy())


Encoder.SETTINGS = tuple(field.name for field in fields(Encoder))


class MeanEncoder(Encoder):
    """An encoder of dense vectors: the mean of the last layer over a text's tokens (Contriever).

    See `Encoder` for the settings.

    References:
        Izacard et al. 2022, "Unsupervised Dense Information Retrieval with Contrastive Learning".
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

    def _as_stored(self, vectors: Any) -> Any:
        return vectors

    def _stacked(self, parts: list[Any]) -> Any:
        return np.concatenate(parts)


class SpladeEncoder(Encoder):
    """An encoder of sparse vectors, with one weight per vocabulary term (SPLADE).

    The weight of a term is the maximum of log(1 + relu(score)) over a text's tokens. See `Encoder`
    for the settings.

    References:
        Formal et al. 2021, "SPLADE v2", equation 6 (max pooling).
    """

    identity_name = "fairtk.SpladeEncoder"
    output_version = 1
    AUTO = "AutoModelForMaskedLM"
    GPU_MOST = 2**15  # one score per token and vocabulary term: 4 GB

    @property
    def _size(self) -> int:
        return int(self._config.vocab_size)

    def _pool(self, output: Any, mask: Any) -> Any:
        # log(1 + relu) is monotonic, so the maximum score suffices: one pass, not three
        largest = output.logits.masked_fill(~mask, 0.0).amax(dim=1)
        return largest.float().relu().log1p()

    def _as_stored(self, vectors: Any) -> Any:
        from scipy import sparse

        return sparse.csr_array(vectors)

    def _stacked(self, parts: list[Any]) -> Any:
        from scipy import sparse

        return sparse.vstack(parts, format="csr")
