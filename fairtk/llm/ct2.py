"""Encoder-decoder models in CTranslate2, which is faster than transformers.

CTranslate2 and PISA cannot share a process: both contain spdlog, whose unique symbols the loader
merges, and the second one crashes. So only the separate process imports ctranslate2.
"""

from __future__ import annotations

import json
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from fairtk.errors import FairtkError, MissingExtraError, ModelError, ParameterError
from fairtk.interpreters import ENDED, Interpreter
from fairtk.llm import loading
from fairtk.llm.hugging_face import GumbelNoise, HuggingFaceSeq2Seq

VERSION = "4.8"
"""The tested minor version; other versions are refused."""

TOLERANCE = 1e-3
"""Tolerance for the probe's log-probabilities, per token, absolute and relative (float32)."""

_PROBE = "The answer to this question is one that both libraries must give alike."
_PROBE_FILE = "probe.json"
_FORMAT = 1  # version of the cached folder


def require_ctranslate2(where: str) -> str:
    """Return the version of ctranslate2, or raise an error if it is missing or was not tested."""
    try:
        version = metadata.version("ctranslate2")
    except metadata.PackageNotFoundError:
        raise MissingExtraError("ctranslate2", "fast", where) from None
    if version.split(".")[:2] != VERSION.split("."):
        raise ModelError(
            f"{where} requires ctranslate2 {VERSION}, got {version}, which may scale the scores of "
            f"T5 differently; run pip install 'ctranslate2=={VERSION}.*'"
        )
    return version


def converted(folder: str, digest: str, name: str) -> Path:
    """Return the folder of the converted model, converting it on first use.

    Args:
        folder: the files of the Hugging Face model.
        digest: a digest of their content.
        name: the model's name for messages.
    """
    version = require_ctranslate2("CTranslate2Seq2Seq")

    def convert(output: Path) -> None:
        import torch

        tokenizer = loading.load_tokenizer(folder, name)
        model = loading.load_model(
            "AutoModelForSeq2SeqLM", folder, name, torch.device("cpu"), "float32"
        )
        _convert(model, tokenizer, folder, name, output)
        probe = _probe(model, tokenizer)
        (output / _PROBE_FILE).write_text(json.dumps(probe), encoding="utf-8")

    return loading.cached_folder(
        "ctranslate2", f"{digest}-{version}-{_FORMAT}", _PROBE_FILE, convert
    )


def _convert(model: Any, tokenizer: Any, folder: str, name: str, output: Path) -> None:
    from ctranslate2.converters import TransformersConverter

    class Converter(TransformersConverter):  # type: ignore[misc]
        """Converts the loaded model, which comes from safetensors, without foreign code."""

        def load_model(self, model_class: Any, path: str, **kwargs: Any) -> Any:
            return model

        def load_tokenizer(self, tokenizer_class: Any, path: str, **kwargs: Any) -> Any:
            return tokenizer

    tied = getattr(model.config, "tie_word_embeddings", None)
    scaled = getattr(model.config, "scale_decoder_outputs", None)
    if model.config.model_type == "t5" and scaled is not None:
        # The converter scales logits if embeddings are tied. transformers 5 reports this for every
        # T5, but FLAN-T5's logits are not scaled. Scores and beams would be wrong.
        model.config.tie_word_embeddings = scaled
    try:
        Converter(folder).convert(str(output), quantization="float32")
    except Exception as error:
        raise ModelError(
            f"the model {name!r} cannot be converted to CTranslate2 ({loading.error_text(error)}); "
            "use HuggingFaceSeq2Seq"
        ) from error
    finally:
        if tied is not None:
            model.config.tie_word_embeddings = tied


def _probe(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Return the tokens of a source and a target, and the target's scores by transformers."""
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
    """Raise an error if the probe's scores differ from transformers' by more than `TOLERANCE`."""
    probe = json.loads((folder / _PROBE_FILE).read_text(encoding="utf-8"))
    scores = translator.score_batch([probe["source"]], [probe["target"]])[0].log_probs
    difference = float(np.abs(np.subtract(scores, probe["scores"])).max())
    if not np.allclose(scores, probe["scores"], rtol=TOLERANCE, atol=TOLERANCE):
        raise ModelError(
            f"log-probabilities of {name!r} in CTranslate2 and transformers must differ by at most "
            f"{TOLERANCE:g}, got {difference:.2g}; delete {folder} to convert the model again, or "
            "use HuggingFaceSeq2Seq"
        )


def translating() -> Callable[[dict[str, Any]], tuple[list[list[str]], str]]:
    """Return a function that loads a model by its first request, and translates later requests.

    It returns the tokens of the answers and an error message, empty on success.
    """
    translator: Any = None

    def answer(request: dict[str, Any]) -> tuple[list[list[str]], str]:
        nonlocal translator
        try:
            if translator is None:
                translator = _loaded(**request)
                return [], ""
            results = translator.translate_batch(request.pop("tokens"), **request)
            return [result.hypotheses[0] for result in results], ""
        except FairtkError as error:
            return [], str(error)
        except (RuntimeError, ValueError, MemoryError) as error:
            return [], f"{type(error).__name__}: {error}"

    return answer


def _loaded(
    folder: str, digest: str, name: str, device: str, device_index: int, threads: int
) -> Any:
    import ctranslate2

    model_folder = converted(folder, digest, name)
    translator = ctranslate2.Translator(
        str(model_folder),
        device=device,
        device_index=device_index,
        compute_type="float32",
        intra_threads=threads,
        inter_threads=1,
    )
    check_probe(translator, model_folder, name)
    return translator


class TranslatorProcess:
    """A process that holds one model; it ends with this object."""

    def __init__(self, name: str, **model: Any) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._interpreter = Interpreter("fairtk.llm.ct2:translating", stderr=self._stderr)
        self._finalizer = weakref.finalize(self, _end, self._interpreter, self._stderr)
        self.ask(name=name, **model)

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request.

        Raises:
            RuntimeError: CTranslate2 failed, e.g. out of memory.
            ModelError: the model cannot be used, or the process has ended.
        """
        try:
            with self._lock:
                result, error = self._interpreter.ask(request)
        except ENDED:
            raise ModelError(
                f"the process of CTranslate2 for {self.name!r} has ended (exit code "
                f"{self._interpreter.process.wait()}): {self._last_words()}"
            ) from None
        if error:
            raise (RuntimeError if "tokens" in request else ModelError)(error)
        return result

    def _last_words(self) -> str:
        self._stderr.seek(0)
        return " ".join(self._stderr.read().split())[-300:] or "no error output"


def _end(interpreter: Interpreter, errors: IO[str]) -> None:
    interpreter.end()
    errors.close()


@dataclass(eq=False, repr=False, kw_only=True)
class CTranslate2Seq2Seq(HuggingFaceSeq2Seq):
    """An encoder-decoder model that runs in CTranslate2, in float32.

    The answers are those of transformers in float32, except where two candidates differ only by
    rounding. The model's files are converted on first use and cached by content in
    ``$XDG_CACHE_HOME/fairtk/ctranslate2``. Each load compares the scores of one probe with those
    of transformers. CTranslate2 runs in a separate process, because it cannot share one with PISA.
    The extra ``fast`` is required. See `HuggingFaceSeq2Seq` for the settings.

    Raises:
        MissingExtraError: ctranslate2, torch or transformers is not installed.
        ModelError: the version of ctranslate2 is not supported; on use: the model cannot be
            converted, or the probe's scores differ.
        ParameterError: a setting is out of its range, or the dtype is not float32.
    """

    identity_name = "fairtk.CTranslate2Seq2Seq"
    output_version = 1

    samples: ClassVar[bool] = False
    LIBRARIES: ClassVar[tuple[str, ...]] = (*HuggingFaceSeq2Seq.LIBRARIES, "ctranslate2")
    LOADED: ClassVar[Mapping[str, Collection[str]]] = {
        **HuggingFaceSeq2Seq.LOADED,
        "_translator": HuggingFaceSeq2Seq.LOADED["_model"],
        "_vocabulary": HuggingFaceSeq2Seq.LOADED["_tokenizer"],
    }

    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in ("auto", "float32"):
            raise ParameterError(
                f"CTranslate2Seq2Seq: dtype must be 'float32', got {self.dtype!r}; for half "
                "precision, use HuggingFaceSeq2Seq"
            )
        self.dtype = "float32"
        super().__post_init__()
        require_ctranslate2("CTranslate2Seq2Seq")

    @cached_property
    def _translator(self) -> TranslatorProcess:
        import torch

        return TranslatorProcess(
            self.model,
            folder=self._folder,
            digest=self.content_digest(),
            device=self._device.type,
            device_index=self._device.index or 0,
            threads=torch.get_num_threads(),
        )

    @cached_property
    def _vocabulary(self) -> list[str]:
        tokens: list[str] = self._tokenizer.convert_ids_to_tokens(range(len(self._tokenizer)))
        return tokens

    def _generate(self, rows: list[list[int]], noise: GumbelNoise | None) -> list[tuple[str, str]]:
        del noise  # the temperature is 0
        tokens = [[self._vocabulary[number] for number in row] for row in rows]
        hypotheses = self._translator.ask(
            tokens=tokens,
            max_batch_size=0,
            beam_size=self.num_beams,
            max_decoding_length=self.max_new_tokens,
            min_decoding_length=0,  # answers may be empty
            max_input_length=0,
            length_penalty=1.0,
            return_end_token=True,
        )
        ids = [self._tokenizer.convert_tokens_to_ids(tokens) for tokens in hypotheses]
        texts: list[str] = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
        end = self._tokenizer.eos_token_id
        finishes = ["stop" if end in answer else "length" for answer in ids]
        return list(zip(texts, finishes, strict=True))
