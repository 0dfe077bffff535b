"""All exceptions and warnings that fairtk raises on purpose.

Everything derives from `FairtkError`, so a service can catch one class. Bad data and bad settings
are `ValueError` as well (`InputError`), so that code which knows nothing of fairtk still sees the
usual kind. Messages are one line: what was expected, what was found, where, and what to do.
"""

from __future__ import annotations

import difflib
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import ClassVar

__all__ = [
    "ColumnError",
    "DataWarning",
    "DownloadError",
    "DuplicateError",
    "FairtkError",
    "FairtkWarning",
    "FormatError",
    "IdentityError",
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
    "listed",
    "suggestion",
]


class FairtkError(Exception):
    """Base of all errors that fairtk raises on purpose."""


class InputError(FairtkError, ValueError):
    """Data or settings that cannot be used as they are."""


class ColumnError(InputError):
    """A frame lacks a column, or a column has the wrong type."""


class DuplicateError(InputError):
    """Something that must be unique (a document of a ranking, a registered name) occurs twice."""


class ParameterError(InputError):
    """A setting of a transformer, measure or utility is out of its range."""


class FormatError(InputError):
    """A file does not have the form it should have.

    Args:
        message: what was expected and what was found.
        path: the file, put in front of the message.
        line: the 1-based line number, put behind the path.

    Attributes:
        reason: the message without the place.
        rows: the rows of the file that break the rule, from 0; empty if it is not about rows.
        check: what `doctor` calls it.
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
    """A name that nothing is registered under.

    Args:
        kind: what was looked for, in the singular, e.g. ``"utility"``.
        name: the name that was asked for.
        known: the names that exist; the nearest is suggested.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"unknown {kind} {name!r}{suggestion(str(name), known)}")


class MissingExtraError(FairtkError, ImportError):
    """An optional dependency is needed and not installed.

    Args:
        package: the package that could not be imported.
        extra: the extra of fairtk that installs it.
        needed_for: what was asked for.
    """

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed: "
            f"{install_hint(extra)}"
        )


class MissingPluginError(InputError):
    """A name that one of the project's plugins gives, which is not installed.

    Args:
        what: what was asked for, e.g. ``"the generator 'vllm'"``.
        distribution: the plugin's.
    """

    def __init__(self, what: str, distribution: str) -> None:
        super().__init__(
            f"{what} is in the plugin {distribution}, which is not installed: run "
            f"pip install ./plugins/{distribution} in a checkout of fairtk"
        )


class PluginError(FairtkError):
    """A plugin breaks a rule, such as a misspelled hook or a name that is taken."""


class MeasureError(FairtkError, ValueError):
    """A measure gives something else than numbers, or wants to end the program."""


class ModelError(FairtkError, OSError):
    """The weights of a model cannot be found, or are stored in an unsafe form."""


class NoModelError(ModelError, InputError):
    """What was named as a model's folder is none."""


class DownloadError(FairtkError, OSError):
    """A file could not be downloaded completely."""


class IdentityError(InputError):
    """A stage or model has no content identity, so that its results cannot be kept."""


class StoreError(FairtkError, OSError):
    """The store of an experiment cannot be opened, read or written; what it holds stays."""


class StageError(FairtkError):
    """A stage of a pipeline failed; names system, stage and query."""


class WorkerError(FairtkError):
    """Worker processes ended again and again, or cannot be reached."""


class FairtkWarning(UserWarning):
    """Something that a reader of the result should know."""

    NAME: ClassVar[str] = "fairtk"
    """What the command line calls it."""


class UndefinedWarning(FairtkWarning):
    """The definition of a measure leaves the value of some queries open; they are NaN."""

    NAME = "undefined"

    about: tuple[str, Sequence[str], str] | None = None
    """The measure, the queries and why, of one that a measure gives."""


class PluginWarning(FairtkWarning):
    """A plugin could not be loaded; everything else works."""

    NAME = "plugin"


class DataWarning(FairtkWarning):
    """The data can be used, but a reader of the result should know something about them."""

    NAME = "data"


class TruncationWarning(DataWarning):
    """Rankings have fewer documents than a measure of exposure reads, so values do not compare."""

    NAME = "truncation"


class MissingWarning(DataWarning):
    """A run lacks queries of the qrels; they count with the worst value."""

    NAME = "missing"


class UnmatchedWarning(DataWarning):
    """Labels and run have hardly an id in common: they may name the same things differently."""

    NAME = "unmatched"


WARNINGS = {
    kind.NAME: kind
    for kind in (
        *(UndefinedWarning, TruncationWarning, MissingWarning, UnmatchedWarning, DataWarning),
        PluginWarning,
    )
}
"""All warnings by name, as ``fairtk --help`` lists them."""


def warn(message: str, kind: type[FairtkWarning] = DataWarning, stacklevel: int = 2) -> None:
    """Warn, as `warnings.warn` does."""
    warnings.warn(message, kind, stacklevel=stacklevel + 1)


def warning_name(kind: type[Warning]) -> str:
    """Return the name of a kind of warning; one that is not fairtk's is named after its class."""
    if issubclass(kind, FairtkWarning):
        return kind.NAME
    return kind.__name__.removesuffix("Warning").lower() or "warning"


def install_hint(extra: str = "") -> str:
    """Return the command that installs fairtk, with an extra.

    Until there is a release it is run in a checkout.
    """
    return f"pip install '.[{extra}]'" if extra else "pip install ."


_SHOWN = frozenset("\t\n")


def printable(text: str) -> str:
    r"""Return a text that is safe on a terminal: control characters as ``\x1b``, ``\u202e``.

    Ids and file names are data of others. Controls, marks that turn the direction of text, and
    halves of characters are escaped; tabs and line ends stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if c not in _SHOWN and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else c
        for c in text
    )


def suggestion(name: str, known: Iterable[str], limit: int = 12) -> str:
    """Return the tail of a not-found message: the nearest known name, or the list of them.

    Args:
        name: what was asked for.
        known: what exists.
        limit: how many names are listed when none is near.
    """
    names = sorted({str(k) for k in known})
    near = difflib.get_close_matches(name.lower(), {n.lower() for n in names}, n=1, cutoff=0.6)
    if near:
        alike = [n for n in names if n.lower() == near[0]]  # NDCG and nDCG: case decides
        nearest = max(alike, key=lambda n: difflib.SequenceMatcher(None, name, n).ratio())
        return f"; did you mean {nearest!r}?"
    if not names:
        return "; none is registered"
    tail = ", ..." if len(names) > limit else ""
    return f"; known: {', '.join(names[:limit])}{tail}"


def such_rows(count: int) -> str:
    """Return ``"1 such row"`` or ``"7 such rows"``."""
    return f"{count} such row{'' if count == 1 else 's'}"


def listed(items: Iterable[object], limit: int = 5) -> str:
    """Return the first items of a list in words: ``'a', 'b', 'c' and 17 more``."""
    values = list(items)
    shown = ", ".join(repr(v) for v in values[:limit])
    rest = len(values) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown
