"""The exceptions and warnings of fairtk.

All errors derive from `FairtkError`; `InputError` and its subclasses are also `ValueError`. A
message is one line: where, what was expected, what was given, and how to fix it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import ClassVar

from fairtk.wording import did_you_mean, install_hint, short

__all__ = [
    "ChangedWarning",
    "ColumnError",
    "DataWarning",
    "DownloadError",
    "DuplicateError",
    "FairtkError",
    "FairtkWarning",
    "FormatError",
    "IdentityError",
    "IneffectiveWarning",
    "InputError",
    "MeasureError",
    "MissingExtraError",
    "MissingPluginError",
    "MissingWarning",
    "ModelError",
    "NotFoundError",
    "ParameterError",
    "PluginError",
    "PluginWarning",
    "StageError",
    "StoreError",
    "TruncationWarning",
    "UndefinedWarning",
    "UnmatchedWarning",
    "WorkerError",
]


class FairtkError(Exception):
    """Base class of all errors of fairtk."""


class InputError(FairtkError, ValueError):
    """Data or settings are invalid."""


class ColumnError(InputError):
    """A column of a frame is missing, duplicate or of the wrong type."""


class DuplicateError(InputError):
    """Something unique occurs twice, such as a document in a ranking or a registered name."""


class ParameterError(InputError):
    """A setting of a transformer, measure or utility is invalid."""


class FormatError(InputError):
    """A file has an invalid format.

    Args:
        message: what was expected and what the file has.
        path: the file, a prefix of the message.
        line: the 1-based line number, after the path.

    Attributes:
        reason: the message without path and line.
        rows: the indices of the invalid rows, from 0; empty if the error is not about rows.
        check: the name of the check in `doctor`.
    """

    rows: Sequence[int] = ()
    check = ""

    def __init__(
        self, message: str, path: str | PathLike[str] | None = None, line: int | None = None
    ) -> None:
        self.reason = message
        self.path = path
        self.line = line
        place = "" if path is None else f"{path}:{'' if line is None else f'{line}:'} "
        super().__init__(place + message)


class NotFoundError(InputError):
    """A name is unknown.

    Args:
        kind: the kind of object, in the singular, e.g. ``"utility"``.
        name: the unknown name.
        known: the known names; the nearest is suggested.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"unknown {kind} {short(name)}{did_you_mean(str(name), known)}")


class MissingExtraError(FairtkError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: the missing package.
        extra: the extra of fairtk that installs it.
        needed_for: the object or function that requires it.
        also: a second command, for a package that the extra cannot install.
    """

    def __init__(self, package: str, extra: str, needed_for: str, also: str = "") -> None:
        super().__init__(
            f"{needed_for} requires the package {package!r}, which is not installed: "
            f"{install_hint(extra)}{also and f' && {also}'}"
        )


class MissingPluginError(InputError):
    """A plugin is not installed.

    Args:
        what: the object that it defines, e.g. ``"the command 'rag'"``.
        distribution: the distribution of a plugin of the project.
        owner: the plugin or module, if it is not of the project.
        remedy: what to do, if it is not of the project.
    """

    def __init__(
        self, what: str, distribution: str = "", *, owner: str = "", remedy: str = ""
    ) -> None:
        owner = owner or f"the plugin {distribution}"
        remedy = remedy or f"run pip install ./plugins/{distribution} in a checkout of fairtk"
        super().__init__(f"{what} is in {owner}, which is not installed: {remedy}")


class PluginError(FairtkError):
    """A plugin breaks a rule, such as a misspelled hook or a name that is taken."""


class MeasureError(FairtkError, ValueError):
    """A measure, a browsing model or a divergence returns something other than valid numbers."""


class ModelError(FairtkError, OSError):
    """A model cannot be found, loaded or used, or has unsafe weights."""


class NoModelError(ModelError, InputError):
    """A path is not a model folder."""


class DownloadError(FairtkError, OSError):
    """A file could not be downloaded completely."""


class IdentityError(InputError):
    """A stage or model has no content identity, so that its results cannot be stored."""


class StoreError(FairtkError, OSError):
    """The store of an experiment cannot be opened, read or written."""


class StageError(FairtkError):
    """A stage of a pipeline failed; the message names system, stage and query."""


class WorkerError(FairtkError):
    """Worker processes die repeatedly or cannot be reached."""


class FairtkWarning(UserWarning):
    """Base class of all warnings of fairtk."""

    NAME: ClassVar[str] = "fairtk"
    """The name on the command line."""


class UndefinedWarning(FairtkWarning):
    """A measure is undefined (NaN) for some queries."""

    NAME = "undefined"

    about: tuple[str, Sequence[str], str] | None = None
    """The measure, the qids and the reason; `None` if no measure emits the warning."""


class PluginWarning(FairtkWarning):
    """A plugin could not be loaded and is left out."""

    NAME = "plugin"


class DataWarning(FairtkWarning):
    """The data are valid but unusual, and this affects results."""

    NAME = "data"


class TruncationWarning(DataWarning):
    """Rankings are shorter than a measure's cutoff, or texts are longer than an encoder reads."""

    NAME = "truncation"


class MissingWarning(DataWarning):
    """Queries of the qrels are missing from the run; measures get the worst value for them."""

    NAME = "missing"


class ChangedWarning(DataWarning):
    """A system differs from the stored system of its name, so it runs again."""


class IneffectiveWarning(DataWarning):
    """Settings cancel each other, so a stage changes nothing."""


class UnmatchedWarning(DataWarning):
    """Qrels and run have few ids in common, so they may use different ids."""

    NAME = "unmatched"


WARNINGS = {
    kind.NAME: kind
    for kind in (
        *(UndefinedWarning, TruncationWarning, MissingWarning, UnmatchedWarning, DataWarning),
        PluginWarning,
    )
}
"""The classes of warnings by their names on the command line."""


def warn(message: str, kind: type[FairtkWarning] = DataWarning, stacklevel: int = 2) -> None:
    """Emit a warning; see `warnings.warn`."""
    warnings.warn(message, kind, stacklevel=stacklevel + 1)


def warning_name(kind: type[Warning]) -> str:
    """Return the name of a warning class; for other libraries, it is made of the class name."""
    if issubclass(kind, FairtkWarning):
        return kind.NAME
    return kind.__name__.removesuffix("Warning").lower() or "warning"
