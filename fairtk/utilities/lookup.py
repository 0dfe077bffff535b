"""From a name and options to a utility."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from fairtk.errors import MissingExtraError, ParameterError, PluginError, suggestion
from fairtk.plugins import registry
from fairtk.starting.printing import load_target


def get(name: str, **options: Any) -> Any:
    """Return the utility that is registered under a name.

    Args:
        name: e.g. ``"rougeL"``; ``fairtk.plugins.registry.utilities.names()`` lists them.
        **options: the options of that utility, e.g. ``labels=[...]`` of ``accuracy``.

    Returns:
        An object with ``f(predictions, golds) -> list[float]``, ``name`` and ``higher_is_better``
        (see `fairtk.utilities.Utility`).

    Raises:
        NotFoundError: no utility has the name.
        ParameterError: the utility has no such option, or the option a value that cannot be.
        MissingExtraError: the utility needs a package that is not installed.
    """
    spec = registry.utilities.get(name)
    try:
        factory = load_target(spec.target)
        _check_options(name, factory, options)
        utility = factory(**options)
    except ModuleNotFoundError as error:
        if spec.extra is None or error.name is None or isinstance(error, MissingExtraError):
            raise
        raise MissingExtraError(error.name, spec.extra, f"the utility {name!r}") from None
    for attribute in ("name", "higher_is_better"):
        if not hasattr(utility, attribute):
            raise PluginError(
                f"the utility {name!r} ({spec.target}) gives a {type(utility).__name__} without "
                f"{attribute!r}; subclass fairtk.utilities.Utility"
            )
    return utility


def _check_options(name: str, factory: Callable[..., Any], options: dict[str, Any]) -> None:
    parameters = inspect.signature(factory).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            tail = suggestion(option, parameters) if parameters else "; it has no options"
            raise ParameterError(f"the utility {name!r} has no option {option!r}{tail}")
