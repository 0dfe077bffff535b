"""Stands for vLLM 0.33.0 where there is no GPU: its signatures, and transformers behind them.

Parameters, their order, defaults and kinds are those of vllm.LLM.__init__ and LLM.generate, of
vllm.SamplingParams (the fields that are used), vllm.outputs.RequestOutput and CompletionOutput of
that version; so are the errors of prompts that are empty or too long.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__version__ = "0.33.0"
loaded: list[LLM] = []
"""What was made, for tests to look at."""

ENGINE_ARGS = {"enable_prefix_caching", "load_format", "max_model_len", "max_num_seqs"}
"""Of the arguments of vllm.EngineArgs that LLM passes on, those of the tests."""


@dataclass(kw_only=True)
class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int | None = 16
    skip_special_tokens: bool = True


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: Sequence[int]
    cumulative_logprob: float | None
    logprobs: Any
    routed_experts: Any = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    lora_request: Any = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int] | None
    prompt_logprobs: Any
    outputs: list[CompletionOutput]
    finished: bool
    num_cached_tokens: int | None = field(default=None, kw_only=True)


class VLLMValidationError(Exception):
    """As vllm.exceptions has it: no ValueError."""


class LLM:
    def __init__(
        self,
        model: str,
        *,
        runner: str = "auto",
        convert: str = "auto",
        tokenizer: str | None = None,
        tokenizer_mode: str = "auto",
        skip_tokenizer_init: bool = False,
        trust_remote_code: bool = False,
        allowed_local_media_path: str = "",
        allowed_media_domains: list[str] | None = None,
        tensor_parallel_size: int = 1,
        dtype: str = "auto",
        quantization: str | None = None,
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        chat_template: str | None = None,
        seed: int = 0,
        gpu_memory_utilization: float = 0.92,
        cpu_offload_gb: float = 0,
        enforce_eager: bool = False,
        **kwargs: Any,
    ) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if kwargs.keys() - ENGINE_ARGS:
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument {kwargs}")
        if gpu_memory_utilization > 1:
            raise ValueError("Free memory on device is less than desired GPU memory utilization")
        random.seed(seed)
        self.arguments = {
            **{"dtype": dtype, "seed": seed, "tensor_parallel_size": tensor_parallel_size},
            **{"trust_remote_code": trust_remote_code, **kwargs},
        }
        self.environment = {n: v for n, v in os.environ.items() if n.startswith("VLLM_")}
        self.max_model_len = kwargs["max_model_len"]
        self.calls: list[list[list[int]]] = []
        self.params: list[SamplingParams] = []
        self._tokenizer = AutoTokenizer.from_pretrained(tokenizer or model)
        self._model = AutoModelForCausalLM.from_pretrained(model).eval()
        loaded.append(self)

    def generate(
        self,
        prompts: Any,
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: Any = True,
        lora_request: Any = None,
        priority: int | Sequence[int] | None = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        mm_processor_kwargs: dict[str, Any] | None = None,
    ) -> list[RequestOutput]:
        rows = [prompt["prompt_token_ids"] for prompt in prompts]
        for row in rows:
            if not row:
                raise VLLMValidationError("The decoder prompt cannot be empty")
            if len(row) >= self.max_model_len:
                raise VLLMValidationError(f"The decoder prompt (length {len(row)}) is longer than")
        if not isinstance(sampling_params, Sequence) or len(sampling_params) != len(rows):
            raise VLLMValidationError("The lengths of prompts and params must be the same.")
        self.calls.append(rows)
        self.params += sampling_params
        pairs = zip(rows, sampling_params, strict=True)
        return [self._output(number, row, one) for number, (row, one) in enumerate(pairs)]

    def _output(self, number: int, row: list[int], params: SamplingParams) -> RequestOutput:
        import torch

        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(params.seed or 0)
            sampling = {"do_sample": True, "temperature": params.temperature, "top_k": 0}
            made = self._model.generate(
                input_ids=torch.tensor([row]),
                attention_mask=torch.ones(1, len(row), dtype=torch.long),
                max_new_tokens=params.max_tokens,
                **(sampling if params.temperature else {"do_sample": False}),
            )[0, len(row) :].tolist()
        text = self._tokenizer.decode(made, skip_special_tokens=params.skip_special_tokens)
        ended = made[-1:] == [self._tokenizer.eos_token_id]
        output = CompletionOutput(
            0, text, made, None, None, finish_reason="stop" if ended else "length"
        )
        return RequestOutput(str(number), None, row, None, [output], True)
