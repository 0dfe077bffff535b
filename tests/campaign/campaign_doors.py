"""The doors of frames: every measure, every transformer, and the functions that take frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import campaign_formulas as formulas
import pandas as pd
from campaign_frame_world import Frames

IR_NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
RUN = ("qid", "docno", "score", "rank", "sample")
LABELS = ("qid", "docno", "label")
MEMBERS = ("docno", "group", "weight")
TERMS = {level: [f"word{i}"] for i, level in enumerate(("a", "b", "c", "old", "young", "x y"))}


@dataclass(frozen=True)
class Door:
    """What takes frames and gives values.

    Attributes:
        name: its name in the table.
        says: a message must have one of these words.
        reads: the columns that it reads of each frame; others may be checked or not.
        call: takes the frames and a cutoff; returns values by key.
        formula: takes labels, run, groups and cutoff as the reference reads them, and returns the
            value of each query; None: there is none.
        unsampled: it takes plain runs only.
        sampled: it takes sampled runs only.
        by_ir_measures: ir_measures is called, which looks at the frames first.
    """

    name: str
    says: tuple[str, ...]
    reads: dict[str, tuple[str, ...]]
    call: Callable[[Frames, int], dict[Any, Any]]
    formula: Callable[..., dict[str, float]] | None = None
    unsampled: bool = False
    sampled: bool = False
    by_ir_measures: bool = False


@cache
def doors() -> tuple[Door, ...]:
    """Return all doors."""
    from campaign_functions import function_doors
    from campaign_transformers import transformer_doors

    return (*_measure_doors(), *transformer_doors(), *function_doors())


def with_names(frame: Any, names: dict[str, str]) -> Any:
    """Return a frame with ir_measures' column names, whatever its columns are."""
    if not isinstance(frame, pd.DataFrame):
        return frame
    if isinstance(frame.columns, pd.MultiIndex):
        return frame.rename(columns=names)
    return frame.set_axis([names.get(c, c) for c in frame.columns], axis=1)


def groups_of(frames: Frames) -> Any:
    """Return the groups of a frame; its levels are known to the targets of all doors."""
    from fairtk import Groups

    return Groups.from_frame(frames["groups"], name="kind")


# Measures -----------------------------------------------------------------------------------------


def _measure_doors() -> list[Door]:
    from fairtk.plugins.registry import measures

    found = []
    for name in measures.names():
        base = measures.get(name)
        known = {*base.SUPPORTED_PARAMS, "cut"}
        fitting = {label: options for label, options in reversed(_variants(name))
                   if options.keys() <= known}  # fmt: skip
        for label, options in fitting.items():
            found.append(_measure_door(base, f"{name} {label}".strip(), options))
    found.append(_product_of_cutoffs())
    return found


def _variants(name: str) -> list[tuple[str, dict[str, Any]]]:
    if name in ("EE_D", "EE_R", "EE_L"):
        return [
            ("", {"cut": True}),
            ("RBP exact", {"browsing": "RBP(p=0.7)", "bounds": "exact"}),
            ("GERR", {"browsing": "GERR(p=0.8,u=0.4)", "cut": True}),
            ("raw", {"normalize": False, "cut": True}),
            ("fair-rag", {"variant": "fair-rag", "cut": True}),
            ("expeval", {"variant": "expeval", "browsing": "RBP(p=0.5)"}),
            ("groups", {"groups": None, "cut": True}),
        ]
    if name == "E":
        return [
            ("nDCG", {"measure": "nDCG@5"}), ("RR", {"measure": "RR"}),
            ("P", {"measure": "P@2"}), ("AP", {"measure": "AP"}), ("Compat", {"measure": "Compat"}),
        ]  # fmt: skip
    if name == "ByGroup":
        return [("", {"measure": "E(nDCG@5)", "groups": None}),
                ("EE_R", {"measure": "EE_R@3", "groups": None, "compare": "ratio"})]  # fmt: skip
    if name == "Product":
        return [("", {"left": "E(nDCG@5)", "right": "EE_R@3"})]
    if name == "EU":
        return [("", {"utility": "accuracy"}), ("rougeL", {"utility": "rougeL"})]
    if name == "nDCG_TREC":
        return [("", {"cut": True})]
    if name == "AWRF":
        return [("", {"groups": None, "target": None, "cut": True}),
                ("each", {"groups": None, "target": None, "cut": True, "amortize": False}),
                ]  # fmt: skip
    return [("", {"groups": None, "target": None, "cut": True}),
            ("", {"groups": None, "protected": None, "cut": True}),
            ("", {"groups": None, "cut": True})]  # fmt: skip


def _measure_door(base: Any, label: str, options: dict[str, Any]) -> Door:
    name = label.split()[0]
    known = base.SUPPORTED_PARAMS

    def build(frames: Frames, k: int) -> Any:
        given = {key: value for key, value in options.items() if key != "cut"}
        if "groups" in given:
            given["groups"] = groups_of(frames)
            if "target" in known and (given.get("target", 0) is None or label.startswith("EE_")):
                from fairtk import Target

                if name != "EE_D":
                    given["target"] = Target.uniform(given["groups"])
        if "protected" in given:
            given["protected"] = given["groups"].levels[-1]
        if "group" in known and "group" not in given and name == "Skew":
            given["group"] = given["groups"].levels[-1]
        for key in ("measure", "left", "right"):
            if key in given:
                from fairtk.measures import parse

                given[key] = parse(given[key])
        if "cut" in options and "cutoff" in known:
            given["cutoff"] = k
        return type(base)(**given)

    run, labels = _columns(base, options)
    reads = {"run": run, "qrels": labels}
    if "groups" in options:
        reads["groups"] = MEMBERS
    return Door(
        label or name,
        (name, base.NAME, "Groups 'kind'", "nDCG@5", str(options.get("measure", name))),
        reads,
        lambda frames, k: measured(build(frames, k), frames),
        _FORMULAS.get(label),
        by_ir_measures=True,
    )


def _columns(base: Any, options: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if base.NAME in ("E", "Product", "ByGroup"):
        return RUN, LABELS
    run = dict.fromkeys(base.RUN_COLUMNS)
    if "docno" in run:
        run |= dict.fromkeys(("rank", "sample"))
    else:
        run |= dict.fromkeys(("sample",))
    return tuple(run), tuple(base.QREL_COLUMNS)


def measured(measure: Any, frames: Frames) -> dict[str, float]:
    """Return a measure's value by qid, by way of ir_measures."""
    import ir_measures

    run = frames["run"]
    own = run.get("docno") if isinstance(run, pd.DataFrame) else None
    if isinstance(own, pd.Series) and "credit" in ir_measures.run_inputs([measure]):
        run = run.assign(credit=[sum(map(ord, str(docno))) % 5 / 4 for docno in own])
    qrels, run = (with_names(frame, IR_NAMES) for frame in (frames["qrels"], run))
    found: dict[str, float] = {}
    for metric in ir_measures.iter_calc([measure], qrels, run):
        if str(metric.query_id) in found:
            raise AssertionError(f"two values of qid {metric.query_id!r}")
        found[str(metric.query_id)] = float(metric.value)
    return found


def _product_of_cutoffs() -> Door:
    def call(frames: Frames, k: int) -> dict[str, float]:
        from ir_measures import nDCG

        from fairtk import AWRF, E, Target

        groups = groups_of(frames)
        product = E(nDCG @ 5) * AWRF(groups=groups, target=Target.uniform(groups)) @ k
        return measured(product, frames)

    says = ("Product", "AWRF", "E(", "nDCG@5", "Groups 'kind'")
    reads = {"run": RUN, "qrels": LABELS, "groups": MEMBERS}
    return Door("E(nDCG) * AWRF", says, reads, call, _product, by_ir_measures=True)


# Formulas -----------------------------------------------------------------------------------------


def _exposure(part: int) -> Callable[..., dict[str, float]]:
    def formula(labels: Any, run: Any, groups: Any, gold: Any, k: int) -> dict[str, float]:
        return {
            qid: formulas.exposures(own, _orders(run, qid), k)[part]
            for qid, own in labels.items()
        }  # fmt: skip

    return formula


def _orders(run: formulas.Run, qid: str) -> Any:
    return run.orders(qid) if qid in run.rankings else None


def _expectation(measure: Any, cutoff: int) -> Callable[..., dict[str, float]]:
    def formula(labels: Any, run: Any, groups: Any, gold: Any, k: int) -> dict[str, float]:
        values = {}
        for qid, own in labels.items():
            rankings = run.rankings.get(qid, {}).values()
            orders = run.orders(qid) if run.sampled and rankings else map(
                formulas.by_score, rankings
            )  # fmt: skip
            of_each = [measure(own, order, cutoff) for order in orders]
            values[qid] = sum(of_each) / len(of_each) if of_each else 0.0
        return values

    return formula


def _awrf(labels: Any, run: Any, groups: Any, gold: Any, k: int) -> dict[str, float]:
    levels = formulas.levels_of(groups)
    target = dict.fromkeys(levels, 1.0)
    return {qid: formulas.awrf(groups, target, _orders(run, qid), k) for qid in labels}


def _product(labels: Any, run: Any, groups: Any, gold: Any, k: int) -> dict[str, float]:
    one = _expectation(formulas.ndcg, 5)(labels, run, groups, gold, k)
    two = _awrf(labels, run, groups, gold, k)
    return {qid: one[qid] * two[qid] for qid in labels}


_FORMULAS: dict[str, Callable[..., dict[str, float]]] = {
    "EE_D": _exposure(0),
    "EE_R": _exposure(1),
    "EE_L": _exposure(2),
    "E nDCG": _expectation(formulas.ndcg, 5),
    "E RR": _expectation(formulas.reciprocal, 1 << 20),
    "E P": _expectation(formulas.precision, 2),
    "AWRF": _awrf,
}
