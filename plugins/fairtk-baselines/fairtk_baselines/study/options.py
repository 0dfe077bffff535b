"""Options of a study's system, as its configuration gives them, checked by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairtk.errors import ParameterError, suggestion


def check_names(options: Mapping[str, Any], known: Iterable[str], system: str) -> dict[str, Any]:
    """Return the options as a dictionary, if the system has them all.

    Args:
        options: what the user's configuration gives.
        known: the names of the system's options.
        system: the system's name, for the message.

    Raises:
        ParameterError: an option is unknown; the nearest name is suggested.
    """
    names = set(known)
    for name in options:
        if name not in names:
            raise ParameterError(
                f"the system {system!r} has no option {name!r}{suggestion(str(name), names)}"
            )
    return dict(options)
