"""Functions that take frames, as doors."""

from __future__ import annotations

from typing import Any

import pandas as pd
from campaign_doors import LABELS, MEMBERS, RUN, Door, groups_of
from campaign_frame_world import Frames

NO_FILE = "there is no such file"  # a text is a file's path there


def function_doors() -> list[Door]:
    """Return a door for each function."""
    both = {"run": RUN, "qrels": LABELS}
    return [
        Door("Groups.from_frame", ("Groups 'kind'",), {"groups": MEMBERS}, _from_frame),
        Door("Target.from_qrels", ("Target.from_qrels", "Groups 'kind'"),
             {"qrels": LABELS, "groups": MEMBERS}, _from_qrels),
        Door("coverage", ("coverage", "Groups 'kind'"),
             {"run": ("qid", "docno", "rank", "sample"), "groups": MEMBERS}, _coverage),
        Door("explain AWRF", ("explain", "AWRF", "Groups 'kind'", NO_FILE),
             {"run": RUN, "qrels": ("qid",), "groups": MEMBERS}, _explain_awrf),
        Door("explain EE_L", ("explain", "EE_L", NO_FILE), both, _explain_loss),
        Door("drop_undefined", ("drop_undefined",), {"qrels": LABELS}, _drop_undefined),
        Door("write_run", ("write_run",), {"run": RUN}, _write_run),
        Door("write_qrels", ("write_qrels",), {"qrels": LABELS}, _write_qrels),
        Door("several measures at once", ("EE_D", "EE_R", "E(", "P@2", "nDCG@3"), both, _several,
             by_ir_measures=True),
    ]  # fmt: skip


def _from_frame(frames: Frames, k: int) -> dict[Any, Any]:
    frame = groups_of(frames).to_frame()
    rows = zip(frame["docno"], frame["group"], frame["weight"], strict=True)
    return {(str(d), str(g)): float(w) for d, g, w in rows}


def _from_qrels(frames: Frames, k: int) -> dict[Any, Any]:
    from fairtk import Target

    frame = Target.from_qrels(frames["qrels"], groups_of(frames)).to_frame()
    level = next(c for c in frame.columns if c not in ("qid", "weight"))
    rows = zip(frame["qid"], frame[level], frame["weight"], strict=True)
    return {(str(q), str(g)): float(w) for q, g, w in rows}


def _coverage(frames: Frames, k: int) -> dict[Any, Any]:
    from fairtk import coverage

    return cells(coverage(groups_of(frames), frames["run"], k))


def _explain_awrf(frames: Frames, k: int) -> dict[Any, Any]:
    from fairtk import AWRF, Target, explain

    groups = groups_of(frames)
    measure = AWRF(groups=groups, target=Target.uniform(groups)) @ k
    return {"total": float(explain(measure, frames["run"], frames["qrels"]).total)}


def _explain_loss(frames: Frames, k: int) -> dict[Any, Any]:
    from fairtk import EE_L, explain

    return {"total": float(explain(EE_L @ k, frames["run"], frames["qrels"]).total)}


def _drop_undefined(frames: Frames, k: int) -> dict[Any, Any]:
    from fairtk.measures import drop_undefined

    kept = drop_undefined(frames["qrels"])
    rows = zip(kept["qid"], kept["docno"], kept["label"], strict=True)
    return {(str(q), str(d)): float(label) for q, d, label in rows}


def _write_run(frames: Frames, k: int) -> dict[Any, Any]:
    return _read_back("run", frames)


def _write_qrels(frames: Frames, k: int) -> dict[Any, Any]:
    qrels = frames["qrels"]
    if isinstance(qrels, pd.DataFrame) and qrels.columns.nlevels == 1:
        qrels = qrels[[c for c in qrels.columns if c in LABELS]]
    return _read_back("qrels", {"qrels": qrels})


def _read_back(name: str, frames: Frames) -> dict[Any, Any]:
    """Write a frame as text and return the lines, in any order."""
    import tempfile
    from pathlib import Path

    import fairtk.io

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.txt"
        getattr(fairtk.io, f"write_{name}")(frames[name], path)
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    if name == "run":  # the number of a sample has no meaning
        return {(q, d, r): float(score) for q, _, d, r, score, _ in lines} | {"n": len(lines)}
    return {(q, d): float(label) for q, _, d, label in lines} | {"n": len(lines)}


def _several(frames: Frames, k: int) -> dict[Any, Any]:
    import ir_measures
    from campaign_doors import IR_NAMES, with_names
    from ir_measures import P, nDCG

    from fairtk import EE_D, EE_R, E

    wanted = [EE_D @ k, EE_R @ k, E(nDCG @ 3), E(P @ 2)]
    qrels, run = (with_names(frames[name], IR_NAMES) for name in ("qrels", "run"))
    found = ir_measures.iter_calc(wanted, qrels, run)
    return {(wanted.index(m.measure), str(m.query_id)): float(m.value) for m in found}


def cells(frame: pd.DataFrame) -> dict[Any, Any]:
    """Return the numbers of a frame with a row per query."""
    columns = [c for c in frame.columns if c not in ("qid", "attribute")]
    return {(str(row["qid"]), c): float(row[c]) for row in frame.to_dict("records")
            for c in columns}  # fmt: skip
