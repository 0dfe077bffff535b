"""An explanation in words and tables."""

from __future__ import annotations

import pandas as pd

from fairtk.explanation.cost_frames import CostFrames


def written(explanation: CostFrames, most: int) -> str:
    """Return the tables of an explanation, cut to their costliest rows.

    Args:
        explanation: what to write.
        most: rows of each table.
    """
    n, every = int(explanation.defined.sum()), len(explanation.qids)
    measure = explanation.measure
    cost = "1 - AWRF" if measure.NAME == "AWRF" else measure.NAME
    lines = [
        f"{measure!r}",
        f"cost ({cost}): {explanation.total:.4f}, mean of {n} of {every} queries",
    ]
    if explanation.before is not None:
        change = explanation.total - explanation.baseline_total
        lines.append(f"baseline: {explanation.baseline_total:.4f}, change {change:+.4f}")
    tables = [("By group", explanation.by_group)]
    if explanation.names.space.crossed:
        of = explanation.by_attribute.groupby("attribute", sort=False)
        tables += [(f"By {name}", part.drop(columns="attribute")) for name, part in of]
    tables += [("By ranks", explanation.by_rank), ("By query", explanation.by_query)]
    for title, frame in tables:
        lines += ["", *_table(title, frame, most)]
    return "\n".join(lines)


def _table(title: str, frame: pd.DataFrame, most: int) -> list[str]:
    # the frames have all columns; a terminal has not
    hidden = ["baseline_exposure", "baseline_queries", "baseline_attention"]
    frame = frame.drop(columns=hidden, errors="ignore")
    rest = len(frame) - most
    cut = f", the {most} costliest of {len(frame)}" if rest > 0 else ""
    body = frame.head(most).to_string(index=False, float_format="{:.4f}".format, na_rep="-")
    return [f"{title}{cut}:", body]
