"""The results of a study: its frames, and the folder that shows them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from fairtk.studies.fair_qr.findings import Findings
from fairtk.studies.fair_qr.report import write_report


class StudyResults(Findings):
    """What a study found so far. All frames are tidy; `save` writes them, tables and figures.

    Args:
        data: what the study is about.
        settings: how it was done.
        kept: what there is of each cell.
        llm: the model.
        prices: of models.
    """

    def save(self, folder: str | PathLike[str], command: str | None = None) -> Path:
        """Write frames (Parquet, CSV), tables (Markdown, LaTeX), figures and ``report.md``.

        Every file appears in one step.

        Args:
            folder: where to.
            command: that makes these results, for pages that show them.

        Returns:
            The path of the report.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        return write_report(self, Path(folder), command)
