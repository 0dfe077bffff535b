"""Describe the tables and figures of a study without the times of a run.

Figures are kept instead of drawn, because drawing is slow and differs between versions of
matplotlib. Cases run this file with ``exec``.
"""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

FIGURES = {}
TIMES = ("seconds", "model s", "own s", "training s")


def keep(figure, file, **options):
    """Keep a figure by its file's name, and write an empty file."""
    if not isinstance(file, Path):
        file.write("<svg/>")
        return
    file.touch()
    FIGURES[file.name.partition(".part.")[2].rpartition(".")[0]] = figure


Figure.savefig = keep


def tables(folder):
    """Print the tables in Markdown; of LaTeX the head and a digest, of CSV the first rows."""
    for path in sorted(Path(folder).rglob("tables/*")):
        text = without_times(path.read_text(), " & " if path.suffix == ".tex" else " | ")
        if path.suffix == ".tex":
            head, _, rest = text.partition(r"\midrule")
            text = f"{head}... {hashlib.sha256(rest.encode()).hexdigest()[:16]}\n"
        if path.suffix == ".csv":
            table = pd.read_csv(path).round(12)
            text = f"{len(table)} rows\n" + table.head(3).to_csv(index=False, float_format="%.8g")
        print(f"-- {path.name}\n{text}")


def without_times(text, separator):
    """Return a table's text with dots instead of seconds."""
    timed, lines = [], []
    for line in text.splitlines():
        cells = line.split(separator)
        timed = timed or [i for i, cell in enumerate(cells) if cell.strip(" |\\") in TIMES]
        if len(cells) > 1:
            cells = [c if i not in timed or c.strip(" |\\") in (*TIMES, "---") else "..."
                     for i, c in enumerate(cells)]  # fmt: skip
        lines.append(separator.join(cells))
    return "\n".join(lines)


def frames(folder, rows=3):
    """Print the first rows of all frames, and their sizes."""
    for path in sorted(Path(folder).glob("*.parquet")):
        frame = pd.read_parquet(path)
        frame = frame.drop(columns=frame.filter(like="seconds")).round(12)
        print(f"-- {path.name}: {len(frame)} rows")
        print(frame.head(rows).to_csv(index=False, float_format="%.8g"))


def figures():
    """Print the texts and data of all figures."""
    for name, figure in sorted(FIGURES.items()):
        texts = [figure._suptitle, *figure.texts] if figure._suptitle else figure.texts
        print(f"-- {name}", *dict.fromkeys(text.get_text() for text in texts), sep=" | ")
        for legend in [*figure.legends, *filter(None, (a.get_legend() for a in figure.axes))]:
            print("  legend", *(text.get_text() for text in legend.get_texts()), sep=" | ")
        for axes in filter(lambda axes: axes.get_visible(), figure.axes):
            show_axes(axes)


def show_axes(axes):
    """Print the texts and data of a part of a figure."""
    print("  axes", axes.get_title(), axes.get_xlabel(), axes.get_ylabel(), sep=" | ")
    ticks = [tick.get_text() for tick in axes.get_xticklabels() + axes.get_yticklabels()]
    print("    ticks", *dict.fromkeys(filter(None, ticks)), sep=" | ")
    for text in axes.texts:
        print("    text", text.get_text(), numbers(text.get_position()), sep=" | ")
    unnamed = [line for line in axes.lines if line.get_label().startswith("_")]
    for line in axes.lines:
        if line not in unnamed:
            xs, ys = line.get_data()
            print("    line", line.get_label(), numbers(xs), numbers(ys), sep=" | ")
    if unnamed:
        sums = [
            sum(map(np.nansum, data))
            for data in zip(*(line.get_data() for line in unnamed), strict=True)
        ]
        print(f"    {len(unnamed)} other lines", "sums " + numbers(sums), sep=" | ")
    for collection in axes.collections:
        if np.any(collection.get_offsets()):
            print("    points", numbers(collection.get_offsets()), sep=" | ")
    for image in axes.images:
        print("    image", numbers(image.get_array()), sep=" | ")
    for patch in axes.patches:
        x0, y0, x1, y1 = patch.get_path().get_extents(patch.get_patch_transform()).extents
        print("    patch", numbers((x0, x1)), numbers((y0, y1)), sep=" | ")


def numbers(values):
    """Return numbers in five digits; of many, the first and the last."""
    texts = [f"{value:.5g}" for value in np.ravel(values)]
    return " ".join([*texts[:6], f"... {len(texts)}", *texts[-6:]] if len(texts) > 14 else texts)
