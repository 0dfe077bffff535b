"""What the process of CTranslate2 does: it loads a model, then it translates.

CTranslate2 and PISA cannot share a process: both carry spdlog, whose unique symbols the loader
merges, and the one that comes second crashes. So nothing outside this process imports ctranslate2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairtk.backends.ct2_conversion import check_probe, converted
from fairtk.errors import FairtkError


def translating() -> Callable[[dict[str, Any]], tuple[list[list[str]], str]]:
    """Return what loads the model that the first request names, and translates by the others.

    It gives the tokens of answers, and what went wrong.
    """
    translator: Any = None

    def answer(asked: dict[str, Any]) -> tuple[list[list[str]], str]:
        nonlocal translator
        try:
            if translator is None:
                translator = _loaded(**asked)
                return [], ""
            found = translator.translate_batch(asked.pop("tokens"), **asked)
            return [each.hypotheses[0] for each in found], ""
        except FairtkError as error:
            return [], str(error)
        except (RuntimeError, ValueError, MemoryError) as error:
            return [], f"{type(error).__name__}: {error}"

    return answer


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
