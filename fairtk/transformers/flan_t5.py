"""FLAN-T5 (or any Hugging Face encoder-decoder model) as a PyTerrier transformer."""

from __future__ import annotations

from os import PathLike, fspath
from typing import ClassVar

from fairtk.backends import HuggingFaceSeq2Seq, require_packages
from fairtk.prompts import PromptBuilder
from fairtk.transformers.generator import Generator


class FlanT5(Generator):
    """Generates answers with a T5: beam search with 4 beams, no sampling, 128 new tokens.

    The frames are `Generator`'s. The model is loaded on first use, from a local folder, the hub's
    cache or the hub, from safetensors only. It needs the extra ``t5``.

    Args:
        model: a hub name, or a local folder with config.json, model.safetensors and
            tokenizer.json; any encoder-decoder model will do.
        prompt: a name (`fairtk.prompts.get`: ``"rag"``, ``"lamp-1"`` to ``"lamp-7"``, a
            plugin's) or a prompt builder.
        cutoff: how many documents a prompt has at most, at least 1.
        device: ``"auto"`` (CUDA if there is one, else CPU) or a torch device.
        dtype: ``"auto"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        num_beams: beams per prompt.
        max_new_tokens: the most tokens of an answer.
        max_prompt_tokens: the most tokens of a prompt; None for the model's own (512 for T5).
        batch_tokens: the most tokens of a batch; None for what fits into memory.
        revision: branch, tag or commit on the hub.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ParameterError: a setting is out of its range.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("model", "prompt", "cutoff"),
        *HuggingFaceSeq2Seq.SETTINGS[1:],
    )

    def __init__(
        self,
        model: str | PathLike[str] = "google/flan-t5-small",
        prompt: str | PromptBuilder = "rag",
        cutoff: int = 5,
        *,
        device: str = "auto",
        dtype: str = "auto",
        num_beams: int = 4,
        max_new_tokens: int = 128,
        max_prompt_tokens: int | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
    ) -> None:
        require_packages("FlanT5")
        backend = HuggingFaceSeq2Seq(
            fspath(model),
            device=device,
            dtype=dtype,
            num_beams=num_beams,
            max_new_tokens=max_new_tokens,
            max_prompt_tokens=max_prompt_tokens,
            batch_tokens=batch_tokens,
            revision=revision,
        )
        super().__init__(backend, prompt, cutoff)
        for name in backend.SETTINGS:
            setattr(self, name, getattr(backend, name))
