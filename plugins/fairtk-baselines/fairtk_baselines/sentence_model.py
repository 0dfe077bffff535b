"""Loading a sentence-transformers model as a bi-encoder, without running code that it brings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

from pyterrier_dr import BiEncoder, SBertBiEncoder

from fairtk.errors import ModelError
from fairtk.files import folder_digest

_MODULES = "modules.json"
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model"]
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_NEEDED = "a folder that SentenceTransformer.save_pretrained wrote"


def load(model: str) -> BiEncoder:
    """Return a `pyterrier_dr.SBertBiEncoder`; its ``fingerprint`` is a digest of its files.

    Args:
        model: a local folder, or a name on the Hugging Face hub. What is in the hub's cache is not
            asked for again.

    Raises:
        ModelError: there is no such model, its weights are not safetensors, it wants code of its
            own to be run, or it cannot be loaded; one line.
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
