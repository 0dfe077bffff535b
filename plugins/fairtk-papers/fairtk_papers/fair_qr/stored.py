"""The stored results of a system of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from fairtk import Remark
from fairtk.experiment import Results
from fairtk.frames import DOCNO, QID, RANK, SCORE

RUN = [QID, DOCNO, SCORE, RANK]
CHOSEN = ["fold", "settings", "value", "topics", "seconds", "calls"]
"""The columns of a fold's tuning; ``calls`` is the number of new answers."""


@dataclass(frozen=True)
class SystemResults:
    """The results of one system.

    Attributes:
        rankings: R, in the order of the topics.
        notes: the notes of `StudySystem` by qid, also those of failed queries.
        errors: the reason for each missing result, by qid.
        remarks: the remarks of the system on its queries.
    """

    rankings: pd.DataFrame
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()

    @classmethod
    def of(cls, results: Results, name: str, qids: Sequence[str]) -> SystemResults:
        """Return the results of a system in an experiment, in the order of `qids`."""
        number = {qid: number for number, qid in enumerate(qids)}
        rankings = results.rankings(name).reindex(columns=RUN)
        rankings = rankings.sort_values(QID, key=lambda q: q.map(number), kind="stable")
        notes = results.notes(name)
        by_qid = dict(zip(notes[QID], notes["note"], strict=True))
        failures = results.failures[results.failures["system"] == name]
        return cls(
            rankings.reset_index(drop=True),
            {qid: by_qid[qid] for qid in qids if qid in by_qid},
            dict(zip(failures[QID], failures["error"], strict=True)),
            [replace(r, system="") for r in results.remarks if r.system == name and r.stage],
        )

    @property
    def finished_qids(self) -> set[str]:
        """The queries with a result."""
        return self.notes.keys() - self.errors.keys()

    @property
    def empty_qids(self) -> list[str]:
        """The queries with a result that has no document."""
        return sorted(self.finished_qids.difference(self.rankings[QID]))

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The rows of all traces."""
        rows = [row for note in self.notes.values() for row in note["trace"]]
        return pd.DataFrame(rows) if rows else pd.DataFrame(columns=[QID])

    @property
    def choices(self) -> pd.DataFrame:
        """The tuned settings of each fold."""
        rows = [note["chosen"] for note in self.notes.values() if note["chosen"]]
        frame = pd.DataFrame(rows, columns=CHOSEN).drop_duplicates("fold")
        return frame.sort_values("fold", ignore_index=True)

    @property
    def warnings(self) -> list[str]:
        """The texts of the remarks.

        Left out are those on queries that could not be refined, which the next run may complete,
        and on ``pool="union"``, whose lack of an effect the study shows.
        """
        left_out = ("not refined", "no effect")
        return [remark.text for remark in self.remarks if remark.kind not in left_out]

    def total(self, name: str) -> float:
        """Return the sum of a number in the notes."""
        return float(sum(note[name] for note in self.notes.values()))
