"""`Fitted`: a trained system as a stage."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.frames import QID, digest, require_columns
from fairtk.frames.ids import as_strings
from fairtk.transformers.base import FairTransformer
from fairtk.wording import format_list


class Fitted(FairTransformer):
    """Rank topics with a system that is trained on other topics.

    The system is copied before it is trained. Its copies are trained when they are needed first,
    and are kept. In an experiment, the stage is identified by the system and by its training data,
    so a stored ranking is found again without training. For example::

        folds = fairtk.experiment.folds(topics["qid"])
        trained = fairtk.Fitted(bm25 >> features >> DELTR(), topics, qrels, folds)
        fairtk.Experiment([bm25, trained], topics, qrels, ["nDCG@10"])

    Args:
        system: has ``fit(topics, qrels)`` and ``transform``, e.g. a PyTerrier estimator, or a
            pipeline with estimators, whose other stages are not copied.
        topics: the input for training: topics, or rankings if `system` reads rankings.
        qrels: the labels for training; labels of other topics are ignored.
        folds: the fold of each qid. A topic is ranked by the copy that is trained on the topics of
            the other folds; a topic without a fold by the copy that is trained on all topics.
            `None` if only other topics are ranked.
        without: a fold that no copy is trained on, see `fairtk.cross_fit`; `None` for no fold.

    Raises:
        ParameterError: the system has no method ``fit``, or `without` is not a fold.
        InputError: `folds` has no fold for a topic; a topic is ranked that the system is trained
            on; or the other folds have no topics or no labels.
    """

    identity_name = "fairtk.FittedSystem"
    output_version = 1
    LOADED: ClassVar[Mapping[str, Collection[str]]] = {
        "_copies": ("system", "topics", "qrels", "folds")
    }
    SETTINGS: ClassVar[tuple[str, ...]] = ("system", "topics", "qrels", "folds", "without")

    def __init__(
        self,
        system: Any,
        topics: pd.DataFrame,
        qrels: pd.DataFrame,
        folds: Mapping[str, int] | None = None,
        without: int | None = None,
    ) -> None:
        super().__init__()
        folds = None if folds is None else checks.mapping("folds", folds, "Fitted")
        if without is not None:
            checks.integer("without", without, "Fitted", least=None)
            if without not in (folds or {}).values():
                raise ParameterError(f"Fitted: `without` must be one of the folds, got {without}")
        if not callable(getattr(system, "fit", None)):
            raise ParameterError(f"Fitted: `system` must have a method fit, got {system!r:.80}")
        require_columns(topics, [QID], "Fitted: topics")
        require_columns(qrels, [QID], "Fitted: qrels")
        self.system = system
        self.topics = topics
        self.qrels = qrels
        self.folds = folds
        self.without = without
        self._copies = _Copies(system, topics, qrels, folds)

    def leave_out(self, fold: int) -> Fitted:
        """Return a stage whose copies are not trained on a fold; both share equal copies."""
        other = copy.copy(self)
        other.without = fold
        return other

    def prepare(self, topics: pd.DataFrame) -> None:
        """Train the copies that rank topics, which `transform` otherwise does first.

        Raises:
            InputError: see `Fitted`.
        """
        for left_out, part in self._parts(topics):
            self._copies.get(left_out, part)

    def transform_inputs(self) -> Any:
        """Return the columns that the system reads, for PyTerrier's inspection."""
        return pt.inspect.transformer_inputs(self.system)

    def settings(self) -> dict[str, Any]:
        """Return the system, a digest of the training data, and the fold that is left out."""
        return {"system": self.system, "data": self._copies.digest, "without": self.without}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Fitted)
            and self.without == other.without
            and (self._copies is other._copies or self._copies == other._copies)
        )

    def __hash__(self) -> int:
        return hash((Fitted, self.without))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the copy for each topic's fold."""
        self.check_inputs(inp, [QID])
        parts = []
        for left_out, part in self._parts(inp):
            parts.append(self._copies.get(left_out, part).transform(part))
        return pd.concat(parts, ignore_index=True)

    def _parts(self, inp: pd.DataFrame) -> Iterator[tuple[set[int], pd.DataFrame]]:
        """Yield the folds that the copy for some topics is trained without, and the topics."""
        folds = [self._copies.folds.get(qid) for qid in as_strings(inp[QID])]
        for fold in dict.fromkeys(folds) or [None]:
            is_part = np.array([f == fold for f in folds], dtype=bool)
            left_out = {f for f in (fold, self.without) if f is not None}
            yield left_out, inp[is_part].reset_index(drop=True)


class _Copies:
    """The copies of a system, each trained on the topics of all folds but some."""

    def __init__(
        self,
        system: Any,
        topics: pd.DataFrame,
        qrels: pd.DataFrame,
        folds: Mapping[str, int] | None,
    ) -> None:
        self.system = system
        # what is trained must not depend on the order of the topics
        topics, qrels = (
            frame.reset_index(drop=True).assign(**{QID: as_strings(frame[QID])})
            for frame in (topics, qrels)
        )
        self.topics = topics.sort_values(QID, kind="stable", ignore_index=True)
        self.qrels = qrels
        self.folds = {str(qid): fold for qid, fold in (folds or {}).items()}
        missing = [qid for qid in self.topics[QID].unique() if qid not in self.folds]
        if folds is not None and missing:
            raise InputError(f"Fitted: missing topics in `folds`: {format_list(missing)}")
        self._trained: dict[frozenset[int], Any] = {}

    @cached_property
    def digest(self) -> str:
        """The digest of the data for training."""
        return f"#{digest([self.topics, self.qrels, self.folds])}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Copies)
            and bool(self.system == other.system)
            and self.digest == other.digest
        )

    __hash__ = None  # type: ignore[assignment]

    def get(self, left_out: Collection[int], ranked: pd.DataFrame) -> Any:
        """Return the copy that is trained without some folds, to rank topics."""
        is_used = [self.folds.get(qid) not in left_out for qid in self.topics[QID]]
        topics = self.topics[is_used].reset_index(drop=True)
        if seen := sorted({*as_strings(ranked[QID])} & {*topics[QID]}):
            raise InputError(
                f"Fitted: cannot rank topics that the system is trained on ({format_list(seen)}); "
                "pass `folds`, or rank other topics"
            )
        qrels = self.qrels[self.qrels[QID].isin(topics[QID])]
        for name, frame in (("topics", topics), ("qrels", qrels)):
            if frame.empty:
                fold = (
                    f" outside of fold {format_list(sorted(left_out, key=str))}" if left_out else ""
                )
                raise InputError(
                    f"Fitted: no rows of `{name}`{fold} to train on; add some, or use other folds"
                )
        key = frozenset(left_out)
        if key not in self._trained:
            system = copy_to_train(self.system)
            system.fit(topics, qrels)
            self._trained[key] = system
        return self._trained[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_trained": {}}  # workers train their own


def is_trained(system: Any) -> bool:
    """Return whether a system is a PyTerrier estimator, or a pipeline with one."""
    stages = list(system) if isinstance(system, pt.Compose) else [system]
    return any(isinstance(stage, pt.Estimator) for stage in stages)


def copy_to_train(system: Any) -> Any:
    """Return a copy to train; stages of a pipeline that are not trained are shared."""
    if isinstance(system, pt.Compose):
        return pt.Compose(*(copy_to_train(s) if is_trained(s) else s for s in system))
    return copy.deepcopy(system)
