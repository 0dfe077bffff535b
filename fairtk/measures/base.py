"""`FairMeasure`: what a measure declares, what it sees (`Judged`), and what it must give.

A measure is a class with declarations and one method. A third party writes `score_query`, which
sees one query; the built-in measures write `score_all`, which scores all queries at once with
array operations. All measures of a call share one `Judged`: a run beside the labels as arrays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NoReturn

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import (
    ColumnError,
    FairtkError,
    InputError,
    MeasureError,
    ParameterError,
    UndefinedWarning,
    listed,
    suggestion,
)
from fairtk.exposure import BrowsingModel
from fairtk.frames import (
    ALPHA,
    BROWSING,
    CUTOFF,
    DOCNO,
    EXPOSURE,
    LABEL,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
    refuse_subsets,
    rows_by_code,
    takes_tables,
    uncoded,
    warn_of_unmatched,
)
from fairtk.groups.distances import SparseRows, attention_matrix, group_exposure
from fairtk.measures.params import NOT_GIVEN, Param, short_name
from fairtk.plugins import registry

_REMEDY = "a measure must give finite numbers, and NaN where its definition leaves a value open"


@dataclass(frozen=True)
class ExactExposure:
    """What a frame X says of its exposure."""

    n_rows: int  # number of rows of the frame
    browsing: str  # the string form of the browsing model
    cutoff: int | None  # the cutoff; None: all ranks

    def __str__(self) -> str:
        return f"browsing={self.browsing!r} and cutoff={self.cutoff}"

    @classmethod
    def of(cls, run: Run) -> ExactExposure:
        """Return what a frame X, which has the column ``exposure``, says of it, checked."""
        frame, where = run.frame, run.where
        if BROWSING not in frame.columns or CUTOFF not in frame.columns:
            raise ColumnError(
                f"{where} has the column {EXPOSURE!r}, as exact exposure has, but not both of "
                f"{BROWSING!r} and {CUTOFF!r}, which say what it holds for: keep all three, or "
                f"rename {EXPOSURE!r} if it means something else"
            )
        if SAMPLE in frame.columns:
            raise InputError(
                f"{where}: the columns {EXPOSURE!r} and {SAMPLE!r} exclude each other: exact "
                "exposure has no samples; drop one of them"
            )
        for name in (BROWSING, CUTOFF, ALPHA):
            if name in frame.columns and frame[name].nunique(dropna=False) > 1:
                values = frame[name].unique().tolist()
                raise InputError(
                    f"{where}: the exposure of one system has several values of {name!r} "
                    f"({values}); measure them one by one, e.g. those of run.groupby({name!r})"
                )
        column = pd.to_numeric(frame[EXPOSURE], errors="coerce")
        if (column < 0).any():
            raise InputError(f"{where}: exposure must be at least 0; found {column.min()}")
        cutoff: Any = frame[CUTOFF].iloc[0] if len(frame) else None
        return cls(
            len(frame),
            str(frame[BROWSING].iloc[0]) if len(frame) else "",
            None if pd.isna(cutoff) else int(cutoff),
        )

    def check(self, where: str, model: BrowsingModel, cutoff: int | None) -> None:
        """Raise an `InputError` unless the exposure holds for what a measure is made with."""
        if model.stop > 0:
            raise InputError(
                f"{where}: under browsing={str(model)!r} exposure depends on which documents are "
                f"useful, so no exact exposure (column {EXPOSURE!r}) holds for it; measure "
                "sampled rankings instead (FairSampler)"
            )
        if self.n_rows and (str(model), cutoff) != (self.browsing, self.cutoff):
            raise InputError(
                f"{where} needs exposure with browsing={str(model)!r} and cutoff={cutoff}, but "
                f"that of the run (its column {EXPOSURE!r}) was made with {self}; make it anew, "
                f"e.g. PlackettLuceExposure(browsing={str(model)!r}, cutoff={cutoff}), or change "
                "the measure"
            )

    def refuse(self, measure: Any) -> NoReturn:
        """Raise an `InputError`: the measure needs rankings."""
        raise InputError(
            f"{measure} reads rankings, but the run is exact exposure (it has the column "
            f"{EXPOSURE!r}, made with {self}), which has none: measure sampled rankings instead "
            "(FairSampler), or EE_D, EE_R, EE_L, AWRF, or E(nDCG@k) of exposure with "
            "browsing='DCG' and cutoff=k"
        )


_OF_PAIRS = ("n_pairs", "pair_query", "pair_doc", "pair_label", "pair_of_row")


class Judged:
    """A run beside the labels.

    A pair is a (query, document) that is labeled or retrieved; those of the labels come first.

    Attributes:
        qrels: the labels.
        qids: the queries of the labels; shape (n_queries,).
        run: the rows of the run whose queries have labels; others are ignored, as ir_measures does.
        present: which of the queries the run has; shape (n_queries,).
        exact: what the run says of its exposure if it is a frame X, None for rankings. Its
            documents then stand in the order of exposure.
        query_of_run: for each query of the run, its index among `qids`.
        where: the measures, for messages.
        cache: for measures, what they have made of this run.
        n_pairs: the number of pairs.
        pair_query: index into `qids` of each pair; shape (n_pairs,).
        pair_doc: index into `docnos` of each pair; shape (n_pairs,).
        pair_label: the label of each pair, NaN for an unjudged one; shape (n_pairs,).
        pair_of_row: the pair of each sorted row of the run; shape (n_rows,).
    """

    n_pairs: int
    pair_query: IntArray
    pair_doc: IntArray
    pair_label: FloatArray
    pair_of_row: IntArray

    def __init__(self, qrels: Qrels, run: Run, where: str) -> None:
        refuse_subsets(run.frame, run.where)
        self.exact: ExactExposure | None = None
        if EXPOSURE in run.frame.columns:
            self.exact, run = ExactExposure.of(run), run.ordered_by(EXPOSURE)
        self.qrels, self.where, self.qids = qrels, where, qrels.qids
        place = qrels.queries.find(run.queries)
        self.run = run if (place >= 0).all() else run.take(place[run.frame_query] >= 0)
        self.query_of_run: IntArray = place[place >= 0]
        self.present: BoolArray = np.zeros(len(self.qids), dtype=bool)
        self.present[self.query_of_run] = True
        self.cache: dict[Any, Any] = {}

    @classmethod
    def of(
        cls, qrels: Qrels | pd.DataFrame, run: pd.DataFrame, where: str, documents: bool = True
    ) -> Judged:
        """Return frames as users have them, in either names.

        Queries that match nothing are said, and `documents`, unless these do not matter.
        """
        labels = qrels if isinstance(qrels, Qrels) else Qrels(qrels, where, either=True)
        checked = Run(run, f"{where} (run)", either=True)
        of_query = checked.documents_of if documents and DOCNO in checked.frame.columns else None
        warn_of_unmatched(labels, checked.queries, of_query, where)
        return cls(labels, checked, where)

    def exposure_of_rows(self, where: str, model: BrowsingModel, cutoff: int | None) -> FloatArray:
        """Return the exposure of each sorted row of a frame X; not for rankings.

        Raises an `InputError` if the frame was made for another browsing model or cutoff.
        """
        if self.exact is not None:
            self.exact.check(where, model, cutoff)
        exposure: FloatArray = self.run.scores[self.run.order]
        return exposure

    def restricted(self, labels: BoolArray, rows: BoolArray | None = None) -> Judged:
        """Return some documents alone, with the ranks that they have among all.

        `labels` says which rows of the qrels stay, `rows` which sorted rows of the run; None: all.
        """
        run = self.run if rows is None else self.run.restricted(rows)
        part = Judged(self.qrels.take(labels), run, self.where)
        part.exact, part._places = self.exact, self._places
        return part

    # Pairs ---------------------------------------------------------------------------------------

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """The place of each document of the run among those of labels and run; the new ones."""
        place = self.run.places(self.qrels.documents)
        other = np.flatnonzero(place < 0)
        place[other] = self.qrels.documents.size + np.arange(len(other))
        return place, other

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_PAIRS:
            raise AttributeError(f"Judged has no attribute {name!r}")
        self._pair()
        return getattr(self, name)

    def _pair(self) -> None:
        """Make the arrays of pairs; those without a label come after the labels."""
        qrels, (place, other) = self.qrels, self._places
        n_labeled, width = qrels.documents.size, max(1, qrels.documents.size + len(other))
        query, doc = self.query_of_run[self.run.query], self.run.doc
        of_row = qrels.place(query, np.where(place < n_labeled, place, -1)[doc])
        fresh = of_row < 0
        codes, distinct = pd.factorize(query[fresh] * width + place[doc[fresh]])
        of_row[fresh] = len(qrels.query) + codes
        self.pair_of_row = of_row
        self.pair_query = np.concatenate([qrels.query, distinct // width])
        self.pair_doc = np.concatenate([qrels.doc, distinct % width])
        self.pair_label = np.concatenate([qrels.labels, np.full(len(distinct), np.nan)])
        self.n_pairs = len(self.pair_query)

    def summed(self, memberships: SparseRows, weight: FloatArray, pair: IntArray) -> SparseRows:
        """Return weights of pairs, summed over each query's groups."""
        shape = (len(self.qids), memberships.n_rows)
        attention = attention_matrix(self.pair_query[pair], self.pair_doc[pair], weight, shape)
        return group_exposure(attention, memberships)

    @cached_property
    def docnos(self) -> ObjectArray:
        """The documents that are labeled or retrieved."""
        return np.concatenate([self.qrels.docnos, self.run.docnos[self._places[1]]])

    @cached_property
    def row_label(self) -> FloatArray:
        """The label of each sorted row of the run, 0 without one; shape (n_rows,)."""
        return np.nan_to_num(self.pair_label)[self.pair_of_row]

    @property
    def ranking_query(self) -> IntArray:
        """Index into `qids` of each ranking; shape (n_rankings,)."""
        return self.query_of_run[self.run.ranking_query]

    def by_query(
        self, cutoff: int | None
    ) -> Iterator[tuple[int, pd.DataFrame, pd.DataFrame | None]]:
        """Yield the index, the labels and the rankings of each query; None: no rankings.

        Ranks from the cutoff on are left out, within each sample.
        """
        ranked = self.run
        frame = ranked.frame.iloc[ranked.order].copy()
        frame[SAMPLE] = ranked.ranking_sample[ranked.ranking]
        frame[RANK] = ranked.position
        for name, ids in ((QID, ranked.qids[ranked.query]), (DOCNO, ranked.docnos[ranked.doc])):
            if isinstance(frame[name].dtype, pd.CategoricalDtype):  # not what authors expect
                frame[name] = ids
        labels = uncoded(self.qrels.frame)
        keep = np.ones(len(frame), bool) if cutoff is None else ranked.position < cutoff
        query = self.query_of_run[ranked.query][keep]
        frame = frame[keep].reset_index(drop=True)
        order, start = rows_by_code(query, len(self.qids))
        for index in range(len(self.qids)):
            rows = order[start[index] : start[index + 1]]
            run = frame.iloc[rows] if len(rows) else None
            yield index, labels.iloc[self.qrels.rows_of(index)], run


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
    measure.validate_params()
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
        BOUNDS: the smallest and the largest value; infinite where there is none.
        QREL_COLUMNS: the columns of the qrels that it reads.
        SUPPORTED_PARAMS: its parameters by name, each a `Param` or an ``ir_measures.ParamInfo``.
        POSITIONAL: those that may be given without a name, in this order.
        GROUPS_ARE_OPTIONAL: whether it has a form without its parameter `groups`, so that
            `fairtk.evaluate` completes only measures that have groups already.
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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "scored" in vars(cls):  # what it gives would not be checked
            raise ParameterError(f"measure {cls.__name__} must define score_all, not scored")
        cls.SUPPORTED_PARAMS = {
            name: Param.of(param, name, f"measure {cls.__name__}")
            for name, param in cls.SUPPORTED_PARAMS.items()
        }
        if "NAME" not in vars(cls):
            return  # a shared base
        if not cls.NAME.isidentifier():
            raise ParameterError(f"measure {cls.NAME!r}: NAME must be a Python identifier")
        for name in ("PRETTY_NAME", "BETTER", "MISSING"):
            if not hasattr(cls, name):
                raise ParameterError(f"measure {cls.NAME} must declare {name}")
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
        named = dict(self.params)
        cutoff = named.pop(self.AT_PARAM, None)
        options = f"({','.join(map('{}={!r}'.format, named, named.values()))})" if named else ""
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
    def labels_for(self) -> str:
        """What it needs relevance labels for, in words; empty: nothing, nor do its parts."""
        if self.parts:
            return next((why for part in self.parts if (why := labels_for(part))), "")
        return "it reads which documents are useful" if LABEL in self.QREL_COLUMNS else ""

    @property
    def better(self) -> str:
        """``"higher"`` or ``"lower"``; parameters may turn the direction."""
        return self.BETTER

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value: unnormalized ones have no largest."""
        low, high = self.BOUNDS
        return (low, high) if self.settings.get("normalize", True) else (low, math.inf)

    def special_defaults(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults that depend on which parameters are given, by name."""
        return {}

    def check_params(self) -> None:
        """Raise a `ParameterError` if the parameters do not go together."""

    def validate_params(self) -> None:
        """Raise a `ParameterError` if a required parameter is not set; set ones were checked."""
        for name, param in self.SUPPORTED_PARAMS.items():
            if param.required and name not in self.params:
                raise ParameterError(f"{self.NAME} needs its parameter {name}: {name}=...")

    def __getitem__(self, key: str) -> Any:
        """Return a parameter's value, objects resolved; None if it has neither value nor default.

        Args:
            key: the parameter.
        """
        if key not in self.settings:
            param = self.SUPPORTED_PARAMS[key]
            self.settings[key] = param.resolve(param.default)
        return self.settings[key]

    @property
    def identity_settings(self) -> dict[str, Any]:
        """The value of every parameter, defaults included, by name: what results are kept under."""
        return {
            name: self[name]
            for name, param in self.SUPPORTED_PARAMS.items()
            if name in self.params or not getattr(param, "later", False)
        }

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

    def without_undefined(
        self, judged: Judged, values: FloatArray, reasons: Iterable[tuple[str, BoolArray]]
    ) -> FloatArray:
        """Return values with NaN for the queries of any reason, each warned of once.

        Args:
            judged: the queries.
            values: of each query; shape (n_queries,).
            reasons: why queries have no value, and which; the first that holds is given.
        """
        undefined = np.zeros(len(values), dtype=bool)
        for reason, mask in reasons:
            self.warn_undefined(judged.qids[mask & ~undefined], len(values), reason)
            undefined |= mask
        return np.where(undefined, np.nan, values)

    def warn_undefined(self, qids: Iterable[str], total: int, reason: str) -> None:
        """Warn that queries have no value, naming them; nothing happens if there are none."""
        names = [str(q) for q in qids]
        if names:
            if (told := _reasons.get()) is not None:
                told.update({(repr(self), qid): reason for qid in names})
            warning = undefined_warning(repr(self), names, total, reason, told is not None)
            warnings.warn(warning, stacklevel=2)


Reasons = dict[tuple[str, str], str]
"""Why values are undefined, by the measure's text and the query."""
_reasons: ContextVar[Reasons | None] = ContextVar("reasons", default=None)


@contextmanager
def undefined_reasons() -> Iterator[Reasons]:
    """Give the reasons of all that measures call undefined in the block."""
    told: Reasons = {}
    token = _reasons.set(told)
    try:
        yield told
    finally:
        _reasons.reset(token)


def reason_for(measure: Any, qid: str, reasons: Reasons) -> str | None:
    """Return why a measure, or one that it is made of, is undefined for a query, if it was said."""
    if (own := reasons.get((repr(measure), qid))) is not None:
        return own
    parts = getattr(measure, "parts", ())
    return next((why for part in parts if (why := reason_for(part, qid, reasons))), None)


def labels_for(measure: Any) -> str:
    """Return what any measure needs relevance labels for, in words; empty: nothing."""
    return (
        measure.labels_for
        if isinstance(measure, FairMeasure)
        else "it reads which documents are useful"
    )


def undefined_warning(
    measure: str, qids: Sequence[str], total: int, reason: str, left_out: bool
) -> UndefinedWarning:
    """Return what says that a measure is undefined for some of all queries.

    Who asks for the reasons, as all that takes means here does, has these queries `left_out` of
    means; ``pt.Experiment`` and who takes means of the values themselves have not.
    """
    remedy = "; fairtk.drop_undefined(qrels) leaves them out" if "no useful" in reason else ""
    others = "Means are over the others."
    plain = (
        "Plain means and significance tests over these values are wrong "
        f"(with correction=, pt.Experiment says reject True){remedy}"
    )
    warning = UndefinedWarning(
        f"{short_name(measure)} is undefined (NaN) for {len(qids)} of {total} queries: "
        f"{reason}: {listed(qids)}. {others if left_out else plain}"
    )
    warning.about = measure, qids, reason
    return warning


@takes_tables
def drop_undefined(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the qrels of the queries that have at least one useful document.

    EE_R and EE_L are NaN for the others, and plain means (``pt.Experiment``) turn NaN with them.

    Args:
        qrels: ``qid``, ``docno``, ``label`` (or ir_measures' names) and any other columns; not
            changed.

    Returns:
        The rows of queries with a label above 0, in their order.
    """
    labels = Qrels(qrels, "drop_undefined", (DOCNO, LABEL), either=True)
    return qrels[labels.useful[labels.query]].reset_index(drop=True)


def _product(left: Any, right: Any) -> Any:
    if not isinstance(left, ir_measures.Measure) or not isinstance(right, ir_measures.Measure):
        return NotImplemented
    return ir_measures.measures.registry["Product"](left=left, right=right)


_UNIT = frozenset(
    (
        *("AP", "AP_IA", "Accuracy", "Bpref", "Compat", "ERR", "ERR_IA", "IPrec", "Judged", "P"),
        *("NERR8", "NERR9", "NERR10", "NERR11", "P_IA", "R", "RBP", "RR", "Rprec", "SetAP"),
        *("SetF", "SetP", "SetR", "StRecall", "Success", "alpha_nDCG", "infAP", "nDCG", "nERR_IA"),
    )
)
"""Measures of ir_measures whose values are in [0, 1]."""


def bounds_of(measure: Any) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure; infinite where none is known.

    Args:
        measure: of fairtk, a plugin or ir_measures.
    """
    if isinstance(measure, FairMeasure):
        return measure.bounds
    return (0.0, 1.0) if measure.NAME in _UNIT else (-math.inf, math.inf)
