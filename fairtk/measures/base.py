"""`FairMeasure`: what a measure declares, how it is asked for its values, and what these must be.

A measure is a class with declarations and one method. A third party writes `score_query`, which
sees one query; the built-in measures write `score_all`, which scores all queries at once with
array operations.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import (
    FairtkError,
    MeasureError,
    ParameterError,
    UndefinedWarning,
    listed,
    suggestion,
)
from fairtk.frames import DOCNO, LABEL, QID, SCORE, FloatArray, ObjectArray, Qrels
from fairtk.measures.params import NOT_GIVEN, Param
from fairtk.plugins import registry

if TYPE_CHECKING:
    from fairtk.measures.judged import Judged

_REMEDY = "a measure must give finite numbers, and NaN where its definition leaves a value open"


class Place:
    """Where a measure is: the qid that it works on, or ``""`` for all at once."""

    qid: str = ""


@contextmanager
def named_failures(measure: ir_measures.Measure) -> Iterator[Place]:
    """Name the measure, its plugin and the query in what is raised inside; refuse ``sys.exit``."""
    place = Place()
    try:
        yield place
    except SystemExit as error:
        raise MeasureError(
            f"{_where(measure, place.qid)} calls sys.exit({error.code!r}); a measure must not end "
            "the program"
        ) from error
    except FairtkError:
        raise
    except Exception as error:
        note = f"(in {_where(measure, place.qid)})"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def scored(measure: Any, judged: Any) -> FloatArray:
    """Return what a measure's `score_all` gives, checked: who asks it for values asks here."""
    if judged.exact is not None and not measure.takes_exposure:
        judged.exact.refuse(measure)
    with named_failures(measure):
        values = measure.score_all(judged)
    return numbers(measure, values, judged.qids)


def number(measure: ir_measures.Measure, value: Any, qid: str) -> float:
    """Return the value of one query; one that is no number, or infinite, is a `MeasureError`."""
    if not isinstance(value, Real | np.bool_) or math.isinf(value):
        raise MeasureError(f"{_where(measure, qid)} gives {value!r}; {_REMEDY}")
    return float(value)


def numbers(measure: ir_measures.Measure, values: Any, qids: Any) -> FloatArray:
    """Return the values of all queries, checked; shape (n_queries,)."""
    array = np.asarray(values)
    if array.shape != (len(qids),):
        raise MeasureError(
            f"{_where(measure)} gives values of the shape {array.shape} for {len(qids)} queries"
        )
    if array.dtype.kind not in "fiub":
        return np.array([number(measure, v, q) for v, q in zip(array, qids, strict=True)])
    infinite = np.flatnonzero(np.isinf(array))
    if len(infinite):
        number(measure, array[infinite[0]].item(), qids[infinite[0]])
    return array.astype(np.float64, copy=False)


def _where(measure: ir_measures.Measure, qid: str = "") -> str:
    owners = [e.owner for e in registry.measures.entries() if e.name == measure.NAME]
    owner = f"plugin {owners[0]}" if owners else f"module {type(measure).__module__}"
    return f"measure {measure!r} ({owner})" + (f", qid {qid!r}" if qid else "")


class FairMeasure(ir_measures.Measure):  # type: ignore[misc]
    """Base of all measures of fairtk and of its plugins.

    An instance is a measure with some of its parameters set: ``EE_D``, ``EE_D@5``,
    ``EE_D(browsing="RBP(p=0.8)")@5``. It works wherever ir_measures takes a measure, and its
    `repr` is a string that ``ir_measures.parse_measure`` turns back into an equal measure.

    Attributes:
        NAME: the identifier, as it is written in code and in strings.
        PRETTY_NAME: the name spelled out.
        CITATION: keys of the package's ``references.bib``, separated by spaces, or ``""``.
        BETTER: ``"higher"`` or ``"lower"``: the direction that is better.
        MISSING: the value of a query that the run has nothing for: the worst one, so that a
            system never gains by returning nothing. NaN if there is no worst value.
        RUN_COLUMNS: the columns of the run that the measure reads, in PyTerrier's names.
        QREL_COLUMNS: the columns of the qrels that it reads.
        SUPPORTED_PARAMS: its parameters.
        POSITIONAL: those that may be given without a name, in this order.
    """

    NAME: str
    PRETTY_NAME: ClassVar[str]
    CITATION: ClassVar[str] = ""
    BETTER: ClassVar[str]
    MISSING: ClassVar[float]
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, SCORE)
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, LABEL)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {}
    POSITIONAL: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "scored" in vars(cls):  # what it gives would not be checked
            raise ParameterError(f"measure {cls.__name__} must define score_all, not scored")
        if "NAME" not in vars(cls):
            return  # a shared base
        if not cls.NAME.isidentifier():
            raise ParameterError(f"measure {cls.NAME!r}: NAME must be a Python identifier")
        for wanted in ("PRETTY_NAME", "BETTER", "MISSING"):
            if not hasattr(cls, wanted):
                raise ParameterError(f"measure {cls.NAME} must declare {wanted}")
        if cls.BETTER not in ("higher", "lower"):
            raise ParameterError(f"measure {cls.NAME}: BETTER must be 'higher' or 'lower'")
        if not (cls.__doc__ or "").strip():
            raise ParameterError(f"measure {cls.NAME} must have a docstring")
        cls.DEFAULT = cls.MISSING

    def __init__(self, **params: Any) -> None:
        for name in params:
            if name not in self.SUPPORTED_PARAMS:
                raise ParameterError(f"{self.NAME} has no parameter {name!r}{self._known(name)}")
        self.params: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}  # what the measure works with, defaults included
        special = self.special_defaults(params)
        for name, param in self.SUPPORTED_PARAMS.items():  # declared order, so repr is canonical
            default = special.get(name, param.default)
            if name in params:
                value, meant = param.accept(params[name], name, self.NAME)
                if default is NOT_GIVEN or value != default:
                    self.params[name] = value
                self.settings[name] = meant
            elif name in special:
                self.settings[name] = param.resolve(default)
            elif param.ready:
                self.settings[name] = param.default_object
        self.validated = True
        # `params` has no defaults in it, so all of them are printed (ir_measures drops more)
        given = dict(self.params)
        cutoff = given.pop(self.AT_PARAM, None)
        options = f"({','.join(map('{}={!r}'.format, given, given.values()))})" if given else ""
        self.text = f"{self.NAME}{options}{'' if cutoff is None else f'@{cutoff}'}"
        self.check_params()

    def __call__(self, *values: Any, **params: Any) -> Any:
        """Return the measure with further parameters: ``E(nDCG@5)``, ``EU(utility="f1")``.

        Args:
            *values: of `POSITIONAL`.
            **params: by name.
        """
        if len(values) > len(self.POSITIONAL):
            raise TypeError(f"{self.NAME} takes {len(self.POSITIONAL)} parameters without a name")
        named = dict(zip(self.POSITIONAL, values, strict=False))
        return type(self)(**{**self.params, **named, **params})

    def needed(self, name: str, remedy: str) -> Any:
        """Return a parameter's value; a `ParameterError` with the remedy if it is not given."""
        if name not in self.params:
            raise ParameterError(f"{self.NAME} needs {remedy}")
        return self[name]

    @property
    def __name__(self) -> str:
        return self.NAME

    @classmethod
    def _known(cls, name: str) -> str:
        """Return what to do about a parameter that the measure does not have."""
        if name == cls.AT_PARAM:
            return ", so it takes no @k (its author may declare one: CUTOFF in SUPPORTED_PARAMS)"
        return suggestion(name, cls.SUPPORTED_PARAMS) if cls.SUPPORTED_PARAMS else "; it has none"

    def __repr__(self) -> str:
        return self.text

    @property
    def SHORT_DESC(self) -> str:  # noqa: N802 - ir_measures' name
        """The first line of the docstring."""
        return (type(self).__doc__ or "").strip().splitlines()[0]

    @property
    def parts(self) -> list[Any]:
        """The measures that this one is made of, whose columns it needs too."""
        return []

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X, which have exposure and no rankings."""
        return False

    @property
    def better(self) -> str:
        """``"higher"`` or ``"lower"``; parameters may turn the direction."""
        return self.BETTER

    def special_defaults(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults that depend on which parameters are given, by name."""
        return {}

    def check_params(self) -> None:
        """Raise a `ParameterError` if the parameters do not go together."""

    def validate_params(self) -> None:
        """Do nothing: ir_measures calls this, but parameters are checked when they are set."""

    def __getitem__(self, key: str) -> Any:
        """Return a parameter's value, objects resolved; None if it has neither value nor default.

        Args:
            key: the parameter.
        """
        if key not in self.settings:
            param = self.SUPPORTED_PARAMS[key]
            self.settings[key] = param.resolve(param.default)
        return self.settings[key]

    def __mul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _product(other, self)

    scored = scored

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the value of each query of the qrels; shape (n_queries,).

        Args:
            judged: labels and run of all queries, encoded.
        """
        values = np.full(len(judged.qids), np.nan)
        cutoff = self["cutoff"] if "cutoff" in self.SUPPORTED_PARAMS else None
        with named_failures(self) as place:
            for index, qrels, run in judged.by_query(cutoff):
                place.qid = judged.qids[index]
                value = self.MISSING if run is None else self.score_query(qrels, run)
                values[index] = number(self, value, place.qid)
        undefined = np.isnan(values) & judged.present
        self.warn_undefined(judged.qids[undefined], len(values), "score_query gave NaN")
        return values

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return what the values of queries come to: their mean, for nearly all measures.

        Args:
            values: value of each query; shape (n_queries,).
            qids: the queries; shape (n_queries,).
        """
        aggregator = self.aggregator()
        for value in values.tolist():
            aggregator.add(value)
        return float(aggregator.result())

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the values as evaluators of ir_measures give them, query by query.

        ``pt.Experiment`` takes plain means of them; a measure whose `aggregate` is none says so.
        """
        return values

    def score_query(self, qrels: pd.DataFrame, run: pd.DataFrame) -> float:
        """Return the value of one query that the run has documents for.

        Args:
            qrels: the query's labels, with the columns of `QREL_COLUMNS` and others.
            run: the query's rankings, with the columns of `RUN_COLUMNS` and others, plus
                ``sample`` (0 where the run is not sampled) and ``rank`` (0-based, without gaps);
                sorted by both, and cut at ``@k`` within each sample.

        Returns:
            The value; NaN where the definition leaves it open.
        """
        raise NotImplementedError(f"measure {self.NAME} must define score_query or score_all")

    def warn_undefined(self, qids: Iterable[str], total: int, reason: str) -> None:
        """Warn that queries have no value, naming them; nothing happens if there are none."""
        names = [str(q) for q in qids]
        if names:
            warnings.warn(undefined_warning(repr(self), names, total, reason), stacklevel=2)


def undefined_warning(
    measure: str, qids: Sequence[str], total: int, reason: str
) -> UndefinedWarning:
    """Return what says that a measure is undefined for some of all queries."""
    remedy = "; fairtk.drop_undefined(qrels) leaves them out" if "no useful" in reason else ""
    warning = UndefinedWarning(
        f"{measure} is undefined (NaN) for {len(qids)} of {total} queries: {reason}: "
        f"{listed(qids)}. Plain means and significance tests over these values are wrong "
        f"(with correction=, pt.Experiment says reject True){remedy}"
    )
    warning.about = measure, qids, reason
    return warning


def drop_undefined(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the qrels of the queries that have at least one useful document.

    EE_R and EE_L are NaN for the others, and plain means (``pt.Experiment``) turn NaN with them.

    Args:
        qrels: ``qid``, ``docno``, ``label`` (or ir_measures' names) and any other columns; not
            changed.

    Returns:
        The rows of queries with a label above 0, in their order.
    """
    known = Qrels(qrels, "drop_undefined", either=True)
    return qrels[known.useful[known.query]].reset_index(drop=True)


def _product(left: Any, right: Any) -> Any:
    if not isinstance(left, ir_measures.Measure) or not isinstance(right, ir_measures.Measure):
        return NotImplemented
    return ir_measures.measures.registry["Product"](left=left, right=right)
