"""What the readers of LaMP's two files share: what becomes of malformed entries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

from fairtk.errors import FormatError, ParameterError, listed, warn
from fairtk.files import described

OnBad = Literal["error", "skip"]
"""What becomes of malformed entries."""

ADVICE = '; on_bad="skip" leaves such entries out'
"""What to do about malformed entries."""


def check_on_bad(value: Any) -> OnBad:
    """Return the setting; anything but its two values is a `ParameterError`."""
    if value not in get_args(OnBad):
        raise ParameterError(f"on_bad must be one of {list(get_args(OnBad))}; found {value!r}")
    return cast(OnBad, value)


class LeftOut:
    """What ``on_bad="skip"`` leaves out of a file: why and, as far as known, which ids."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self._reasons: dict[str, list[str]] = {}

    def add(self, what: str, reason: str, name: str) -> None:
        """Note that one of ``what`` was left out; ``name`` is its id, or ``""``."""
        self._reasons.setdefault(what, []).append(reason)
        if name:
            self.ids.add(name)

    def warn(self, where: str, path: Path) -> None:
        """Warn once for a file, with counts and the first reasons, if anything was left out."""
        for what, reasons in self._reasons.items():
            warn(f"{path}: {where}: {len(reasons)} {what} left out: {listed(reasons, 3)}")


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return an object; anything else is a `FormatError` that says what it is."""
    if not isinstance(value, dict):
        raise FormatError(f"{what} must be an object; found {described(value)}")
    return value
