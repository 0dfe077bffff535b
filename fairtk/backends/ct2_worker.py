"""The process in which CTranslate2 runs: it reads requests as lines of JSON, and answers so.

CTranslate2 and PISA cannot share a process: both carry spdlog, whose unique symbols the loader
merges, and the one that comes second crashes. So nothing outside this process imports ctranslate2.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from fairtk.backends.ct2_conversion import check_probe, converted
from fairtk.errors import FairtkError


def serve() -> None:
    """Load the model that the first line names, then translate what the other lines ask for."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    translator: Any = None
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            if translator is None:
                translator = _loaded(**asked)
                answer: dict[str, Any] = {"ready": True}
            else:
                found = translator.translate_batch(asked.pop("tokens"), **asked)
                answer = {"tokens": [each.hypotheses[0] for each in found]}
        except (FairtkError, RuntimeError, ValueError, MemoryError) as error:
            known = isinstance(error, FairtkError)
            answer = {"error": str(error) if known else f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _loaded(
    folder: str, digest: str, name: str, device: str, device_index: int, threads: int
) -> Any:
    import ctranslate2

    place = converted(folder, digest, name)
    translator = ctranslate2.Translator(
        str(place),
        device=device,
        device_index=device_index,
        compute_type="float32",
        intra_threads=threads,
        inter_threads=1,
    )
    check_probe(translator, place, name)
    return translator
