"""`FairMeasure`: a measure's declarations, and the checks of its values.

A measure is a class with declarations and one method: `score_query` scores one query, `score_all`
scores all queries at once with array operations on a `LabeledRun`, as the built-in measures do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any, ClassVar

import ir_measures
import numpy as np
import pandas as pd

from fairtk.display.tables import frame_html
from fairtk.errors import FairtkError, MeasureError, ParameterError
from fairtk.frames import (
    DOCNO,
    LABEL,
    QID,
    SCORE,
    EqualByContent,
    FloatArray,
    ObjectArray,
    Qrels,
)
from fairtk.frames.accepted import as_frame
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import NOT_GIVEN, Param, as_param
from fairtk.measures.scores import Scores
from fairtk.plugins import registry
from fairtk.remarks import KINDS, Remark, register_kinds
from fairtk.remarks import RemarkKind as RemarkKind
from fairtk.wording import did_you_mean


@contextmanager
def named_failures(measure: FairMeasure, qid: str = "") -> Iterator[None]:
    """Add the measure, its plugin and the query to errors.

    Raises:
        ParameterError: the measure failed with a message about None, and read a parameter that has
            neither a value nor a default.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, FairtkError):
            raise
        if not any(where_of(measure) in note for note in getattr(error, "__notes__", ())):
            error.add_note(f"(in {where_of(measure, qid)})")
        if "None" in str(error) and (unset := _unset_params(measure)):
            raise ParameterError(
                f"{measure!r}: {' or '.join(unset)} is required, {unset[0]}=... (without it, "
                f"{where_of(measure, qid)} fails with {type(error).__name__}: {error})"
            ) from error
        raise


def _unset_params(measure: FairMeasure) -> list[str]:
    """Return the parameters without a value and a default that the measure has read."""
    names = [
        name
        for name, param in measure.SUPPORTED_PARAMS.items()
        if param.default is NOT_GIVEN and name not in measure.params and name in measure._resolved
    ]
    # the cutoff is also read for the measure
    return [name for name in names if name != measure.AT_PARAM] or names


def where_of(measure: FairMeasure, qid: str = "") -> str:
    """Return the measure, its plugin and a query as text."""
    return f"measure {measure!r} ({owner_of(measure)})" + (f", qid {qid!r}" if qid else "")


def check_kind(measure: FairMeasure, kind: str) -> None:
    """Raise a `MeasureError` if the kind of a measure's remark is unknown."""
    if kind not in KINDS:
        raise MeasureError(
            f"{where_of(measure)}: unknown kind of remark {kind!r}; declare it in REMARKS of the "
            "measure, with a name 'plugin:kind'"
        )


def owner_of(measure: Any) -> str:
    """Return the plugin, with its version, or the module that defines a measure."""
    owner = registry.measures.owner(measure.NAME)
    return f"plugin {owner}" if owner else f"module {type(measure).__module__}"


class FairMeasure(ir_measures.Measure):  # type: ignore[misc]
    """Base of all measures of fairtk and of its plugins.

    An instance is a measure with some of its parameters set: ``EE_D``, ``EE_D@5``,
    ``EE_D(browsing="RBP(p=0.8)")@5``. It works like any measure of ir_measures, and
    ``ir_measures.parse_measure`` turns its `repr` into an equal measure. Groups and targets print
    as names, which can be read back if the object is registered or in use by a measure.

    Attributes:
        NAME: the identifier in code and in strings.
        PRETTY_NAME: the full name.
        CITATION: keys of the package's ``references.bib``, separated by spaces, or ``""``.
        BETTER: ``"higher"`` or ``"lower"``: the better direction.
        MISSING: the value of a query missing from the run: the worst one, so that a system never
            gains by returning nothing. NaN if there is no worst value.
        RUN_COLUMNS: the required columns of the run, in PyTerrier's names.
        BOUNDS: the smallest and the largest value; infinite if unbounded.
        QREL_COLUMNS: the required columns of the qrels, in PyTerrier's names.
        SUPPORTED_PARAMS: the parameters by name, each a `Param` or an ``ir_measures.ParamInfo``.
        POSITIONAL: the names of positional parameters, in order.
        GROUPS_ARE_OPTIONAL: whether the parameter ``groups`` is optional; `fairtk.evaluate` does
            not add groups to such measures.
        is_by_query: whether a query's value depends only on that query, so that long runs can be
            measured in blocks; true if the measure defines `score_query`.
        depends_on_length: whether truncated rankings have other values than full ones, and cause a
            remark.
        ABOUT: what its values are about, as the end of a sentence; by default the first line of the
            docstring.
        CAVEAT: what its values do not show, as a clause, e.g. ``"it does not show which documents
            deserve exposure"``; ``""`` if nothing is declared.
        REMARKS: the kinds of remarks of a plugin's measure, by name (``"plugin:kind"``).
    """

    NAME: str
    PRETTY_NAME: ClassVar[str]
    CITATION: ClassVar[str] = ""
    BETTER: ClassVar[str]
    MISSING: ClassVar[float]
    BOUNDS: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, SCORE)
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, LABEL)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {}
    POSITIONAL: ClassVar[tuple[str, ...]] = ()
    GROUPS_ARE_OPTIONAL: ClassVar[bool] = False
    ABOUT: ClassVar[str] = ""
    CAVEAT: ClassVar[str] = ""
    REMARKS: ClassVar[Mapping[str, RemarkKind]] = {}
    depends_on_length: bool = False
    is_by_query: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.SUPPORTED_PARAMS = {
            name: as_param(param, name, f"measure {cls.__name__}")
            for name, param in cls.SUPPORTED_PARAMS.items()
        }
        if "score_query" in vars(cls) and "is_by_query" not in vars(cls):
            cls.is_by_query = True
        register_kinds(cls.REMARKS, f"measure {cls.__name__}")
        if "NAME" not in vars(cls):
            return  # a shared base class
        if not cls.NAME.isidentifier():
            raise ParameterError(f"measure {cls.NAME!r}: NAME must be a Python identifier")
        missing = [name for name in ("PRETTY_NAME", "BETTER", "MISSING") if not hasattr(cls, name)]
        if missing:
            raise ParameterError(f"measure {cls.NAME} must declare {', '.join(missing)}")
        if cls.BETTER not in ("higher", "lower"):
            raise ParameterError(f"measure {cls.NAME}: BETTER must be 'higher' or 'lower'")
        if not (cls.__doc__ or "").strip():
            raise ParameterError(f"measure {cls.NAME} must have a docstring")
        cls.DEFAULT = cls.MISSING

    def __init__(self, **params: Any) -> None:
        if self.NAME is None:  # of ir_measures
            names = "NAME, PRETTY_NAME, BETTER, MISSING"
            raise ParameterError(f"measure {type(self).__name__} must declare {names}")
        for name in params:
            if name not in self.SUPPORTED_PARAMS:
                raise ParameterError(
                    f"{self.NAME}: unknown parameter {name!r}{self.hint_for(name)}"
                )
        self.params: dict[str, Any] = {}
        self._resolved: dict[str, Any] = {}  # objects or values of the parameters
        for name, param in self.SUPPORTED_PARAMS.items():  # in declared order, so repr is canonical
            if name in params:
                value, given = params[name], self._resolved
                text, self._resolved[name] = param.accept(value, name, self.NAME, given)
                if param.default is NOT_GIVEN or text != param.default:
                    self.params[name] = text
        self.validated = True
        # `params` has no defaults, so print all of it (ir_measures would drop more)
        named = dict(self.params)
        cutoff = named.pop(self.AT_PARAM, None)
        options = f"({','.join(map('{}={!r}'.format, named, named.values()))})" if named else ""
        self.text = f"{self.NAME}{options}{'' if cutoff is None else f'@{cutoff}'}"
        self.check_params()

    def __call__(self, *values: Any, **params: Any) -> Any:
        """Return the measure with more parameters set: ``E(nDCG@5)``, ``EU(utility="f1")``.

        Args:
            *values: values of the parameters in `POSITIONAL`.
            **params: values by name.
        """
        if len(values) > len(self.POSITIONAL):
            raise TypeError(
                f"{self.NAME} takes {len(self.POSITIONAL)} positional arguments, got "
                f"{len(values)}; name parameters (name=value), and pass data to calc_aggregate"
            )
        named = dict(zip(self.POSITIONAL, values, strict=False))
        return type(self)(**{**self.params, **self.objects(), **named, **params})

    def objects(self) -> dict[str, Any]:
        """Return the parameters that are groups, targets or measures."""
        kinds = (EqualByContent, ir_measures.Measure)
        return {name: self[name] for name in self.params if isinstance(self[name], kinds)}

    def __eq__(self, other: object) -> bool:
        """Return whether two measures have the same `repr` and equal objects."""
        return super().__eq__(other) and all(
            other[name] == value  # type: ignore[index]
            for name, value in self.objects().items()
        )

    __hash__ = ir_measures.Measure.__hash__

    def require_param(self, name: str, remedy: str) -> Any:
        """Return a parameter's value; raise a `ParameterError` if it is not set."""
        if name not in self.params:
            raise ParameterError(f"{self.NAME} requires {remedy}")
        return self[name]

    @property
    def __name__(self) -> str:
        return self.NAME

    @classmethod
    def hint_for(cls, name: str) -> str:
        """Return the end of the message about an unknown parameter."""
        if name == cls.AT_PARAM:
            return f"; write {cls.NAME} without @k"
        return did_you_mean(name, cls.SUPPORTED_PARAMS) if cls.SUPPORTED_PARAMS else "; it has none"

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        params = {p: self.params[p] if p in self.params else self[p] for p in self.SUPPORTED_PARAMS}
        frame = pd.DataFrame({"parameter": params.keys(), "value": map(str, params.values())})
        return frame_html(frame, f"{self}: {self.SHORT_DESC}")

    @property
    def SHORT_DESC(self) -> str:  # noqa: N802 - ir_measures' name
        """The first line of the docstring."""
        return (type(self).__doc__ or "").strip().partition("\n")[0]

    @property
    def parts(self) -> list[Any]:
        """The measures among its parameters."""
        return [m for name in self.params if isinstance(m := self[name], ir_measures.Measure)]

    @property
    def run_columns(self) -> tuple[str, ...]:
        """The required columns of the run, which may depend on parameters."""
        return self.RUN_COLUMNS

    @property
    def supports_exact_exposure(self) -> bool:
        """Whether it accepts frames X, which have exposure but no rankings."""
        parts = self.parts
        return bool(parts) and all(
            getattr(part, "supports_exact_exposure", False) for part in parts
        )

    @property
    def reason_for_labels(self) -> str:
        """The reason why it requires relevance labels; empty if it does not."""
        if self.parts:
            return next((why for part in self.parts if (why := reason_for_labels(part))), "")
        return "it reads which documents are useful" if LABEL in self.QREL_COLUMNS else ""

    @property
    def better(self) -> str:
        """The better direction, ``"higher"`` or ``"lower"``, which may depend on parameters."""
        return self.BETTER

    @property
    def full_name(self) -> str:
        """The full name for tables and figures."""
        return self.PRETTY_NAME

    @property
    def about(self) -> str:
        """What the values are about; see `ABOUT`."""
        return self.ABOUT or self.SHORT_DESC.rstrip(".")

    @property
    def caveat(self) -> str:
        """What the values do not show; see `CAVEAT`."""
        return self.CAVEAT

    @property
    def compares_queries(self) -> bool:
        """Whether the aggregate compares groups of queries, so that there is no test over queries.

        The values of queries, which results do not report, are those of the measure inside.
        """
        return False

    @property
    def has_sampling_bias(self) -> bool:
        """Whether ``sampling_bias(labeled_run)`` returns the bias of its values by query."""
        return False

    @property
    def reads_groups(self) -> bool:
        """Whether values depend on groups of documents."""
        has_groups = "groups" in self.SUPPORTED_PARAMS and self["groups"] is not None
        return has_groups or any(getattr(part, "reads_groups", False) for part in self.parts)

    @property
    def of_sample(self) -> Any:
        """The measure of a single sampled ranking; `None` if it is only defined for all samples."""
        return None

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value; infinite if unbounded."""
        low, high = self.BOUNDS
        normalized = "normalize" not in self.SUPPORTED_PARAMS or self["normalize"]
        return (low, high) if normalized else (low, math.inf)

    def remarks(self) -> list[Remark]:
        """Return the remarks that hold for the measure whatever the run."""
        return []

    def check_params(self) -> None:
        """Raise a `ParameterError` for an invalid combination of parameters."""

    def validate_params(self) -> None:
        """Raise a `ParameterError` if a required parameter is not set."""
        for name, param in self.SUPPORTED_PARAMS.items():
            if param.required and name not in self.params:
                raise ParameterError(f"{self.NAME}: {name} is required, {name}=...")

    def __getitem__(self, key: str) -> Any:
        """Return a parameter's value or object; `None` if it has neither value nor default."""
        if key not in self._resolved:
            param = self.SUPPORTED_PARAMS[key]
            self._resolved[key] = param.resolve(param.default)
        return self._resolved[key]

    @property
    def identity_settings(self) -> dict[str, Any]:
        """The value of each parameter, including defaults, for the identity of results."""
        return {name: self[name] for name in self.SUPPORTED_PARAMS}

    def __mul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _product(other, self)

    @property
    def is_mean(self) -> bool:
        """Whether its aggregate is the mean over queries."""
        return type(self).aggregate is FairMeasure.aggregate

    @property
    def is_composite(self) -> bool:
        """Whether values are computed from those of `parts` (`combine`)."""
        return type(self).combine is not FairMeasure.combine

    def combine(self, parts: Sequence[Scores], judged: LabeledRun) -> FloatArray | Scores:
        """Return the value of each query from those of `parts`; only composite measures have it.

        Args:
            parts: the scores of each measure in `parts`.
            judged: labels and run of all queries, encoded.
        """
        raise NotImplementedError(f"measure {self.NAME} is not composite")

    @classmethod
    def score_together(
        cls, measures: Sequence[Any], judged: LabeledRun
    ) -> Mapping[Any, FloatArray | Scores]:
        """Return the result of `score_all` of each measure.

        A class that computes several of its measures faster together overrides this method.
        """
        results = {}
        for measure in measures:
            with named_failures(measure):
                results[measure] = measure.score_all(judged)
        return results

    def score_all(self, judged: LabeledRun) -> FloatArray | Scores:
        """Return the value of each query of the qrels; shape (n_queries,).

        Args:
            judged: labels and run of all queries, encoded.

        Returns:
            The values, NaN if undefined; or `Scores`, which also have the reasons for undefined
            values, and counts for remarks.
        """
        values = np.full(len(judged.qids), np.nan)
        cutoff = self["cutoff"] if "cutoff" in self.SUPPORTED_PARAMS else None
        for index, (qid, qrels, run) in enumerate(judged.by_query(cutoff)):
            with named_failures(self, qid):
                value = self.MISSING if run is None else self.score_query(qrels, run)
            values[index] = self.checked_value(value, qid)
        return Scores(values, {"score_query returned NaN": np.isnan(values) & judged.present})

    def checked_value(self, value: Any, qid: str) -> float:
        """Return the value of a query; raise a `MeasureError` unless it is a number or NaN."""
        if not isinstance(value, Real | np.bool_) or math.isinf(value):
            raise MeasureError(
                f"{where_of(self, qid)} must return a finite number, or NaN if it is undefined, "
                f"got {value!r}"
            )
        return float(value)

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return the aggregate of per-query values; by default their mean.

        Args:
            values: value of each query; shape (n_queries,).
            qids: the queries; shape (n_queries,).
        """
        aggregator = self.aggregator()
        for value in values.tolist():
            aggregator.add(value)
        return float(aggregator.result())

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the values that ir_measures reports for single queries.

        ``pt.Experiment`` takes their means.
        """
        return values

    def score_query(self, qrels: pd.DataFrame, run: pd.DataFrame) -> float:
        """Return the value of one query with retrieved documents.

        Args:
            qrels: the query's labels, with `QREL_COLUMNS` and other columns.
            run: the query's rankings, with `RUN_COLUMNS` and other columns, and with ``sample`` (0
                if the run is not sampled) and ``rank`` (0-based, without gaps); sorted by both, and
                cut at ``@k`` in each sample.

        Returns:
            The value; NaN if it is undefined.
        """
        raise NotImplementedError(f"measure {self.NAME} must define score_query or score_all")


def iter_parts(measure: Any) -> Iterator[Any]:
    """Yield a measure and its parts."""
    yield measure
    for part in measure.parts if isinstance(measure, FairMeasure) else ():
        yield from iter_parts(part)


def reason_for_labels(measure: Any) -> str:
    """Return the reason why a measure requires relevance labels; empty if it does not."""
    return getattr(measure, "reason_for_labels", "it reads which documents are useful")


def drop_undefined(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the qrels of queries with at least one useful document.

    For other queries EE_R and EE_L are NaN, and so are means over them in ``pt.Experiment``.

    Args:
        qrels: ``qid``, ``docno``, ``label`` (or ir_measures' names) and any other columns; not
            changed.

    Returns:
        The rows of queries that have a label above 0, in the same order.
    """
    frame = as_frame(qrels, LABEL, "drop_undefined: qrels")
    labels = Qrels(frame, "drop_undefined", (DOCNO, LABEL), either=True)
    return frame[labels.useful[labels.query]].reset_index(drop=True)


def _product(left: Any, right: Any) -> Any:
    if not isinstance(left, ir_measures.Measure) or not isinstance(right, ir_measures.Measure):
        return NotImplemented
    return ir_measures.measures.registry["Product"](left=left, right=right)


RELEVANCE: tuple[str, str] = (
    "how early useful documents appear",
    "it is about the readers of rankings, not about the documents",
)
"""What measures of relevance are about, and what they do not show."""


def about_and_caveat(measure: Any) -> tuple[str, str]:
    """Return what the values of any measure are about, and what they do not show."""
    if isinstance(measure, FairMeasure):
        return measure.about, measure.caveat
    if isinstance(measure, type(ir_measures.nDCG)):
        return RELEVANCE
    return str(getattr(measure, "SHORT_DESC", None) or "").strip().rstrip("."), ""


_WITHOUT_BOUNDS = {
    *("BPM", "INSQ", "INST", "NRBP", "NumQ", "NumRel", "NumRelRet", "NumRet", "SDCG", "SetRelP"),
    *("alpha_DCG", "nNRBP"),
}
"""Measures of ir_measures, which declares no bounds, with values outside [0, 1]."""


def value_bounds(measure: Any) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure; infinite if unknown.

    Unbiased estimates can be outside, and values of passages and of sessions can be larger, because
    a document can hold several ranks.

    Args:
        measure: a measure of fairtk, a plugin or ir_measures.
    """
    if isinstance(measure, FairMeasure):
        return measure.bounds
    theirs = type(measure).__module__.startswith("ir_measures.measures")
    bounded = theirs and measure.NAME not in _WITHOUT_BOUNDS
    default = (0.0, 1.0) if bounded else (-math.inf, math.inf)
    return getattr(measure, "BOUNDS", default)
