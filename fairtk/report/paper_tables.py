"""Means with marks of significance, as tables for papers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pandas as pd

from fairtk import checks
from fairtk.display import MarkedText, Table, latex_text, markdown_text, rounded_text
from fairtk.errors import ParameterError, UndefinedWarning, warn
from fairtk.experiment.compare_runs import DRAWING, Comparison
from fairtk.experiment.comparison import SystemComparison
from fairtk.experiment.results import Results, system_comparison
from fairtk.frames import QID
from fairtk.report.tables import (
    CONFIDENCE,
    NO_TEST,
    TEST_NAMES,
    caption_texts,
    corrected_for,
    failure_texts,
    means_of,
    queries_tested,
)
from fairtk.statistics.corrections import CORRECTIONS
from fairtk.statistics.tests import TESTS
from fairtk.wording import count_text


def to_latex(results: Results, baseline: str | None, **options: Any) -> str:
    """Return the means as a LaTeX table; see `Results.to_latex`."""
    checks.parameters(options, "to_latex", paper_table)
    return latex_text(paper_table(results, baseline, **options))


def to_markdown(results: Results, baseline: str | None, **options: Any) -> str:
    """Return the means as a Markdown table; see `Results.to_latex`."""
    checks.parameters(options, "to_markdown", paper_table)
    return markdown_text(paper_table(results, baseline, **options))


def paper_table(
    results: Results,
    baseline: str | None,
    *,
    digits: int = 4,
    test: str | None = None,
    correction: str | None = None,
    significance: float = 0.05,
    pairs: bool = False,
) -> Table:
    """Return the means with ranks and signs of significance; see `Results.to_latex`."""
    checks.integer("digits", digits)
    settings = _settings(results)
    if baseline is None:
        baseline = settings["baseline"]
    if baseline is not None:
        if str(baseline) not in results.systems and str(baseline).endswith((".tex", ".md")):
            raise ParameterError(f"to write a file, pass path={str(baseline)!r}")
        checks.known("system", baseline, results.systems)
    if pairs:  # letters despite a baseline
        baseline = None
    correction = correction or settings["correction"]
    drawing = {k: v for k, v in settings.items() if k not in ("baseline", "correction")}
    drawing["test"] = test or drawing["test"]
    checks.known("test", drawing["test"], TESTS)
    checks.known("correction", correction, CORRECTIONS)
    has_tests = len(results.systems) > 1 and bool(results.measures)
    signs: dict[tuple[str, str], str] = {}
    counts: dict[str, int] = {}
    if has_tests:
        compared = system_comparison(results, baseline or results.systems[0])
        signs, counts = _signs(compared, baseline, drawing, str(correction), significance)
    is_tested = any(counts.values())
    letters = is_tested and baseline is None
    heads = [f"{m} {_ARROWS[m.better]}" for m in results.measures]
    columns = [_cells(means_of(results, m), digits, m.better, signs) for m in results.measures]
    best = ""
    if any(cell.place for column in columns for cell in column):
        best = f"; the best of a measure is bold{_SECOND * (len(results.systems) > 2)}"
    n = count_text(results.per_query[QID].nunique(), "query", "queries")
    caption = f"Means over {n}{best}.{f' {NO_TEST}.' * has_tests}"
    if is_tested:
        corrected = corrected_for(str(correction), counts, len(results.systems), letters)
        caption = (
            f"Means{best}. {_meaning(baseline)} ({TEST_NAMES[drawing['test']]}, two-sided, "
            f"{corrected}, p < {significance:g}; {queries_tested(compared)})."
        )
    if len(results.failures):
        heads.append("failed")
        columns.append([MarkedText(str(n)) for n in results.means["failed"]])
    rows = [list(row) for row in zip(results.systems, *columns, strict=True)]
    if letters:
        rows = [[_letter(i), *row] for i, row in enumerate(rows)]
    text = " ".join([caption, *_summary_texts(results)])
    heads = [*(["#"] if letters else []), "system", *heads]
    return Table(heads, rows, text)


def _summary_texts(results: Results) -> list[str]:
    """Return the texts on undefined values, failed queries, and remarks."""
    texts = []
    counts = results.counts
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        numbers = ", ".join(
            f"{s}: {u}" for s, u in zip(part["system"], part["undefined"], strict=True)
        )
        if len(part) == len(results.systems) and part["undefined"].nunique() == 1:
            numbers = str(part["undefined"].iloc[0])
        texts.append(f"Queries excluded because {measure} is undefined: {numbers}.")
    return [*texts, *failure_texts(results), *caption_texts(results)]


def _settings(results: Results) -> dict[str, Any]:
    """Return the baseline, test and correction of a table, if none are given."""
    if not isinstance(results, Comparison):
        drawing = {"test": "t", "confidence": CONFIDENCE}
        return {"baseline": results.baseline, "correction": "holm", **drawing}
    baseline = results.baseline if results.settings["is_named"] else None
    names = (*DRAWING, "correction")
    return {"baseline": baseline, **{name: results.settings[name] for name in names}}


def _signs(
    compared: SystemComparison,
    baseline: str | None,
    drawing: Mapping[str, Any],
    correction: str,
    significance: float,
) -> tuple[dict[tuple[str, str], str], dict[str, int]]:
    """Return the signs of means by measure and system, and the numbers of tests by measure."""
    systems = compared.systems
    if baseline is None:
        pairs = list(combinations(range(len(systems)), 2))

        def on_untested(text: str) -> None:
            warn(text, UndefinedWarning, stacklevel=6)

        wins, counts = compared.wins(pairs, drawing, correction, significance, on_untested)
        losers: dict[tuple[str, str], list[int]] = {}
        for measure, winner, loser in wins:
            losers.setdefault((measure, systems[winner]), []).append(loser)
        comma = "," if len(systems) > _ALPHABET else ""
        signs = {key: comma.join(map(_letter, sorted(of))) for key, of in losers.items()}
        return signs, counts
    other = systems.index(baseline)
    pairs = [(i, other) for i in range(len(systems)) if i != other]
    # undefined tests have no dagger
    wins, counts = compared.wins(pairs, drawing, correction, significance)
    signs = {
        (measure, systems[loser if winner == other else winner]): "\u2021"
        if winner == other
        else "\u2020"
        for measure, winner, loser in wins
    }
    return signs, counts


_ALPHABET = 26
_ARROWS = {"higher": "\u2191", "lower": "\u2193"}
_SECOND = ", the second is underlined"


def _letter(index: int) -> str:
    """Return the letters of a system: a to z, aa, ab, and so on."""
    rest, last = divmod(index, _ALPHABET)
    return (_letter(rest - 1) if rest else "") + chr(ord("a") + last)


def _meaning(baseline: str | None) -> str:
    if baseline is None:
        return "Superscript letters: better than these systems"
    return f"\u2020 better, \u2021 worse than {baseline}"


def _cells(
    means: pd.Series, digits: int, better: str, signs: Mapping[tuple[str, str], str]
) -> list[MarkedText]:
    """Return the cells of a measure; means with equal rounded values have equal marks."""
    values = means.round(digits)
    order = values.dropna().drop_duplicates().sort_values(ascending=better == "lower").tolist()
    ranks = {value: rank for rank, value in enumerate(order[: 1 + (len(means) > 2)], 1)}
    return [
        MarkedText(
            rounded_text(mean, digits),
            ranks.get(value, 0) if len(order) > 1 else 0,
            signs.get((str(means.name), str(system)), ""),
        )
        for system, mean, value in zip(means.index, means, values, strict=True)
    ]
