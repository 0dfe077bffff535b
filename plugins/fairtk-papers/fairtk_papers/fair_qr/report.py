"""What readers get of a study: tables, figures, a page for each attribute, and the report."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pandas as pd

from fairtk.display import (
    PALETTE,
    Points,
    SeriesStyle,
    Table,
    despine,
    draw_trade_off,
    latex_text,
    markdown_text,
    new_figure,
    svg_text,
)
from fairtk.display.tables import cell_text
from fairtk.errors import InputError
from fairtk.io import write_parquet
from fairtk.llm import KeywordRefiner
from fairtk.report import Section, save_sections
from fairtk.report.tables import interval, signed
from fairtk.transformers import plot_trace
from fairtk.transformers.fair_qr.ordering import target_shares
from fairtk_papers.fair_qr.systems import BM25, FAIR_QR, NOT_RERANKED, RANDOM, TUNED
from fairtk_papers.fair_qr.values import (
    FAIRNESS,
    LEAST_KEPT,
    LEAST_OVERLAP,
    MEASURES,
    NDCG,
    PRODUCT,
)
from fairtk_papers.studies import (
    BLACK,
    BLUE,
    FIGURES_FOLDER,
    GRAY,
    VERMILION,
    file_name,
    write_pictures,
    write_tables,
    write_text,
)

if TYPE_CHECKING:
    from fairtk_papers.fair_qr.results import QrResults

PAPER = {  # system, attribute ("" where the measure does not depend on groups), measure
    (BM25, "", NDCG): 0.6638,
    ("vector-search", "", NDCG): 0.4771,
    (FAIR_QR, "gender", NDCG): 0.6530,
    (NOT_RERANKED, "gender", NDCG): 0.6423,
    (BM25, "gender", FAIRNESS): 0.8857,
    (BM25, "geography", FAIRNESS): 0.7895,
    (FAIR_QR, "gender", PRODUCT): 0.6083,
    (FAIR_QR, "geography", FAIRNESS): 0.7661,
}
"""Table 1 of FAIR-QR (Chen and Fang 2025), as far as it is known."""
PAPER_CUTOFF, PAPER_ATTRIBUTES = 20, ("gender", "geography")


def paper_table(results: QrResults) -> Table:
    """Return the numbers that the FAIR-QR paper reports, next to the study's.

    There are no rows for other attributes, cutoffs and systems than the paper's.
    """
    table, rows = results.table, []
    for (system, of, measure), printed in PAPER.items():
        for attribute in dict.fromkeys(table["attribute"]):
            base = attribute.partition(" (")[0]
            own = table[(table["attribute"] == attribute) & (table["system"] == system)]
            known = results.settings.cutoff == PAPER_CUTOFF and base in PAPER_ATTRIBUTES
            if known and len(own) and of in ("", base):
                value = float(own[measure].iloc[0])
                target = results.data.target_of(attribute)
                cells = [f"{value:.4f}", f"{printed:.4f}", signed(value - printed)]
                named = [attribute, target] if of else ["", ""]
                rows.append([*named, system, measure, *cells])
                if not of:  # the same for all attributes
                    break
    caption = (
        f"{results.data.name}, {len(results.data.topics)} topics, next to Table 1 of FAIR-QR "
        "(Chen and Fang 2025). The data differ: the paper ran on the 6.5 million articles of TREC "
        "Fair Ranking 2022 with GPT-4o. It does not say on which topics, with which settings of "
        "BM25, which nDCG and which exposure; its target is proportional to relevance. Its two "
        "numbers by geography contradict each other: .7661 is called the highest AWRF, and BM25 "
        "has .7895. The others of its Table 1 are not known here."
    )
    heads = ["attribute", "target", "system", "measure", "here", "paper", "difference"]
    return Table(heads, rows, caption)


UNKNOWN = "-"
"""In place of a price or a count that nobody knows; 0 is one that is known."""

LEVEL = 0.05
"""The corrected p-value below which a difference is marked."""
INTERVALS = "95 % intervals over topics (Student's t)"
HIGHER, LOWER = "+", "-"
"""Marks of values that differ from BM25's by more than chance makes likely."""


def comparison(results: QrResults) -> Table:
    """Return the paper's Table 1: systems by rows, the three measures for each attribute."""
    settings, table = results.settings, results.table
    attributes = list(dict.fromkeys(table["attribute"]))
    heads = [f"{a} {m}@{settings.cutoff}" for a in attributes for m in MEASURES]
    rows = []
    for system in dict.fromkeys(table["system"]):
        cells, lost = [system], []
        for attribute in attributes:
            own = table[(table["attribute"] == attribute) & (table["system"] == system)]
            if own.empty:
                cells += [""] * len(MEASURES)
                continue
            row = own.iloc[0]
            cells += [_mean(row, m) for m in MEASURES]
            if row["missing"]:
                lost.append(f"{attribute}: {row['missing']} of {len(results.data.topics)} missing")
        if lost:
            cells[0] += f" ({', '.join(lost)})"
        rows.append(cells)
    test = "paired t-test against BM25"
    if settings.correction != "none":
        test += f", {settings.correction} over the systems of an attribute"
    caption = (
        f"Means over {len(results.data.topics)} topics. {results.data.target_text} {HIGHER} or "
        f"{LOWER}: above or below BM25, p < {LEVEL} ({test}). nDCG as in "
        f"{'the track (ranks 1 and 2 weigh alike)' if settings.ndcg == 'TREC' else 'trec_eval'}. "
        f"Queries without a result have the worst value.{results.pairs}{_on_missing(table)}"
    )
    return Table(["system", *heads], rows, caption)


def interval_table(results: QrResults) -> Table:
    """Return the changes from BM25 with their intervals."""
    columns = ["attribute", "system", *MEASURES, "product of means"]
    rows = [
        [*row[columns[:2]], *(_change(row, m) for m in MEASURES), f"{row[columns[-1]]:.4f}"]
        for _, row in results.table.iterrows()
        if row["system"] != BM25
    ]
    caption = (
        f"Changes from BM25 with {INTERVALS}, {_uncorrected(rows)}. The tests are in the table of "
        f"systems. {results.data.target_text} The product of the means is not the mean of the "
        "products."
    )
    return Table(columns, rows, caption)


def variation_table(results: QrResults) -> Table:
    """Return FAIR-QR with one setting varied, and how often queries were refined."""
    table, counts = results.variations, results.iterations
    counts = counts[counts["count"] == "kept"]
    rows = []
    for _, row in table.iterrows():
        same = counts
        for name in ("attribute", "variation", "setting"):
            same = same[same[name] == row[name]]
        mean = f"{same['mean'].iloc[0]:.2f}" if len(same) else ""
        means = [f"{row[m]:.4f}" for m in MEASURES]
        change = _change(row, PRODUCT)
        rows.append([row["attribute"], row["variation"], row["setting"], *means, change, mean])
    caption = (
        "FAIR-QR with one setting varied; the others as configured. Exploratory: not tested. "
        f"{results.data.target_text} "
        f"Change: of the product, from BM25, with {INTERVALS}, {_uncorrected(rows)}."
    )
    heads = ["attribute", "setting", "value", *MEASURES, "change", "refinements kept"]
    return Table(heads, rows, caption)


def control_table(results: QrResults) -> Table:
    """Return FAIR-QR against its placebo, and both against BM25."""
    rows = []
    for (attribute, system, against), part in results.controls.groupby(
        ["attribute", "system", "against"], sort=False
    ):
        cells = [
            f"{signed(row.difference)} {interval(row.low, row.high)}" for row in part.itertuples()
        ]
        rows.append([str(attribute), str(system), str(against), *cells])
    caption = (
        f"Paired differences with {INTERVALS}, {_uncorrected(rows)}. Tests against BM25 are in "
        f"the table of systems; the other pairs are not tested. {results.data.target_text} "
        f"{RANDOM} is FAIR-QR's loop with as many words as the model added, of middle frequency, "
        "drawn by chance from the collection: what it gains over BM25 is noise."
    )
    return Table(["attribute", "system", "against", *MEASURES], rows, caption)


def drift_table(results: QrResults) -> Table:
    """Return how far systems are from the first lists, and what fairness costs them."""
    formats = {"words kept": ".2f", "overlap": ".2f", "AWRF gained": "+.4f", "nDCG lost": "+.4f"}
    formats = {"attribute": "", "system": "", **formats, "lost per gained": ".2f"}
    caption = (
        f"Against BM25. {results.data.target_text} Words kept: share of the original words in the "
        "last kept query; overlap: "
        f"share of the first list's top {results.settings.cutoff} that is in the top; both over "
        "topics with a kept refinement, if a system refines. Lost per gained: nDCG lost per AWRF "
        "gained (empty: none gained). Below "
        f"{LEAST_KEPT:.0%} of the words or {LEAST_OVERLAP:.0%} of the list is warned of."
    )
    return Table(list(formats), _rows(results.drift, formats), caption)


def tuning_table(results: QrResults) -> Table:
    """Return what tuning chose for each fold."""
    rows = [
        [
            *(str(row[name]) for name in ("attribute", "system", "fold")),
            ", ".join(f"{k}={v}" for k, v in json.loads(row["settings"]).items()),
            f"{row['value']:.4f}",
            *(str(row["topics"]), f"{row['seconds']:.1f}", str(row["calls"])),
        ]
        for _, row in results.tuning.iterrows()
    ]
    caption = (
        f"Settings with the best mean {PRODUCT} over the topics of the other folds, with which the "
        f"topics of a fold are ranked. {results.data.target_text} Calls: that tuning paid for; "
        "recorded answers are not paid for again."
    )
    heads = ["attribute", "system", "fold", "settings", f"{PRODUCT} there", "topics", "seconds"]
    return Table([*heads, "calls"], rows, caption)


def iteration_table(results: QrResults) -> Table:
    """Return how often queries were refined in the main comparison."""
    formats = dict.fromkeys(("attribute", "system", "count"), "") | {"mean": ".2f"}
    formats |= dict.fromkeys(("25%", "50%", "75%", "largest"), "g")
    rows = _rows(results.iterations.query("variation == ''"), formats)
    heads = ["attribute", "system", "refinements", "mean", "25%", "median", "75%", "most"]
    caption = (
        "Refinements per query: asked of the model, and kept. The paper reports a mean of 2 and a "
        "75th percentile of 4."
    )
    return Table(heads, rows, caption)


def cost_table(results: QrResults) -> Table:
    """Return what a query costs: calls, tokens, price and seconds."""
    formats = {"attribute": "", "system": "", "calls": ".2f", "prompt_tokens": ".1f"}
    formats |= {"completion_tokens": ".1f", "price": ".6f", "model seconds": ".3f"}
    formats |= {"own seconds": ".3f", "training seconds": ".1f"}
    rows = _rows(results.costs.query("variation == ''"), formats, UNKNOWN)
    caption = (
        "Per query. Model seconds: waits for the model one after another, as recorded when the "
        "answers were made; own seconds: retrieval, reranking, exposure, of all queries side by "
        f"side. Training seconds: all folds together; indexes, too. {UNKNOWN}: unknown."
    )
    heads = ["attribute", "system", "calls", "prompt tokens", "answer tokens", "price"]
    heads += ["model s", "own s", "training s"]
    return Table(heads, rows, caption)


def change_table(results: QrResults, attribute: str, count: int = 5) -> Table:
    """Return the topics whose product fell and rose most under FAIR-QR, and why."""
    frame = results.changes(attribute)
    extremes = pd.concat([frame.head(count), frame.tail(count)]).drop_duplicates("qid")
    rows = [
        [
            str(row["qid"]),
            str(row["query"]),
            *(f"{row[n]:+.3f}" for n in (*MEASURES, "by AWRF", "by nDCG")),
            str(row.get("groups", "")),
            str(row.get("note", "")),
        ]
        for _, row in extremes.iterrows()
    ]
    up, down = int((frame[PRODUCT] > 0).sum()), int((frame[PRODUCT] < 0).sum())
    caption = (
        f"FAIR-QR against BM25 by {_with_target(results, attribute)}, topic by topic: the product "
        f"rose for {up} of {len(frame)} topics and fell for {down}. Its mean change, "
        f"{frame[PRODUCT].mean():+.4f}, is {frame['by AWRF'].mean():+.4f} by AWRF and "
        f"{frame['by nDCG'].mean():+.4f} by nDCG. Shown: the largest losses and gains; groups in "
        "brackets were asked for, but the list was not kept."
    )
    heads = ["qid", "query", *MEASURES, "by AWRF", "by nDCG", "groups asked for", "end of the loop"]
    return Table(heads, rows, caption)


def _uncorrected(rows: list[list[str]]) -> str:
    n = len(rows)
    return f"not corrected for {n} comparisons" if n > 1 else "of one comparison"


def _with_target(results: QrResults, attribute: str) -> str:
    """Return an attribute with its target, unless its name has it: ``gender (target uniform)``."""
    target = results.data.target_of(attribute)
    return attribute if attribute.endswith(f"({target})") else f"{attribute} (target {target})"


def _mean(row: Any, measure: str) -> str:
    """Return a mean with its mark; with queries missing, both means and no mark."""
    if not row["missing"]:
        return f"{row[measure]:.4f}{_mark(row, measure)}"
    answered = row[f"{measure} answered"]
    return f"{row[measure]:.4f} ({'none' if math.isnan(answered) else f'{answered:.4f}'})"


def _change(row: Any, measure: str) -> str:
    change, low, high = (row[f"{measure} change{end}"] for end in ("", " low", " high"))
    return f"{signed(change)} {interval(low, high)}"


def _on_missing(table: pd.DataFrame) -> str:
    if table.empty or not table["missing"].any():
        return ""
    return (
        " In brackets, where some are missing: the mean over the queries with a result; such means "
        "have no mark, as the test would compare failed calls."
    )


def _mark(row: Any, measure: str) -> str:
    if not row[f"{measure} p"] < LEVEL:
        return " "
    return HIGHER if row[f"{measure} change"] > 0 else LOWER


def _rows(frame: pd.DataFrame, formats: Mapping[str, str], undefined: str = "") -> list[list[str]]:
    """Return the rows of some columns as texts, each in its format."""
    return [
        [undefined if value != value else format(value, formats[name]) for name, value in row]
        for row in (row.items() for _, row in frame[list(formats)].iterrows())
    ]


def latex(table: Table) -> str:
    """Return a table in LaTeX, the measures with their sign of multiplication."""
    return latex_text(table).replace(PRODUCT, PRODUCT.replace(" x ", r" $\times$ "))


_TABLES: Mapping[str, tuple[str, Callable[[QrResults], Table]]] = {
    "comparison": ("Systems", comparison),
    "intervals": ("Changes from BM25", interval_table),
    "variations": ("Settings of FAIR-QR", variation_table),
    "controls": ("Controls", control_table),
    "paper": ("Next to the paper", paper_table),
    "drift": ("Drift", drift_table),
    "tuning": ("Settings chosen by tuning", tuning_table),
    "iterations": ("Refinements", iteration_table),
    "costs": ("Costs", cost_table),
}
TITLES = {name: title for name, (title, _) in _TABLES.items()}


def all_tables(results: QrResults) -> dict[str, Table]:
    """Return the tables of a study by name; those without rows are left out."""
    tables = {name: make(results) for name, (_, make) in _TABLES.items()}
    return {name: table for name, table in tables.items() if table.rows}


COLORS = {NDCG: BLUE, FAIRNESS: VERMILION, PRODUCT: BLACK}
"""Told apart by line and mark in grey, too."""
_OTHERS = tuple(color for color in PALETTE if color not in (VERMILION, BLACK))
_MARKS = {NDCG: ("o", "-"), FAIRNESS: ("s", "--"), PRODUCT: ("^", ":")}


def plot_trade_off(results: QrResults) -> Any:
    """Return a figure: relevance against fairness of each system, one panel per attribute."""
    table = results.table
    columns = 2 * table["attribute"].nunique()  # of the legend, which has a line per system
    height = 3.9 + 0.2 * math.ceil(table["system"].nunique() / columns)
    figure, panels = _panels(results, table, (5.2, height), share=False)
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
            look = SeriesStyle(color, "osD^vP*X<>h"[marks.index(kind) % 11], "none")
            x, y = (np.array([row[measure]]) for measure in (NDCG, FAIRNESS))
            ends = [_ends(row, measure) for measure in (NDCG, FAIRNESS)]
            hollow = row["system"].endswith(TUNED)
            points.append(Points(x, y, look, row["system"], ends[0], ends[1], hollow))
        heads = ("nDCG", "more relevant →"), ("AWRF", "nearer to the target →")
        names = (f"{name}@{results.settings.cutoff} ({better})" for name, better in heads)
        draw_trade_off(axis, points, *names)
    title = "Means and intervals over topics; on the thin curve the product of means is BM25's"
    return _titled(figure, title, columns)


def plot_variation(results: QrResults, name: str) -> Any:
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
    figure, panels = _panels(results, rows, (4.8, 3.8))
    for axis, attribute, part in panels:
        here = results.table["attribute"] == attribute
        [(_, base)] = results.table[here & (results.table["system"] == BM25)].iterrows()
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
            axis.axhline(base[measure], color=COLORS[measure], linewidth=0.7, alpha=0.5)
        axis.set_xticks(places, part["setting"])
        if part["setting"].str.len().max() > 42 // len(part):  # letters of a panel's width
            for tick in axis.xaxis.get_major_ticks()[1::2]:
                tick.set_pad(17)
        axis.set_xlabel(name.replace("_", " "))
    figure.axes[0].set_ylabel("mean over topics")
    return _titled(figure, f"FAIR-QR by {name.replace('_', ' ')}; thin lines: BM25", columns=3)


def plot_iterations(results: QrResults) -> Any:
    """Return a figure: how many topics kept how many refinements, one panel per attribute."""
    traces = _loops(results)
    if traces.empty:
        raise InputError("the study has no trace of FAIR-QR")
    figure, panels = _panels(results, traces, (4.0, 3.2))
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


def _panels(
    results: QrResults, frame: pd.DataFrame, size: tuple[float, float], share: bool = True
) -> tuple[Any, list[tuple[Any, str, pd.DataFrame]]]:
    """Return a figure, and a panel for each attribute with the attribute's rows.

    Args:
        results: the study.
        frame: rows with ``attribute``.
        size: of a panel, in inches.
        share: whether the panels have one vertical axis.
    """
    parts = list(frame.groupby("attribute", sort=False))
    figure = new_figure((size[0] * len(parts), size[1]), "the figures of a study")
    axes = np.atleast_1d(figure.subplots(1, len(parts), sharey=share))
    for axis, (attribute, _) in zip(axes, parts, strict=True):
        title = _with_target(results, str(attribute)).replace(" (target", "\n(target")
        axis.set_title(title, fontsize="medium")
    despine(*axes)
    return figure, [(axis, str(name), rows) for axis, (name, rows) in zip(axes, parts, strict=True)]


def _titled(figure: Any, title: str, columns: int) -> Any:
    """Return a figure with a title, and one legend below its panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small",
                  frameon=False)  # fmt: skip
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


PAGES = "pages"
"""The folder of a study with a folder for each attribute."""


FRAMES = (
    *("table", "variations", "tuning", "controls", "drift", "per_query", "rankings", "traces"),
    *("iterations", "costs", "missing"),
)
_TRACES = 2
_LABELS = (
    "Groups are data about documents: labels that a knowledge base or a rule gave, coarse, often "
    "missing, sometimes wrong. The numbers say how near the exposure in rankings is to one target; "
    "they say nothing about a person, nor whether the target is the right one. The targets "
    "'relevance' (the groups' shares of a topic's relevant documents, as in the FAIR-QR paper) and "
    "'relevance+population' (these shares averaged with the population's, as in TREC 2022) come "
    "from relevance judgments, so every system that reads one (FAIR-QR and FA*IR at retrieval "
    "time) uses an oracle. Which system is best can depend on the target."
)
_TRACE = (
    "Lines over the iterations of a topic's loop. Above: divergence, AWRF and nDCG; below: each "
    "group's share of exposure, and as a thin line its target. A hollow mark was not kept. Which "
    "groups were asked for, and why the loop ended, is in the table above."
)
_RULES = (
    "adds terms from a table. Where a collection's labels were made by rules on words, its terms "
    "find what these rules found, so results say more about the rules than about refinement."
)


class Picture(NamedTuple):
    """A figure: its file, what it shows, and its SVG."""

    file: str
    caption: str
    figure: str


def write_report(results: QrResults, folder: Path, command: str | None = None) -> Path:
    """Write everything; see `QrResults.save`."""
    folder.mkdir(parents=True, exist_ok=True)
    frames = {name: _targeted(results, getattr(results, name)) for name in FRAMES}
    for name, frame in frames.items():
        write_parquet(frame, folder / f"{name}.parquet")
    for name in ("table", "variations", "per_query"):
        write_text(folder / f"{name}.csv", frames[name].to_csv(index=False, lineterminator="\n"))
    parts = [f"# FAIR-QR on {cell_text(results.data.name)}", "", _about(results), "", _LABELS, ""]
    parts += _missing(frames["missing"])
    tables = all_tables(results)
    pictures = _pictures(results, folder)
    write_tables(folder, tables, latex)
    for name, table in tables.items():
        parts += [f"## {TITLES[name]}", "", markdown_text(table)]
        parts += _shown(pictures.get(name, []))
    for attribute in results.data.attributes:
        part, place = results.of_attribute(attribute), folder / PAGES / file_name(attribute)
        page = part.as_experiment(attribute)
        page.config |= {} if command is None else {"command": command}
        page.save(place)
        save_sections(place, _sections(part, attribute, pictures.get(f"why {attribute}", [])))
    for attribute in results.explained:
        table = change_table(results, attribute)
        parts += [f"## Why: {cell_text(attribute)}", "", markdown_text(table)]
        parts += _shown(pictures.get(f"why {attribute}", []))
    parts += _said(results)
    report = folder / "report.md"
    write_text(report, "\n".join(parts).rstrip() + "\n")
    return report


def _targeted(results: QrResults, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame by attribute with the name of the target in a column of its own."""
    if "attribute" not in frame or frame.empty:
        return frame
    named = frame.copy()
    place = list(frame.columns).index("attribute") + 1
    named.insert(place, "target", frame["attribute"].map(results.data.target_of))
    return named


def _sections(results: QrResults, attribute: str, traces: Sequence[Picture]) -> list[Section]:
    """Return what the page of an attribute has beside its values.

    Args:
        results: those of the attribute.
        attribute: it.
        traces: pictures of its single topics.
    """
    sections = [Section("Groups and targets", (*_no_model(results), _LABELS))]
    figures: dict[str, list[Section]] = {}
    for place, _, caption, figure in _figures(results):
        words = f"{caption}; the numbers are in the table above."
        section = Section(f"{TITLES[place]}: {caption}", figure=svg_text(figure), alternative=words)
        figures.setdefault(place, []).append(section)
    for name, table in all_tables(results).items():
        sections.append(Section(TITLES[name], table=_of_one(table, attribute)))
        sections += figures.get(name, [])
    if attribute in results.explained:
        sections.append(Section("Why", table=change_table(results, attribute)))
        for picture in traces:
            title = f"Why: {picture.caption}"
            sections.append(Section(title, figure=picture.figure, alternative=_TRACE))
    return sections


def _of_one(table: Table, attribute: str) -> Table:
    """Return a table of one attribute without the attribute's name."""
    drawn = [place for place, head in enumerate(table.columns) if head != "attribute"]
    heads = [table.columns[place].removeprefix(f"{attribute} ") for place in drawn]
    return Table(heads, [[row[place] for place in drawn] for row in table.rows], table.caption)


def _figures(results: QrResults) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the figures of all topics: the table that each belongs to, a name, what it shows."""
    yield "comparison", "trade_off", "nDCG against AWRF", plot_trade_off(results)
    varied = results.variations
    for name in dict.fromkeys(varied["variation"]) if len(varied) else ():
        yield "variations", name, f"FAIR-QR by {name}", plot_variation(results, name)
    if len(_loops(results)):
        yield "iterations", "iterations", "refinements per topic", plot_iterations(results)


def _loops(results: QrResults) -> pd.DataFrame:
    """Return the traces of FAIR-QR as configured."""
    traces = results.traces
    return traces[(traces["system"] == FAIR_QR) & (traces["variation"] == "")]


def _pictures(results: QrResults, folder: Path) -> dict[str, list[Picture]]:
    """Draw the figures; return them by the table that they belong to."""
    pictures: dict[str, list[Picture]] = {}

    def keep(place: str, name: str, caption: str, figure: Any) -> None:
        write_pictures(figure, folder, name, "png", "pdf")
        figure.set_layout_engine("none")  # stays as it is: laying out takes the most time
        pictures.setdefault(place, []).append(Picture(f"{name}.png", caption, svg_text(figure)))

    for drawn in _figures(results):
        keep(*drawn)
    main = _loops(results)
    for attribute in dict.fromkeys(main["attribute"]):
        rows = main[main["attribute"] == attribute].drop(
            columns=["attribute", "system", "variation", "setting"]
        )
        # the other attributes' groups
        rows = rows.drop(
            columns=[c for c in rows if c.startswith("share:") and rows[c].isna().all()]
        )
        for qid in _telling(results, attribute, rows):
            name = f"trace-{file_name(attribute)}-{file_name(qid)}"
            target = target_shares(*results.data.attributes[attribute], qid)
            keep(f"why {attribute}", name, f"topic {qid}", plot_trace(rows, qid, target))
    return pictures


def _telling(results: QrResults, attribute: str, rows: pd.DataFrame) -> list[str]:
    """Return the topics with the largest loss and the largest gain that were refined."""
    refined = set(rows.loc[rows["retrieved"].notna() & (rows["iteration"] > 0), "qid"])
    order = [qid for qid in results.changes(attribute)["qid"] if qid in refined]
    return list(dict.fromkeys([*order[:1], *order[-1:]]))[:_TRACES]


def _no_model(results: QrResults) -> list[str]:
    """Return what a reader must know of `KeywordRefiner`, if it is among the models."""
    is_table = [isinstance(model, KeywordRefiner) for model in results.models.values()]
    if not any(is_table):
        return []
    own = "No language model is used: KeywordRefiner"
    return [f"{own if all(is_table) else 'KeywordRefiner is no language model: it'} {_RULES}"]


def _about(results: QrResults) -> str:
    models = dict.fromkeys(map(repr, results.models.values()))
    facts = (
        f"{len(results.data.topics)} topics, the first {results.settings.cutoff} ranks. "
        f"{results.data.target_text} Model: {'; '.join(map(cell_text, models))}. Settings and "
        f"versions: study.json.{results.pairs}"
    )
    return " ".join([*_no_model(results), facts])


def _shown(pictures: list[Picture]) -> list[str]:
    return [f"![{cell_text(p.caption)}]({FIGURES_FOLDER}/{quote(p.file)})\n" for p in pictures]


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


def _said(results: QrResults) -> list[str]:
    lines = [f"- {cell_text(text)}" for text in results.warnings]
    return ["## Warnings", "", *lines, ""] if lines else []
