"""The tables, figures, pages and report of a study."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
    cell_text,
    despine,
    draw_trade_off,
    interval_text,
    latex_text,
    markdown_text,
    new_figure,
    number_text,
    svg_text,
)
from fairtk.groups import Groups, Target
from fairtk.io import write_parquet
from fairtk.llm import KeywordRefiner
from fairtk.report import Section, save_sections
from fairtk.transformers import plot_trace
from fairtk_papers.fair_qr.systems import BM25, FAIR_QR, NOT_RERANKED, RANDOM, TUNED
from fairtk_papers.fair_qr.values import (
    FAIRNESS,
    LEAST_KEPT,
    LEAST_OVERLAP,
    MEASURES,
    NDCG,
    PRODUCT,
    refinements,
)
from fairtk_papers.studies import (
    BLACK,
    BLUE,
    FIGURES_FOLDER,
    GRAY,
    VERMILION,
    add_legend,
    file_name,
    reach,
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
"""The known numbers of Table 1 of FAIR-QR (Chen and Fang 2025)."""


def paper_table(results: QrResults) -> Table:
    """Return the study's numbers next to those of the FAIR-QR paper.

    There are rows only for the attributes, cutoff and systems of the paper.
    """
    table, rows = results.table, []
    for (system, paper_attribute, measure), printed in PAPER.items():
        for attribute in dict.fromkeys(table["attribute"]):
            base = attribute.partition(" (")[0]
            part = table[(table["attribute"] == attribute) & (table["system"] == system)]
            in_paper = results.settings.cutoff == 20 and base in ("gender", "geography")
            if in_paper and len(part) and paper_attribute in ("", base):
                value = float(part[measure].iloc[0])
                target = results.data.target_label(attribute)
                difference = number_text(value - printed, sign="+")
                cells = [number_text(value), number_text(printed), difference]
                names = [attribute, target] if paper_attribute else ["", ""]
                rows.append([*names, system, measure, *cells])
                if not paper_attribute:  # equal for all attributes
                    break
    caption = (
        f"{results.data.name}, {_topics(results)}, next to Table 1 of FAIR-QR "
        "(Chen and Fang 2025). The data differ: the paper uses the 6.5 million articles of TREC "
        "Fair Ranking 2022 and GPT-4o. It does not report the topics, the settings of BM25, the "
        "kind of nDCG or the exposure model. Its target is proportional to relevance. Its numbers "
        "for geography are inconsistent: it calls .7661 the highest AWRF, but BM25 has .7895. The "
        "table has all known numbers of the paper's Table 1."
    )
    heads = ["attribute", "target", "system", "measure", "here", "paper", "difference"]
    return Table(heads, rows, caption)


_Formats = dict[str, Callable[[Any], str]]

LEVEL = 0.05
"""The corrected p-value below which a difference is marked."""
INTERVALS = (
    "95 % intervals over topics (Student's t; undefined if all differences of a system are equal)"
)
HIGHER, LOWER = "+", "-"
"""Marks of values that are significantly above or below BM25's."""


def comparison(results: QrResults) -> Table:
    """Return the paper's Table 1: one row per system, three measures per attribute."""
    settings, table = results.settings, results.table
    attributes = list(dict.fromkeys(table["attribute"]))
    heads = [f"{a} {m}@{settings.cutoff}" for a in attributes for m in MEASURES]
    rows = []
    for system in dict.fromkeys(table["system"]):
        cells, missing = [system], []
        for attribute in attributes:
            part = table[(table["attribute"] == attribute) & (table["system"] == system)]
            if part.empty:
                cells += [""] * len(MEASURES)
                continue
            row = part.iloc[0]
            cells += [_mean(row, m) for m in MEASURES]
            if row["missing"]:
                count = f"{row['missing']} of {len(results.data.topics)}"
                missing.append(f"{attribute}: {count} missing")
        if missing:
            cells[0] += f" ({', '.join(missing)})"
        rows.append(cells)
    test = "paired t-test against BM25"
    if settings.correction != "none":
        test += f", {settings.correction} correction over the systems of an attribute"
    caption = (
        f"Means over {_topics(results)}. {results.data.target_text} {HIGHER} or "
        f"{LOWER}: significantly above or below BM25, p < {LEVEL} ({test}). nDCG as in "
        f"{'the track (ranks 1 and 2 weigh alike)' if settings.ndcg == 'TREC' else 'trec_eval'}. "
        f"Queries without a result have the worst value.{results.brackets_text}"
        f"{_on_missing(table)}{_untested(table)}"
    )
    return Table(["system", *heads], rows, caption)


def interval_table(results: QrResults) -> Table:
    """Return the changes from BM25 with their intervals."""
    columns = ["attribute", "system", *MEASURES, "product of means"]
    rows = [
        [*row[columns[:2]], *(_change(row, m) for m in MEASURES), number_text(row[columns[-1]])]
        for _, row in results.table.iterrows()
        if row["system"] != BM25
    ]
    caption = (
        f"Changes from BM25 with {INTERVALS}, {_uncorrected(rows)}. "
        f"{results.data.target_text} The product of means differs from the mean of products."
    )
    return Table(columns, rows, caption)


def variation_table(results: QrResults) -> Table:
    """Return FAIR-QR with one setting varied, and the mean number of refinements."""
    table, counts = results.variations, results.iterations
    counts = counts[counts["count"] == "kept"]
    rows = []
    for _, row in table.iterrows():
        keys = ["attribute", "variation", "setting"]
        means = counts["mean"][(counts[keys] == row[keys]).all(axis=1)]
        mean = number_text(means.iloc[0], 2) if len(means) else ""
        values = [number_text(row[m]) for m in MEASURES]
        rows.append([*row[keys], *values, _change(row, PRODUCT), mean])
    caption = (
        f"FAIR-QR with one setting varied. Exploratory: not tested. {results.data.target_text} "
        f"Change of the product from BM25 with {INTERVALS}, {_uncorrected(rows)}."
    )
    heads = ["attribute", "setting", "value", *MEASURES, "change", "refinements kept"]
    return Table(heads, rows, caption)


def control_table(results: QrResults) -> Table:
    """Return differences between FAIR-QR, its placebo and BM25."""
    rows = []
    for (attribute, system, against), part in results.controls.groupby(
        ["attribute", "system", "against"], sort=False
    ):
        cells = [_with_interval(row.difference, row.low, row.high) for row in part.itertuples()]
        rows.append([str(attribute), str(system), str(against), *cells])
    caption = (
        f"Paired differences with {INTERVALS}, {_uncorrected(rows)}, and not tested. "
        f"{results.data.target_text} {RANDOM} is FAIR-QR with random words instead of the model's: "
        "as many as the model added, of medium frequency in the collection. So its gain over BM25 "
        "does not come from the meaning of words."
    )
    return Table(["attribute", "system", "against", *MEASURES], rows, caption)


def drift_table(results: QrResults) -> Table:
    """Return how far systems drift from BM25's rankings, and their loss in nDCG."""
    two, change = partial(number_text, digits=2), partial(number_text, sign="+")
    formats: _Formats = {"attribute": str, "system": str, "words kept": two, "overlap": two}
    formats |= {"AWRF gained": change, "nDCG lost": change, "lost per gained": two}
    caption = (
        f"Against BM25. {results.data.target_text} Words kept: the share of the original words "
        "that are in the final query. Overlap: the share of BM25's top "
        f"{results.settings.cutoff} that is still in the top. For systems that refine queries, "
        "both are means over the topics with a kept refinement. Lost per gained: nDCG lost divided "
        f"by AWRF gained (undefined without a gain). Below {LEAST_KEPT:.0%} of the words or "
        f"{LEAST_OVERLAP:.0%} overlap there is a warning."
    )
    return Table(list(formats), _format_rows(results.drift, formats), caption)


def tuning_table(results: QrResults) -> Table:
    """Return the tuned settings of each fold."""
    rows = [
        [
            *(str(row[name]) for name in ("attribute", "system", "fold")),
            ", ".join(f"{k}={v}" for k, v in json.loads(row["settings"]).items()),
            number_text(row["value"]),
            *(str(row["topics"]), f"{row['seconds']:.1f}", str(row["calls"])),
        ]
        for _, row in results.tuning.iterrows()
    ]
    caption = (
        f"The settings of each fold are those with the best mean {PRODUCT} on the other folds. "
        f"{results.data.target_text} Calls: the distinct calls of all settings, "
        "also those with recorded answers."
    )
    heads = ["attribute", "system", "fold", "settings", PRODUCT, "topics", "seconds"]
    return Table([*heads, "calls"], rows, caption)


def iteration_table(results: QrResults) -> Table:
    """Return the number of refinements in the main comparison."""
    formats: _Formats = {"attribute": str, "system": str, "count": str}
    formats |= {"mean": partial(number_text, digits=2)}
    formats |= {name: "{:g}".format for name in ("25%", "50%", "75%", "largest")}
    rows = _format_rows(results.iterations.query("variation == ''"), formats)
    heads = ["attribute", "system", "refinements", "mean", "25%", "median", "75%", "most"]
    caption = (
        "Refinements per query: asked (requested from the model) and kept. The paper reports a "
        "mean of 2 and a 75th percentile of 4."
    )
    return Table(heads, rows, caption)


def cost_table(results: QrResults) -> Table:
    """Return the mean cost of a query: calls, tokens, price and seconds."""
    digits = {"calls": 2, "prompt_tokens": 1, "completion_tokens": 1, "price": 6}
    digits |= {"model seconds": 3, "own seconds": 3, "training seconds": 1}
    formats: _Formats = {"attribute": str, "system": str}
    formats |= {name: partial(number_text, digits=n) for name, n in digits.items()}
    rows = _format_rows(results.costs.query("variation == ''"), formats, "unknown")
    caption = (
        "Means per query. Model s: seconds of waiting for the model when its answers were "
        "recorded. Own s: seconds of retrieval, reranking and exposure, with queries in parallel. "
        "Training s: total seconds of all folds, with indexing."
    )
    heads = ["attribute", "system", "calls", "prompt tokens", "answer tokens", "price"]
    heads += ["model s", "own s", "training s"]
    return Table(heads, rows, caption)


def change_table(results: QrResults, attribute: str, count: int = 5) -> Table:
    """Return the topics where FAIR-QR loses or gains most in the product, with reasons."""
    frame = results.changes(attribute)
    extremes = pd.concat([frame.head(count), frame.tail(count)]).drop_duplicates("qid")
    rows = [
        [
            str(row["qid"]),
            str(row["query"]),
            *(number_text(row[n], 3, sign="+") for n in (*MEASURES, "by AWRF", "by nDCG")),
            str(row.get("groups", "")),
            str(row.get("note", "")),
        ]
        for _, row in extremes.iterrows()
    ]
    means = {n: number_text(frame[n].mean(), sign="+") for n in (PRODUCT, "by AWRF", "by nDCG")}
    up, down = int((frame[PRODUCT] > 0).sum()), int((frame[PRODUCT] < 0).sum())
    caption = (
        f"FAIR-QR against BM25 by {_with_target(results, attribute)}: the product increases for "
        f"{up} of {len(frame)} topics and decreases for {down}. Its mean change "
        f"is {means[PRODUCT]}: {means['by AWRF']} by AWRF and {means['by nDCG']} by nDCG. "
        "Rows: the largest losses and gains. Groups in "
        "parentheses: the refinement for them was not kept."
    )
    heads = ["qid", "query", *MEASURES, "by AWRF", "by nDCG", "requested groups", "end of the loop"]
    return Table(heads, rows, caption)


def _uncorrected(rows: list[list[str]]) -> str:
    n = len(rows)
    return f"not corrected for {n} comparisons" if n > 1 else "one comparison"


def _topics(results: QrResults) -> str:
    """Return the number of topics, e.g. ``"1 topic"``."""
    n = len(results.data.topics)
    return f"{n} topic{'s' * (n != 1)}"


def _with_target(results: QrResults, attribute: str) -> str:
    """Return an attribute with its target, unless its name has it: ``gender (target uniform)``."""
    target = results.data.target_label(attribute)
    return attribute if attribute.endswith(f"({target})") else f"{attribute} (target {target})"


def _mean(row: Any, measure: str) -> str:
    """Return a mean with its mark; if queries are missing, two means without a mark."""
    if not row["missing"]:
        return f"{number_text(row[measure])}{_mark(row, measure)}"
    answered = row[f"{measure} answered"]
    text = "none" if math.isnan(answered) else number_text(answered)
    return f"{number_text(row[measure])} ({text})"


def _change(row: Any, measure: str) -> str:
    return _with_interval(*(row[f"{measure} change{end}"] for end in ("", " low", " high")))


def _with_interval(change: float, low: float, high: float) -> str:
    text = number_text(change, sign="+")
    return f"{text} {interval_text(low, high, sign='+')}"


def _untested(table: pd.DataFrame) -> str:
    """Return the sentence on differences without a t-test, for a caption."""
    names = [
        f"{row['attribute']}, {row['system']}: {measure}"
        for _, row in table.iterrows()
        for measure in MEASURES
        if row[f"{measure} change"] != 0 and math.isnan(row[f"{measure} p"])
    ]
    if not names:
        return ""
    return (
        f" Undefined t-tests: {'; '.join(names)} (all topics differ by the same amount, or fewer "
        "than two have values; use the randomization test of `fairtk compare`)."
    )


def _on_missing(table: pd.DataFrame) -> str:
    if table.empty or not table["missing"].any():
        return ""
    return (
        " If queries are missing, the mean over the queries with a result is in parentheses, and "
        "there is no mark, because the test would compare failed calls."
    )


def _mark(row: Any, measure: str) -> str:
    if not row[f"{measure} p"] < LEVEL:
        return " "
    return HIGHER if row[f"{measure} change"] > 0 else LOWER


def _format_rows(
    frame: pd.DataFrame, formats: _Formats, undefined: str = "undefined"
) -> list[list[str]]:
    """Return the columns of a frame that have a format, as rows of strings."""
    return [
        [undefined if value != value else formats[name](value) for name, value in row]
        for row in (row.items() for _, row in frame[list(formats)].iterrows())
    ]


def latex(table: Table) -> str:
    """Return a table in LaTeX, with a multiplication sign in the name of the product."""
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
    """Return the tables of a study by name, without empty tables."""
    tables = {name: make(results) for name, (_, make) in _TABLES.items()}
    return {name: table for name, table in tables.items() if table.rows}


COLORS = {NDCG: BLUE, FAIRNESS: VERMILION, PRODUCT: BLACK}
"""Lines and marks also differ, for print in gray."""
_OTHERS = tuple(color for color in PALETTE if color not in (VERMILION, BLACK))
_MARKS = {NDCG: ("o", "-"), FAIRNESS: ("s", "--"), PRODUCT: ("^", ":")}


def plot_trade_off(results: QrResults) -> Any:
    """Plot fairness against relevance of each system, with one panel per attribute."""
    table = results.table
    columns = 2 * table["attribute"].nunique()  # of the legend
    height = 3.9 + 0.2 * math.ceil(table["system"].nunique() / columns)
    figure, panels = _panels(results, table, (5.2, height), share=False)
    for axis, _, rows in panels:
        _draw_equal_product(axis, rows)
        # one mark per system, one color per model and retriever
        names = [name.removesuffix(TUNED).partition(" [") for name in rows["system"]]
        marks = list(dict.fromkeys(kind for kind, _, _ in names))
        pair_names = list(dict.fromkeys(pair for _, _, pair in names if pair))
        points = []
        for (kind, _, pair), (_, row) in zip(names, rows.iterrows(), strict=True):
            color = COLORS[FAIRNESS] if kind.startswith("fair-qr") else GRAY
            if pair:
                color = _OTHERS[pair_names.index(pair) % len(_OTHERS)]
            if row["system"] == BM25:
                color = BLACK
            look = SeriesStyle(color, "osD^vP*X<>h"[marks.index(kind) % 11], "none")
            x, y = (np.array([row[measure]]) for measure in (NDCG, FAIRNESS))
            ends = [
                reach(*(np.array([row[f"{measure}{end}"]]) for end in ("", " low", " high")))
                for measure in (NDCG, FAIRNESS)
            ]
            hollow = row["system"].endswith(TUNED)
            points.append(Points(x, y, look, row["system"], ends[0], ends[1], hollow))
        heads = ("nDCG", "more relevant →"), ("AWRF", "closer to the target →")
        labels = (f"{name}@{results.settings.cutoff} ({better})" for name, better in heads)
        draw_trade_off(axis, points, *labels)
    title = "Means with intervals over topics; thin curve: the product of BM25's means"
    return _add_title_and_legend(figure, title, columns)


def plot_variation(results: QrResults, name: str) -> Any:
    """Plot the measures against one setting of FAIR-QR, with one panel per attribute.

    Args:
        results: the study.
        name: a varied setting, e.g. ``"max_iterations"``.
    """
    rows = results.variations[results.variations["variation"] == name]
    figure, panels = _panels(results, rows, (4.8, 3.8))
    for axis, attribute, part in panels:
        is_base = (results.table["attribute"] == attribute) & (results.table["system"] == BM25)
        base = results.table[is_base].iloc[0]
        x = np.arange(len(part))
        for shift, measure in zip((-0.06, 0.0, 0.06), MEASURES, strict=True):
            mark, line = _MARKS[measure]
            low, high = (part[f"{measure} {end}"] for end in ("low", "high"))
            axis.errorbar(
                x + shift,
                part[measure],
                yerr=reach(part[measure], low, high),
                fmt=mark + line,
                color=COLORS[measure],
                elinewidth=0.8,
                capsize=2,
                label=f"{measure}@{results.settings.cutoff}",
            )
            axis.axhline(base[measure], color=COLORS[measure], linewidth=0.7, alpha=0.5)
        axis.set_xticks(x, part["setting"])
        if part["setting"].str.len().max() > 42 // len(part):  # a panel fits 42 letters
            for tick in axis.xaxis.get_major_ticks()[1::2]:
                tick.set_pad(17)
        axis.set_xlabel(name.replace("_", " "))
    figure.axes[0].set_ylabel("mean over topics")
    return _add_title_and_legend(
        figure, f"FAIR-QR by {name.replace('_', ' ')}; thin lines: BM25", columns=3
    )


def plot_iterations(results: QrResults) -> Any:
    """Plot histograms of refinements per topic, with one panel per attribute."""
    figure, panels = _panels(results, _main_traces(results), (4.0, 3.2))
    for axis, _, rows in panels:
        counts = refinements(rows)
        largest = int(counts.to_numpy().max())
        for shift, (name, values) in zip((-0.2, 0.2), counts.items(), strict=True):
            heights = np.bincount(values.to_numpy(dtype=np.int64), minlength=largest + 1)
            color = {"asked": "#999999", "kept": COLORS[NDCG]}[name]
            axis.bar(np.arange(largest + 1) + shift, heights, 0.38, color=color, label=name)
        axis.set_xticks(range(largest + 1))
        axis.set_xlabel("refinements of a topic")
    figure.axes[0].set_ylabel("topics")
    figure.axes[-1].legend(fontsize="small", frameon=False)
    return figure


def _panels(
    results: QrResults, frame: pd.DataFrame, size: tuple[float, float], share: bool = True
) -> tuple[Any, list[tuple[Any, str, pd.DataFrame]]]:
    """Return a figure and its panels, each with an attribute and the attribute's rows.

    Args:
        results: the study.
        frame: a frame with ``attribute``.
        size: the size of a panel in inches.
        share: whether panels share the vertical axis.
    """
    parts = list(frame.groupby("attribute", sort=False))
    figure = new_figure((size[0] * len(parts), size[1]), "the figures of a study")
    axes = np.atleast_1d(figure.subplots(1, len(parts), sharey=share))
    for axis, (attribute, _) in zip(axes, parts, strict=True):
        title = _with_target(results, str(attribute)).replace(" (target", "\n(target")
        axis.set_title(title, fontsize="medium")
    despine(*axes)
    return figure, [(axis, str(name), rows) for axis, (name, rows) in zip(axes, parts, strict=True)]


def _add_title_and_legend(figure: Any, title: str, columns: int) -> Any:
    """Add a title and a legend for all panels to a figure, and return it."""
    add_legend(figure, columns)
    figure.suptitle(fill(title, 48 * len(figure.axes)), fontsize="medium")
    return figure


def _draw_equal_product(axis: Any, rows: pd.DataFrame) -> None:
    """Draw the curve where the product of means equals that of BM25."""
    base = rows[rows["system"] == BM25].iloc[0]
    x = np.linspace(rows[NDCG].min() * 0.97, rows[NDCG].max() * 1.03, 60)
    x = x[x > 0]
    axis.plot(x, base[NDCG] * base[FAIRNESS] / x, color="#bbbbbb", linewidth=0.9, zorder=0)
    ends = rows[[FAIRNESS, f"{FAIRNESS} low", f"{FAIRNESS} high"]]
    low, high = ends.min().min(), ends.max().max()
    if np.isfinite([low, high]).all():
        margin = max(high - low, 0.02) * 0.1
        axis.set_ylim(low - margin, min(high + margin, 1.005))


FRAMES = (
    *("table", "variations", "tuning", "controls", "drift", "per_query", "rankings", "traces"),
    *("iterations", "costs", "missing"),
)
_LABELS = (
    "Groups are labels of documents from a knowledge base or from rules. They are coarse, often "
    "missing and sometimes wrong. The numbers measure how close exposure is to one target. They do "
    "not describe people, and they do not show that the target is right. The target 'relevance' "
    "has the groups' shares of a topic's relevant documents, as in the FAIR-QR paper; "
    "'relevance+population' averages them with the population's shares, as in TREC 2022. Both "
    "depend on relevance judgments, so FAIR-QR and FA*IR, which read the target at retrieval time, "
    "are oracles. The best system can depend on the target."
)
_TRACE = (
    "The iterations of a topic's loop. Top: divergence, AWRF and nDCG. Bottom: each group's share "
    "of exposure, with its target as a thin line. Hollow marks: refinements that were not kept. "
    "The table above has the requested groups and the end of the loop."
)
_RULES = (
    "adds terms from a table. If the groups of the documents were assigned by rules on words, the "
    "terms match these rules, and the results say more about the rules than about refinement."
)


class Picture(NamedTuple):
    """A figure that was written: file name, caption and SVG."""

    file: str
    caption: str
    figure: str


def write_report(results: QrResults, folder: Path, command: str | None = None) -> Path:
    """Write all files, as described in `QrResults.save`."""
    folder.mkdir(parents=True, exist_ok=True)
    frames = {name: _with_target_names(results, getattr(results, name)) for name in FRAMES}
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
        parts += _images(pictures.get(name, []))
    for attribute in results.data.attributes:
        part, saved = results.for_attribute(attribute), folder / "pages" / file_name(attribute)
        page = part.as_experiment(attribute)
        if command is not None:
            page = replace(page, config={**page.config, "command": command})
        page.save(saved)
        save_sections(saved, _sections(part, attribute, pictures.get(f"why {attribute}", [])))
    for attribute in results.attributes_with_fair_qr:
        table = change_table(results, attribute)
        parts += [f"## Why: {cell_text(attribute)}", "", markdown_text(table)]
        parts += _images(pictures.get(f"why {attribute}", []))
    parts += _warnings(results)
    report = folder / "report.md"
    write_text(report, "\n".join(parts).rstrip() + "\n")
    return report


def _with_target_names(results: QrResults, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the name of the target after ``attribute``, if it has that column."""
    if "attribute" not in frame:
        return frame
    frame = frame.copy()
    column = list(frame.columns).index("attribute") + 1
    frame.insert(column, "target", frame["attribute"].map(results.data.target_label))
    return frame


_ON_TOP = ("comparison", "intervals")
"""The tables whose content the page of an attribute shows at the top, in its own form."""


def _sections(results: QrResults, attribute: str, traces: Sequence[Picture]) -> list[Section]:
    """Return the sections of an attribute's page.

    Args:
        results: the results of the attribute.
        attribute: the attribute.
        traces: figures of topics.
    """
    notes = filter(None, (*_no_model(results), results.brackets_text.strip(), _LABELS))
    sections = [Section("Groups and targets", tuple(notes))]
    figures: dict[str, list[tuple[str, Any]]] = {}
    for table_name, _, caption, figure in _figures(results, is_page=True):
        figures.setdefault(table_name, []).append((caption, figure))
    for name, table in all_tables(results).items():
        if name in _ON_TOP:
            continue
        sections.append(Section(TITLES[name], table=_page_table(table, attribute)))
        for caption, figure in figures.get(name, []):
            words = f"{caption}; the table above has the numbers."
            sections.append(Section(caption, figure=svg_text(figure), alternative=words))
    if attribute in results.attributes_with_fair_qr:
        sections.append(Section("Largest changes", table=change_table(results, attribute)))
        for picture in traces:
            title = f"Iterations of {picture.caption}"
            sections.append(Section(title, figure=picture.figure, alternative=_TRACE))
    return sections


def _page_table(table: Table, attribute: str) -> Table:
    """Return a table of one attribute without the attribute's name."""
    columns = [i for i, head in enumerate(table.columns) if head != "attribute"]
    heads = [table.columns[i].removeprefix(f"{attribute} ") for i in columns]
    return Table(heads, [[row[i] for i in columns] for row in table.rows], table.caption)


def _figures(results: QrResults, is_page: bool = False) -> Iterator[tuple[str, str, str, Any]]:
    """Yield table, file name, caption and figure of each figure; on pages without the first."""
    if not is_page:
        yield "comparison", "trade_off", "nDCG against AWRF", plot_trade_off(results)
    varied = results.variations
    for name in dict.fromkeys(varied["variation"]) if len(varied) else ():
        yield "variations", name, f"FAIR-QR by {name}", plot_variation(results, name)
    if len(_main_traces(results)):
        yield "iterations", "iterations", "Refinements per topic", plot_iterations(results)


def _main_traces(results: QrResults) -> pd.DataFrame:
    """Return the traces of FAIR-QR in the main comparison."""
    traces = results.traces
    return traces[(traces["system"] == FAIR_QR) & (traces["variation"] == "")]


def _pictures(results: QrResults, folder: Path) -> dict[str, list[Picture]]:
    """Write the figures, and return them by table."""
    pictures: dict[str, list[Picture]] = {}

    def write(table: str, name: str, caption: str, figure: Any) -> None:
        write_pictures(figure, folder, name, "png", "pdf")
        figure.set_layout_engine("none")  # the layout is slow to compute
        pictures.setdefault(table, []).append(Picture(f"{name}.png", caption, svg_text(figure)))

    for figure in _figures(results):
        write(*figure)
    main = _main_traces(results)
    for attribute in dict.fromkeys(main["attribute"]):
        rows = main[main["attribute"] == attribute].drop(
            columns=["attribute", "system", "variation", "setting"]
        )
        # the columns of other attributes' groups are empty
        rows = rows.drop(
            columns=[c for c in rows if c.startswith("share:") and rows[c].isna().all()]
        )
        for qid in _extreme_topics(results, attribute, rows):
            name = f"trace-{file_name(attribute)}-{file_name(qid)}"
            target = _target_shares(*results.data.attributes[attribute], qid)
            write(f"why {attribute}", name, f"topic {qid}", plot_trace(rows, qid, target))
    return pictures


def _target_shares(groups: Groups, target: Target, qid: str) -> dict[str, float]:
    """Return the target share of each group of a topic by its name in a trace."""
    shares = target.for_qids([qid]).expanded().normalized()
    names = [name if isinstance(name, str) else " & ".join(name) for name in groups.levels]
    return {names[i]: float(w) for i, w in zip(shares.level, shares.weight, strict=True)}


def _extreme_topics(results: QrResults, attribute: str, rows: pd.DataFrame) -> list[str]:
    """Return the refined topics with the largest loss and the largest gain."""
    refined_qids = set(rows.loc[rows["retrieved"].notna() & (rows["iteration"] > 0), "qid"])
    order = [qid for qid in results.changes(attribute)["qid"] if qid in refined_qids]
    return list(dict.fromkeys([*order[:1], *order[-1:]]))


def _no_model(results: QrResults) -> list[str]:
    """Return a note on `KeywordRefiner` if it is one of the models."""
    uses_rules = [isinstance(model, KeywordRefiner) for model in results.models.values()]
    if not any(uses_rules):
        return []
    if all(uses_rules):
        return [f"No language model is used: KeywordRefiner {_RULES}"]
    return [f"KeywordRefiner is not a language model: it {_RULES}"]


def _about(results: QrResults) -> str:
    models = dict.fromkeys(map(repr, results.models.values()))
    facts = (
        f"{_topics(results)}, the first {results.settings.cutoff} ranks. "
        f"{results.data.target_text} Model: {'; '.join(map(cell_text, models))}. Settings and "
        f"versions: study.json.{results.brackets_text}"
    )
    return " ".join([*_no_model(results), facts])


def _images(pictures: list[Picture]) -> list[str]:
    return [f"![{cell_text(p.caption)}]({FIGURES_FOLDER}/{quote(p.file)})\n" for p in pictures]


def _missing(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    systems: dict[tuple[str, str, str], list[str]] = {}
    for row in frame.itertuples():
        varied = f", {row.variation}={row.setting}" * bool(row.variation)
        key = (row.attribute, row.qid, row.reason)
        systems.setdefault(key, []).append(f"{row.system}{varied}")
    lines = [
        f"{attribute}, {'; '.join(names)}: topic {qid}: {reason}"
        for (attribute, qid, reason), names in systems.items()
    ]
    lines = [f"- {cell_text(line)}" for line in lines]
    head = "Queries without a result have the worst value in all tables:"
    return ["## Missing", "", head, "", *lines, ""]


def _warnings(results: QrResults) -> list[str]:
    lines = [f"- {cell_text(text)}" for text in results.warnings]
    return ["## Warnings", "", *lines, ""] if lines else []
