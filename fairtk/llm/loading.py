"""Find and load a model's files, with one-line errors.

Only safetensors weights are read, or pickled weights if the user allows it and there are no others.
Code in a repository is never run. Only JSON, vocabulary and weight files are downloaded.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairtk.errors import MissingExtraError, ModelError, NoModelError, ParameterError
from fairtk.io import file_lock, folder_digest
from fairtk.plugins.streams import on_terminal

# torch's threads wait for each other by spinning. If another process uses one of the cores, a small
# model takes four times as long. torch reads this when it is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
DOWNLOAD_PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
PICKLES = "pytorch_model*.bin"
UNREADABLE = ("*.pt", "*.pth", "*.ckpt", "*.msgpack", "*.h5")
MODEL_FOLDER = f"a folder with config.json, {WEIGHTS} and tokenizer.json"


def find_folder(model: str, revision: str | None = None, pickled: bool | None = None) -> Path:
    """Return the local folder with the files of a model.

    Args:
        model: a local folder, or a name on the Hugging Face hub.
        revision: a branch, tag or commit on the hub; `None` for the default.
        pickled: whether pickled weights are accepted if there are no others; `None` if not, and the
            caller has no setting ``allow_pickled_weights``.

    Raises:
        NoModelError: not a model folder.
        ModelError: the name is unknown, the hub cannot be reached, or the weights may not be read.
        MissingExtraError: huggingface_hub, which a hub name requires, is not installed.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        what = f"the folder {model!r}"
    elif folder.exists():
        raise NoModelError(f"expected {MODEL_FOLDER}, or a hub name, got the file {model!r}")
    elif model.startswith((".", "~")) or folder.is_absolute() or len(folder.parts) > 2:
        raise NoModelError(f"{model}: no such folder; expected {MODEL_FOLDER}, or a hub name")
    else:
        folder = _from_hub(model, revision, pickled)
        what = f"the model {model!r} in the local cache"
    _check(folder, what, pickled)
    return folder


def cached_folder(kind: str, name: str, last: str, make: Callable[[Path], None]) -> Path:
    """Return ``$XDG_CACHE_HOME/fairtk/KIND/NAME``, made on first use.

    If several processes need a folder, one of them makes it, and the others wait.

    Args:
        kind: the folder of similar folders.
        name: the folder's name.
        last: a file that every complete folder has.
        make: a function that writes the files to a folder, which it creates.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairtk" / kind
    target = home / name
    if (target / last).exists():
        return target
    home.mkdir(parents=True, exist_ok=True)
    with file_lock(home), tempfile.TemporaryDirectory(dir=home, prefix=".converting-") as scratch:
        if (target / last).exists():  # another process was first
            return target
        output = Path(scratch) / "model"
        make(output)
        shutil.rmtree(target, ignore_errors=True)
        output.rename(target)
    return target


def is_pickled(folder: Path) -> bool:
    """Return whether a folder has no safetensors weights."""
    return not _has(folder, WEIGHTS)


def model_digest(folder: Path) -> str:
    """Return a digest of the files that affect a model's output."""
    more = (PICKLES,) if is_pickled(folder) else ()
    return folder_digest(folder, (*DOWNLOAD_PATTERNS, *more))


def _has(folder: Path, weights: str) -> bool:
    """Return whether a folder has the weights, in one file or in all files of an index."""
    index = folder / f"{weights}.index.json"
    if (folder / weights).is_file() or not index.is_file():
        return (folder / weights).is_file()
    shards = set(json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values())
    return bool(shards) and all((folder / name).is_file() for name in shards)


def _readable(folder: Path, pickled: bool | None) -> bool:
    return _has(folder, WEIGHTS) or (bool(pickled) and _has(folder, PICKLE))


def _check(folder: Path, what: str, pickled: bool | None) -> None:
    """Raise an error unless the folder has a config and all weights in a permitted format."""
    if not (folder / "config.json").is_file():
        raise NoModelError(f"expected {MODEL_FOLDER}, got {what} without config.json")
    if _readable(folder, pickled):
        return
    if (folder / f"{WEIGHTS}.index.json").is_file():
        raise ModelError(f"missing weight files in {what}; {WEIGHTS}.index.json lists them")
    others = sorted(path.name for kind in (PICKLES, *UNREADABLE) for path in folder.glob(kind))
    if not others:
        problem = f"no weights; expected {MODEL_FOLDER}"
    elif pickled:
        problem = f"not all weights as {WEIGHTS} or {PICKLE}, only {others[0]}"
    else:
        problem = (
            f"no {WEIGHTS}, only {others[0]}, which is "
            f"{'never' if pickled is None else 'not'} loaded: a pickled file can run code; "
            "convert it once with model.save_pretrained(folder, safe_serialization=True)"
        )
    if pickled is False and others:
        problem += (
            ", or, if you trust its source, set allow_pickled_weights=True (torch.load then reads "
            "only tensors, with weights_only=True)"
        )
    raise ModelError(f"{what} has {problem}")


def _from_hub(model: str, revision: str | None, pickled: bool | None) -> Path:
    """Return the folder in the hub's cache, downloading missing files."""
    try:
        from huggingface_hub import constants, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError("huggingface_hub", "t5", f"the model {model!r}") from None

    def fetch(*patterns: str, offline: bool = False) -> Path:
        folder = snapshot_download(
            model,
            revision=revision,
            allow_patterns=list(patterns),
            ignore_patterns=["*/*"],
            local_files_only=offline,
        )
        return Path(folder)

    folder, reason, pickles = None, "", False
    try:  # the cache first: no request if all files are cached
        cached = fetch(*DOWNLOAD_PATTERNS, offline=True)
        if (cached / "config.json").is_file() and _readable(cached, pickled):
            return cached
        pickles = any(cached.glob(PICKLES))
    except LocalEntryNotFoundError:
        pass
    except ValueError as error:  # not a well-formed name
        reason = str(error)
    if constants.HF_HUB_OFFLINE:
        reason = reason or "HF_HUB_OFFLINE is set"
    elif not _reachable(constants.ENDPOINT):
        reason = reason or f"{urlsplit(constants.ENDPOINT).hostname} cannot be reached"
    if reason and pickles:
        return cached  # the error about its pickles is more useful
    try:
        folder = None if reason else fetch(*DOWNLOAD_PATTERNS)
        if folder and pickled and is_pickled(folder):
            folder = fetch(PICKLES)
    except (OSError, ValueError, HfHubHTTPError) as error:
        folder, reason = None, f"{type(error).__name__}: {error}"
    if folder is None:
        raise ModelError(
            f"the model {model!r} is not in the local cache and cannot be downloaded "
            f"({error_text(reason, 200)}); connect once, or use the path of a local folder instead "
            f"of the name ({MODEL_FOLDER})"
        )
    return folder


def _reachable(endpoint: str) -> bool:
    """Return whether the hub's host name resolves; the client's retries take half a minute."""
    proxies = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    if any(os.environ.get(name) for name in proxies):
        return True  # the proxy resolves names
    try:
        socket.getaddrinfo(urlsplit(endpoint).hostname, None)
    except OSError:
        return False
    return True


_TOKENIZER_FILES = "expected tokenizer.json and tokenizer_config.json"
_VOCABULARIES = {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json"}
SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Arguments of ``from_pretrained``: no request, and no code of a repository."""


def require_packages(where: str) -> None:
    """Raise a `MissingExtraError` unless torch and transformers are installed."""
    for package in ("torch", "transformers"):
        try:
            module = importlib.util.find_spec(package)
        except ImportError:
            module = None
        if module is None:
            raise MissingExtraError(package, "t5", where)


def load_tokenizer(folder: str, model: str) -> Any:
    """Return the Hugging Face tokenizer of a folder, with a padding token."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **SAFE)
    except Exception as error:
        raise ModelError(
            f"the tokenizer of {model!r} cannot be loaded from {folder!r} ({error_text(error)}); "
            f"{_TOKENIZER_FILES}"
        ) from error
    # transformers creates an empty one, to which every word is unknown
    files = set(type(tokenizer).vocab_files_names.values())
    if files and not any((Path(folder) / name).exists() for name in files | _VOCABULARIES):
        raise ModelError(f"missing tokenizer of {model!r} in {folder!r}; {_TOKENIZER_FILES}")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(folder: str, model: str) -> Any:
    """Return the configuration of a folder."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, **SAFE)
    except Exception as error:
        raise ModelError(
            f"config.json of {model!r} in {folder!r} cannot be read ({error_text(error)})"
        ) from error


def load_model(
    auto: str, folder: str, model: str, device: Any, dtype: str, pickled: bool | None = None
) -> Any:
    """Return the model of a folder on a device, in evaluation mode.

    `auto` is the name of a transformers class, `pickled` whether pickled weights may be read.

    Raises:
        ModelError: the model cannot be loaded, or weights are missing.
    """
    import transformers

    try:
        with quiet():
            # weights_only: torch reads only tensors from a pickle (enforced from 2.6)
            loaded, report = getattr(transformers, auto).from_pretrained(
                folder,
                dtype=pick_dtype(dtype, device),
                use_safetensors=not (pickled and is_pickled(Path(folder))),
                weights_only=True,
                output_loading_info=True,
                **SAFE,
            )
        loaded = loaded.eval().to(device)
    except Exception as error:
        raise ModelError(
            f"the model {model!r} cannot be loaded from {folder!r} with {auto} "
            f"on {device} ({error_text(error)})"
        ) from error
    # transformers initializes missing weights at random; poolers are never used
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise ModelError(
            f"expected a {type(loaded).__name__} in {folder!r}, got another kind of model "
            f"({len(missing)} weights are missing, e.g. {missing[0]})"
        )
    return loaded


def pick_device(device: str, where: str) -> Any:
    """Return the torch device of a name; ``"auto"`` is CUDA if available, else the CPU."""
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ParameterError(f"{where}: unknown device {device!r} ({error_text(error)})") from None


def pick_dtype(dtype: str, device: Any) -> Any:
    """Return the torch type of a name; ``"auto"`` is half precision on CUDA, else float32."""
    import torch

    if dtype == "auto":
        if device.type != "cuda":
            return torch.float32
        # bfloat16 first: T5's activations overflow float16
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return getattr(torch, dtype)


def error_text(error: BaseException | str, longest: int = 300) -> str:
    """Return an error's text in one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide transformers' list of missing weights, and its progress bar unless on a terminal."""
    from transformers.utils import logging

    hide = logging.is_progress_bar_enabled() and not on_terminal(sys.stderr)
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    if hide:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if hide:
            logging.enable_progress_bar()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a batch was too large for the memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "not enough memory" in text or "can't allocate memory" in text
    )
