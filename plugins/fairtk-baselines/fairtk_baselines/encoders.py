"""Bi-encoders, which map texts to vectors: latent semantic analysis and pretrained models."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from pyterrier_dr import BiEncoder, SBertBiEncoder
from sklearn.utils.extmath import randomized_svd

from fairtk import checks
from fairtk.errors import FormatError, InputError, ModelError, ParameterError
from fairtk.frames import EqualByContent, digest, identity_name
from fairtk.io import folder_digest
from fairtk_baselines.model_folder import LOCK, Arrays, Float32Array, ModelFolder
from fairtk_baselines.vector_index import Collection, Documents
from fairtk_baselines.vectors import tfidf_vectorizer

FOLDER = ModelFolder(
    what="an LSA encoder",
    record="lsa.json",
    kind="fairtk-baselines LSA encoder",
    keys=("tensors", "settings", "digest", "terms"),
    data="lsa-*.safetensors",
)

_BLOCK = 4096  # texts whose term counts are in memory at a time
_POWER_ITERATIONS = 7  # scikit-learn's default for few dimensions
# parts of scikit-learn's errors if no word is left
_NO_WORDS = ("empty vocabulary", "no terms remain", "max_df corresponds to < documents")
_NOTHING = 1e-7  # a projection shorter than this share of its text's weights is rounding noise


class LsaEncoder(EqualByContent, BiEncoder):  # type: ignore[misc]
    """Latent semantic analysis (Deerwester et al., 1990): TF-IDF, projected by a truncated SVD.

    Queries and documents are encoded in the same way: the weights (1 + ln tf) * idf of the words of
    the fitted collection, with idf = ln((1 + n) / (1 + df)) + 1, are projected on the leading right
    singular vectors of the collection's l2-normalized matrix and scaled to length 1, so dot
    products are cosines. A text without words of the collection has the zero vector. Words are
    defined in `fairtk_baselines.vectors`.

    The number of dimensions is at most the rank of the matrix. The SVD is randomized (Halko et al.
    2011), so the last dimensions differ between seeds. Use `fit` or `load` to create objects.

    Args:
        terms: the words by column.
        idf: the idf of each word; shape (n_terms,), float32.
        components: right singular vectors; shape (n_dimensions, n_terms), float32.
        settings: the arguments of `fit`, and ``collection``.
    """

    identity_name = "fairtk_baselines.LsaEncoder"
    output_version = 1

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
        self._onto = np.ascontiguousarray(components.T)  # otherwise scipy copies it at each use
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
            documents: mappings with ``docno`` and ``text``, or a function that returns them.
            dimensions: the maximum number of dimensions, at least 1.
            max_terms: the number of most frequent words to keep; 4 bytes times `dimensions` each.
            min_documents: words in fewer documents are excluded.
            seed: the seed of the randomized SVD, at least 0.
            collection: the identity of the documents; `None` to compute a digest of them.

        Raises:
            InputError: a setting is out of range, a document has no docno or text, or no document
                has words.
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
                f"LsaEncoder: no word occurs in at least {min_documents} documents: check that "
                "there are documents with texts"
            ) from None
        size = min(settings["dimensions"], *matrix.shape)
        _, value, right = randomized_svd(
            matrix, size, n_iter=_POWER_ITERATIONS, random_state=settings["seed"]
        )
        # directions beyond the rank of the matrix are rounding noise
        nonzero = value > value.max() * max(matrix.shape) * np.finfo(np.float32).eps
        return cls(
            vectorizer.get_feature_names_out().tolist(),
            np.ascontiguousarray(vectorizer.idf_, dtype=np.float32),
            np.ascontiguousarray(right[nonzero], dtype=np.float32),
            {**settings, "collection": source.name},
        )

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return int(self.components.shape[0])

    @property
    def model_name(self) -> str:
        """A name that differs between encoders, by which pyterrier_dr compares them."""
        return f"lsa#{self.digest()}"

    def digest(self) -> str:
        """Return the content digest, which is equal for equal encoders."""
        if self._digest is None:
            self._digest = digest([self.terms, self.idf, self.components])
        return self._digest

    def encode_docs(self, texts: Iterable[str], batch_size: int | None = None) -> Float32Array:
        """Return vectors of length 1, or 0 for a text without known words; shape (n_texts, size).

        Args:
            texts: the texts, which must be strings.
            batch_size: the number of texts whose term counts are in memory at a time.
        """
        left, size = _strings(texts), batch_size or self.batch_size
        blocks = [np.zeros((0, self.size), dtype=np.float32)]
        while block := list(itertools.islice(left, size)):
            blocks.append(self._encode(block))
        return np.concatenate(blocks)

    def encode_queries_torch(
        self, texts: Iterable[str], batch_size: int | None = None
    ) -> torch.Tensor:
        """Return the vectors of `encode_docs` as a tensor without gradient."""
        return torch.from_numpy(self.encode_docs(texts, batch_size))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the encoder to a folder, or raise a `FormatError` if it has other content."""
        arrays = {"idf": self.idf, "components": self.components}
        record = {"settings": self.fit_settings, "terms": self.terms}
        FOLDER.write_arrays(folder, record, arrays, _content(arrays))

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> LsaEncoder:
        """Return the saved encoder, or raise a `FormatError` if it is missing or damaged."""
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
        nonzero = length > _NOTHING
        scaled = np.divide(vectors, length, out=np.zeros_like(vectors), where=nonzero)
        return np.asarray(scaled, dtype=np.float32)


def lsa_settings(
    dimensions: int = 256, max_terms: int = 100_000, min_documents: int = 1, seed: int = 42
) -> dict[str, int]:
    """Return the validated settings of a fit by name."""
    sizes = {"dimensions": dimensions, "max_terms": max_terms, "min_documents": min_documents}
    settings = {name: checks.integer(name, value, "LsaEncoder") for name, value in sizes.items()}
    settings["seed"] = checks.integer("seed", seed, "LsaEncoder", least=0)
    if settings["seed"] >= 2**32:
        raise ParameterError(f"LsaEncoder: seed must be below 2**32, got {seed!r}")
    return settings


def _content(arrays: Arrays) -> str:
    return digest([arrays["idf"], arrays["components"]])


def _strings(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"LsaEncoder: texts must be strings, got {text!r} at position {number}"
            )
        yield text


__all__ = ["LsaEncoder", "get", "identity"]

_MODULES = "modules.json"
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model"]
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_NEEDED = "a folder that SentenceTransformer.save_pretrained wrote"


def get(
    encoder: str | PathLike[str] | BiEncoder = "lsa",
    documents: Documents | None = None,
    folder: str | PathLike[str] | None = None,
    seed: int = 42,
    *,
    collection: str | None = None,
    **settings: int,
) -> BiEncoder:
    """Return a bi-encoder.

    * ``"lsa"``: an `LsaEncoder` fitted on `documents` and stored in `folder`, if given. A stored
      encoder is reused if documents, settings and seed are the same, and replaced otherwise.
      Without `documents` the encoder in `folder` is loaded.
    * a folder that `LsaEncoder.save` wrote.
    * a folder, or a name on the Hugging Face hub, of a sentence-transformers model, as a
      `pyterrier_dr.SBertBiEncoder`. Only safetensors weights are read, and code in model
      folders is not run. For models with prompts before their texts (E5), pass an object of their
      class in pyterrier_dr.
    * any `pyterrier_dr.BiEncoder`, which is returned unchanged.

    Args:
        encoder: see above.
        documents: mappings with ``docno`` and ``text``, or a function that returns them.
        folder: the folder of the encoder, for ``"lsa"``; other encoders ignore it.
        seed: for ``"lsa"``.
        collection: the identity of `documents`, such as a digest; `None` to compute one.
        settings: for ``"lsa"``: ``dimensions``, ``max_terms``, ``min_documents``.

    Raises:
        InputError: a setting is out of range, there are no documents, or `folder` is damaged.
        ModelError: the model is unknown, or its weights are not safetensors.
    """
    if encoder == "lsa":
        return _lsa(documents, folder, seed, collection, settings)
    if settings:
        raise ParameterError(f"only the encoder 'lsa' has settings, got {sorted(settings)}")
    if isinstance(encoder, BiEncoder):
        return encoder
    if isinstance(encoder, str | PathLike):
        if FOLDER.has_model(encoder):
            return LsaEncoder.load(encoder)
        return _sentence_model(str(encoder))
    raise ParameterError(
        "encoder must be 'lsa', a folder or hub name of a sentence-transformers model, or a "
        f"pyterrier_dr BiEncoder, got {type(encoder).__name__}"
    )


def identity(encoder: str | PathLike[str] | BiEncoder | None) -> str | None:
    """Return a string that identifies the vectors of an encoder.

    The string is the content digest if the encoder has one, otherwise its class and public settings
    that are simple values. Without either it identifies the object in this process only.
    """
    if encoder is None or isinstance(encoder, str):
        return encoder
    if isinstance(encoder, PathLike):
        return str(Path(encoder))
    name = identity_name(type(encoder))
    identity = getattr(encoder, "fingerprint", None) or getattr(encoder, "digest", None)
    if identity is not None:
        return f"{type(encoder).__qualname__}#{identity() if callable(identity) else identity}"
    # attributes of pyterrier_dr's encoders; batch sizes and devices do not affect vectors
    skipped = {"batch_size", "verbose", "device", "text_field"}
    values = {
        key: value
        for key, value in sorted(vars(encoder).items())
        if isinstance(value, str | int | float | bool) and key not in skipped and key[0] != "_"
    }
    if not values:
        text = re.sub(r"\s+at 0x[0-9a-f]+|<|>", "", repr(encoder))
        return f"{text} (object {id(encoder)})"
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in values.items())})"


def _lsa(
    documents: Documents | None,
    folder: str | PathLike[str] | None,
    seed: int,
    collection: str | None,
    settings: dict[str, int],
) -> LsaEncoder:
    try:
        checked = lsa_settings(seed=seed, **settings)
    except TypeError:
        raise ParameterError(
            "the encoder 'lsa' has the settings dimensions, max_terms and min_documents, got "
            f"{sorted(settings)}"
        ) from None
    if documents is None:
        if folder is not None and FOLDER.has_model(folder):
            return LsaEncoder.load(folder)
        raise ParameterError(
            "the encoder 'lsa' requires documents (mappings with 'docno' and 'text', or a function "
            f"that returns them), or a folder with a fitted encoder, got folder={folder!r}"
        )
    source = Collection(documents, "LsaEncoder", collection)
    if folder is None:
        return LsaEncoder.fit(source.mappings, **checked, collection=source.name)
    settings_of_fit = {**checked, "collection": source.name}
    with contextlib.suppress(FormatError):  # without a lock: the folder may be read-only
        if (kept := _kept(folder, settings_of_fit)) is not None:
            return kept
    FOLDER.check_free(folder)
    Path(folder).mkdir(parents=True, exist_ok=True)
    with FileLock(Path(folder) / LOCK):  # a second process waits and uses the first one's encoder
        if (kept := _kept(folder, settings_of_fit)) is not None:
            return kept
        fitted = LsaEncoder.fit(source.mappings, **checked, collection=source.name)
        fitted.save(folder)
        return fitted


def _kept(folder: str | PathLike[str], settings: dict[str, Any]) -> LsaEncoder | None:
    if not FOLDER.has_model(folder) or FOLDER.read(folder)["settings"] != settings:
        return None
    loaded = LsaEncoder.load(folder)
    # another process may have replaced it in between
    return loaded if loaded.fit_settings == settings else None


def _sentence_model(model: str) -> BiEncoder:
    """Return a `pyterrier_dr.SBertBiEncoder` for a local folder or a name on the hub.

    Its ``fingerprint`` is a digest of its files.
    """
    folder = _folder(model)
    _check(folder, model)
    try:
        encoder: Any = SBertBiEncoder(str(folder))
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        first = " ".join(str(error).split())[:200]
        raise ModelError(
            f"the encoder {model!r} cannot be loaded ({type(error).__name__}: {first}); needed is "
            f"{_NEEDED}"
        ) from None
    encoder.model_name = model
    encoder.fingerprint = folder_digest(folder, tuple(f"**/{name}" for name in _WANTED))
    bi_encoder: BiEncoder = encoder
    return bi_encoder


def is_on_hub(model: Any) -> bool:
    """Return whether a model can only be a name on the Hugging Face hub."""
    if not isinstance(model, str) or Path(model).expanduser().exists():
        return False
    separators = model.count("/") + model.count("\\")
    return not model.startswith((".", "~", "/")) and separators < 2


def _folder(model: str) -> Path:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if not is_on_hub(model):
        content = "a file" if folder.exists() else "nothing"
        raise ModelError(
            f"the encoder {model!r} must be {_NEEDED}, a name on the Hugging Face hub, or 'lsa', "
            f"got {content} at that path"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(model, allow_patterns=_WANTED))
    except (OSError, ValueError, HfHubHTTPError) as error:
        first = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ModelError(
            f"the encoder {model!r} is not in the local cache and cannot be downloaded ({first}): "
            "connect once, use a local folder instead of the name, or use 'lsa', which needs no "
            "model"
        ) from None


def _check(folder: Path, model: str) -> None:
    for name in (_MODULES, "config.json"):
        if not (folder / name).is_file():
            raise ModelError(f"the encoder {model!r} has no {name}; expected {_NEEDED}")
    try:
        modules = json.loads((folder / _MODULES).read_text(encoding="utf-8"))
        kinds = {os.path.normpath(folder / m["path"]): str(m["type"]) for m in modules}
    except (ValueError, KeyError, TypeError):
        raise ModelError(f"the encoder {model!r} has an invalid {_MODULES}") from None
    for place, kind in kinds.items():
        if not kind.startswith("sentence_transformers."):
            raise ModelError(
                f"the encoder {model!r} requires its own code ({kind!r}), which is never run: use "
                "another model, or a pyterrier_dr.BiEncoder object"
            )
        inside = Path(place)
        pickled = sorted(p.name for pattern in _PICKLED for p in inside.glob(pattern))
        if pickled and not any(inside.glob("*.safetensors")):
            raise ModelError(
                f"the encoder {model!r} must have its weights as safetensors, got "
                f"{pickled[0]}, which is never loaded: a pickled file can run code; convert it "
                "once with model.save_pretrained(folder, safe_serialization=True)"
            )
