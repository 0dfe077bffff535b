"""Words that parameters had before, refused with the word that they have now."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container
from typing import ParamSpec, TypeVar

from fairtk.errors import ParameterError

P = ParamSpec("P")
R = TypeVar("R")

OLD_WORDS = {
    "discount": "browsing",
    "missing": "unlabeled",
    "missing_groups": "unlabeled",
    "k": "cutoff",
    "depth": "cutoff",
}


def refuse_old_word(name: str, known: Container[str], where: str) -> None:
    """Raise a `ParameterError` if an unknown parameter has another name now."""
    now = OLD_WORDS.get(name)
    if now is not None and now in known:
        raise ParameterError(f"{where}: {name} is called {now} now; write {now}=...")


def refuses_old_words(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function refuse old words with the new ones, rather than as unexpected."""
    known = inspect.signature(function).parameters
    where = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                refuse_old_word(name, known, where)
        return function(*args, **kwargs)

    return checked
