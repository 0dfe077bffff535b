"""From a name and options to a utility."""

from __future__ import annotations

from typing import Any

from fairtk.errors import MissingExtraError, PluginError
from fairtk.plugins import registry
from fairtk.starting.printing import load_target
from fairtk.string_forms import refuse_unknown_options


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
        refuse_unknown_options(f"the utility {name!r}", factory, options)
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
