"""Sampled runs whose samples were mixed by a transformer that groups its input by qid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairtk.frames import RANK, Run

REMEDY = "wrap transformers that group their input by qid, e.g. PerSample(reranker % 5)"


@dataclass(frozen=True)
class SampleCheck:
    """The ranks and the numbers of samples of a sampled run.

    Attributes:
        n_rankings: the number of rankings.
        n_mixed: the number of rankings whose ranks are not 0, 1, 2, ... (or 1, 2, 3, ... in the
            whole run).
        mixed: the qid and the sample of the first of them.
        fewest: the smallest number of samples of a query, and the query.
        most: the largest number of samples of a query, and the query.
    """

    n_rankings: int
    n_mixed: int
    mixed: tuple[str, int] | None
    fewest: tuple[int, str]
    most: tuple[int, str]

    @classmethod
    def of(cls, run: Run) -> SampleCheck | None:
        """Return the check of a run; `None` if no measure has sorted it or it has no samples."""
        if not run.sampled or "_sorted" not in vars(run) or not len(run):
            return None
        mixed = np.zeros(0, dtype=np.int64)
        if RANK in run.frame.columns:
            start = run.ranks[run.order] - run.position
            first = min(max(int(start.min()), 0), 1)
            mixed = np.unique(run.ranking[start != first])
        low, high = int(run.n_samples.argmin()), int(run.n_samples.argmax())
        return cls(
            run.n_rankings,
            len(mixed),
            (str(run.qids[run.ranking_query[mixed[0]]]), int(run.ranking_sample[mixed[0]]))
            if len(mixed)
            else None,
            (int(run.n_samples[low]), str(run.qids[low])),
            (int(run.n_samples[high]), str(run.qids[high])),
        )

    def joined(self, other: SampleCheck) -> SampleCheck:
        """Return the check of this run with further queries."""
        return SampleCheck(
            self.n_rankings + other.n_rankings,
            self.n_mixed + other.n_mixed,
            self.mixed or other.mixed,
            min(self.fewest, other.fewest, key=lambda count: count[0]),
            max(self.most, other.most, key=lambda count: count[0]),
        )


def sample_warnings(checks: Mapping[str, SampleCheck]) -> list[str]:
    """Return a message for each system whose samples were mixed."""
    texts = []
    for system, check in checks.items():
        of_system = f" of {system}" if system else ""
        if check.mixed is not None:
            qid, sample = check.mixed
            texts.append(
                f"the ranks in {check.n_mixed} of {check.n_rankings} sampled rankings{of_system} "
                f"are not 0, 1, 2, ... (the first: qid {qid!r}, sample {sample}), so its samples "
                f"were ranked or cut together; {REMEDY}"
            )
        elif check.fewest[0] < check.most[0]:
            texts.append(
                f"queries{of_system} have different numbers of samples, from {check.fewest[0]} "
                f"(qid {check.fewest[1]!r}) to {check.most[0]} (qid {check.most[1]!r}), so some "
                f"may be lost; {REMEDY}"
            )
    return texts
