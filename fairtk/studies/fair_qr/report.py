"""The figures of a study: a trade-off, the overfitting question, other settings, single queries."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pandas as pd

from fairtk.errors import FairtkWarning, InputError
from fairtk.experiment import Experiment, Results
from fairtk.frames import QID, QUERY, RANK
from fairtk.io import (
    BLACK,
    BLUE,
    GRAY,
    PALETTE,
    VERMILION,
    Points,
    Series,
    Table,
    cell_text,
    draw_trade_off,
    markdown_text,
    new_figure,
    open_axes,
    svg_text,
    write_figure,
    write_parquet,
)
from fairtk.llm import KeywordRefiner
from fairtk.report import Section, save_sections
from fairtk.studies.fair_qr.systems import BM25, FAIR_QR, TUNED
from fairtk.studies.fair_qr.tables import all_tables, change_table, latex
from fairtk.studies.fair_qr.values import FAIRNESS, MEASURES, NDCG, measures
from fairtk.studies.frame import file_name, write_text
from fairtk.transformers import SHARE, plot_trace

if TYPE_CHECKING:
    from fairtk.studies.fair_qr.results import StudyResults

COLORS = {NDCG: BLUE, FAIRNESS: VERMILION, MEASURES[2]: BLACK}
"""Told apart by line and mark in grey, too."""
_OTHERS = tuple(color for color in PALETTE if color not in (VERMILION, BLACK))
_MARKS = {NDCG: ("o", "-"), FAIRNESS: ("s", "--"), MEASURES[2]: ("^", ":")}


def plot_trade_off(results: StudyResults) -> Any:
    """Return a figure: relevance against fairness of each system, one panel per attribute."""
    figure, panels = _panels(results.table, (5.2, 4.6), share=False)
    for axis, _, rows in panels:
        _curves_of_equal_product(axis, rows)
        # one mark for a system, one color for the model and retriever that it is built on
        built = [name.removesuffix(TUNED).partition(" [") for name in rows["system"]]
        marks = list(dict.fromkeys(kind for kind, _, _ in built))
        others = list(dict.fromkeys(pair for _, _, pair in built if pair))
        points = []
        for (kind, _, pair), (_, row) in zip(built, rows.iterrows(), strict=True):
            own = row["system"] == BM25 or kind.startswith("fair-qr")
            color = COLORS[FAIRNESS] if own else GRAY
            if pair:
                color = _OTHERS[others.index(pair) % len(_OTHERS)]
            if row["system"] == BM25:
                color = BLACK
            look = Series(color, "osD^vP*X<>h"[marks.index(kind) % 11], "none")
            x, y = (np.array([row[measure]]) for measure in (NDCG, FAIRNESS))
            ends = [_ends(row, measure) for measure in (NDCG, FAIRNESS)]
            hollow = not own or row["system"].endswith(TUNED)
            points.append(Points(x, y, look, row["system"], ends[0], ends[1], hollow))
        heads = ("nDCG", "more relevant →"), ("AWRF", "nearer to the target →")
        names = (f"{name}@{results.settings.cutoff} ({better})" for name, better in heads)
        draw_trade_off(axis, points, *names)
    title = "Means and intervals over topics; on the thin curve the product of means is BM25's"
    return _titled(figure, title, columns=4)


def plot_variation(results: StudyResults, name: str) -> Any:
    """Return a figure: the measures against one setting of FAIR-QR, one panel per attribute.

    Args:
        results: the study.
        name: the setting, e.g. ``"max_iterations"``.

    Raises:
        InputError: the study did not vary it.
    """
    table = results.variations
    rows = table[table["variation"] == name] if len(table) else table
    if rows.empty:
        raise InputError(f"the study did not vary {name!r}")
    figure, panels = _panels(rows, (4.8, 3.8))
    for axis, attribute, part in panels:
        places = np.arange(len(part))
        for shift, measure in zip((-0.06, 0.0, 0.06), MEASURES, strict=True):
            mark, line = _MARKS[measure]
            low, high = (part[f"{measure} {end}"] for end in ("low", "high"))
            axis.errorbar(
                *(places + shift, part[measure]),
                yerr=np.clip([part[measure] - low, high - part[measure]], 0.0, None),
                fmt=mark + line,
                color=COLORS[measure],
                elinewidth=0.8,
                capsize=2,
                label=f"{measure}@{results.settings.cutoff}",
            )
            base = _baseline(results, attribute, measure)
            axis.axhline(base, color=COLORS[measure], linewidth=0.7, alpha=0.5)
        axis.set_xticks(places, part["setting"])
        axis.set_xlabel(name.replace("_", " "))
    figure.axes[0].set_ylabel("mean over topics")
    return _titled(figure, f"FAIR-QR by {name.replace('_', ' ')}; thin lines: BM25", columns=3)


def plot_iterations(results: StudyResults) -> Any:
    """Return a figure: how many topics kept how many refinements, one panel per attribute."""
    traces = results.traces
    traces = traces[(traces["variation"] == "") & (traces["system"] == "fair-qr")]
    if traces.empty:
        raise InputError("the study has no trace of FAIR-QR")
    figure, panels = _panels(traces, (4.0, 3.2))
    for axis, _, rows in panels:
        later = rows["iteration"] > 0
        counts = {
            "asked": later.groupby(rows["qid"]).sum(),
            "kept": (later & rows["kept"].astype(bool)).groupby(rows["qid"]).sum(),
        }
        most = int(max(counted.max() for counted in counts.values()))
        for shift, (name, counted) in zip((-0.2, 0.2), counts.items(), strict=True):
            heights = np.bincount(counted.to_numpy(dtype=np.int64), minlength=most + 1)
            color = {"asked": "#999999", "kept": COLORS[NDCG]}[name]
            axis.bar(np.arange(most + 1) + shift, heights, 0.38, color=color, label=name)
        axis.set_xticks(range(most + 1))
        axis.set_xlabel("refinements of a topic")
    figure.axes[0].set_ylabel("topics")
    figure.axes[-1].legend(fontsize="small", frameon=False)
    return figure


def need_matplotlib() -> None:
    """Raise a `MissingExtraError` unless matplotlib is installed."""
    _figure((1.0, 1.0))


def _figure(size: tuple[float, float]) -> Any:
    return new_figure(size, "the figures of a study")


def _panels(
    frame: pd.DataFrame, size: tuple[float, float], share: bool = True
) -> tuple[Any, list[tuple[Any, str, pd.DataFrame]]]:
    """Return a figure, and a panel for each attribute with the attribute's rows.

    Args:
        frame: rows with ``attribute``.
        size: of a panel, in inches.
        share: whether the panels have one vertical axis.
    """
    parts = list(frame.groupby("attribute", sort=False))
    figure = _figure((size[0] * len(parts), size[1]))
    axes = np.atleast_1d(figure.subplots(1, len(parts), sharey=share))
    for axis, (attribute, _) in zip(axes, parts, strict=True):
        axis.set_title(attribute, fontsize="medium")
    open_axes(*axes)
    return figure, [(axis, str(name), rows) for axis, (name, rows) in zip(axes, parts, strict=True)]


def _titled(figure: Any, title: str, columns: int) -> Any:
    """Return a figure with a title, and one legend below its panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small")
    figure.suptitle(fill(title, 48 * len(figure.axes)), fontsize="medium")
    return figure


def _ends(row: pd.Series, measure: str) -> Any:
    value = row[measure]
    ends = [[value - row[f"{measure} low"]], [row[f"{measure} high"] - value]]
    return np.maximum(ends, 0.0) if np.isfinite(ends).all() else None


def _curves_of_equal_product(axis: Any, rows: pd.DataFrame) -> None:
    """Draw the product of BM25's means as a curve: above it, the product of means is larger."""
    base = rows[rows["system"] == BM25].iloc[0]
    x = np.linspace(rows[NDCG].min() * 0.97, rows[NDCG].max() * 1.03, 60)
    x = x[x > 0]  # a system that finds nothing has 0
    axis.plot(x, base[NDCG] * base[FAIRNESS] / x, color="#bbbbbb", linewidth=0.9, zorder=0)
    ends = rows[[FAIRNESS, f"{FAIRNESS} low", f"{FAIRNESS} high"]]
    low, high = ends.min().min(), ends.max().max()
    if not np.isfinite([low, high]).all():  # undefined, as the report says
        return
    room = max(high - low, 0.02) * 0.1
    axis.set_ylim(low - room, min(high + room, 1.005))


def _baseline(results: StudyResults, attribute: str, measure: str) -> float:
    table = results.table
    here = (table["attribute"] == attribute) & (table["system"] == BM25)
    return float(table.loc[here, measure].iloc[0])


PAGES = "pages"
"""The folder of a study with a folder for each attribute."""
SHOWN = 10  # ranks with texts


def save_page(
    results: StudyResults,
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


def _comparison(results: StudyResults, attribute: str) -> Results:
    groups, target = results.data.attributes[attribute]
    asked = measures(groups, target, results.settings.cutoff, results.settings.ndcg)
    cells = [c for c in results.systems if c.attribute == attribute and not c.variation]
    runs = {cell.label: _with_texts(results, results.systems[cell].rankings) for cell in cells}
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


def _with_texts(results: StudyResults, run: pd.DataFrame) -> pd.DataFrame:
    """Return rankings with their queries, and texts of the documents that a page shows."""
    run = run.merge(results.data.topics[[QID, QUERY]], on=QID, how="left")
    top = run[run[RANK] < SHOWN]
    return pd.concat([results.data.texts(top), run[run[RANK] >= SHOWN]], ignore_index=True)


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


def write_report(results: StudyResults, folder: Path, command: str | None = None) -> Path:
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
    results: StudyResults, tables: Mapping[str, Table], pictures: Mapping[str, list[Picture]]
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


def _pictures(results: StudyResults, folder: Path) -> dict[str, list[Picture]]:
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


def _telling(results: StudyResults, attribute: str, rows: pd.DataFrame) -> list[str]:
    """Return the topics with the largest loss and the largest gain that were refined."""
    refined = set(rows.loc[rows["retrieved"].notna() & (rows["iteration"] > 0), "qid"])
    order = [qid for qid in results.changes(attribute)["qid"] if qid in refined]
    return list(dict.fromkeys([*order[:1], *order[-1:]]))[:_TRACES]


def _about(results: StudyResults) -> str:
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


def _said(results: StudyResults) -> list[str]:
    lines = [f"- {cell_text(text)}" for text in results.warnings]
    return ["## Warnings", "", *lines, ""] if lines else []
