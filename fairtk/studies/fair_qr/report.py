"""The report of a study: frames, tables and figures in one folder, and a page that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pandas as pd

from fairtk.drawing import write_figure
from fairtk.fair_qr.plot import plot_trace
from fairtk.fair_qr.progress import SHARE
from fairtk.files import write_parquet
from fairtk.files.renderings import Table, cell_text, markdown_text
from fairtk.llm import KeywordRefiner
from fairtk.report import Section
from fairtk.report.svg import svg_text
from fairtk.studies.fair_qr.cells import FAIR_QR
from fairtk.studies.fair_qr.findings import Findings
from fairtk.studies.fair_qr.pages import PAGES, save_page
from fairtk.studies.fair_qr.plots import plot_iterations, plot_trade_off, plot_variation
from fairtk.studies.fair_qr.tables import all_tables, change_table, latex
from fairtk.studies.writing import file_name, write_text

FRAMES = (
    *("table", "variations", "tuning", "controls", "drift", "per_query", "rankings", "traces"),
    *("iterations", "costs", "missing"),
)
TITLES = {
    "comparison": "Systems",
    "intervals": "Changes from BM25",
    "variations": "Settings of FAIR-QR",
    "controls": "Controls",
    "drift": "Drift",
    "tuning": "Settings chosen by tuning",
    "iterations": "Refinements",
    "costs": "Costs",
}
_TRACES = 2
_LABELS = (
    "Groups are data about documents: labels that a knowledge base or a rule gave, coarse, often "
    "missing, sometimes wrong. The numbers say how near the exposure in rankings is to one target; "
    "they say nothing about a person, nor whether the target is the right one. The target comes "
    "from relevance judgments, so every system that reads it (FAIR-QR and FA*IR at retrieval time) "
    "uses an oracle."
)
_TRACE = (
    "Lines over the iterations of a topic's loop. Above: divergence, AWRF and nDCG; below: each "
    "group's share of exposure. A hollow mark was not kept. Which groups were asked for, and why "
    "the loop ended, is in the table above."
)
_RULES = (
    "The model is KeywordRefiner: terms from a table, no language model. Where a collection's "
    "labels were made by rules on words, its terms find what these rules found, so results say "
    "more about the rules than about refinement."
)


class Picture(NamedTuple):
    """A figure: its file, what it shows, and its SVG."""

    file: str
    caption: str
    figure: str


def write_report(results: Findings, folder: Path, command: str | None = None) -> Path:
    """Write everything; see `StudyResults.save`."""
    figures = folder / "figures"
    for place in (folder, figures):
        place.mkdir(parents=True, exist_ok=True)
    frames = {name: getattr(results, name) for name in FRAMES}
    for name, frame in frames.items():
        write_parquet(frame, folder / f"{name}.parquet")
    for name in ("table", "variations", "per_query"):
        write_text(folder / f"{name}.csv", frames[name].to_csv(index=False, lineterminator="\n"))
    parts = [f"# FAIR-QR on {cell_text(results.data.name)}", "", _about(results), "", _LABELS, ""]
    if any(isinstance(model, KeywordRefiner) for model in results.models.values()):
        parts += [_RULES, ""]
    parts += _missing(frames["missing"])
    tables = all_tables(results)
    pictures = _pictures(results, figures)
    for name, table in tables.items():
        write_text(folder / f"{name}.tex", latex(table))
        parts += [f"## {TITLES[name]}", "", markdown_text(table)]
        parts += _shown(pictures.get(name, []))
    sections = _sections(results, tables, pictures)
    for attribute in results.data.attributes:
        save_page(results, attribute, sections, folder / PAGES / file_name(attribute), command)
    for attribute in results.explained:
        table = change_table(results, attribute)
        parts += [f"## Why: {cell_text(attribute)}", "", markdown_text(table)]
        parts += _shown(pictures.get(f"why {attribute}", []))
    parts += _said(results)
    page = folder / "report.md"
    write_text(page, "\n".join(parts).rstrip() + "\n")
    return page


def _sections(
    results: Findings, tables: Mapping[str, Table], pictures: Mapping[str, list[Picture]]
) -> list[Section]:
    """Return what a page of the study has beside the values of one attribute."""
    models = results.models.values()
    rules = (_RULES,) if any(isinstance(model, KeywordRefiner) for model in models) else ()
    sections = [Section("Groups and targets", (_LABELS, *rules))]
    shown = {name: (TITLES[name], table) for name, table in tables.items()}
    for attribute in results.explained:
        shown[f"why {attribute}"] = (f"Why: {attribute}", change_table(results, attribute))
    for name, (title, table) in shown.items():
        sections.append(Section(title, table=table))
        for picture in pictures.get(name, []):
            sections.append(
                Section(
                    f"{title}: {picture.caption}",
                    figure=picture.figure,
                    alternative=_TRACE
                    if name.startswith("why ")
                    else f"{picture.caption}; the numbers are in the table above.",
                )
            )
    return sections


def _pictures(results: Findings, folder: Path) -> dict[str, list[Picture]]:
    """Draw the figures; return them by the table that they belong to."""
    found: dict[str, list[Picture]] = {}

    def keep(place: str, name: str, caption: str, figure: Any) -> None:
        for suffix in ("png", "pdf"):
            write_figure(figure, folder / f"{name}.{suffix}")
            figure.set_layout_engine("none")  # stays as it is: laying out takes the most time
        found.setdefault(place, []).append(Picture(f"{name}.png", caption, svg_text(figure)))

    keep("comparison", "trade_off", "nDCG against AWRF", plot_trade_off(results))
    varied = results.variations
    for name in dict.fromkeys(varied["variation"]) if len(varied) else ():
        keep("variations", name, f"FAIR-QR by {name}", plot_variation(results, name))
    traces = results.traces
    main = traces[(traces["system"] == FAIR_QR) & (traces["variation"] == "")]
    if len(main):
        keep("iterations", "iterations", "refinements per topic", plot_iterations(results))
    for attribute in dict.fromkeys(main["attribute"]):
        rows = main[main["attribute"] == attribute].drop(
            columns=["attribute", "system", "variation", "setting"]
        )
        # the other attributes' groups
        rows = rows.drop(columns=[c for c in rows if c.startswith(SHARE) and rows[c].isna().all()])
        for qid in _telling(results, attribute, rows):
            name = f"trace-{file_name(attribute)}-{file_name(qid)}"
            keep(f"why {attribute}", name, f"topic {qid}", plot_trace(rows, qid))
    return found


def _telling(results: Findings, attribute: str, rows: pd.DataFrame) -> list[str]:
    """Return the topics with the largest loss and the largest gain that were refined."""
    refined = set(rows.loc[rows["retrieved"].notna() & (rows["iteration"] > 0), "qid"])
    order = [qid for qid in results.changes(attribute)["qid"] if qid in refined]
    return list(dict.fromkeys([*order[:1], *order[-1:]]))[:_TRACES]


def _about(results: Findings) -> str:
    prefix = f"{len(results.data.topics)} topics, the first {results.settings.cutoff} ranks. Model:"
    models = dict.fromkeys(map(repr, results.models.values()))
    shown = "; ".join(map(cell_text, models))
    return f"{prefix} {shown}. Settings and versions: study.json.{results.pairs}"


def _shown(pictures: list[Picture]) -> list[str]:
    return [f"![{cell_text(p.caption)}](figures/{quote(p.file)})\n" for p in pictures]


def _missing(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    alike: dict[tuple[str, str, str], list[str]] = {}
    for row in frame.itertuples():
        varied = f", {row.variation}={row.setting}" * bool(row.variation)
        where = alike.setdefault((row.attribute, row.qid, row.reason), [])
        where.append(f"{row.system}{varied}")
    lines = [
        f"{attribute}, {'; '.join(where)}: topic {qid}: {reason}"
        for (attribute, qid, reason), where in alike.items()
    ]
    lines = [f"- {cell_text(line)}" for line in lines]
    head = "Queries without a result, which have the worst value in every table:"
    return ["## Missing", "", head, "", *lines, ""]


def _said(results: Findings) -> list[str]:
    lines = [f"- {cell_text(text)}" for text in results.warnings]
    return ["## Warnings", "", *lines, ""] if lines else []
