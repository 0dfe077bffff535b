"""Decoder-only models in vLLM: ``vllm:MODEL`` in ``fairtk rag`` and ``fairtk qr``."""

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
from fairtk.plugins import ChatModelSpec, hookimpl

__all__ = ("VLLMCausal",)

VERSION = "0.33"
"""The supported minor version of vLLM; others are refused."""

INVARIANT = "VLLM_BATCH_INVARIANT"
CAPABILITY = (8, 0)
"""The minimum compute capability for batch invariance in vLLM 0.33 (its documentation)."""

_SET_HERE = (
    *("model", "tokenizer", "revision", "tokenizer_revision", "dtype", "seed", "load_format"),
    *("trust_remote_code", "enable_prefix_caching", "skip_tokenizer_init"),
)
_T5 = re.compile(r"(flan-|long-|m|by|um)?t5([-_.]|$)|flan-ul2", re.IGNORECASE)
_NO_T5 = (
    "vLLM does not support encoder-decoder models such as T5: use CTranslate2 (ct2:{0}) or "
    "transformers (t5:{0}) for {0!r}"
)


class MissingEngineError(MissingExtraError):
    """The package vllm is not installed, or has an unsupported version."""

    def __init__(self, installed: str | None) -> None:
        problem = f"got {installed}" if installed else "which is not installed"
        ImportError.__init__(
            self,
            f"VLLMCausal requires the package vllm {VERSION}, {problem}: in a checkout of fairtk, "
            "run pip install . './plugins/fairtk-vllm[engine]' in a separate environment, because "
            "vLLM pins torch",
        )


def engine_version() -> str:
    """Return the version of vLLM.

    Raises:
        MissingEngineError: vLLM is not installed, or its version is not `VERSION`.
    """
    try:
        version = metadata.version("vllm")
    except metadata.PackageNotFoundError:
        raise MissingEngineError(None) from None
    if version.split(".")[:2] != VERSION.split("."):
        raise MissingEngineError(version)
    return version


def has_batch_invariance() -> bool:
    """Return whether vLLM has batch-invariant kernels for this machine's device."""
    from vllm.platforms import current_platform  # does not initialize the device

    return bool(current_platform.is_cuda() and current_platform.has_device_capability(CAPABILITY))


@dataclass(eq=False, repr=False, kw_only=True)
class VLLMCausal(HuggingFaceCausal):
    """A decoder-only model that vLLM runs on the GPU, in this process.

    Prompts, chat templates, windows and safetensors files are those of
    `fairtk.llm.HuggingFaceCausal`; vLLM gets token ids. Common prefixes of prompts are computed
    once. With batch-invariant kernels, an answer does not depend on other prompts; without them, it
    may, because of rounding. At a temperature above 0, there is one seed per prompt.

    Args:
        model: a hub name or a local folder, not a T5.
        dtype: ``"bfloat16"``, ``"float16"`` or ``"float32"``. vLLM's ``"auto"`` is not supported,
            because it depends on the device.
        seed: the seed of the engine and of sampling, at least 0.
        batch_invariant: whether vLLM uses batch-invariant kernels (``VLLM_BATCH_INVARIANT``).
            `None` for the value of that variable, otherwise if the device has them. Set it if
            this process has a different device than the workers.
        engine: other arguments of ``vllm.LLM``, e.g. ``{"tensor_parallel_size": 2}``.
        batch_tokens: the maximum number of tokens, in prompts and answers, that vLLM gets at a
            time; it makes its own batches of them.

    Raises:
        ParameterError: a setting is out of its range, or not supported.
        ModelError: the model is a T5.
        MissingEngineError: vLLM is not installed, or its version is not `VERSION`.
    """

    identity_name = "fairtk_vllm.VLLMCausal"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("model", "dtype", "max_new_tokens", "max_prompt_tokens", "batch_tokens", "revision"),
        *("temperature", "seed", "batch_invariant", "engine", "engine_version"),
    )
    SAMPLING: ClassVar[tuple[str, ...]] = ("temperature",)
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
                f"{where}: dtype must be 'bfloat16', 'float16' or 'float32', got 'auto', which "
                "depends on the device"
            )
        for name, only in (("device", "cuda"), ("num_beams", 1)):
            if getattr(self, name) != only:
                raise ParameterError(
                    f"{where}: {name} must be {only!r}, got {getattr(self, name)!r} "
                    "(use HuggingFaceCausal instead; select GPUs with CUDA_VISIBLE_DEVICES)"
                )
        if _T5.match(self.model.rpartition("/")[2]):
            raise ModelError(_NO_T5.format(self.model))
        self.seed = checks.integer("seed", self.seed, where, least=0)
        self.engine = dict(sorted(self.engine.items()))
        for name in self.engine.keys() & set(_SET_HERE):
            raise ParameterError(f"{where}: engine must not have {name!r}, which VLLMCausal sets")
        self.engine_version = engine_version()
        if self.batch_invariant is None:
            value = os.environ.get(INVARIANT)
            self.batch_invariant = has_batch_invariance() if value is None else value == "1"

    @cached_property
    def _config(self) -> Any:
        config = super()._config
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(_NO_T5.format(self.model))
        return config

    @cached_property
    def _engine(self) -> Any:
        """The loaded model in this process."""
        if self._origin is not None:
            return self._origin._engine
        if engine_version() != self.engine_version:
            raise ModelError(
                f"expected vLLM {self.engine_version} for {self.model!r}, got {engine_version()} "
                "in a worker: install one version everywhere"
            )
        invariant = str(int(bool(self.batch_invariant)))
        if os.environ.setdefault(INVARIANT, invariant) != invariant:
            raise ModelError(
                f"{self.model!r} has batch_invariant={self.batch_invariant}, but this process has "
                f"{INVARIANT}={os.environ[INVARIANT]}: use one value for all models"
            )
        # in a separate process, the schedule of requests would vary
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        if self.batch_invariant and not has_batch_invariance():
            raise ModelError(
                f"{self.model!r}: batch_invariant=True requires an NVIDIA GPU of compute "
                f"capability {CAPABILITY[0]}.{CAPABILITY[1]} or above"
            )
        import vllm

        longest = self._limit + self.max_new_tokens  # a longer window would cost memory
        window = {"max_model_len": longest} if longest < 10**9 else {}
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
                f"vLLM cannot load {self.model!r} ({text[:300]}); try a smaller max_prompt_tokens, "
                "or engine={'gpu_memory_utilization': ...} if several models share a GPU"
            ) from error

    def _plan(self, lengths: Any) -> list[Any]:
        """Return parts as large as `batch_tokens`."""
        most = self.batch_tokens or int(lengths.sum()) + len(lengths) * self.max_new_tokens
        part = np.cumsum(lengths + self.max_new_tokens) // max(1, most)
        return [np.flatnonzero(part == number) for number in np.unique(part)]

    def _in_batches(
        self, lengths: Any, new_tokens: int, run: Callable[[Any], Any], remedy: str
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the batches and the output of `run`."""
        del new_tokens, remedy  # vLLM delays requests if memory is low
        for batch in self._plan(lengths):
            yield batch, run(batch)

    def _generate(self, rows: list[list[int]], noise: Any) -> list[tuple[str, str]]:
        engine = self._engine
        import vllm

        def params(index: int) -> Any:
            if noise is None:
                return vllm.SamplingParams(
                    temperature=0.0, seed=self.seed, max_tokens=self.max_new_tokens
                )
            return vllm.SamplingParams(
                temperature=noise.temperature,
                seed=int(noise.streams[index].integers(2**31)),  # depends only on seed and prompt
                max_tokens=self.max_new_tokens,
            )

        # sorted, so that neighbors have common prefixes
        order = sorted(range(len(rows)), key=rows.__getitem__)
        try:
            outputs = engine.generate(
                [{"prompt_token_ids": rows[index]} for index in order],
                [params(index) for index in order],
                use_tqdm=False,
            )
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(f"vLLM failed for {self.model!r} ({text[:300]})") from error
        answers = dict(zip(order, (output.outputs[0] for output in outputs), strict=True))
        return [
            (answers[index].text, answers[index].finish_reason or "stop")
            for index in range(len(rows))
        ]


@contextlib.contextmanager
def _random_states() -> Iterator[None]:
    """Restore the global random states, which vLLM seeds."""
    import torch

    python, numpy, of_torch = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(of_torch)


@hookimpl
def fairtk_chat_models() -> Iterable[ChatModelSpec]:
    """Return the kind of models of this plugin."""
    summary, example = "a decoder-only model by vLLM (no T5)", "Qwen/Qwen2.5-0.5B-Instruct"
    return [ChatModelSpec("vllm", "fairtk_vllm:VLLMCausal", summary, example=example)]
