"""`conformance`: the same data by fairtk and by plain Python; each difference has its cause."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from os import PathLike
from typing import Any, TypeAlias

import pandas as pd

from fairtk import checks
from fairtk.analysis import plain
from fairtk.analysis.evaluate import GivenGroups, evaluated
from fairtk.analysis.plain import Query, Values
from fairtk.errors import InputError
from fairtk.frames import CREDIT, DOCNO, LABEL, QID, RANK, SAMPLE, SCORE, Credit, Run, takes_tables
from fairtk.groups import Groups, Target
from fairtk.io import read_qrels, read_run

Settings = dict[str, Any]
Cause = tuple[Callable[[Query, Settings], bool], str, tuple[str, ...]]
"""When a difference is expected, why, and in which values."""

EXPOSURE = ("EE_D", "EE_R", "EE_L")
TASK1_VALUES = ("nDCG", "AWRF", "Score")
ATTRIBUTED = ("AE_D", "AE_R", "AE_L")


@dataclass(frozen=True)
class Definition:
    """One published definition.

    Attributes:
        name: a short name.
        source: where it was published.
        values: gives the values of a query by plain Python.
        measures: gives, for some settings, fairtk's measure of each value.
        departures: where fairtk gives something else on purpose.
        by_group: whether groups and a target are needed.
        one_ranking: whether a query must have one ranking alone.
        absent: whether it says what a query has that the run lacks.
        of_credit: whether it reads credit (a frame C), all others a ranking.
    """

    name: str
    source: str
    values: Callable[..., Values]
    measures: Callable[[Settings], dict[str, str]]
    departures: tuple[Cause, ...] = ()
    by_group: bool = False
    one_ranking: bool = False
    absent: bool = False
    of_credit: bool = False


def _few(query: Query, settings: Settings) -> bool:
    return len(query.documents) < int(settings["cutoff"])


def _tied(query: Query, settings: Settings) -> bool:
    return query.tied


def _useless(query: Query, settings: Settings) -> bool:
    return not query.useful


def _all_useful(query: Query, settings: Settings) -> bool:
    return len(query.useful) == len(query.labels) <= int(settings["cutoff"])


def _nothing(query: Query, settings: Settings) -> bool:
    return not query.rankings


def _unlabeled(query: Query, settings: Settings) -> bool:
    retrieved = [d for ranking in query.rankings for d in ranking[: settings["cutoff"]]]
    return not any(d in query.groups for d in retrieved)


def _left_out(query: Query, settings: Settings) -> bool:
    return bool(query.documents - set(query.labels).union(*plain.credited(query)))


_ABSENT = "the run lacks the query: the definition gives it no value, fairtk the worst one"
_NO_USEFUL = (
    "no useful document: an ideal ranking of nothing means nothing, and the published code ends "
    "with an error; in fairtk EE-D has its value, all else is undefined (NaN)"
)


def _exposure(options: str) -> Callable[[Settings], dict[str, str]]:
    def named(settings: Settings) -> dict[str, str]:
        inside = options.format(**settings)
        return {part: f"{part}({inside})@{settings['cutoff']}" for part in EXPOSURE}

    return named


def _expeval(settings: Settings) -> dict[str, str]:
    u = settings["u"]
    model = f"RBP(p={settings['p']})" if u is None else f"GERR(p={settings['p']}, u={u})"
    form = f"browsing='{model}', variant='expeval', complete={settings['complete']}"
    graded = settings.get("graded", True)
    return {part: f"{part}({form}, graded={graded})" for part in EXPOSURE}


def _task1(settings: Settings) -> dict[str, str]:
    cut = f"@{settings['cutoff']}"
    return {
        "nDCG": f"nDCG_TREC{cut}",
        "AWRF": f"AWRF(groups={settings['groups']!r}){cut}",
        "Score": f"nDCG_AWRF(groups={settings['groups']!r}){cut}",
    }


def _gap(settings: Settings, of: str = "") -> dict[str, str]:
    return {"CreditGap": f"CreditGap{of}@{settings['cutoff']}"} if settings["ranked"] else {}


PAPER = Definition(
    "paper",
    "Towards Fair RAG, Eqs. 3 to 6 and Appendix C",
    plain.paper,
    _exposure("graded=False"),
    (
        (_nothing, _ABSENT, EXPOSURE),
        (_useless, _NO_USEFUL, ("EE_R", "EE_L")),
        (
            _few,
            "the query has n < k documents: the paper divides by k, which no policy reaches, and "
            "the target of what is not useful is above 1; fairtk takes min(k, n) for k",
            EXPOSURE,
        ),
    ),
)
FAIR_RAG = Definition(
    "fair-rag",
    "the code of Towards Fair RAG",
    plain.fair_rag,
    _exposure("variant='fair-rag'"),
    (
        (_nothing, _ABSENT, EXPOSURE),
        (_useless, _NO_USEFUL, ("EE_D",)),
        (
            _all_useful,
            "all n labeled documents are useful and fit into k: the code divides by n - m = 0; in "
            "fairtk EE-D has its value, EE-R and EE-L are undefined (NaN)",
            ("EE_D",),
        ),
    ),
)
EXPEVAL = Definition(
    "expeval",
    "diazf/expeval, the code of Diaz et al. 2020",
    plain.expeval,
    _expeval,
    (
        (
            _nothing,
            "the run lacks the query: expeval takes the upper bound of EE-R for EE-L, and 1 for "
            "EE-R where there is one grade; fairtk gives the worst value",
            ("EE_R", "EE_L"),
        ),
        (_useless, _NO_USEFUL, ("EE_D",)),
    ),
    absent=True,
)
TASK1 = Definition(
    "trec2022-task1",
    "TREC Fair Ranking 2022, Task 1: guidelines and metric code",
    plain.task1,
    _task1,
    (
        (_nothing, _ABSENT, TASK1_VALUES),
        (
            _useless,
            "no useful document: the ideal gain is 0, and the published code ends with an error; "
            "fairtk's AWRF reads no labels and has its value",
            ("AWRF",),
        ),
        (
            _unlabeled,
            "no document in the ranking has a group: 0 / 0; fairtk says undefined (NaN)",
            TASK1_VALUES,
        ),
    ),
    by_group=True,
    one_ranking=True,
)
TASK2 = Definition(
    "trec2022-task2",
    "TREC Fair Ranking 2022, Task 2: guidelines and metric code",
    plain.task2,
    _exposure("groups={groups!r}"),
    (
        (_nothing, _ABSENT, EXPOSURE),
        (
            _useless,
            "no useful document: useful ones alone have exposure here, so that all of it is 0; "
            "fairtk says undefined (NaN)",
            EXPOSURE,
        ),
    ),
    by_group=True,
)
TREC_EVAL = Definition(
    "trec_eval",
    "trec_eval's ndcg_cut",
    plain.trec_eval,
    lambda settings: {"nDCG": f"E(measure='nDCG@{settings['cutoff']}')"},
    (
        (
            _tied,
            "tied scores: on a run without samples trec_eval orders them by docno, whatever the "
            "ranks say, and the plain value follows the ranks (`fairtk doctor` shows how much ties "
            "move)",
            ("nDCG",),
        ),
    ),
    absent=True,
)
CREDITED = Definition(
    "credit",
    "Diaz et al. 2020, Section 3, and Towards Fair RAG, Eqs. 3, 5 and 6, of shares of credit",
    plain.credit,
    lambda settings: {name: f"{name}@{settings['cutoff']}" for name in ATTRIBUTED} | _gap(settings),
    (
        (_nothing, _ABSENT, (*ATTRIBUTED, "CreditGap")),
        (
            _left_out,
            "documents that stand in rankings without defined credit alone: the definition counts "
            "them in n, to which the places beyond the useful documents fall; fairtk leaves such "
            "rankings out altogether",
            ("AE_R", "AE_L"),
        ),
    ),
    of_credit=True,
)
CREDIT_OF_GROUPS = Definition(
    "credit-groups",
    "TREC Fair Ranking 2022's divergence, of shares of credit; credit less exposure by group",
    plain.credit_of_groups,
    lambda settings: (
        {"AWRF": f"AWRF(groups={settings['groups']!r}, of='credit')"}
        | _gap(settings, f"(groups={settings['groups']!r})")
    ),
    ((_nothing, _ABSENT, ("AWRF", "CreditGap")),),
    by_group=True,
    of_credit=True,
)
DEFINITIONS = {
    d.name: d
    for d in (PAPER, FAIR_RAG, EXPEVAL, TASK1, TASK2, TREC_EVAL, CREDITED, CREDIT_OF_GROUPS)
}


def _m_below(query: Query, settings: Settings) -> bool:
    return 0 < len(query.useful) < int(settings["cutoff"])


def _foreign(query: Query, settings: Settings) -> bool:
    return bool(query.documents - set(query.labels))


def _graded(query: Query, settings: Settings) -> bool:
    return len({label for label in query.labels.values() if label > 0}) > 1


def _always(query: Query, settings: Settings) -> bool:
    return True


BETWEEN: tuple[tuple[str, str, tuple[str, ...], tuple[Cause, ...]], ...] = (
    (
        "paper",
        "fair-rag",
        EXPOSURE,
        (
            (
                _m_below,
                "m < k: the code gives documents that are not useful no target, though its bound "
                "counts them, so that even the ideal policy stays below 1",
                ("EE_R", "EE_L"),
            ),
            (
                _foreign,
                "n: the code counts labeled documents alone, not those only retrieved",
                ("EE_R", "EE_L"),
            ),
            (_few, "n < k: the target of what is not useful is above 1", ("EE_R", "EE_L")),
            (_all_useful, "all documents are useful: the code divides by 0", EXPOSURE),
            (_useless, "no useful document: the code ends with an error", EXPOSURE),
        ),
    ),
    (
        "paper",
        "expeval",
        EXPOSURE,
        (
            (
                _always,
                "expeval's user stops with probability 1 - p after each rank, the paper's machine "
                "user reads k ranks alike; expeval's bounds assume infinitely many documents, and "
                "its normalized EE-R is 1 wherever there is but one grade",
                EXPOSURE,
            ),
        ),
    ),
    (
        "trec2022-task1",
        "trec_eval",
        ("nDCG",),
        (
            (
                _graded,
                "TREC 2022 takes every useful document alike, trec_eval its label",
                ("nDCG",),
            ),
            (
                _always,
                "the discount: 1 / log2(max(rank, 2)) in TREC 2022, where ranks 1 and 2 weigh the "
                "same; 1 / log2(rank + 1) in trec_eval",
                ("nDCG",),
            ),
        ),
    ),
)
"""Two definitions, what both define, and why they differ; all causes that apply are given."""


def causes(
    reasons: tuple[Cause, ...], query: Query, settings: Settings, name: str
) -> Iterator[str]:
    """Yield why a value of a query differs."""
    for applies, words, names in reasons:
        if name in names and applies(query, settings):
            yield words


def same(one: float, other: float, tolerance: float) -> bool:
    """Return whether two values agree, relative to the larger of 1 and themselves."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return abs(one - other) <= tolerance * max(1.0, abs(one), abs(other))


@dataclass
class Conformity:
    """How fairtk's numbers compare with plain implementations and published numbers.

    Attributes:
        table: one row per definition and value: ``definition``, ``value``, ``measure`` (fairtk's),
            ``queries``, ``agree`` (to 1e-9), ``departs`` (for a known cause), ``unexplained`` and
            ``largest`` (the largest difference that is not explained; 0: none), and with the
            packaged fixtures ``published`` and ``reproduced``: the number of values that the
            published code gave, and how many of them fairtk reproduces.
        differences: one row per pair, value and cause: ``one`` and ``other`` (``fairtk``, a
            definition), ``value``, ``cause`` in words, ``queries`` and ``largest`` difference.
        source: what was compared, in words.
    """

    table: pd.DataFrame
    differences: pd.DataFrame
    source: str

    @property
    def conforms(self) -> bool:
        """Whether every difference has a cause, and every published number is reproduced."""
        short = 0
        if "published" in self.table.columns:
            short = int((self.table["published"] - self.table["reproduced"]).sum())
        return not int(self.table["unexplained"].sum()) and not short

    def to_json(self) -> str:
        """Return everything as JSON."""
        parts = {
            name: json.loads(frame.to_json(orient="records", double_precision=15))
            for name, frame in (("table", self.table), ("differences", self.differences))
        }
        return json.dumps(
            {"conforms": self.conforms, "source": self.source, **parts},
            indent=2,
            ensure_ascii=False,
        )


NAN = math.nan
CLOSE = 1e-9
OF_32_BITS = 1e-5
"""TREC's code takes discounts as 32-bit floats, so that its numbers have seven digits."""

_TABLE = ["definition", "value", "measure", "queries", "agree", "departs", "unexplained", "largest"]
_PUBLISHED = ["published", "reproduced"]
_DIFFERENCES = ["one", "other", "value", "cause", "queries", "largest"]


def plain_values(definition: Definition, query: Query, settings: Settings) -> Values:
    """Return the plain values of a query; none where the definition has none, or an error."""
    if not (query.rankings or definition.absent):
        return {}
    try:
        return definition.values(query, **settings)
    except (ZeroDivisionError, IndexError, ValueError):
        return {}


class Tally:
    """What has been compared.

    Args:
        published: whether there are published numbers to reproduce.
    """

    def __init__(self, published: bool) -> None:
        self._published = published
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._measures: dict[tuple[str, str], dict[str, None]] = {}
        self._causes: dict[tuple[str, str, str, str], list[float]] = {}

    def add(
        self,
        definition: Definition,
        settings: Settings,
        queries: dict[str, Query],
        ours: dict[str, tuple[str, list[float]]],
        published: dict[str, Values] | None = None,
    ) -> None:
        """Compare fairtk's values with the plain ones, and with published ones.

        Args:
            definition: the definition.
            settings: its settings.
            queries: the queries, in the order of the values.
            ours: fairtk's measure of each value, and its value for each query.
            published: the published values of each query.
        """
        plain = {qid: plain_values(definition, q, settings) for qid, q in queries.items()}
        for name, (measure, values) in ours.items():
            start: dict[str, Any] = dict.fromkeys([*_TABLE, *_PUBLISHED], 0)
            start |= {"definition": definition.name, "value": name, "measure": measure}
            row = self._rows.setdefault((definition.name, name), start)
            self._measures.setdefault((definition.name, name), {})[measure] = None
            for (qid, query), value in zip(queries.items(), values, strict=True):
                row["queries"] += 1
                other = plain[qid].get(name, NAN)
                why = list(causes(definition.departures, query, settings, name))
                if same(value, other, CLOSE):
                    row["agree"] += 1
                elif why:
                    row["departs"] += 1
                    self._note("fairtk", definition.name, name, why, value, other)
                else:
                    row["unexplained"] += 1
                    gap = abs(value - other)
                    row["largest"] = math.inf if math.isnan(gap) else max(row["largest"], gap)
                number = (published or {}).get(qid, {}).get(name, NAN)
                if not math.isnan(number) and not (why and not same(value, number, OF_32_BITS)):
                    row["published"] += 1
                    exact = OF_32_BITS if definition.by_group else CLOSE
                    row["reproduced"] += same(value, number, exact)

    def between(
        self, definition: Definition, settings: Settings, queries: dict[str, Query]
    ) -> None:
        """Compare a definition with others of the same thing, both by plain Python."""
        for one, other, names, reasons in BETWEEN:
            if one != definition.name:
                continue
            for query in queries.values():
                if not query.rankings:
                    continue
                first = plain_values(definition, query, settings)
                second = plain_values(DEFINITIONS[other], query, settings)
                for name in names:
                    a, b = first.get(name, NAN), second.get(name, NAN)
                    if not same(a, b, CLOSE):
                        why = list(causes(reasons, query, settings, name)) or ["not known"]
                        self._note(one, other, name, why, a, b)

    def outcome(self, source: str) -> Conformity:
        """Return what was found."""
        for key, row in self._rows.items():
            others = len(self._measures[key]) - 1
            row["measure"] += f" and {others} other settings" if others else ""
        columns = _TABLE + (_PUBLISHED if self._published else [])
        table = pd.DataFrame(list(self._rows.values()), columns=columns)
        rows = [
            [*key, len(gaps), max((g for g in gaps if not math.isnan(g)), default=NAN)]
            for key, gaps in sorted(self._causes.items(), key=lambda item: item[0][0] != "fairtk")
        ]
        return Conformity(table, pd.DataFrame(rows, columns=_DIFFERENCES), source)

    def _note(
        self, one: str, other: str, name: str, why: list[str], value: float, second: float
    ) -> None:
        key = one, other, name, "; ".join(why)
        self._causes.setdefault(key, []).append(abs(value - second))


Data: TypeAlias = str | PathLike[str] | pd.DataFrame
DEFAULTS: Settings = {"cutoff": 5, "p": 0.5, "u": None, "complete": False, "ranked": True}


@takes_tables
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
    Fair Ranking 2022 (Tasks 1 and 2), trec_eval's nDCG; of a run with ``credit`` (a frame C) those
    of AE_D, AE_R, AE_L and, by ``rank`` or ``score``, CreditGap, and with groups AWRF of credit,
    for which nobody has published code or numbers. The plain implementations share no line with
    the rest of fairtk. Without a run, on packaged fixtures, beside the numbers that the
    published code gave for them; with one, on that run, in the order that fairtk reads it in.

    Args:
        run: a file or frame, R, S or C; None: the packaged fixtures.
        qrels: labels, likewise.
        groups: `fairtk.Groups` or a file, for the definitions by group; None: these are left out.
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
    checks.whole("cutoff", cutoff, "conformance", rule=checks.ABOVE_0)
    settings = {**DEFAULTS, "cutoff": cutoff, "p": p, "u": u}
    return _of_run(run, qrels, groups, target, settings)


def _of_fixtures() -> Conformity:
    text = resources.files("fairtk.analysis").joinpath("fixtures.json").read_text("utf-8")
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
    ranking = run if isinstance(run, pd.DataFrame) else read_run(run)
    labels = qrels if isinstance(qrels, pd.DataFrame) else read_qrels(qrels)
    options = GivenGroups.read(
        () if groups is None else (groups,), () if target is None else (target,)
    )
    options.labels = labels
    attribute = next(iter(options.attributes.values()), None)
    goal = None if attribute is None else options.target(attribute, "conformance")
    keys = [name for name in (QID, SAMPLE, SCORE) if name in ranking.columns]
    tied = set(ranking.loc[ranking.duplicated(keys), QID].astype(str)) if SCORE in keys else set()
    with_credit = CREDIT in ranking.columns
    scored = SCORE in ranking.columns or not with_credit
    credit = _credit(ranking) if with_credit else {}
    queries = {}
    for qid, judged, rankings in _queries(ranking, labels, credit):
        members = _memberships(attribute, goal, qid, rankings)
        queries[qid] = Query(judged, rankings, *members, qid in tied, credit.get(qid, []))
    ranked = not {RANK, SCORE}.isdisjoint(ranking.columns)
    name = "" if attribute is None else attribute.name
    settings = {**settings, "groups": name, "ranked": ranked}
    tally = Tally(published=False)
    for definition in DEFINITIONS.values():
        if definition.by_group and attribute is None:
            continue
        if not (with_credit if definition.of_credit else scored):
            continue
        if definition.one_ranking and any(len(q.rankings) > 1 for q in queries.values()):
            continue
        by_group = [attribute, goal] if definition.by_group else [None, None]
        ours = _measured(definition, settings, labels, ranking, *by_group)
        tally.add(definition, settings, queries, ours)
        tally.between(definition, settings, queries)
    return tally.outcome("the given run and qrels")


def _credit(run: pd.DataFrame) -> dict[str, list[dict[str, float]]]:
    """Return the credit in the answers to each query, by document in the order of the ranking."""
    checked = Credit(Run(run, "conformance"))
    rows = list(range(len(checked.credit)))
    if not {RANK, SCORE}.isdisjoint(run.columns):
        rows.sort(key=checked.positions.tolist().__getitem__)
    lists: list[dict[str, float]] = [{} for _ in checked.ranking_query]
    docnos = checked.run.docnos[checked.run.frame_doc]
    for row in rows:
        lists[checked.ranking[row]][str(docnos[row])] = float(checked.credit[row])
    credit: dict[str, list[dict[str, float]]] = {}
    for query, answer in zip(checked.ranking_query, lists, strict=True):
        credit.setdefault(str(checked.run.qids[query]), []).append(answer)
    return credit


def _queries(
    run: pd.DataFrame, qrels: pd.DataFrame, credit: dict[str, list[dict[str, float]]]
) -> Iterator[tuple[str, dict[str, float], list[list[str]]]]:
    """Yield each query of the labels, its labels, and its rankings in order."""
    rankings = {qid: [list(answer) for answer in answers] for qid, answers in credit.items()}
    if not credit:
        ranked = Run(run, "conformance")
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
    members, levels = groups.memberships(docnos), groups.levels
    shares: dict[str, dict[str, float]] = {}
    for i, docno in enumerate(docnos):
        cells = range(members.start[i], members.start[i + 1])
        if len(cells):
            shares[docno] = {str(levels[members.level[j]]): float(members.weight[j]) for j in cells}
    distribution = target.for_groups(groups).for_qids([qid]).expanded()
    mass = zip(distribution.level.tolist(), distribution.weight.tolist(), strict=True)
    return shares, {str(levels[cell]): weight for cell, weight in mass}


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
    options: dict[str, Any] = {} if groups is None else {"groups": [groups], "targets": [target]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is undefined or missing is in the table
        evaluation = evaluated(qrels, run, list(measures.values()), **options)
    (values,) = evaluation.runs
    each = {m: [values.values[m][qid] for qid in evaluation.qids] for m in evaluation.measures}
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
