"""The checks of `doctor`: unmatched ids, ties, small groups, unreachable targets."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.display.tables import frame_html, number_text
from fairtk.experiment.compare_runs import evaluate_runs
from fairtk.frames import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE, FloatArray, Qrels, Run
from fairtk.frames.columns import PARENT, PASSAGE
from fairtk.frames.ids import Ids, parents_of
from fairtk.frames.qrels import no_common_query
from fairtk.frames.spellings import respelled, spelling_text
from fairtk.groups.exposure import attention_matrix, group_exposure
from fairtk.groups.groups import coverage_of, unreachable
from fairtk.groups.rows import SparseRows
from fairtk.measures import LabeledRun, format_measure
from fairtk.measures.ee import ExposureOfDocuments
from fairtk.measures.facts import RunFacts, documents_of_queries
from fairtk.wording import apart, format_list

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

LEVELS = ("error", "warning", "note")
"""The levels of findings: results would be wrong, results need care, information only."""

SOUND, CARE, BROKEN = "sound", "usable with care", "not usable as it is"


@dataclass(frozen=True)
class Finding:
    """A problem in the data.

    Attributes:
        level: one of `LEVELS`.
        check: the stable name of the check.
        about: ``"run"``, ``"qrels"``, ``"groups"``, ``"target"``, or two of them.
        text: the problem, with its count and first position.
        remedy: the fix.
        count: the number of affected rows, queries, documents or groups.
    """

    level: str
    check: str
    about: str
    text: str
    remedy: str
    count: int


@dataclass
class Diagnosis:
    """The result of `doctor`.

    Attributes:
        findings: the findings, most severe first.
        ties: one row per measure (and ``run``, if there are several): its mean in the order of the
            run (``now``), and the ``lowest`` and ``highest`` mean over orders of tied documents;
            empty if there are no ties.
        counts: ``queries``, ``rankings`` and ``rows`` of the run, ``labeled`` queries and
            ``labels`` of the qrels, without malformed rows. Of several runs, ``runs``, and the
            sums of ``rankings`` and ``rows``.
    """

    findings: list[Finding]
    ties: pd.DataFrame
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.findings.sort(key=lambda finding: LEVELS.index(finding.level))

    @property
    def verdict(self) -> str:
        """``"sound"``, ``"usable with care"`` or ``"not usable as it is"``."""
        levels = {finding.level for finding in self.findings}
        return BROKEN if "error" in levels else CARE if "warning" in levels else SOUND

    def number(self, level: str) -> int:
        """Return the number of findings of a level."""
        return sum(finding.level == level for finding in self.findings)

    @property
    def summary(self) -> str:
        """The verdict and the number of findings, in one line."""
        parts = [(self.number(level), level) for level in LEVELS]
        counts = ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for n, level in parts if n)
        return f"{self.verdict} ({counts or 'nothing found'})"

    @property
    def table(self) -> pd.DataFrame:
        """One row per finding: ``level``, ``check``, ``about``, ``count``, ``text``, ``remedy``."""
        columns = ["level", "check", "about", "count", "text", "remedy"]
        return pd.DataFrame([asdict(finding) for finding in self.findings], columns=columns)

    def to_json(self) -> str:
        """Return verdict, counts, findings and the effect of ties as JSON."""
        content = {
            "verdict": self.verdict,
            "counts": self.counts,
            "findings": [asdict(finding) for finding in self.findings],
            "ties": json.loads(self.ties.to_json(orient="records", double_precision=15)),
        }
        return json.dumps(content, indent=2, ensure_ascii=False)

    def _repr_html_(self) -> str:
        return frame_html(self.table, self.summary)

    def __repr__(self) -> str:
        lines = [self.summary]
        for finding in self.findings:
            lines += [f"{finding.level}: {finding.text}", f"  -> {finding.remedy}"]
        return "\n".join(lines)


def joined(diagnoses: Mapping[str, Diagnosis]) -> Diagnosis:
    """Return one diagnosis of several runs; findings of all runs are listed once."""
    common = set.intersection(*({*one.findings} for one in diagnoses.values()))
    findings = [one for one in next(iter(diagnoses.values())).findings if one in common]
    for name, diagnosis in diagnoses.items():
        findings += [
            replace(one, text=f"{name}: {one.text}")
            for one in diagnosis.findings
            if one not in common
        ]
    ties = {name: one.ties for name, one in diagnoses.items() if len(one.ties)}
    table = next(iter(diagnoses.values())).ties
    if ties:
        table = pd.concat(ties, names=["run"]).reset_index("run").reset_index(drop=True)
    counts = [one.counts for one in diagnoses.values() if one.counts]
    of_runs = {name: sum(one[name] for one in counts) for name in ("rankings", "rows") if counts}
    of_labels = {name: counts[0][name] for name in ("labeled", "labels") if counts}
    return Diagnosis(findings, table, {"runs": len(diagnoses), **of_runs, **of_labels})


_HALF = 0.5
_UNREACHABLE = 0.01
"""The unreachable share of a target above which there is a warning."""


def groups(
    attribute: Groups, ranked: Run, qrels: pd.DataFrame, cutoff: int, least: int
) -> Iterator[Finding]:
    """Yield findings about the coverage of groups, and groups with few documents.

    Args:
        attribute: the groups of one attribute.
        ranked: the run.
        qrels: the labels.
        cutoff: the number of ranks to check.
        least: groups with fewer judged or retrieved documents are reported.
    """
    name = attribute.name
    coverage = coverage_of(attribute, ranked, cutoff)
    labeled, total = int(coverage["with_label"].sum()), int(coverage["retrieved"].sum())
    thin = coverage[coverage["label_share"] < _HALF]
    text = f"{name}: the group is known for {labeled} of {total} documents in the first {cutoff} "
    text += f"ranks ({labeled / max(total, 1):.0%})"
    if len(thin):
        text += f"; in {len(thin)} of {len(coverage)} queries for less than half: "
        text += format_list(thin["qid"].tolist(), 3)
        remedy = (
            "label more documents, or report AWRF with unlabeled='best' and 'worst', its range "
            "over all possible labels"
        )
        level = "error" if labeled == 0 else "warning"
        if labeled == 0:
            remedy = f"check the ids: {_example(attribute, ranked)}"
        yield Finding(level, "coverage", "groups", text, remedy, total - labeled)
    elif labeled < total:
        remedy = "documents without a group are dropped by default (unlabeled='drop')"
        yield Finding("note", "coverage", "groups", text, remedy, total - labeled)
    yield from _small(attribute, ranked, qrels, least)


def _example(attribute: Groups, ranked: Run) -> str:
    return (
        f"docno {str(attribute.docnos[0])!r} in the groups, {str(ranked.docnos[0])!r} in the run"
        if len(attribute) and len(ranked.docnos)
        else "the groups have no documents"
    )


def _small(attribute: Groups, ranked: Run, qrels: pd.DataFrame, least: int) -> Iterator[Finding]:
    docnos = pd.unique(np.concatenate([ranked.docnos, qrels["docno"].to_numpy(dtype=object)]))
    useful = pd.Index(docnos).isin(qrels.loc[qrels[LABEL] > 0, "docno"])
    members = attribute.memberships(docnos)
    size = attribute.space.size
    count = np.bincount(members.level, minlength=size)
    n_useful = np.bincount(members.level[useful[members.row]], minlength=size)
    levels = np.flatnonzero(attribute.space.known(np.arange(size))).tolist()
    small = [cell for cell in levels if 0 < count[cell] < least]
    if small:
        parts = [f"{attribute.levels[c]} {count[c]} ({n_useful[c]} useful)" for c in small]
        listing = ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")
        text = f"{attribute.name}: groups with fewer than {least} judged or retrieved documents: "
        text += listing
        remedy = "values of small groups are mostly noise: merge levels, or report the counts"
        yield Finding("warning", "support", "groups", text, remedy, len(small))
    useless = [c for c in levels if count[c] >= least and n_useful[c] == 0]
    if useless:
        names = format_list([str(attribute.levels[c]) for c in useless])
        text = f"{attribute.name}: groups without useful documents: {names}"
        remedy = "measures of relevance by group are undefined for them"
        yield Finding("note", "support", "groups", text, remedy, len(useless))


def targets(attribute: Groups, target: Target, ranked: Run, cutoff: int) -> Iterator[Finding]:
    """Yield findings about queries without a target, and targets that no ranking can reach."""
    target = target.for_groups(attribute)
    name = attribute.name
    target_mass = target.for_qids(ranked.qids).expanded()
    total = target_mass.total()
    untargeted = [str(qid) for qid in ranked.qids[total == 0]]
    if untargeted:
        text = f"{name}: {len(untargeted)} of {len(total)} queries have no target: "
        text += format_list(untargeted, 3)
        remedy = "AWRF is undefined for them; remove them, or add a target"
        yield Finding("warning", "target", "target", text, remedy, len(untargeted))
    mass, levels = unreachable(attribute, target.distributions)
    if levels:
        text = f"{name}: up to {mass:.2g} of the target is on groups without documents: "
        text += format_list(levels, 3)
        remedy = "no ranking reaches it: fix the groups, or remove these levels from the target"
        yield Finding("warning", "target", "target", text, remedy, len(levels))
    share = _unreachable(attribute, target_mass, ranked, total)
    out = share > _UNREACHABLE
    if out.any():
        best = 1.0 - divergence_at_best(share)
        worst = int(np.argmax(share))
        text = (
            f"{name}: in {int(out.sum())} of {len(share)} queries, more than {_UNREACHABLE:.0%} of "
            "the target is on groups without retrieved documents, so AWRF is at most "
            f"{number_text(best.mean())} on average ({number_text(best[worst])} for qid "
            f"{str(ranked.qids[worst])!r}, where {share[worst]:.0%} is unreachable)"
        )
        remedy = f"retrieve deeper than {cutoff}, or other documents; reranking cannot fix it"
        yield Finding("warning", "target", "target", text, remedy, int(out.sum()))


def _unreachable(
    attribute: Groups, target_mass: SparseRows, ranked: Run, total: FloatArray
) -> FloatArray:
    """Return the share of each query's target on groups without retrieved documents."""
    shape = (target_mass.n_rows, len(ranked.docnos))
    once = attention_matrix(ranked.query, ranked.doc, np.ones(len(ranked.doc)), shape)
    exposure = group_exposure(once, attribute.memberships(ranked.docnos))
    missing = exposure.lookup(target_mass.row, target_mass.level) == 0
    mass = target_mass.per_row(target_mass.weight * missing)
    share: FloatArray = mass / np.where(total > 0, total, 1.0)
    return share


def divergence_at_best(mass: FloatArray) -> FloatArray:
    """Return the minimum Jensen-Shannon divergence from a target with an unreachable part.

    For a target t and exposure on a set S of groups, the divergence is minimal at t restricted to S
    and normalized (by Jensen's inequality). With the mass m of t outside of S,
    2 JSD = log(2 / (2 - m)) + (1 - m) log(2 (1 - m) / (2 - m)) + m log 2, in nats.

    Args:
        mass: the mass m, in [0, 1]; any shape. 1 gives log 2.
    """
    rest = 1.0 - mass
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(rest > 0, rest * np.log(2 * rest / (1 + rest)), 0.0)
    return np.asarray(0.5 * (np.log(2 / (1 + rest)) + middle + mass * math.log(2)))


def queries(run: pd.DataFrame, qrels: pd.DataFrame) -> Iterator[Finding]:
    """Yield the problems of the queries of a run and qrels."""
    ran, labeled = list(run[QID].unique()), list(qrels[QID].unique())
    of_run, of_labels = {*ran}, {*labeled}
    missing = [qid for qid in labeled if qid not in of_run]
    extra = [qid for qid in ran if qid not in of_labels]
    like = _respelled(extra, missing, of_run & of_labels)
    if len(missing) == len(labeled):
        text = no_common_query("run", ran, labeled)
        yield Finding("error", "ids", "run, qrels", text, _ALIKE, len(labeled))
        return
    if missing:
        text = f"{len(missing)} of {len(labeled)} queries of the qrels are missing from the run: "
        text += f"{format_list(missing, 3)}{like}"
        remedy = "add them; they get the worst value of each measure" if not like else _ALIKE
        yield Finding("warning", "queries-missing", "run", text, remedy, len(missing))
    if extra:
        text = (
            f"{len(extra)} of {len(ran)} queries of the run have no label: {format_list(extra, 3)}"
        )
        text += like
        remedy = "they are not measured; check that these are the qrels of this run"
        level = "warning" if like or len(extra) > _HALF * len(ran) else "note"
        yield Finding(level, "queries-extra", "run, qrels", text, remedy, len(extra))


_ALIKE = "write ids the same way in both files"


def documents(ranked: Run, qrels: Qrels, cutoff: int) -> Iterator[Finding]:
    """Yield the problems of the documents of common queries of a run and qrels."""
    common = qrels.qids.find(ranked.qids) >= 0
    rows = np.flatnonzero(common[ranked.query])
    if not len(rows):
        return
    judged = ~np.isnan(qrels.labels_of(ranked))
    matched = np.zeros(len(ranked.qids), dtype=bool)
    matched[ranked.query[judged]] = True
    unmatched = np.flatnonzero(common & ~matched)
    index = qrels.docnos.find(ranked.docnos)
    retrieved = np.zeros(qrels.docnos.size, dtype=bool)
    retrieved[index[index >= 0]] = True
    unjudged = ranked.docnos[index < 0]
    passages = _passages(ranked, qrels, int(retrieved.sum()))
    if passages is not None:
        yield passages
        return
    like = _respelled(unjudged, qrels.docnos[~retrieved], qrels.docnos[retrieved])
    if len(unmatched):
        level = "warning" if matched.any() else "error"
        qid = str(ranked.qids[unmatched[0]])
        row = int(np.flatnonzero(ranked.query == unmatched[0])[0])
        docno = qrels.docnos[qrels.doc[qrels.query == qrels.qids.tolist().index(qid)][0]]
        mine, other = apart(ranked.docno(row), str(docno))
        text = (
            f"no retrieved document is judged for {len(unmatched)} of {int(common.sum())} queries "
            f"(qid {qid!r}: docno {mine} in the run, {other} in the qrels){like}"
        )
        yield Finding(level, "ids", "run, qrels", text, _ALIKE, len(unmatched))
    elif like:
        text = f"document ids differ in spelling between run and qrels{like}"
        yield Finding("warning", "ids", "run, qrels", text, _ALIKE, len(unjudged))
    own = ranked.own_documents()
    own = own[common[ranked.query[own]]]
    if len(own):
        qids = ranked.qids.texts_at(np.unique(ranked.query[own]))
        text = (
            f"the docno of a retrieved document is the qid for {len(qids)} of {int(common.sum())} "
            f"queries: {format_list(qids, 3)}"
        )
        remedy = (
            "leave these documents out: IgnoreIdenticalIds() before a sampler, and "
            "`ignore_identical_ids=True` of evaluate and compare"
        )
        yield Finding("warning", "own-document", "run", text, remedy, len(qids))
    top = rows[ranked.position[rows] < cutoff]
    pair = ranked.query[top] * np.int64(max(1, ranked.docnos.size)) + ranked.doc[top]
    _, first = np.unique(pair, return_index=True)
    n, n_judged = len(first), int(judged[top[first]].sum())
    if n_judged < n and matched.any():
        share = n_judged / n
        text = f"{n_judged} of {n} documents in the first {cutoff} ranks are judged ({share:.0%})"
        remedy = (
            "unjudged documents count as not useful; fairtk sensitivity shows whether this changes "
            "the order of systems"
        )
        level = "warning" if share < _HALF else "note"
        yield Finding(level, "judged", "run, qrels", text, remedy, n - n_judged)


SEPARATORS = ("%p", "::", "#", "_", "-", "/", ":", "|", "@", "~", "$", "+", " ")
"""Common separators of document and passage in a docno."""
_TRIED = 10_000
"""The number of docnos with which separators are tried."""


def _passages(ranked: Run, qrels: Qrels, n_judged: int) -> Finding | None:
    """Return the finding that more docnos are passages of judged documents than are judged.

    Args:
        ranked: the run.
        qrels: the labels.
        n_judged: the number of retrieved docnos with labels.
    """
    if PASSAGE in ranked.frame.columns:
        return None
    docnos = ranked.docnos.take(np.arange(min(_TRIED, ranked.docnos.size)))
    parents = [Ids(parents_of(docnos, separator)) for separator in SEPARATORS]
    has_label = [index >= 0 for index in qrels.docnos.find_each(parents)]
    n_matches = [np.count_nonzero(matches) for matches in has_label]
    best = int(np.argmax(n_matches))
    n = int(n_matches[best])
    if n <= n_judged:
        return None
    separator, first = SEPARATORS[best], int(np.flatnonzero(has_label[best])[0])
    text = (
        f"{n} of {docnos.size} retrieved docnos are passages of judged documents if {separator!r} "
        f"separates document and passage, {n_judged} are judged themselves (docno "
        f"{docnos[first]!r} in the run, {parents[best][first]!r} in the qrels)"
    )
    remedy = f"set `parent={separator!r}`, or add the column {PARENT!r}"
    return Finding("error", "passages", "run, qrels", text, remedy, n)


def labels(qrels: pd.DataFrame) -> Iterator[Finding]:
    """Yield the problems of labels."""
    useful = set(qrels.loc[qrels[LABEL] > 0, QID])
    without = [qid for qid in qrels[QID].unique() if qid not in useful]
    n = qrels[QID].nunique()
    if without:
        text = f"{len(without)} of {n} queries have no useful document: {format_list(without, 3)}"
        remedy = "EE_R and EE_L are undefined for them; remove them with fairtk.drop_undefined"
        yield Finding("warning", "useless", "qrels", text, remedy, len(without))
    if bool((qrels[LABEL] > 0).all()):
        text = "all judged documents are useful"
        remedy = "n, the number of documents of a query, only counts useful and retrieved documents"
        yield Finding("note", "labels", "qrels", text, remedy, n)
    negative = int((qrels[LABEL] < 0).sum())
    if negative:
        text = f"{negative} labels are negative"
        remedy = "they count as not useful; remove them if they mean 'not judged'"
        yield Finding("note", "labels", "qrels", text, remedy, negative)


def _respelled(ran: Collection[str], labeled: Collection[str], common: Collection[str]) -> str:
    """Return the change of spelling that matches two lists of ids in words, or ``""``.

    Args:
        ran: the ids that only the run has.
        labeled: the ids that only the labels have.
        common: the ids of both.
    """
    if not len(ran) or not len(labeled):
        return ""
    first, second, both = ([("", name) for name in names] for names in (ran, labeled, common))
    return spelling_text(*respelled(first, second, both, both))


_SAMPLE_AGAIN = "sample all queries with the same n_samples and cutoff"


def rankings(run: pd.DataFrame, ranked: Run, qrels: Qrels, cutoff: int) -> Iterator[Finding]:
    """Yield the problems of the number and length of rankings."""
    length, n = np.diff(ranked.ranking_start), ranked.n_samples
    if ranked.sampled:
        yield from _samples(ranked, n, length)
    facts = RunFacts.of(LabeledRun(qrels, ranked, "doctor"), cutoff, two_orders=True)
    if facts.ordered_apart.any():
        qids = qrels.qids.texts_at(np.flatnonzero(facts.ordered_apart))
        text = (
            f"different scores of {len(qids)} of {len(n)} queries ({format_list(qids, 3)}) are "
            "equal in single precision, in which trec_eval reads them, so its measures (nDCG, AP) "
            "see another order than EE_D, EE_R, EE_L and AWRF"
        )
        remedy = "`order='rank'` of evaluate and compare gives all the order of the ranks"
        yield Finding("warning", "two-orders", "run", text, remedy, len(qids))
    is_short = (facts.shortest >= 0) & (
        facts.shortest < np.minimum(cutoff, documents_of_queries(qrels, [facts], cutoff))
    )
    truncated = [str(qid) for qid in qrels.qids[is_short]]
    if truncated:
        text = (
            f"{len(truncated)} of {len(n)} queries ({format_list(truncated, 3)}) have fewer than "
            f"{cutoff} ranked documents, but more judged or retrieved ones, which changes their "
            f"EE_D, EE_R, EE_L and AWRF at {cutoff}"
        )
        remedy = "retrieve deeper, or use a smaller cutoff; such runs are not comparable"
        yield Finding("warning", "short", "run", text, remedy, len(truncated))
    short = [qid for qid in _queries(ranked, length < cutoff) if qid not in set(truncated)]
    if short:
        text = (
            f"{len(short)} of {len(n)} queries have fewer than {cutoff} ranked documents: "
            f"{format_list(short, 3)}"
        )
        remedy = "no problem if they have no more candidates; otherwise the run is truncated"
        yield Finding("note", "short", "run", text, remedy, len(short))
    last = str(run[QID].iloc[-1])
    of_last = ranked.qids[ranked.ranking_query] == last
    others = length[~of_last]
    if len(others) > 1 and (others == others[0]).all() and length[of_last].min() < others[0]:
        count = int(length[of_last].min())
        text = f"the last query of the run, {last!r}, has {count} document{'s' * (count != 1)}, "
        text += f"all others have {others[0]}"
        remedy = "check whether the file is truncated, and write it again"
        yield Finding("warning", "truncated", "run", text, remedy, 1)


def _samples(ranked: Run, n: np.ndarray, length: np.ndarray) -> Iterator[Finding]:
    if len(np.unique(n)) > 1:
        most = int(n.max())
        fewer = [str(qid) for qid in ranked.qids[n < most]]
        text = (
            f"queries have {n.min()} to {most} samples; {len(fewer)} of {len(n)} have fewer than "
            f"{most}: {format_list(fewer, 3)}"
        )
        remedy = f"{_SAMPLE_AGAIN}; with N samples, EE_D is too large by (1 - EE_D) / N"
        yield Finding("warning", "samples", "run", text, remedy, len(fewer))
    most_of = np.zeros(len(n), dtype=np.int64)
    np.maximum.at(most_of, ranked.ranking_query, length)
    uneven = _queries(ranked, length < most_of[ranked.ranking_query])
    if uneven:
        text = f"{len(uneven)} of {len(n)} queries have samples of different length: "
        text += format_list(uneven, 3)
        yield Finding("warning", "lengths", "run", text, _SAMPLE_AGAIN, len(uneven))
    if n.max(initial=0) > 1:
        fixed = _fixed(ranked)
        if len(fixed):
            text = f"{len(fixed)} of {len(n)} queries have the same ranking in all samples: "
            text += format_list(fixed, 3)
            remedy = "use a smaller alpha, or one sample"
            yield Finding("note", "samples", "run", text, remedy, len(fixed))


def _fixed(ranked: Run) -> list[str]:
    """Return the queries with several samples of the same ranking."""
    rows = pd.DataFrame({"query": ranked.query, "position": ranked.position, "doc": ranked.doc})
    docs = rows.groupby(["query", "position"])["doc"]
    varied = set(rows.loc[docs.transform("nunique") > 1, "query"])
    sampled = np.flatnonzero(ranked.n_samples > 1)
    return [str(ranked.qids[query]) for query in sampled if query not in varied]


def _queries(ranked: Run, wrong: np.ndarray) -> list[str]:
    return [str(qid) for qid in ranked.qids[np.unique(ranked.ranking_query[wrong])]]


COLUMNS = ["measure", "now", "lowest", "highest"]
SHUFFLES = 5
"""The number of random orders of tied documents, in addition to the fixed ones."""
MOVES = 0.001
"""The effect of ties on a mean from which there is a warning."""


def tied_rows(run: pd.DataFrame) -> pd.Series:
    """Return whether each row has the same score as another row of its ranking."""
    keys = [QID, *([SAMPLE] if SAMPLE in run.columns else []), SCORE]
    return run.duplicated(keys, keep=False)


def tie_effects(
    run: pd.DataFrame, qrels: pd.DataFrame, measures: Mapping[str, Any]
) -> pd.DataFrame:
    """Return the mean of each measure, and its lowest and highest over orders of tied documents.

    The orders are that of the run, by docno ascending and descending (as in trec_eval), useful
    documents first and last, and random ones. Other orders may exceed the range of measures of
    exposure. Without ties, the measures are computed (and may raise), but there are no rows.

    Args:
        run: the run, in the order of its ranks.
        qrels: the labels.
        measures: the measures with groups and target, by name.
    """
    runs = {"now": run}
    has_ties = bool(tied_rows(run).any())
    if has_ties:
        runs |= {f"order {i}": _ordered(run, key) for i, key in enumerate(_keys(run, qrels))}
    depths = {name: _depth(measure) for name, measure in measures.items()}
    means: dict[str, list[float]] = {}
    for is_full in (True, False):
        part = {name: m for name, m in measures.items() if (depths[name] is None) == is_full}
        if part and not is_full:
            deepest = max(depths[name] or 0 for name in part)
            runs = {name: frame[frame[RANK] < deepest] for name, frame in runs.items()}
            runs["now"] = run  # evaluators that ignore ranks may order ties differently
        if part:
            values = evaluate_runs(qrels, runs, list(part.values())).means
            means |= {n: values[format_measure(m)].tolist() for n, m in part.items()}
    defined = [name for name in measures if has_ties and not math.isnan(means[name][0])]
    rows = [[name, means[name][0], min(means[name]), max(means[name])] for name in defined]
    return pd.DataFrame(rows, columns=COLUMNS)


def _depth(measure: Any) -> int | None:
    """Return the number of ranks that a measure reads; `None` for all.

    Expected exposure reads all ranks: it is normalized by the number of retrieved documents.
    """
    if isinstance(measure, ExposureOfDocuments):
        return None
    if getattr(measure, "NAME", "") == "E":
        return _depth(measure.inner)
    return getattr(measure, "params", {}).get("cutoff")


def ties(run: pd.DataFrame, effects: pd.DataFrame, cutoff: int) -> Iterator[Finding]:
    """Yield a finding about the number of ties and their effect on measures."""
    tied = tied_rows(run)
    if not tied.any():
        return
    rows = run[tied]
    n_queries, n_top = rows[QID].nunique(), int((rows[RANK] < cutoff).sum())
    text = (
        f"{len(rows)} of {len(run)} rows have tied scores (queries: {n_queries}; rows in the first "
        f"{cutoff} ranks: {n_top})"
    )
    spread = (effects["highest"] - effects["lowest"]).to_numpy()
    if len(effects) and spread.max() >= MOVES:
        parts = [
            f"{row.measure} is {number_text(row.lowest)} to {number_text(row.highest)} "
            f"(now {number_text(row.now)})"
            for row, width in zip(effects.itertuples(), spread, strict=True)
            if width >= MOVES
        ]
        text += f"; depending on their order, {', '.join(parts)}"
        remedy = "break ties with a second score or FairSampler, in the same way in all runs"
        yield Finding("warning", "ties", "run", text, remedy, len(rows))
        return
    text += f"; their order changes no measure by more than {MOVES:g}"
    yield Finding("note", "ties", "run", text, "no problem at this cutoff", len(rows))


def _keys(run: pd.DataFrame, qrels: pd.DataFrame) -> Iterator[np.ndarray]:
    by_name = np.empty(len(run), dtype=np.int64)
    by_name[np.argsort(run[DOCNO].to_numpy(dtype=str), kind="stable")] = np.arange(len(run))
    labels = qrels.set_index([QID, DOCNO])[LABEL]
    judged = run[PARENT].astype(str) if PARENT in run.columns else run[DOCNO]
    pairs = pd.MultiIndex.from_arrays([run[QID], judged])
    useful = labels.reindex(pairs).fillna(0).to_numpy(float)
    yield from (-by_name, by_name, -useful, useful)
    generator = np.random.default_rng(42)
    for _ in range(SHUFFLES):
        yield generator.random(len(run))


def _ordered(run: pd.DataFrame, key: np.ndarray) -> pd.DataFrame:
    """Return the run with ties broken by a key, and scores replaced by ranks."""
    keys = [QID, *([SAMPLE] if SAMPLE in run.columns else [])]
    ranking = run.groupby(keys, sort=False).ngroup().to_numpy()
    order = np.lexsort((key, -run[SCORE].to_numpy(), ranking))
    start = np.flatnonzero(np.diff(ranking[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(start, np.diff([*start, len(order)]))
    return run.iloc[order].assign(**{RANK: rank, SCORE: -rank.astype(np.float64)})
