"""`conformance`: the same data by fairtk and by plain Python; each difference has its cause."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from importlib import resources
from os import PathLike
from typing import Any, TypeAlias

import pandas as pd

from fairtk.conformity.comparing import NAN, Tally
from fairtk.conformity.definitions import DEFINITIONS, Definition, Settings
from fairtk.conformity.outcome import Conformity
from fairtk.conformity.plain import Query
from fairtk.errors import InputError, ParameterError
from fairtk.evaluation import evaluate
from fairtk.evaluation.given_groups import GivenGroups
from fairtk.frames.columns import DOCNO, LABEL, QID, SAMPLE, SCORE
from fairtk.frames.rankings import encode_run
from fairtk.groups import Groups, Target
from fairtk.io import read_qrels, read_run

Data: TypeAlias = str | PathLike[str] | pd.DataFrame
DEFAULTS: Settings = {"cutoff": 5, "p": 0.5, "u": None, "complete": False}


def conformance(
    run: Data | None = None,
    qrels: Data | None = None,
    *,
    groups: Any = None,
    target: Any = None,
    cutoff: int = 5,
    p: float = 0.5,
    u: float | None = None,
) -> Conformity:
    """Compare fairtk with plain implementations of the published definitions.

    The definitions: the text of *Towards Fair RAG* and its code, expeval (Diaz et al. 2020), TREC
    Fair Ranking 2022 (Tasks 1 and 2), trec_eval's nDCG. The plain implementations share no line
    with the rest of fairtk. Without a run, on packaged fixtures, beside the numbers that the
    published code gave for them; with one, on that run, in the order that fairtk reads it in.

    Args:
        run: a file or frame; None: the packaged fixtures.
        qrels: labels, likewise.
        groups: `fairtk.Groups` or a file, for the definitions of TREC; None: these are left out.
        target: a `fairtk.Target`, a file, ``"uniform"`` or ``"qrels"``, which they need.
        cutoff: ranks that the machine user and the track read, above 0.
        p: patience of expeval's user, in [0, 1).
        u: how likely that user leaves after a useful document, in [0, 1]; None: RBP, else GERR.

    Raises:
        InputError: one of run and qrels is missing, or a file or frame cannot be used.
    """
    if (run is None) != (qrels is None):
        raise InputError("conformance: give a run and its qrels, or neither (packaged fixtures)")
    if run is None or qrels is None:
        if groups is not None or target is not None:
            raise InputError("conformance: groups and target go with a run and its qrels")
        return _of_fixtures()
    if isinstance(cutoff, bool) or not isinstance(cutoff, int) or cutoff < 1:
        raise ParameterError(
            f"conformance: cutoff must be a whole number above 0; found {cutoff!r}"
        )
    settings = {"cutoff": cutoff, "p": p, "u": u, "complete": False}
    return _of_run(run, qrels, groups, target, settings)


def _of_fixtures() -> Conformity:
    text = resources.files("fairtk.conformity").joinpath("fixtures.json").read_text("utf-8")
    tally = Tally(published=True)
    for place, case in enumerate(json.loads(text)["cases"]):
        definition = DEFINITIONS[case["definition"]]
        settings = {**DEFAULTS, **case["settings"], "groups": "groups"}
        query = Query(
            case["labels"], case["rankings"], case.get("groups", {}), case.get("target", {})
        )
        ours = _measured(definition, settings, *_frames(query))
        where = f"{case['tag']} ({place})"
        published = {name: NAN if v is None else v for name, v in case["published"].items()}
        tally.add(definition, settings, {where: query}, ours, {where: published})
        tally.between(definition, settings, {where: query})
    return tally.outcome("packaged fixtures: made-up data, and what the published code gave")


def _of_run(run: Data, qrels: Data, groups: Any, target: Any, settings: Settings) -> Conformity:
    shown = run if isinstance(run, pd.DataFrame) else read_run(run)
    labels = qrels if isinstance(qrels, pd.DataFrame) else read_qrels(qrels)
    given = GivenGroups.read(
        () if groups is None else (groups,), () if target is None else (target,)
    )
    given.labels = labels
    attribute = next(iter(given.attributes.values()), None)
    wanted = None if attribute is None else given.target(attribute, "conformance")
    keys = [name for name in (QID, SAMPLE, SCORE) if name in shown.columns]
    tied = set(shown.loc[shown.duplicated(keys), QID].astype(str)) if SCORE in keys else set()
    queries = {}
    for qid, judged, rankings in _queries(shown, labels):
        members = _memberships(attribute, wanted, qid, rankings)
        queries[qid] = Query(judged, rankings, *members, tied=qid in tied)
    settings = {**settings, "groups": "" if attribute is None else attribute.name}
    tally = Tally(published=False)
    for definition in DEFINITIONS.values():
        if definition.by_group and attribute is None:
            continue
        if definition.one_ranking and any(len(q.rankings) > 1 for q in queries.values()):
            continue
        by_group = [attribute, wanted] if definition.by_group else [None, None]
        ours = _measured(definition, settings, labels, shown, *by_group)
        tally.add(definition, settings, queries, ours)
        tally.between(definition, settings, queries)
    return tally.outcome("the given run and qrels")


def _queries(
    run: pd.DataFrame, qrels: pd.DataFrame
) -> Iterator[tuple[str, dict[str, float], list[list[str]]]]:
    """Yield each query of the labels, its labels, and its rankings in order."""
    ranked = encode_run(run, "conformance")
    rankings: dict[str, list[list[str]]] = {}
    for i, query in enumerate(ranked.ranking_query):
        rows = slice(ranked.ranking_start[i], ranked.ranking_start[i + 1])
        docnos = ranked.docnos[ranked.doc[rows]].tolist()
        rankings.setdefault(str(ranked.qids[query]), []).append(docnos)
    for qid, rows in qrels.groupby(QID, sort=False):
        judged = dict(zip(rows[DOCNO].astype(str), rows[LABEL].astype(float), strict=True))
        yield str(qid), judged, rankings.get(str(qid), [])


def _memberships(
    groups: Groups | None, target: Target | None, qid: str, rankings: list[list[str]]
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return the groups of a query's documents and its target, by name."""
    if groups is None or target is None:
        return {}, {}
    docnos = sorted({docno for ranking in rankings for docno in ranking})
    found = groups.memberships(docnos)
    shares: dict[str, dict[str, float]] = {}
    for i, docno in enumerate(docnos):
        cells = range(found.start[i], found.start[i + 1])
        if len(cells):
            shares[docno] = {str(int(found.cell[j])): float(found.weight[j]) for j in cells}
    wanted = target.for_groups(groups).for_qids([qid]).expanded()
    mass = zip(wanted.cell.tolist(), wanted.weight.tolist(), strict=True)
    return shares, {str(cell): weight for cell, weight in mass}


def _measured(
    definition: Definition,
    settings: Settings,
    qrels: pd.DataFrame,
    run: pd.DataFrame,
    groups: Groups | None,
    target: Target | None,
) -> dict[str, tuple[str, list[float]]]:
    """Return fairtk's measure of each value, and its value for each query of the labels."""
    measures = definition.measures(settings)
    given: dict[str, Any] = {} if groups is None else {"groups": [groups], "targets": [target]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is undefined or missing is in the table
        found = evaluate(qrels, run, list(measures.values()), **given)
    (values,) = found.runs
    each = {m: [values.values[m][qid] for qid in found.qids] for m in found.measures}
    return {
        name: (text, of) for (name, text), of in zip(measures.items(), each.values(), strict=True)
    }


def _frames(query: Query) -> tuple[pd.DataFrame, pd.DataFrame, Groups | None, Target | None]:
    """Return a query as labels, run, groups and target."""
    labels = [("q", docno, label) for docno, label in query.labels.items()]
    rows = [
        ("q", docno, -float(rank), sample)
        for sample, ranking in enumerate(query.rankings)
        for rank, docno in enumerate(ranking)
    ]
    qrels = pd.DataFrame(labels, columns=[QID, DOCNO, LABEL])
    run = pd.DataFrame(rows, columns=[QID, DOCNO, SCORE, SAMPLE])
    if not query.target:
        return qrels, run, None, None
    members = [(d, g, w) for d, of in query.groups.items() for g, w in of.items()]
    groups = Groups.from_frame(
        pd.DataFrame(members, columns=[DOCNO, "group", "weight"]),
        name="groups",
        unknown=None,
        levels=list(query.target),
        normalize=False,
    )
    frame = pd.DataFrame({"group": list(query.target), "weight": list(query.target.values())})
    if not math.isclose(frame["weight"].sum(), 1.0):
        raise InputError("a target of the fixtures does not sum to 1")
    return qrels, run, groups, Target.from_frame(frame, groups)
