"""Reports: results as one page of HTML that asks for nothing, to read, print and send.

    results.report("report.html")

`Section` adds what a study has beyond tables of means: prose, a table, a figure.
"""

from __future__ import annotations

from fairtk.report.page import page_text, write_report
from fairtk.report.reported import Reported
from fairtk.report.sections import Section, load_sections, save_sections

__all__ = [
    "Reported",
    "Section",
    "load_sections",
    "page_text",
    "save_sections",
    "write_report",
]
