"""What was found in the data, and the verdict that follows from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

import pandas as pd

LEVELS = ("error", "warning", "note")
"""How grave a finding is: numbers would be wrong; they need care; good to know."""

SOUND, CARE, BROKEN = "sound", "usable with care", "not usable as it is"


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the numbers should know.

    Attributes:
        level: one of `LEVELS`.
        check: what was checked, a short name that stays the same.
        about: ``"run"``, ``"qrels"``, ``"groups"``, ``"target"``, or two of them.
        text: what was found, how often, and where first.
        remedy: what to do.
        count: how many rows, queries, documents or groups are concerned.
    """

    level: str
    check: str
    about: str
    text: str
    remedy: str
    count: int


@dataclass
class Diagnosis:
    """What was found in a run beside its labels.

    Attributes:
        findings: the gravest first.
        ties: one row per measure: its mean as the run is ordered (``now``), and the ``lowest`` and
            ``highest`` mean over orders of tied documents; empty without ties.
        counts: ``queries``, ``rankings`` and ``rows`` of the run, ``labeled`` queries and
            ``labels`` of the qrels, after broken rows were left out.
    """

    findings: list[Finding]
    ties: pd.DataFrame
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.findings.sort(key=lambda found: LEVELS.index(found.level))

    @property
    def verdict(self) -> str:
        """``"sound"``, ``"usable with care"`` or ``"not usable as it is"``."""
        levels = {found.level for found in self.findings}
        return BROKEN if "error" in levels else CARE if "warning" in levels else SOUND

    def number(self, level: str) -> int:
        """Return the number of findings of a level."""
        return sum(found.level == level for found in self.findings)

    @property
    def summary(self) -> str:
        """The verdict and the number of findings, in one line."""
        parts = [(self.number(level), level) for level in LEVELS]
        counts = ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for n, level in parts if n)
        return f"{self.verdict} ({counts or 'nothing found'})"

    @property
    def table(self) -> pd.DataFrame:
        """One row per finding: ``level``, ``check``, ``about``, ``count``, ``text``, ``remedy``."""
        columns = ["level", "check", "about", "count", "text", "remedy"]
        return pd.DataFrame([asdict(found) for found in self.findings], columns=columns)

    def to_json(self) -> str:
        """Return verdict, counts, findings and the effect of ties as JSON."""
        found = {
            "verdict": self.verdict,
            "counts": self.counts,
            "findings": [asdict(finding) for finding in self.findings],
            "ties": json.loads(self.ties.to_json(orient="records", double_precision=15)),
        }
        return json.dumps(found, indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        lines = [f"{self.summary}"]
        for found in self.findings:
            lines += [f"{found.level}: {found.text}", f"  -> {found.remedy}"]
        return "\n".join(lines)
