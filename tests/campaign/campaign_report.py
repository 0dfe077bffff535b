"""Counts of a campaign, as tables."""

from __future__ import annotations

from collections import Counter

from campaign_case import FAILURES, OK, Verdict

MOST = 60


def table(verdicts: list[Verdict]) -> list[str]:
    """Return the counts by family and kind of mutation."""
    found = [outcome for outcome in FAILURES if any(v.outcome == outcome for v in verdicts)]
    header = ["family", "kind", "cases", "values", "errors", *found]
    rows = []
    for family in sorted({v.family for v in verdicts}):
        kinds = sorted({v.kind for v in verdicts if v.family == family})
        for kind in [*kinds, None]:
            own = [v for v in verdicts if v.family == family and kind in (None, v.kind)]
            good = Counter(v.got for v in own if v.outcome == OK)
            counts = [sum(v.outcome == outcome for v in own) for outcome in found]
            name = "all" if kind is None else kind or "?"
            rows.append([family, name, len(own), good["value"], good["error"], *counts])
    return _aligned([header, *rows])


def failures(verdicts: list[Verdict]) -> list[str]:
    """Return a line for each mutation that failed, with how often and one case."""
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.outcome != OK:
            key = (verdict.family, verdict.outcome, verdict.mutation)
            groups.setdefault(key, []).append(verdict)
    lines = []
    for (family, outcome, mutation), own in sorted(groups.items(), key=lambda kv: -len(kv[1])):
        one = min(own, key=lambda v: len(v.detail))
        rooms = sorted({v.room for v in own})
        shown = ", ".join(rooms[:4]) + (f" and {len(rooms) - 4} more" if len(rooms) > 4 else "")
        lines.append(
            f"{len(own)} x {outcome}: {mutation} ({shown}); --campaign-case {family}:{one.seed} "
            f"in {one.room}: {' '.join(one.detail.split())[-400:]}"
        )
    rest = len(lines) - MOST
    return lines[:MOST] + ([f"... and {rest} more classes"] if rest > 0 else [])


def _aligned(rows: list[list[object]]) -> list[str]:
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in texts]  # fmt: skip
