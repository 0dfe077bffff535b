"""The base class of transformers: settings, equality by content, input checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt
from pyterrier.validate import InputValidationError

from fairtk.errors import ColumnError
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    QID,
    SAMPLE,
    SCORE,
    EqualByContent,
    Run,
    digest,
    identity_name,
    require_columns,
)
from fairtk.frames.accepted import as_frame, frame_of
from fairtk.frames.columns import BROWSING, CUTOFF, plain_columns
from fairtk.plugins.references import help_address
from fairtk.remarks import EQUAL_SCORES, OWN_CANDIDATE, RemarkKind, register_kinds
from fairtk.settings import Configurable, names_of_settings
from fairtk.stage_context import leave_notes as leave_notes
from fairtk.stage_context import remark as remark
from fairtk.wording import format_list, missing_columns

_REPR_AS_DIGEST = (pd.DataFrame, pd.Series)


class TransformerInputError(ColumnError, InputValidationError):  # type: ignore[misc]
    """The input of a transformer has missing columns.

    It is also an `InputValidationError`, from which PyTerrier's inspection learns the required
    columns.
    """

    def __init__(self, message: str, modes: list[Any]) -> None:
        ColumnError.__init__(self, message)
        self.modes = modes

    __str__ = ColumnError.__str__


class FairTransformer(Configurable, EqualByContent, pt.Transformer):  # type: ignore[misc]
    """A transformer whose output, `repr` and equality depend on its settings.

    A subclass lists its settings in `SETTINGS`, takes each as an argument and stores it as an
    attribute of that name. Two transformers are equal if class and settings are equal (frames are
    compared by content), so ``pt.Experiment(plan="tree")`` shares equal stages only.

    Assigning a setting, as `set_parameter` and ``pt.GridSearch`` do, has the effect of a new
    object: see `fairtk.settings.Configurable`. A subclass that loads weights lists them in
    `LOADED`.

    A plugin's transformer that makes remarks (`fairtk.transformers.remark`) declares their kinds in
    `REMARKS`.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ()
    REMARKS: ClassVar[Mapping[str, RemarkKind]] = {}
    """The kinds of remarks of a plugin's transformer, by name (``"plugin:kind"``)."""
    leaves_notes: ClassVar[bool] = False
    """Whether `transform` leaves notes on queries (`fairtk.transformers.leave_notes`)."""
    is_cheap: ClassVar[bool] = False
    """Whether computing the rows is faster than reading them from a store."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        register_kinds(cls.REMARKS, f"transformer {cls.__name__}")

    @property
    def schematic(self) -> dict[str, Any]:
        """The parts of PyTerrier's schematics: the URL of the class in the reference, and settings.

        Without the URL, PyTerrier requests pyterrier.readthedocs.io, which fails offline.
        """
        settings = self.settings().items()
        return {
            "help_url": help_address(type(self)),
            "settings": {n: v for n, v in settings if not isinstance(v, pt.Transformer)},
        }

    def __call__(self, inp: Any) -> Any:
        """Apply the transformer to a frame, a table of another library, or dicts."""
        is_run = isinstance(inp, Mapping)
        frame = as_frame(inp, SCORE, type(self).__name__) if is_run else frame_of(inp)
        if not isinstance(frame, Iterable):
            require_columns(frame, (), type(self).__name__)  # raises an error
        return super().__call__(frame)

    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self.SETTINGS}

    def get_parameter(self, name: str) -> Any:
        """Return a setting as it was given, so that `set_parameter` restores it."""
        return self.given(name) if name in names_of_settings(self) else super().get_parameter(name)

    def set_parameter(self, name: str, value: Any) -> None:
        """Change a setting, with the effect of a new object.

        Raises:
            ValueError: the setting is unknown, or the value is invalid; nothing is changed.
        """
        if name in names_of_settings(self):
            setattr(self, name, value)
        else:
            super().set_parameter(name, value)

    def subtransformers(self) -> dict[str, Any]:
        """Return the settings that are transformers, for PyTerrier's schematics.

        PyTerrier 1.1's default takes an empty tuple for a list of transformers, and fails.
        """
        transformers = {}
        for name, value in self.settings().items():
            stages = value if isinstance(value, list | tuple) else [value]
            if stages and all(isinstance(stage, pt.Transformer) for stage in stages):
                transformers[name] = value
        return transformers

    def digest(self) -> str:
        """Return the content digest of class and settings."""
        return digest([identity_name(type(self)), self.settings()])

    def __repr__(self) -> str:
        texts = ", ".join(f"{name}={_text(value)}" for name, value in self.settings().items())
        return f"{type(self).__name__}({texts})"

    __str__ = __repr__

    def check_inputs(self, inp: pd.DataFrame, *modes: list[str]) -> int:
        """Return the index of the first mode whose columns the frame has.

        Args:
            inp: the input of `transform`.
            modes: lists of required columns, the preferred list first.

        Raises:
            ColumnError: `inp` is not a frame, has a duplicate column, or is a frame X.
            TransformerInputError: columns are missing in each mode.
        """
        plain_columns(inp, type(self).__name__)
        if {EXPOSURE, BROWSING, CUTOFF} <= set(inp.columns):
            raise ColumnError(
                f"{type(self).__name__}: expected rankings, got exact exposure (columns "
                f"{EXPOSURE!r}, {BROWSING!r} and {CUTOFF!r}); make exact exposure the last stage, "
                "or draw rankings with FairSampler"
            )
        if len(inp.columns) and isinstance(inp.columns, pd.RangeIndex):
            # PyTerrier's chains convert other objects to rows before any stage sees them
            raise ColumnError(
                f"{type(self).__name__}: expected named columns, got columns 0 to "
                f"{len(inp.columns) - 1}; pass a pandas DataFrame to the pipeline, e.g. "
                "table.to_pandas()"
            )
        for index, required in enumerate(modes):
            if all(column in inp.columns for column in required):
                return index
        from pyterrier.validate import _TransformerMode

        missing = [[column for column in mode if column not in inp.columns] for mode in modes]
        fewest = min(missing, key=len)
        raise TransformerInputError(
            f"{type(self).__name__}: "
            + missing_columns(
                fewest,
                " or ".join(format_list(mode, 9) for mode in modes),
                inp.columns,
            ),
            [
                _TransformerMode(missing_columns=columns, extra_columns=[], mode_name=f"mode {i}")
                for i, columns in enumerate(missing)
            ],
        )

    def refuse_samples(self, inp: pd.DataFrame, remedy: str = "") -> None:
        """Raise an error if the frame has the column ``sample``.

        Args:
            inp: the input of `transform`.
            remedy: the advice in the message; by default that for rerankers.
        """
        if SAMPLE in inp.columns:
            name = type(self).__name__
            remedy = remedy or f"put {name} before the sampler, or wrap a reranker in PerSample"
            raise ColumnError(
                f"{name}: expected one ranking per query, got sampled rankings (column "
                f"{SAMPLE!r}); {remedy}"
            )

    def plain_run(self, inp: pd.DataFrame) -> Run:
        """Return the input of a sampler as a run with one ranking per query."""
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        remedy = "sample the retriever's run, or keep one sample and drop the column"
        self.refuse_samples(inp, remedy)
        return Run(inp, type(self).__name__)

    def remark_on_candidates(self, run: Run) -> None:
        """Remark on queries whose candidates have equal scores, or are the query itself.

        For samplers, and other transformers that turn scores into probabilities.
        """
        self.remark_on_equal_scores(run, "the sampler is uniform", stacklevel=6)
        is_own = np.zeros(len(run.qids), dtype=bool)
        is_own[run.query[run.own_documents()]] = True
        remark(OWN_CANDIDATE, type(self).__name__, is_own, run.qids.text, stacklevel=5)

    def remark_on_equal_scores(self, run: Run, effect: str, stacklevel: int = 5) -> None:
        """Remark on queries with several documents whose scores are all equal.

        Args:
            run: the input.
            effect: the effect of equal scores, in words.
            stacklevel: see `warnings.warn`.
        """
        start, score = run.ranking_start, run.scores[run.order]
        is_equal = (score[start[:-1]] == score[start[1:] - 1]) & (np.diff(start) > 1)
        qids = run.qids[run.ranking_query]
        remark(EQUAL_SCORES, type(self).__name__, is_equal, qids, effect, stacklevel)


def _text(value: Any) -> str:
    if isinstance(value, _REPR_AS_DIGEST):
        return f"<{len(value)} rows #{digest(value, 4)}>"
    return repr(value)
