"""Bi-encoders: texts to vectors, by a model that is fitted here or by any pretrained one."""

from __future__ import annotations

import contextlib
import json
import os
import re
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from filelock import FileLock
from pyterrier_dr import BiEncoder, SBertBiEncoder

from fairtk.errors import FormatError, ModelError, ParameterError
from fairtk.frames import identity_name
from fairtk.io import folder_digest
from fairtk_baselines.collection import Collection, Documents
from fairtk_baselines.lsa import FOLDER, LsaEncoder, lsa_settings
from fairtk_baselines.model_folder import LOCK

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

    * ``"lsa"``: an `LsaEncoder` that is fitted on `documents`, and kept in `folder` where one is
      given: one that is there is used if it was fitted on the same documents with the same settings
      and seed, and replaced otherwise. Without `documents` the one in `folder` is used as it is.
    * a folder that `LsaEncoder.save` wrote.
    * a folder, or a name on the Hugging Face hub, of a sentence-transformers model, as a
      `pyterrier_dr.SBertBiEncoder`. Only safetensors weights are read, and no code that comes with
      a model is run. Models that want prompts before their texts (E5) have classes of their own in
      pyterrier_dr: give an object.
    * any `pyterrier_dr.BiEncoder`, which is returned itself.

    Args:
        encoder: see above.
        documents: mappings with ``docno`` and ``text``, or a function that gives them.
        folder: where it is kept, for ``"lsa"``; other encoders ignore it.
        seed: for ``"lsa"``.
        collection: what identifies `documents`, such as a digest; None to read them for one.
        settings: for ``"lsa"``: ``dimensions``, ``max_terms``, ``min_documents``.

    Raises:
        InputError: a setting is out of range, there is nothing to fit on, or `folder` is broken.
        ModelError: there is no such model, or its weights are not safetensors.
    """
    if encoder == "lsa":
        return _lsa(documents, folder, seed, collection, settings)
    if settings:
        raise ParameterError(f"only the encoder 'lsa' has settings; found {sorted(settings)}")
    if isinstance(encoder, BiEncoder):
        return encoder
    if isinstance(encoder, str | PathLike):
        if FOLDER.has_model(encoder):
            return LsaEncoder.load(encoder)
        return _sentence_model(str(encoder))
    raise ParameterError(
        "encoder must be 'lsa', a folder or hub name of a sentence-transformers model, or a "
        f"pyterrier_dr BiEncoder; found {type(encoder).__name__}"
    )


def identity(encoder: str | PathLike[str] | BiEncoder | None) -> str | None:
    """Return a string that is equal for encoders that give the same vectors.

    The content digest where the encoder has one, otherwise the class and its public settings that
    are simple values; one without either is its object alone, which no other process can be.
    """
    if encoder is None or isinstance(encoder, str):
        return encoder
    if isinstance(encoder, PathLike):
        return str(Path(encoder))
    name = identity_name(type(encoder))
    found = getattr(encoder, "fingerprint", None) or getattr(encoder, "digest", None)
    if found is not None:
        return f"{type(encoder).__qualname__}#{found() if callable(found) else found}"
    # what pyterrier_dr's encoders keep; batch sizes and devices do not change what a vector means
    skipped = {"batch_size", "verbose", "device", "text_field"}
    values = {
        key: value
        for key, value in sorted(vars(encoder).items())
        if isinstance(value, str | int | float | bool) and key not in skipped and key[0] != "_"
    }
    if not values:
        shown = re.sub(r"\s+at 0x[0-9a-f]+|<|>", "", repr(encoder))
        return f"{shown} (object {id(encoder)})"
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
            "the encoder 'lsa' has the settings dimensions, max_terms and min_documents; found "
            f"{sorted(settings)}"
        ) from None
    if documents is None:
        if folder is not None and FOLDER.has_model(folder):
            return LsaEncoder.load(folder)
        raise ParameterError(
            "the encoder 'lsa' is fitted on a collection: give documents (mappings with 'docno' "
            "and 'text', or a function that gives them), or a folder with a fitted encoder; "
            f"found neither (folder={folder!r})"
        )
    source = Collection(documents, "LsaEncoder", collection)
    if folder is None:
        return LsaEncoder.fit(source.mappings, **checked, collection=source.name)
    wanted = {**checked, "collection": source.name}
    with contextlib.suppress(FormatError):  # without a lock: the folder may be read-only
        if (kept := _kept(folder, wanted)) is not None:
            return kept
    FOLDER.check_free(folder)
    Path(folder).mkdir(parents=True, exist_ok=True)
    with FileLock(Path(folder) / LOCK):  # a second process waits, and uses the first's
        if (kept := _kept(folder, wanted)) is not None:
            return kept
        fitted = LsaEncoder.fit(source.mappings, **checked, collection=source.name)
        fitted.save(folder)
        return fitted


def _kept(folder: str | PathLike[str], settings: dict[str, Any]) -> LsaEncoder | None:
    if not FOLDER.has_model(folder) or FOLDER.read(folder)["settings"] != settings:
        return None
    found = LsaEncoder.load(folder)
    # another process may have replaced it in between
    return found if found.fit_settings == settings else None


def _sentence_model(model: str) -> BiEncoder:
    """Return a `pyterrier_dr.SBertBiEncoder` of a local folder, or of a name on the hub.

    Its ``fingerprint`` is a digest of its files. What is in the hub's cache is not asked for again.
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
    found: BiEncoder = encoder
    return found


def _folder(model: str) -> Path:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    separators = model.count("/") + model.count("\\")
    if folder.exists() or model.startswith((".", "~", "/")) or separators > 1:
        found = "a file" if folder.exists() else "nothing"
        raise ModelError(
            f"the encoder {model!r} must be {_NEEDED}, a name on the Hugging Face hub, or 'lsa'; "
            f"found {found} at that path"
        )
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:  # the cache first: no request when all is there
        cached = Path(snapshot_download(model, allow_patterns=_WANTED, local_files_only=True))
        if (cached / "config.json").is_file() and any(cached.rglob("*.safetensors")):
            return cached
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        _not_found(model, str(error))
    if constants.HF_HUB_OFFLINE:
        _not_found(model, "HF_HUB_OFFLINE is set")
    try:
        return Path(snapshot_download(model, allow_patterns=_WANTED))
    except (OSError, ValueError, HfHubHTTPError) as error:
        _not_found(model, f"{type(error).__name__}: {error}")


def _check(folder: Path, model: str) -> None:
    for name in (_MODULES, "config.json"):
        if not (folder / name).is_file():
            raise ModelError(f"the encoder {model!r} lacks {name}; needed is {_NEEDED}")
    try:
        modules = json.loads((folder / _MODULES).read_text(encoding="utf-8"))
        kinds = {os.path.normpath(folder / m["path"]): str(m["type"]) for m in modules}
    except (ValueError, KeyError, TypeError):
        raise ModelError(f"the encoder {model!r} has a broken {_MODULES}") from None
    for place, kind in kinds.items():
        if not kind.startswith("sentence_transformers."):
            raise ModelError(
                f"the encoder {model!r} wants code of its own to be run ({kind!r}), which is never "
                "done; choose another model, or give a pyterrier_dr.BiEncoder object"
            )
        inside = Path(place)
        pickled = sorted(p.name for pattern in _PICKLED for p in inside.glob(pattern))
        if pickled and not any(inside.glob("*.safetensors")):
            raise ModelError(
                f"the encoder {model!r} must hold its weights as safetensors, and has "
                f"{pickled[0]}, which is never loaded: a pickled file can run code; convert it "
                "once with model.save_pretrained(folder, safe_serialization=True)"
            )


def _not_found(model: str, reason: str) -> NoReturn:
    first = " ".join(reason.split())[:200]
    raise ModelError(
        f"the encoder {model!r} is not in the local cache and cannot be downloaded ({first}): "
        "connect once, give a local folder instead of the name, or use 'lsa', which needs no model"
    ) from None
