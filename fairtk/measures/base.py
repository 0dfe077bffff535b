"""`FairMeasure`: what a measure declares, and how it is asked for its values.

A measure is a class with declarations and one method. A third party writes `score_query`, which
sees one query; the built-in measures write `score_all`, which scores all queries at once with
array operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import ParameterError, UndefinedWarning, listed, suggestion, warn
from fairtk.frames.arrays import FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import DOCNO, LABEL, QID, SCORE
from fairtk.frames.qrels import Qrels
from fairtk.measures import checked
from fairtk.measures.params import NOT_GIVEN, Param
from fairtk.renamed import refuse_old_word

if TYPE_CHECKING:
    from fairtk.measures.evidence import Evidence


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
                refuse_old_word(name, self.SUPPORTED_PARAMS, self.NAME)
                raise ParameterError(f"{self.NAME} has no parameter {name!r}{self._known(name)}")
        self.params: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}  # what the measure works with, defaults included
        special = self.special_defaults(params)
        self.sizes: dict[str, IntArray] | None = None  # see `ExpectedExposure`
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

    scored = checked.scored

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the value of each query of the qrels; shape (n_queries,).

        Args:
            evidence: labels and run of all queries, encoded.
        """
        values = np.full(len(evidence.qids), np.nan)
        cutoff = self["cutoff"] if "cutoff" in self.SUPPORTED_PARAMS else None
        with checked.named_failures(self) as place:
            for index, qrels, run in evidence.by_query(cutoff):
                place.qid = evidence.qids[index]
                value = self.MISSING if run is None else self.score_query(qrels, run)
                values[index] = checked.number(self, value, place.qid)
        undefined = np.isnan(values) & evidence.present
        self.warn_undefined(evidence.qids[undefined], len(values), "score_query gave NaN")
        return values

    def wrapped(self, values: FloatArray, qids: ObjectArray) -> list[float]:
        """Return the values as ir_measures gets them; what `aggregator` needs may be attached."""
        return values.tolist()  # type: ignore[no-any-return]

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
        remedy = "; fairtk.drop_undefined(qrels) leaves them out" if "no useful" in reason else ""
        if names:
            warn(
                f"{self!r} is undefined (NaN) for {len(names)} of {total} queries: {reason}: "
                f"{listed(names)}. Plain means and significance tests over these values are wrong "
                f"(with correction=, pt.Experiment says reject True){remedy}",
                UndefinedWarning,
            )


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
