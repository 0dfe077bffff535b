"""The settings of a study of Towards Fair RAG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairtk.errors import ParameterError
from fairtk.frames.content import digest
from fairtk.studies.fair_rag.labels import GRADES
from fairtk.studies.fair_rag.normalizing import OVER
from fairtk.studies.fair_rag.points import DETERMINISTIC, ORACLE
from fairtk.studies.fair_rag.tasks import PUBLISHED_LABELS, UTILITIES, TaskUtility
from fairtk.transformers.settings import whole

LABELS = ("published", "own")
LABEL_UTILITIES = ("paper", "code")


@dataclass(frozen=True)
class RagSettings:
    """How the study is done; the defaults are the paper's.

    Attributes:
        alphas: of the sampler, each from 0 (uniform).
        n_samples: N, rankings per query and alpha.
        cutoff: k, documents that the generator reads.
        seed: of the samplers.
        limit: queries of a task that are looked at, the first ones; None: all.
        labels: ``"published"``: those that came with the data, if any did, else own ones;
            ``"own"``: those that the generator's gains give.
        label_utility: ``"paper"``: gains in the utility of EU; ``"code"``: as the published code,
            which labels LaMP-3 by accuracy.
        grades: ``"binary"`` labels, or places among the query's distinct ``"gain"``s.
        min_useful: queries with fewer useful documents are left out.
        eu_over: whose best ranking EU is divided by: one ``"retriever"``'s or all of the
            ``"generator"``.
        eu_deterministic: whether the deterministic ranking is among them.
    """

    alphas: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    n_samples: int = 100
    cutoff: int = 5
    seed: int = 42
    limit: int | None = 1000
    labels: str = "published"
    label_utility: str = "paper"
    grades: str = "binary"
    min_useful: int = 2
    eu_over: str = "retriever"
    eu_deterministic: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        object.__setattr__(self, "alphas", _alphas(self.alphas))
        for name in ("n_samples", "cutoff", "min_useful"):
            whole(name, getattr(self, name), "the study")
        whole("seed", self.seed, "the study", least=None)
        if self.limit is not None:
            whole("limit", self.limit, "the study")
        for name, known in (
            ("labels", LABELS),
            ("label_utility", LABEL_UTILITIES),
            ("grades", GRADES),
            ("eu_over", OVER),
        ):
            if getattr(self, name) not in known:
                raise ParameterError(
                    f"the study: {name} must be one of {known}; found {getattr(self, name)!r}"
                )

    @property
    def name(self) -> str:
        """A name for a folder: what is often varied, and a digest of all."""
        return f"n{self.n_samples}-k{self.cutoff}-seed{self.seed}-{digest(self.as_json(), 3)}"

    @property
    def systems(self) -> dict[str, float | str]:
        """The systems, with the alpha of each; the two without have a word instead."""
        sampled: dict[str, float | str] = {f"alpha {alpha:g}": alpha for alpha in self.alphas}
        return {**sampled, ORACLE: ORACLE, DETERMINISTIC: DETERMINISTIC}

    def utility_of_labels(self, task: int) -> TaskUtility:
        """Return by which utility a task's documents are labeled."""
        return (UTILITIES if self.label_utility == "paper" else PUBLISHED_LABELS)[task]

    def as_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {**asdict(self), "alphas": list(self.alphas)}


def _alphas(alphas: Any) -> tuple[float, ...]:
    right = isinstance(alphas, Sequence) and not isinstance(alphas, str) and len(alphas) > 0
    numbers = right and all(isinstance(a, int | float) and not isinstance(a, bool) for a in alphas)
    if not numbers or not all(math.isfinite(a) and a >= 0 for a in alphas):
        raise ParameterError(
            f"the study: alphas must be a list of numbers from 0; found {alphas!r}"
        )
    values = tuple(sorted(float(a) for a in alphas))
    twice = sorted({a for a in values if values.count(a) > 1})
    if twice:
        raise ParameterError(f"the study: alpha {twice[0]:g} is given twice; found {alphas!r}")
    return values
