"""From a Hugging Face model to CTranslate2: converted once, kept, and checked at each load."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from fairtk.backends import loading
from fairtk.errors import MissingExtraError, ModelError

NEEDED = "4.8"
"""The minor version whose converter and scores are known; others are refused."""

TOLERANCE = 1e-3
"""Of the probe's log-probabilities, per token, absolute and relative: float32 loses so much."""

_PROBE = "The answer to this question is one that both libraries must give alike."
_PROBE_FILE = "probe.json"
_FORM = 1  # of what is kept beside the converted model


def require_ctranslate2(where: str) -> str:
    """Return the version of ctranslate2; one that is missing or was not tested is an error."""
    try:
        version = metadata.version("ctranslate2")
    except metadata.PackageNotFoundError:
        raise MissingExtraError("ctranslate2", "fast", where) from None
    if version.split(".")[:2] != NEEDED.split("."):
        raise ModelError(
            f"{where} needs ctranslate2 {NEEDED}, found {version}: the converter of other versions "
            "may scale the scores of T5 otherwise, which nothing would show but wrong answers "
            f"(pip install 'ctranslate2=={NEEDED}.*')"
        )
    return version


def cache_folder() -> Path:
    """Return where converted models are kept: ``$XDG_CACHE_HOME/fairtk/ctranslate2``."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fairtk" / "ctranslate2"


def converted(folder: str, digest: str, name: str) -> Path:
    """Return the folder of the converted model, which is made if it is not there.

    Takes the Hugging Face model's files, a digest of their content, and its name for messages.
    """
    version = require_ctranslate2("CTranslate2Seq2Seq")
    target = cache_folder() / f"{digest}-{version}-{_FORM}"
    if (target / _PROBE_FILE).exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    import torch
    from transformers import AutoModelForSeq2SeqLM

    tokenizer = loading.load_tokenizer(folder, name)
    model = loading.load_model(AutoModelForSeq2SeqLM, folder, name, torch.device("cpu"), "float32")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".converting-") as scratch:
        made = Path(scratch) / "model"
        _convert(model, tokenizer, folder, name, made)
        probe = _probe(model, tokenizer)
        (made / _PROBE_FILE).write_text(json.dumps(probe), encoding="utf-8")
        try:
            made.rename(target)
        except OSError:  # another process was first
            if not (target / _PROBE_FILE).exists():
                shutil.rmtree(target, ignore_errors=True)
                made.rename(target)
    return target


def _convert(model: Any, tokenizer: Any, folder: str, name: str, made: Path) -> None:
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):  # type: ignore[misc]
        """Takes the model that is loaded already: from safetensors, without foreign code."""

        def load_model(self, model_class: Any, path: str, **kwargs: Any) -> Any:
            return model

        def load_tokenizer(self, tokenizer_class: Any, path: str, **kwargs: Any) -> Any:
            return tokenizer

    tied = getattr(model.config, "tie_word_embeddings", None)
    scaled = getattr(model.config, "scale_decoder_outputs", None)
    if model.config.model_type == "t5" and scaled is not None:
        # The converter scales logits where embeddings are tied, which transformers 5 says of every
        # T5; FLAN-T5's are not scaled. Greedy answers would stay, scores and beams be wrong.
        model.config.tie_word_embeddings = scaled
    try:
        Converter(folder).convert(str(made), quantization="float32")
    except Exception as error:
        raise ModelError(
            f"the model {name!r} cannot be converted to CTranslate2 ({loading.one_line(error)}); "
            "take HuggingFaceSeq2Seq"
        ) from error
    finally:
        if tied is not None:
            model.config.tie_word_embeddings = tied


def _probe(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return the tokens of a source and a target, and what transformers gives the target's."""
    import torch

    source = tokenizer(_PROBE)["input_ids"]
    with torch.inference_mode():
        answer = model.generate(
            torch.tensor([source]), max_new_tokens=8, num_beams=1, do_sample=False
        )[0, 1:]
        end = tokenizer.eos_token_id
        target = [int(token) for token in answer if int(token) != end] + [end]
        output = model(input_ids=torch.tensor([source]), labels=torch.tensor([target]))
        scores = torch.log_softmax(output.logits[0].double(), dim=-1)
        values = scores[torch.arange(len(target)), torch.tensor(target)].tolist()
    tokens = tokenizer.convert_ids_to_tokens
    return {"source": tokens(source), "target": tokens(target[:-1]), "scores": values}


def check_probe(translator: Any, folder: Path, name: str) -> None:
    """Compare the probe's scores with transformers'; more than `TOLERANCE` apart is an error."""
    probe = json.loads((folder / _PROBE_FILE).read_text(encoding="utf-8"))
    found = translator.score_batch([probe["source"]], [probe["target"]])[0].log_probs
    apart = float(np.abs(np.subtract(found, probe["scores"])).max())
    if not np.allclose(found, probe["scores"], rtol=TOLERANCE, atol=TOLERANCE):
        raise ModelError(
            f"CTranslate2 gives the answers of {name!r} other scores than transformers: "
            f"log-probabilities {apart:.2g} apart, at most {TOLERANCE:g} wanted; delete {folder} "
            "to convert the model again, or take HuggingFaceSeq2Seq"
        )
