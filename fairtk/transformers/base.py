"""What all of fairtk's transformers share: settings, equality by content, checked inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt
from pyterrier.validate import InputValidationError

from fairtk.errors import ColumnError
from fairtk.frames import DOCNO, EXPOSURE, QID, SAMPLE, SCORE, ByContent, Run, digest, identity_name
from fairtk.frames.accepted import frame_of, labels_or_scores
from fairtk.frames.columns import BROWSING, CUTOFF, plain_columns
from fairtk.plugins.references import help_address

_REPR_AS_DIGEST = (pd.DataFrame, pd.Series)


class TransformerInputError(ColumnError, InputValidationError):  # type: ignore[misc]
    """A transformer got a frame without the columns it needs.

    It is an `InputValidationError` too, which is how PyTerrier's inspection learns what a
    transformer takes.
    """

    def __init__(self, message: str, modes: list[Any]) -> None:
        ColumnError.__init__(self, message)
        self.modes = modes

    __str__ = ColumnError.__str__


class FairTransformer(ByContent, pt.Transformer):  # type: ignore[misc]
    """A transformer whose settings decide what it does, what it prints and what it equals.

    A subclass names its settings in `SETTINGS` and keeps each as an attribute of that name. Two
    transformers are equal exactly when class and all settings are equal, frames by content: that
    lets ``pt.Experiment(plan="tree")`` share prefixes and never merge two different systems.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ()
    is_cheap: ClassVar[bool] = False
    """Whether an experiment makes its rows again faster than it reads them from a store."""

    @property
    def schematic(self) -> dict[str, Any]:
        """What PyTerrier's schematics show: the address of the class's entry in the reference.

        Without one they ask pyterrier.readthedocs.io, and fail where there is no network.
        """
        return {"help_url": help_address(type(self))}

    def __call__(self, inp: Any) -> Any:
        """Apply the transformer to a frame, a table of another library, or dicts, as PyTerrier."""
        run = isinstance(inp, Mapping)
        frame = labels_or_scores(inp, SCORE, type(self).__name__) if run else frame_of(inp)
        return super().__call__(frame)

    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self.SETTINGS}

    def subtransformers(self) -> dict[str, Any]:
        """Return the settings that are transformers, for PyTerrier's schematics.

        Left to itself, PyTerrier 1.1 takes an empty tuple for a list of transformers, and fails.
        """
        own = {}
        for name, value in self.settings().items():
            stages = value if isinstance(value, list | tuple) else [value]
            if stages and all(isinstance(stage, pt.Transformer) for stage in stages):
                own[name] = value
        return own

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
            inp: the frame that `transform` got.
            modes: lists of needed columns, the preferred one first.

        Raises:
            ColumnError: it is no frame, a column stands twice, or it is a frame X.
            TransformerInputError: no mode fits; names the transformer and what is missing.
        """
        plain_columns(inp, type(self).__name__)
        if {EXPOSURE, BROWSING, CUTOFF} <= set(inp.columns):
            raise ColumnError(
                f"{type(self).__name__} takes rankings, but its input is exact exposure (it has "
                f"the columns {EXPOSURE!r}, {BROWSING!r} and {CUTOFF!r}), which is for measures: "
                "let it end the pipeline, or draw rankings with FairSampler"
            )
        if len(inp.columns) and isinstance(inp.columns, pd.RangeIndex):
            # a chain of PyTerrier makes rows of what is no DataFrame before any stage sees it
            raise ColumnError(
                f"{type(self).__name__} needs a frame whose columns have names; these are numbered "
                f"from 0 to {len(inp.columns) - 1}: give a chain (>>) a pandas DataFrame, e.g. "
                "table.to_pandas() of what another library made"
            )
        for index, needed in enumerate(modes):
            if all(column in inp.columns for column in needed):
                return index
        from pyterrier.validate import _TransformerMode

        lacking = [[column for column in mode if column not in inp.columns] for mode in modes]
        raise TransformerInputError(
            f"{type(self).__name__} needs the columns {' or '.join(map(str, modes))}; missing: "
            f"{min(lacking, key=len)}, found: {list(inp.columns)}",
            [
                _TransformerMode(missing_columns=missing, extra_columns=[], mode_name=f"mode {i}")
                for i, missing in enumerate(lacking)
            ],
        )

    def refuse_samples(self, inp: pd.DataFrame, remedy: str = "") -> None:
        """Raise unless the frame is a plain run, without the column ``sample``.

        Args:
            inp: the frame that `transform` got.
            remedy: what to do about it, if not what rerankers do.
        """
        if SAMPLE in inp.columns:
            name = type(self).__name__
            remedy = remedy or f"put {name} before the sampler, or wrap a reranker in PerSample"
            raise ColumnError(
                f"{name} takes one ranking per query, but its input has the column {SAMPLE!r}: it "
                f"is sampled already; {remedy}"
            )

    def plain_run(self, inp: pd.DataFrame) -> Run:
        """Return the run that a sampler starts from, which has one ranking per query."""
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        remedy = "sample the retriever's run, or drop the column from a single sample"
        self.refuse_samples(inp, remedy)
        return Run(inp, type(self).__name__)


def _text(value: Any) -> str:
    if isinstance(value, _REPR_AS_DIGEST):
        return f"<{len(value)} rows #{digest(value, 4)}>"
    return repr(value)
