"""Loading a tokenizer, a configuration and a model from a local folder, with one-line errors."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairtk.errors import MissingExtraError, ModelError, ParameterError
from fairtk.starting.printing import on_terminal

_NEEDED = "needed are tokenizer.json and tokenizer_config.json"
_VOCABULARIES = {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json"}
_SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def require_packages(where: str) -> None:
    """Raise a `MissingExtraError` unless torch and transformers are installed; imports neither."""
    for package in ("torch", "transformers"):
        try:
            found = importlib.util.find_spec(package)
        except ImportError:
            found = None
        if found is None:
            raise MissingExtraError(package, "t5", where)


def load_tokenizer(folder: str, model: str) -> Any:
    """Return the Hugging Face tokenizer of a folder; it has a padding token."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **_SAFE)
    except Exception as error:
        raise ModelError(
            f"the tokenizer of {model!r} cannot be loaded from {folder!r} ({one_line(error)}); "
            f"{_NEEDED}"
        ) from error
    # transformers makes up an empty one, to which every word is unknown
    files = set(type(tokenizer).vocab_files_names.values())
    if files and not any((Path(folder) / name).exists() for name in files | _VOCABULARIES):
        raise ModelError(f"there is no tokenizer of {model!r} in {folder!r}; {_NEEDED}")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(folder: str, model: str) -> Any:
    """Return the configuration of a folder."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, **_SAFE)
    except Exception as error:
        raise ModelError(
            f"config.json of {model!r} in {folder!r} cannot be read ({one_line(error)})"
        ) from error


def load_model(
    auto_class: Any, folder: str, model: str, device: Any, dtype: str, pickled: bool = False
) -> Any:
    """Return the model of a folder on a device, in evaluation mode.

    `pickled` says whether the weights are pickled rather than safetensors.

    Raises:
        ModelError: it cannot be loaded, or the files lack some of its weights.
    """
    try:
        with _quiet():
            # weights_only: a pickle gives tensors and nothing else; torch from 2.6 keeps to that
            loaded, found = auto_class.from_pretrained(
                folder,
                dtype=pick_dtype(dtype, device),
                use_safetensors=not pickled,
                weights_only=True,
                output_loading_info=True,
                **_SAFE,
            )
        loaded = loaded.eval().to(device)
    except Exception as error:
        raise ModelError(
            f"the model {model!r} cannot be loaded from {folder!r} with {auto_class.__name__} "
            f"on {device} ({one_line(error)})"
        ) from error
    # transformers gives random numbers to weights that are not there; poolers are never used
    lacking = sorted(key for key in found["missing_keys"] if "pooler" not in key)
    if lacking:
        raise ModelError(
            f"the files of {model!r} in {folder!r} lack {len(lacking)} of the weights that a "
            f"{type(loaded).__name__} has (e.g. {lacking[0]}): it is another kind of model"
        )
    return loaded


def pick_device(device: str, where: str) -> Any:
    """Return the torch device of a name; ``"auto"`` is CUDA where there is one, else the CPU."""
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ParameterError(f"{where}: unknown device {device!r} ({one_line(error)})") from None


def pick_dtype(dtype: str, device: Any) -> Any:
    """Return the torch type of a name; ``"auto"`` is a half precision on CUDA, else float32."""
    import torch

    if dtype == "auto":
        if device.type != "cuda":
            return torch.float32
        # bfloat16 first: T5's activations overflow float16
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return getattr(torch, dtype)


def one_line(error: BaseException) -> str:
    """Return an error's text on one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide transformers' list of weights, which is checked here, and its bar if nobody watches."""
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
