"""Finding a model's files: a local folder, the hub's cache, or a download from the hub.

Only safetensors weights are read, and code that a repository may hold is never run. What is
fetched is the folder's JSON, vocabulary and safetensors files, nothing else.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from fairtk.errors import MissingExtraError, ModelError

INDEX = "model.safetensors.index.json"
WEIGHTS = "model.safetensors"
WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
PICKLED = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.msgpack", "*.h5")
NEEDED = f"a folder with config.json, {WEIGHTS} and tokenizer.json"


def find_folder(model: str, revision: str | None = None) -> Path:
    """Return a local folder with the model's files.

    Args:
        model: a local folder, or a name on the Hugging Face hub.
        revision: a branch, tag or commit on the hub; None for its default.

    Raises:
        ModelError: no such folder or name, no connection, or no safetensors weights; one line
            that names the model and says what to do.
        MissingExtraError: a hub name is given and huggingface_hub is not installed.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        _check(folder, f"the folder {model!r}")
        return folder
    if folder.exists():
        raise ModelError(f"the model {model!r} is a file: give {NEEDED}, or a hub name")
    if _is_path(model):
        raise ModelError(f"there is no folder {model!r}: give {NEEDED}, or a hub name")
    return _from_hub(model, revision)


def _is_path(model: str) -> bool:
    separators = model.count("/") + model.count("\\")
    return model.startswith((".", "~", "/")) or separators > 1 or Path(model).is_absolute()


def _check(folder: Path, what: str) -> None:
    """Raise unless config and all safetensors weights are there."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"{what} holds no model: config.json is missing; needed is {NEEDED}")
    if _complete(folder):
        return
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    if (folder / INDEX).is_file():
        raise ModelError(f"{what} lacks some of the weight files that {INDEX} lists")
    found = f"has only {pickled[0]}, which is never loaded" if pickled else "has none"
    raise ModelError(
        f"{what} must hold its weights as {WEIGHTS}, and {found}: a pickled file can run code; "
        "convert it once with model.save_pretrained(folder, safe_serialization=True)"
        if pickled
        else f"{what} must hold its weights as {WEIGHTS}, and {found}; needed is {NEEDED}"
    )


def _complete(folder: Path) -> bool:
    if (folder / WEIGHTS).is_file():
        return True
    if not (folder / INDEX).is_file():
        return False
    shards = json.loads((folder / INDEX).read_text(encoding="utf-8")).get("weight_map", {})
    return bool(shards) and all((folder / name).is_file() for name in set(shards.values()))


def _from_hub(model: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import constants, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError("huggingface_hub", "t5", f"the model {model!r}") from None

    wanted: dict[str, Any] = {
        "revision": revision,
        "allow_patterns": WANTED,
        "ignore_patterns": ["*/*"],
    }
    try:  # the cache first: no request when all is there
        cached = Path(snapshot_download(model, local_files_only=True, **wanted))
        if (cached / "config.json").is_file() and _complete(cached):
            return cached
    except LocalEntryNotFoundError:
        pass
    except ValueError as error:  # not a well-formed name
        _fail(model, str(error))
    if constants.HF_HUB_OFFLINE:
        _fail(model, "HF_HUB_OFFLINE is set")
    if not _reachable(constants.ENDPOINT):
        _fail(model, f"{urlsplit(constants.ENDPOINT).hostname} cannot be reached")
    try:
        folder = Path(snapshot_download(model, **wanted))
    except (OSError, ValueError, HfHubHTTPError) as error:
        _fail(model, f"{type(error).__name__}: {error}")
    _check(folder, f"the model {model!r} on the hub")
    return folder


def _reachable(endpoint: str) -> bool:
    """Return whether the hub's name resolves: the hub's own retries would take half a minute."""
    proxies = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    if any(os.environ.get(name) for name in proxies):
        return True  # the proxy resolves names
    try:
        socket.getaddrinfo(urlsplit(endpoint).hostname, None)
    except OSError:
        return False
    return True


def _fail(model: str, reason: str) -> NoReturn:
    first = " ".join(reason.split())[:200]
    raise ModelError(
        f"the model {model!r} is not in the local cache and cannot be downloaded ({first}): "
        f"connect once, or give a local folder instead of the name ({NEEDED}), "
        "e.g. FlanT5(model='/path/to/folder')"
    ) from None
