"""Decoder-only models by vLLM, in process: ``vllm:MODEL`` in ``fairtk rag`` and ``fairtk qr``."""

from __future__ import annotations

import contextlib
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import MissingExtraError, ModelError, ParameterError
from fairtk.llm import HuggingFaceCausal
from fairtk.plugins import BackendSpec, hookimpl

__all__ = ("VLLMCausal",)

NEEDED = "0.33"
"""The minor version of vLLM whose signatures and variables are used here; others are refused."""

INVARIANT = "VLLM_BATCH_INVARIANT"
CAPABILITY = (8, 0)
"""The compute capability from which on vLLM 0.33 has batch invariance (its documentation)."""

_SET_HERE = (
    *("model", "tokenizer", "revision", "tokenizer_revision", "dtype", "seed", "load_format"),
    *("trust_remote_code", "enable_prefix_caching", "skip_tokenizer_init"),
)
_T5 = re.compile(r"(flan-|long-|m|by|um)?t5([-_.]|$)|flan-ul2", re.IGNORECASE)
_NO_T5 = (
    "vLLM has no encoder-decoder models such as T5; {0!r} is run by CTranslate2 (ct2:{0}) or "
    "transformers (t5:{0})"
)


class MissingEngineError(MissingExtraError):
    """The package vllm is not installed, or not in the version that is needed."""

    def __init__(self, installed: str | None) -> None:
        what = f"found {installed}" if installed else "which is not installed"
        ImportError.__init__(
            self,
            f"VLLMCausal needs the package vllm {NEEDED}, {what}: run pip install . "
            "'./plugins/fairtk-vllm[engine]' in a checkout of fairtk, in an environment of its "
            "own, as vLLM pins torch",
        )


def engine_version() -> str:
    """Return the version of vLLM.

    Raises:
        MissingEngineError: it is not installed, or not `NEEDED`.
    """
    try:
        version = metadata.version("vllm")
    except metadata.PackageNotFoundError:
        raise MissingEngineError(None) from None
    if version.split(".")[:2] != NEEDED.split("."):
        raise MissingEngineError(version)
    return version


def has_batch_invariance() -> bool:
    """Return whether vLLM has batch-invariant kernels for this machine's device."""
    from vllm.platforms import current_platform  # does not begin to use the device

    return bool(current_platform.is_cuda() and current_platform.has_device_capability(CAPABILITY))


@dataclass(eq=False, repr=False, kw_only=True)
class VLLMCausal(HuggingFaceCausal):
    """A decoder-only model that vLLM runs on the GPU, in this process, without sampling.

    Prompts, chat templates, windows and the safetensors files are those of
    `fairtk.llm.HuggingFaceCausal`; vLLM gets token ids. Prefixes that prompts share are computed
    once. With batch-invariant kernels an answer does not depend on what is asked beside it; without
    them it may, by rounding. In a chat with a temperature, each prompt has a seed of its own.

    Args:
        model: a hub name or a local folder; no T5, which vLLM does not have.
        dtype: ``"bfloat16"``, ``"float16"`` or ``"float32"``; vLLM's ``"auto"`` is refused: it
            depends on the device.
        seed: of the engine, at least 0.
        batch_invariant: whether vLLM uses batch-invariant kernels (``VLLM_BATCH_INVARIANT``);
            None: as that variable says, or else where the device has them. Say it where this
            process has another device than the workers.
        engine: other arguments of ``vllm.LLM``, e.g. ``{"tensor_parallel_size": 2}``.
        batch_tokens: tokens of the prompts and answers that vLLM gets at a time, from which it
            makes its own batches.

    Raises:
        ParameterError: a setting is out of its range, or one that vLLM does not have.
        ModelError: the model is a T5.
        MissingEngineError: vLLM is not installed, or in another version than `NEEDED`.
    """

    identity_name = "fairtk_vllm.VLLMCausal"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("model", "dtype", "max_new_tokens", "max_prompt_tokens", "batch_tokens", "revision"),
        *("seed", "batch_invariant", "engine", "engine_version"),
    )
    LIBRARIES: ClassVar[tuple[str, ...]] = (*HuggingFaceCausal.LIBRARIES, "vllm")

    device: str = "cuda"
    dtype: str = "bfloat16"
    batch_tokens: int | None = 2**20
    seed: int = 0
    batch_invariant: bool | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        where = type(self).__name__
        if self.dtype == "auto":
            raise ParameterError(
                f"{where}: dtype must be 'bfloat16', 'float16' or 'float32'; found 'auto', with "
                "which vLLM takes what the device likes"
            )
        for name, only in (("device", "cuda"), ("num_beams", 1)):
            if getattr(self, name) != only:
                raise ParameterError(
                    f"{where}: {name} must be {only!r}; found {getattr(self, name)!r} "
                    "(HuggingFaceCausal has the choice; CUDA_VISIBLE_DEVICES says which GPUs)"
                )
        if _T5.match(self.model.rpartition("/")[2]):
            raise ModelError(_NO_T5.format(self.model))
        self.seed = checks.whole("seed", self.seed, where, least=0)
        self.engine = dict(sorted(self.engine.items()))
        for name in self.engine.keys() & set(_SET_HERE):
            raise ParameterError(f"{where}: engine must not have {name!r}, which is set here")
        self.engine_version = engine_version()
        if self.batch_invariant is None:
            said = os.environ.get(INVARIANT)
            self.batch_invariant = has_batch_invariance() if said is None else said == "1"

    @cached_property
    def _config(self) -> Any:
        config = super()._config
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(_NO_T5.format(self.model))
        return config

    @cached_property
    def _engine(self) -> Any:
        """The model, loaded, in this process."""
        if engine_version() != self.engine_version:
            raise ModelError(
                f"{self.model!r} was asked for with vLLM {self.engine_version}, and a worker has "
                f"{engine_version()}: install one version everywhere, or answers may differ"
            )
        invariant = str(int(bool(self.batch_invariant)))
        if os.environ.setdefault(INVARIANT, invariant) != invariant:
            raise ModelError(
                f"{self.model!r} has batch_invariant={self.batch_invariant}, but this process runs "
                f"vLLM with {INVARIANT}={os.environ[INVARIANT]}: it has one value for all models"
            )
        # requests are scheduled the same each time; with a process of its own they are not
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        if self.batch_invariant and not has_batch_invariance():
            raise ModelError(
                f"{self.model!r}: batch_invariant=True needs an NVIDIA GPU of compute capability "
                f"{CAPABILITY[0]}.{CAPABILITY[1]} or above, and there is none here"
            )
        import vllm

        room = self._limit + self.max_new_tokens  # the rest of a long window would cost memory
        window = {"max_model_len": room} if room < 10**9 else {}
        try:
            with _random_states():
                return vllm.LLM(
                    model=self._folder,
                    dtype=self.dtype,
                    seed=self.seed,
                    trust_remote_code=False,
                    load_format="safetensors",
                    enable_prefix_caching=True,
                    **{**window, **self.engine},
                )
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(
                f"vLLM cannot load {self.model!r} ({text[:300]}); a smaller max_prompt_tokens, or "
                "engine={'gpu_memory_utilization': ...} where several models share a GPU, may help"
            ) from error

    def _in_batches(
        self, lengths: Any, new_tokens: int, run: Callable[[Any], Any], remedy: str
    ) -> Iterator[tuple[Any, Any]]:
        """Yield parts as large as `batch_tokens`, in the order of the prompts."""
        del remedy  # vLLM puts requests off where memory is short
        most = self.batch_tokens or int(lengths.sum()) + len(lengths) * new_tokens
        part = np.cumsum(lengths + new_tokens) // max(1, most)
        for number in np.unique(part):
            batch = np.flatnonzero(part == number)
            yield batch, run(batch)

    def _generate(self, rows: list[list[int]], noise: Any) -> list[str]:
        engine = self._engine
        import vllm

        def params(place: int) -> Any:
            if noise is None:
                return vllm.SamplingParams(
                    temperature=0.0, seed=self.seed, max_tokens=self.max_new_tokens
                )
            return vllm.SamplingParams(
                temperature=noise.temperature,
                seed=int(noise.streams[place].integers(2**31)),  # of seed and prompt alone
                max_tokens=self.max_new_tokens,
            )

        # neighbors share their beginnings
        order = sorted(range(len(rows)), key=rows.__getitem__)
        try:
            outputs = engine.generate(
                [{"prompt_token_ids": rows[place]} for place in order],
                [params(place) for place in order],
                use_tqdm=False,
            )
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(f"vLLM stopped over {self.model!r} ({text[:300]})") from error
        answers = dict(zip(order, (output.outputs[0].text for output in outputs), strict=True))
        return [answers[place] for place in range(len(rows))]


@contextlib.contextmanager
def _random_states() -> Iterator[None]:
    """Leave the user's random numbers as they are: vLLM seeds all that there are."""
    import torch

    python, numpy, of_torch = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(of_torch)


@hookimpl
def fairtk_backends() -> Iterable[BackendSpec]:
    """Return the kind of models that vLLM runs."""
    summary = "a decoder-only model by vLLM (no T5)"
    return [
        BackendSpec("vllm", "fairtk_vllm:VLLMCausal", summary, example="Qwen/Qwen2.5-0.5B-Instruct")
    ]
