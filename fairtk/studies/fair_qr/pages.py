"""What ``fairtk report`` shows of a study: each attribute's comparison as saved results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fairtk.errors import FairtkWarning
from fairtk.experiment import Experiment, Results
from fairtk.frames.columns import QID, QUERY, RANK
from fairtk.report import Section, save_sections
from fairtk.studies.fair_qr.cells import BM25
from fairtk.studies.fair_qr.findings import Findings
from fairtk.studies.fair_qr.values import measures

PAGES = "pages"
"""The folder of a study with a folder for each attribute."""
SHOWN = 10  # ranks with texts


def save_page(
    results: Findings,
    attribute: str,
    sections: Sequence[Section],
    folder: Path,
    command: str | None = None,
) -> None:
    """Save the comparison of one attribute, where ``fairtk report`` finds it.

    Args:
        results: the study's.
        attribute: the attribute.
        sections: what the page has beside values.
        folder: where to.
        command: that makes the results, for the page to say.
    """
    found = _comparison(results, attribute)
    found.config |= {} if command is None else {"command": command}
    found.save(folder)
    save_sections(folder, sections)


def _comparison(results: Findings, attribute: str) -> Results:
    groups, target = results.data.attributes[attribute]
    asked = measures(groups, target, results.settings.cutoff, results.settings.ndcg)
    cells = [c for c in results.kept if c.attribute == attribute and not c.variation]
    runs = {cell.label: _with_texts(results, results.kept[cell].rankings) for cell in cells}
    with warnings.catch_warnings():  # the study has said them
        warnings.simplefilter("ignore", FairtkWarning)
        found: Results = Experiment(
            runs,
            results.data.topics,
            results.data.qrels,
            asked.values(),
            baseline=BM25 if BM25 in runs else None,
            save_dir=results.store,
        )
    lost = results.missing
    lost = lost[(lost["attribute"] == attribute) & (lost["variation"] == "")]
    found.failures = lost.rename(columns={"reason": "error"})[["system", QID, "error"]]
    found.environment.pop("time")  # equal results are equal files
    found.config = {
        "title": f"FAIR-QR on {results.data.name}: {attribute}",
        "data": results.data.name,
        "attribute": attribute,
        "model": repr(results.llm),
        "warnings": results.warned(attribute),
    }
    return found


def _with_texts(results: Findings, run: pd.DataFrame) -> pd.DataFrame:
    """Return rankings with their queries, and texts of the documents that a page shows."""
    run = run.merge(results.data.topics[[QID, QUERY]], on=QID, how="left")
    top = run[run[RANK] < SHOWN]
    return pd.concat([results.data.texts(top), run[run[RANK] >= SHOWN]], ignore_index=True)
