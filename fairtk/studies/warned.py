"""What is warned of while a study works: said as ever, and kept for its report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from fairtk.errors import FairtkWarning


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Give a list that has, after the block, what fairtk warned of in it; each text once.

    The warnings are given when the block ends, each once.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield said
    once = {(warning.category, str(warning.message)): warning for warning in reversed(heard)}
    for (category, text), warning in reversed(once.items()):
        if issubclass(category, FairtkWarning):
            said.append(text)
        warnings.warn_explicit(warning.message, category, warning.filename, warning.lineno)
