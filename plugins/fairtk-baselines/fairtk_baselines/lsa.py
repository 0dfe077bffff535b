"""LsaEncoder: latent semantic analysis as a bi-encoder that needs no pretrained model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import numpy as np
import torch
from pyterrier_dr import BiEncoder
from sklearn.utils.extmath import randomized_svd

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.frames import ByContent, digest
from fairtk_baselines.collection import Collection, Documents
from fairtk_baselines.model_folder import Arrays, Float32Array, ModelFolder
from fairtk_baselines.words import tfidf_vectorizer

FOLDER = ModelFolder(
    what="an LSA encoder",
    record="lsa.json",
    kind="fairtk-baselines LSA encoder",
    keys=("tensors", "settings", "digest", "terms"),
    data="lsa-*.safetensors",
)

_BLOCK = 4096  # texts whose term counts are in memory at a time
_POWER_ITERATIONS = 7  # what scikit-learn takes by itself where few dimensions are wanted
# what scikit-learn says where no word is left
_NO_WORDS = ("empty vocabulary", "no terms remain", "max_df corresponds to < documents")
_NOTHING = 1e-7  # a projection shorter than this share of its text's weights is rounding noise


class LsaEncoder(ByContent, BiEncoder):  # type: ignore[misc]
    """Latent semantic analysis (Deerwester et al., 1990): TF-IDF, projected by a truncated SVD.

    Queries and documents are encoded alike: (1 + ln tf) * idf of the words that the fitted
    collection has, idf = ln((1 + n) / (1 + df)) + 1, projected on the leading right singular
    vectors of the collection's l2-normalized matrix, then scaled to length 1: dot products are
    cosines. A text without any word of the collection has the vector zero. Words are what
    `fairtk_baselines.words` says.

    There are at most as many dimensions as documents, words, and the rank of their matrix. The fit
    is a function of the documents, their order, the settings and the seed, up to the last bits of
    the linear algebra library. By the randomized SVD of Halko et al. (2011) the last dimensions,
    which weigh like those left out, are others for another seed. Objects come from `fit` or `load`.

    Args:
        terms: the words by column.
        idf: the idf of each word; shape (n_terms,), float32.
        components: right singular vectors; shape (n_dimensions, n_terms), float32.
        settings: what the fit depended on: the arguments of `fit`, and ``collection``.
    """

    def __init__(
        self,
        terms: list[str],
        idf: Float32Array,
        components: Float32Array,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(batch_size=_BLOCK)
        self.terms = terms
        self.idf = idf
        self.components = components
        self._onto = np.ascontiguousarray(components.T)  # which scipy copies at each use else
        self.fit_settings = settings
        self._vectorizer = tfidf_vectorizer(vocabulary=terms)
        self._vectorizer.idf_ = idf
        self._digest: str | None = None

    @classmethod
    def fit(
        cls,
        documents: Documents,
        dimensions: int = 256,
        max_terms: int = 100_000,
        min_documents: int = 1,
        seed: int = 42,
        *,
        collection: str | None = None,
    ) -> LsaEncoder:
        """Return an encoder fitted on a collection.

        Args:
            documents: mappings with ``docno`` and ``text``, or a function that gives them.
            dimensions: the most dimensions, at least 1.
            max_terms: how many words are kept, the most frequent; 4 bytes times `dimensions` each.
            min_documents: words in fewer documents are left out.
            seed: of the randomized SVD, at least 0.
            collection: what identifies the documents; None to compute a digest of them.

        Raises:
            InputError: a setting is out of range, a document has no docno or text, or none a word.
        """
        settings = lsa_settings(dimensions, max_terms, min_documents, seed)
        source = Collection(documents, "LsaEncoder", collection)
        vectorizer = tfidf_vectorizer(
            max_features=settings["max_terms"], min_df=settings["min_documents"]
        )
        try:
            matrix = vectorizer.fit_transform(text for _, text in source)
        except ValueError as error:
            if not any(said in str(error) for said in _NO_WORDS):
                raise
            raise InputError(
                "LsaEncoder: the documents must have words to learn from, each in at least "
                f"{min_documents} of them; found none: check that there are documents, with texts"
            ) from None
        size = min(settings["dimensions"], *matrix.shape)
        _, value, right = randomized_svd(
            matrix, size, n_iter=_POWER_ITERATIONS, random_state=settings["seed"]
        )
        # directions without weight are rounding noise: those beyond the matrix's rank
        kept = value > value.max() * max(matrix.shape) * np.finfo(np.float32).eps
        return cls(
            vectorizer.get_feature_names_out().tolist(),
            np.ascontiguousarray(vectorizer.idf_, dtype=np.float32),
            np.ascontiguousarray(right[kept], dtype=np.float32),
            {**settings, "collection": source.name},
        )

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return int(self.components.shape[0])

    @property
    def model_name(self) -> str:
        """Name that differs between encoders; pyterrier_dr compares encoders by it."""
        return f"lsa#{self.digest()}"

    def digest(self) -> str:
        """Return the content digest: equal encoders have equal ones."""
        if self._digest is None:
            self._digest = digest([self.terms, self.idf, self.components])
        return self._digest

    def encode_docs(self, texts: Iterable[str], batch_size: int | None = None) -> Float32Array:
        """Return vectors of length 1, or 0 for a text without known words; shape (n_texts, size).

        `batch_size` texts are in memory as term counts at a time. Others than strings are an error.
        """
        left, size = _strings(texts), batch_size or self.batch_size
        blocks = [np.zeros((0, self.size), dtype=np.float32)]
        while block := list(itertools.islice(left, size)):
            blocks.append(self._encode(block))
        return np.concatenate(blocks)

    def encode_queries_torch(
        self, texts: Iterable[str], batch_size: int | None = None
    ) -> torch.Tensor:
        """Return what `encode_docs` does as a tensor; nothing is trained, so without gradient."""
        return torch.from_numpy(self.encode_docs(texts, batch_size))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the encoder to a folder; a `FormatError` where that holds other things."""
        arrays = {"idf": self.idf, "components": self.components}
        record = {"settings": self.fit_settings, "terms": self.terms}
        FOLDER.write_arrays(folder, record, arrays, _content(arrays))

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> LsaEncoder:
        """Return the encoder that `save` wrote; a `FormatError` if there is none that is whole."""
        record, arrays = FOLDER.read_arrays(folder, _content)
        terms, idf = record["terms"], arrays["idf"]
        if len(idf) != len(terms):
            raise FOLDER.broken(folder, f"{len(terms)} words, not {len(idf)}")
        return cls(terms, idf, arrays["components"], record["settings"])

    def __repr__(self) -> str:
        return f"LsaEncoder(<{self.size} dimensions, {len(self.terms)} words #{self.digest()}>)"

    __str__ = __repr__

    def _encode(self, texts: list[str]) -> Float32Array:
        weights = self._vectorizer.transform(texts)  # of length 1, or 0
        vectors = np.asarray(weights @ self._onto, dtype=np.float64)
        length = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        some = length > _NOTHING
        scaled = np.divide(vectors, length, out=np.zeros_like(vectors), where=some)
        return np.asarray(scaled, dtype=np.float32)


def lsa_settings(
    dimensions: int = 256, max_terms: int = 100_000, min_documents: int = 1, seed: int = 42
) -> dict[str, int]:
    """Return the checked settings of a fit by name; a `ParameterError` if one is out of range."""
    sizes = {"dimensions": dimensions, "max_terms": max_terms, "min_documents": min_documents}
    settings = {name: checks.whole(name, value, "LsaEncoder") for name, value in sizes.items()}
    settings["seed"] = checks.whole("seed", seed, "LsaEncoder", least=0)
    if settings["seed"] >= 2**32:
        raise ParameterError(f"LsaEncoder: seed must be below 2**32; found {seed!r}")
    return settings


def _content(arrays: Arrays) -> str:
    return digest([arrays["idf"], arrays["components"]])


def _strings(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"LsaEncoder: texts must be strings; found {text!r} at position {number}"
            )
        yield text
