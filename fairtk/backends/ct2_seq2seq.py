"""Encoder-decoder models by CTranslate2: the answers of transformers, sooner."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from fairtk.backends.ct2_conversion import require_ctranslate2
from fairtk.backends.ct2_process import TranslatorProcess
from fairtk.backends.memory import CPU_MOST, GPU_MOST
from fairtk.backends.sampling import GumbelNoise
from fairtk.backends.seq2seq import HuggingFaceSeq2Seq
from fairtk.errors import ParameterError


class CTranslate2Seq2Seq(HuggingFaceSeq2Seq):
    """An encoder-decoder model that CTranslate2 runs in float32; settings of `HuggingFaceSeq2Seq`.

    The model's files are converted on first use and kept in the user's cache folder
    (``$XDG_CACHE_HOME/fairtk/ctranslate2``), by their content. At each load the scores of one
    probe are compared with those of transformers. CTranslate2 runs in a process of its own (beside
    PISA it would crash), which ends with this object. Answers are those of transformers in float32,
    but where two candidates differ by rounding alone. It needs the extra ``fast``.

    Raises:
        MissingExtraError: ctranslate2, torch or transformers is not installed.
        ModelError: another version of ctranslate2; on use: no conversion for the model, or the
            probe's scores differ.
        ParameterError: a setting is out of its range, or a dtype other than float32.
    """

    identity_name: ClassVar[str] = "fairtk.backends.ct2_seq2seq.CTranslate2Seq2Seq"
    """As in the keys of answers that are kept; never changed."""

    samples: ClassVar[bool] = False
    LIBRARIES: ClassVar[tuple[str, ...]] = (*HuggingFaceSeq2Seq.LIBRARIES, "ctranslate2")

    def __init__(self, model: str, *, dtype: str = "float32", **settings: Any) -> None:
        if dtype not in ("auto", "float32"):
            raise ParameterError(
                f"CTranslate2Seq2Seq: dtype must be 'float32'; found {dtype!r} (use "
                "HuggingFaceSeq2Seq for half precision)"
            )
        super().__init__(model, dtype="float32", **settings)
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
        found: list[str] = self._tokenizer.convert_ids_to_tokens(range(len(self._tokenizer)))
        return found

    def _fitting_tokens(self) -> int:
        # no shape to estimate from; a batch that memory does not hold is halved
        return GPU_MOST if self._device.type == "cuda" else CPU_MOST

    def _generate(self, rows: list[list[int]], noise: GumbelNoise | None) -> list[str]:
        del noise  # `stream` refuses a temperature
        tokens = [[self._vocabulary[number] for number in row] for row in rows]
        found = self._translator.ask(
            tokens=tokens,
            max_batch_size=0,
            beam_size=self.num_beams,
            max_decoding_length=self.max_new_tokens,
            min_decoding_length=0,  # an empty answer is one, too
            max_input_length=0,
            length_penalty=1.0,
        )
        ids = [self._tokenizer.convert_tokens_to_ids(each) for each in found]
        texts: list[str] = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
        return texts
