"""What `doctor` looks for: ids that match nothing, ties, thin groups, targets out of reach."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.display.tables import frame_html
from fairtk.errors import format_list
from fairtk.experiment.compare_runs import evaluate_runs
from fairtk.frames import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE, FloatArray, Qrels, Run
from fairtk.frames.ids import Ids
from fairtk.groups.distances import SparseRows, attention_matrix, group_exposure
from fairtk.groups.groups import coverage_of, unreachable
from fairtk.measures import EE_D, LabeledRun, format_measure
from fairtk.measures.ee import ExpectedExposure
from fairtk.measures.provider import Truncation

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

LEVELS = ("error", "warning", "note")
"""How grave a finding is: numbers would be wrong; they need care; good to know."""

SOUND, CARE, BROKEN = "sound", "usable with care", "not usable as it is"


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the numbers should know.

    Attributes:
        level: one of `LEVELS`.
        check: what was checked, a short name that stays the same.
        about: ``"run"``, ``"qrels"``, ``"groups"``, ``"target"``, or two of them.
        text: what was found, how often, and where first.
        remedy: what to do.
        count: how many rows, queries, documents or groups are concerned.
    """

    level: str
    check: str
    about: str
    text: str
    remedy: str
    count: int


@dataclass
class Diagnosis:
    """What was found in a run beside its labels.

    Attributes:
        findings: the gravest first.
        ties: one row per measure: its mean as the run is ordered (``now``), and the ``lowest`` and
            ``highest`` mean over orders of tied documents; empty without ties.
        counts: ``queries``, ``rankings`` and ``rows`` of the run, ``labeled`` queries and
            ``labels`` of the qrels, after broken rows were left out.
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


_HALF = 0.5
_LOST = 0.01
"""From here on a share of a target that nothing can fill is worth a word."""


def groups(
    attribute: Groups, ranked: Run, qrels: pd.DataFrame, cutoff: int, least: int
) -> Iterator[Finding]:
    """Yield how much of a run groups know, and which groups have few documents.

    Args:
        attribute: the groups of one attribute.
        ranked: the run.
        qrels: the labels.
        cutoff: ranks that are looked at.
        least: groups with fewer documents than that, judged or retrieved, have little support.
    """
    name = attribute.name
    coverage = coverage_of(attribute, ranked, cutoff)
    labeled, of = int(coverage["with_label"].sum()), int(coverage["retrieved"].sum())
    thin = coverage[coverage["label_share"] < _HALF]
    share = labeled / max(of, 1)
    text = f"{name}: the group of {labeled} of {of} documents in the first {cutoff} ranks is known "
    text += f"({share:.0%})"
    if len(thin):
        text += f"; for under half of them in {len(thin)} of {len(coverage)} queries: "
        text += format_list(thin["qid"].tolist(), 3)
        remedy = (
            "label more documents, or report AWRF with unlabeled='best' and 'worst' (the range "
            "that the missing labels leave open)"
        )
        level = "error" if labeled == 0 else "warning"
        if labeled == 0:
            remedy = "do groups and run name documents alike? " + _example(attribute, ranked)
        yield Finding(level, "coverage", "groups", text, remedy, of - labeled)
    elif labeled < of:
        remedy = "documents without a group are dropped by default (unlabeled='drop')"
        yield Finding("note", "coverage", "groups", text, remedy, of - labeled)
    if not attribute.space.crossed:  # which have empty combinations as a rule
        yield from _small(attribute, ranked, qrels, least)


def _example(attribute: Groups, ranked: Run) -> str:
    return (
        f"the groups have docno {str(attribute.docnos[0])!r}, the run has docno "
        f"{str(ranked.docnos[0])!r}"
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
        some = ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")
        text = f"{attribute.name}: groups of fewer than {least} documents among those judged or "
        text += f"retrieved: {some}"
        remedy = "a value of such a group is one of chance: merge levels, or report counts with it"
        yield Finding("warning", "support", "groups", text, remedy, len(small))
    lacking = [c for c in levels if count[c] >= least and n_useful[c] == 0]
    if lacking:
        names = format_list([str(attribute.levels[c]) for c in lacking])
        text = f"{attribute.name}: no useful document belongs to {names}"
        remedy = "measures of relevance by group are undefined for them"
        yield Finding("note", "support", "groups", text, remedy, len(lacking))


def targets(attribute: Groups, target: Target, ranked: Run, cutoff: int) -> Iterator[Finding]:
    """Yield how much of a target no ranking of the run's own documents can fill."""
    target = target.for_groups(attribute)
    name = attribute.name
    target_mass = target.for_qids(ranked.qids).expanded()
    whole = target_mass.total()
    untargeted = [str(qid) for qid in ranked.qids[whole == 0]]
    if untargeted:
        text = f"{name}: {len(untargeted)} of {len(whole)} queries have no target: "
        text += format_list(untargeted, 3)
        remedy = "AWRF is undefined there; leave them out, or give them one"
        yield Finding("warning", "target", "target", text, remedy, len(untargeted))
    lost, levels = unreachable(attribute, target.distributions)
    if levels:
        text = f"{name}: up to {lost:.2g} of the target lies on groups that no document has: "
        text += format_list(levels, 3)
        remedy = "no ranking reaches it: mend the groups, or take these levels out of the target"
        yield Finding("warning", "target", "target", text, remedy, len(levels))
    share = _lost(attribute, target_mass, ranked, whole)
    out = share > _LOST
    if out.any():
        best = 1.0 - divergence_at_best(share)
        worst = int(np.argmax(share))
        text = (
            f"{name}: for {int(out.sum())} of {len(share)} queries over {_LOST:.0%} of the target "
            f"lies on groups that none of their retrieved documents has, so AWRF is at most "
            f"{best.mean():.4f} on average (at most {best[worst]:.4f} for qid "
            f"{str(ranked.qids[worst])!r}, where {share[worst]:.0%} cannot be filled)"
        )
        remedy = f"retrieve deeper than {cutoff}, or other documents: no re-ranking can do it"
        yield Finding("warning", "target", "target", text, remedy, int(out.sum()))


def _lost(attribute: Groups, target_mass: SparseRows, ranked: Run, whole: FloatArray) -> FloatArray:
    """Return the share of each query's target on groups of none of its retrieved documents."""
    shape = (target_mass.n_rows, len(ranked.docnos))
    once = attention_matrix(ranked.query, ranked.doc, np.ones(len(ranked.doc)), shape)
    exposure = group_exposure(once, attribute.memberships(ranked.docnos))
    missing = exposure.lookup(target_mass.row, target_mass.level) == 0
    lost = target_mass.per_row(target_mass.weight * missing)
    share: FloatArray = lost / np.where(whole > 0, whole, 1.0)
    return share


def divergence_at_best(lost: FloatArray) -> FloatArray:
    """Return the least Jensen-Shannon divergence from a target of which a part cannot be filled.

    For a target t and exposure on a set S of groups alone, the divergence is least at t restricted
    to S and divided by its mass 1 - m (by Jensen's inequality for groups in proportion). Then
    2 JSD = log(2 / (2 - m)) + (1 - m) log(2 (1 - m) / (2 - m)) + m log 2, in nats.

    Args:
        lost: the mass m on groups outside of S, in [0, 1]; any shape. 1 gives log 2.
    """
    rest = 1.0 - lost
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(rest > 0, rest * np.log(2 * rest / (1 + rest)), 0.0)
    return np.asarray(0.5 * (np.log(2 / (1 + rest)) + middle + lost * math.log(2)))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "letters are compared in lower case": str.lower,
    "leading zeros are dropped": lambda name: name.lstrip("0") or "0",
    "a '.0' at the end is dropped": lambda name: name.removesuffix(".0"),
    "the part up to the last '/' is dropped": lambda name: name.rpartition("/")[2],
    "letters in front of a number are dropped": lambda name: re.sub(r"^\D+(?=\d+$)", "", name),
    "a suffix such as .txt or .html is dropped": lambda name: re.sub(r"\.[A-Za-z]{2,5}$", "", name),
    "signs other than letters and digits are dropped": lambda name: re.sub(r"\W|_", "", name),
}
"""How the same id is often written in two ways."""
SPELLINGS["only the number at the end counts"] = lambda name: re.sub(
    r"^.*?0*(\d+)(\.0)?$", r"\1", name.lower()
)


def queries(run: pd.DataFrame, qrels: pd.DataFrame) -> Iterator[Finding]:
    """Yield what is wrong with the queries of two frames that have some."""
    ran, labeled = list(run[QID].unique()), list(qrels[QID].unique())
    lacking = [qid for qid in labeled if qid not in set(ran)]
    extra = [qid for qid in ran if qid not in set(labeled)]
    like = _respelled(extra, lacking)
    if len(lacking) == len(labeled):
        text = f"no query of the qrels is in the run (qrels: {format_list(labeled, 3)}; run: "
        text += f"{format_list(ran, 3)}){like}"
        yield Finding("error", "ids", "run, qrels", text, "write ids alike in both", len(labeled))
        return
    if lacking:
        text = f"{len(lacking)} of {len(labeled)} queries of the qrels are missing in the run: "
        text += f"{format_list(lacking, 3)}{like}"
        remedy = "run them; every measure gives them its worst value" if not like else _ALIKE
        yield Finding("warning", "queries-missing", "run", text, remedy, len(lacking))
    if extra:
        text = (
            f"{len(extra)} of {len(ran)} queries of the run have no label: {format_list(extra, 3)}"
        )
        text += like
        remedy = "nothing is measured for them; are these the qrels of this run?"
        level = "warning" if like or len(extra) > _HALF * len(ran) else "note"
        yield Finding(level, "queries-extra", "run, qrels", text, remedy, len(extra))


_ALIKE = "write ids alike in both files"


def documents(ranked: Run, qrels: Qrels, cutoff: int) -> Iterator[Finding]:
    """Yield what is wrong with the documents of the queries that run and labels both have."""
    common = qrels.queries.find(Ids(ranked.qids)) >= 0
    rows = np.flatnonzero(common[ranked.query])
    if not len(rows):
        return
    judged = ~np.isnan(qrels.labels_of(ranked))
    matched = np.zeros(len(ranked.qids), dtype=bool)
    matched[ranked.query[judged]] = True
    strange = np.flatnonzero(common & ~matched)
    here = qrels.documents.find(ranked.documents)
    retrieved = np.zeros(qrels.documents.size, dtype=bool)
    retrieved[here[here >= 0]] = True
    strangers, lost = ranked.docnos[here < 0], qrels.docnos[~retrieved]
    like = _respelled(strangers, lost)
    if len(strange):
        level = "warning" if matched.any() else "error"
        qid = str(ranked.qids[strange[0]])
        row = int(np.flatnonzero(ranked.query == strange[0])[0])
        of_qrels = qrels.docnos[qrels.doc[qrels.query == qrels.qids.tolist().index(qid)][0]]
        text = (
            f"{len(strange)} of {int(common.sum())} queries have no judged document in their "
            f"rankings; for qid {qid!r} the run has docno {ranked.docno(row)!r}, the qrels have "
            f"docno {str(of_qrels)!r}{like}"
        )
        yield Finding(level, "ids", "run, qrels", text, _ALIKE, len(strange))
    elif like:
        text = f"documents of run and qrels differ in how they are written{like}"
        yield Finding("warning", "ids", "run, qrels", text, _ALIKE, len(strangers))
    top = rows[ranked.position[rows] < cutoff]
    pair = ranked.query[top] * np.int64(max(1, ranked.documents.size)) + ranked.doc[top]
    _, first = np.unique(pair, return_index=True)
    n, n_judged = len(first), int(judged[top[first]].sum())
    if n_judged < n and matched.any():
        share = n_judged / n
        text = f"{n_judged} of {n} documents in the first {cutoff} ranks are judged ({share:.0%})"
        remedy = (
            "what is not judged counts as not useful: fairtk sensitivity shows whether the order "
            "of systems depends on that"
        )
        level = "warning" if share < _HALF else "note"
        yield Finding(level, "judged", "run, qrels", text, remedy, n - n_judged)


def labels(qrels: pd.DataFrame) -> Iterator[Finding]:
    """Yield what is wrong with labels alone."""
    useful = set(qrels.loc[qrels[LABEL] > 0, QID])
    without = [qid for qid in qrels[QID].unique() if qid not in useful]
    n = qrels[QID].nunique()
    if without:
        text = f"{len(without)} of {n} queries have no useful document: {format_list(without, 3)}"
        remedy = "EE_R and EE_L are undefined there: leave them out with fairtk.drop_undefined"
        yield Finding("warning", "useless", "qrels", text, remedy, len(without))
    if bool((qrels[LABEL] > 0).all()):
        text = "every label is useful: nothing is known to be not useful"
        remedy = "n, the number of documents of a query, is then that of useful and retrieved ones"
        yield Finding("note", "labels", "qrels", text, remedy, n)
    negative = int((qrels[LABEL] < 0).sum())
    if negative:
        text = f"{negative} labels are negative"
        remedy = "they count as not useful; where they mean 'not judged', leave them out"
        yield Finding("note", "labels", "qrels", text, remedy, negative)


def _respelled(ran: Iterable[str], labeled: Iterable[str]) -> str:
    """Return in words which spelling makes most of two lists of ids the same, or ``""``."""
    first, second = list(ran), list(labeled)
    fewer = min(len(first), len(second))
    for words, spell in SPELLINGS.items():
        ours, theirs = {spell(name) for name in first}, {spell(name) for name in second}
        if fewer and len(ours & theirs) >= max(1, _HALF * fewer):
            return f"; {len(ours & theirs)} of them agree if {words}"
    return ""


_SAMPLE_AGAIN = "draw all queries with the same n_samples and cutoff"


def rankings(run: pd.DataFrame, ranked: Run, qrels: Qrels, cutoff: int) -> Iterator[Finding]:
    """Yield what is wrong with the number and the length of rankings."""
    length, n = np.diff(ranked.ranking_start), ranked.n_samples
    if ranked.sampled:
        yield from _samples(ranked, n, length)
    truncation = Truncation([EE_D @ cutoff], qrels)
    truncation.add(LabeledRun(qrels, ranked, "doctor"), "")
    truncated = list(truncation.found().get(repr(EE_D @ cutoff), {}).get("", {}))
    if truncated:
        text = (
            f"{len(truncated)} of {len(n)} queries have rankings of fewer than {cutoff} documents, "
            f"though more are labeled or retrieved: {format_list(truncated, 3)}. Measures of "
            f"exposure at {cutoff} (EE_D, EE_R, EE_L, AWRF) differs for them, as a rule more even"
        )
        remedy = "retrieve deeper, or use a smaller cutoff; runs that differ in this do not compare"
        yield Finding("warning", "short", "run", text, remedy, len(truncated))
    short = [qid for qid in _queries(ranked, length < cutoff) if qid not in set(truncated)]
    if short:
        text = (
            f"{len(short)} of {len(n)} queries have rankings of fewer than {cutoff} documents: "
            f"{format_list(short, 3)}"
        )
        remedy = "if they have no more candidates, all is well; else the run was cut off"
        yield Finding("note", "short", "run", text, remedy, len(short))
    last = str(run[QID].iloc[-1])
    of_last = ranked.qids[ranked.ranking_query] == last
    others = length[~of_last]
    if len(others) > 1 and (others == others[0]).all() and length[of_last].min() < others[0]:
        left = int(length[of_last].min())
        text = f"the last query of the run, {last!r}, has {left} document{'s' * (left != 1)}, all "
        text += f"others have {others[0]}"
        yield Finding(
            "warning", "truncated", "run", text, "was the file cut off? write it again", 1
        )


def _samples(ranked: Run, n: np.ndarray, length: np.ndarray) -> Iterator[Finding]:
    if len(np.unique(n)) > 1:
        most = int(n.max())
        fewer = [str(qid) for qid in ranked.qids[n < most]]
        text = (
            f"queries have unequal numbers of samples, {n.min()} to {most}: {len(fewer)} of "
            f"{len(n)} have fewer than {most}: {format_list(fewer, 3)}"
        )
        remedy = f"{_SAMPLE_AGAIN}: EE_D is too large by (1 - EE_D) / N"
        yield Finding("warning", "samples", "run", text, remedy, len(fewer))
    most_of = np.zeros(len(n), dtype=np.int64)
    np.maximum.at(most_of, ranked.ranking_query, length)
    uneven = _queries(ranked, length < most_of[ranked.ranking_query])
    if uneven:
        text = f"{len(uneven)} of {len(n)} queries have samples of unequal length: "
        text += format_list(uneven, 3)
        yield Finding("warning", "lengths", "run", text, _SAMPLE_AGAIN, len(uneven))
    if n.max(initial=0) > 1:
        fixed = _fixed(ranked)
        if len(fixed):
            text = f"{len(fixed)} of {len(n)} queries have one ranking in all their samples: "
            text += format_list(fixed, 3)
            remedy = "is alpha as large as you want it? one sample says the same"
            yield Finding("note", "samples", "run", text, remedy, len(fixed))


def _fixed(ranked: Run) -> list[str]:
    """Return the queries with several samples that are all the same ranking."""
    rows = pd.DataFrame({"query": ranked.query, "position": ranked.position, "doc": ranked.doc})
    places = rows.groupby(["query", "position"])["doc"]
    varied = set(rows.loc[places.transform("nunique") > 1, "query"])
    several = np.flatnonzero(ranked.n_samples > 1)
    return [str(ranked.qids[query]) for query in several if query not in varied]


def _queries(ranked: Run, wrong: np.ndarray) -> list[str]:
    return [str(qid) for qid in ranked.qids[np.unique(ranked.ranking_query[wrong])]]


COLUMNS = ["measure", "now", "lowest", "highest"]
SHUFFLES = 5
"""Random orders of the tied documents that are looked at, besides five fixed ones."""
MOVES = 0.001
"""From here on a mean that ties move is a warning."""


def tied_rows(run: pd.DataFrame) -> pd.Series:
    """Return which rows share their score with another of the same ranking."""
    keys = [QID, *([SAMPLE] if SAMPLE in run.columns else []), SCORE]
    return run.duplicated(keys, keep=False)


def effect(run: pd.DataFrame, qrels: pd.DataFrame, measures: Mapping[str, Any]) -> pd.DataFrame:
    """Return each measure's mean now, and the lowest and highest over orders of what is tied.

    Without ties no row is returned, but the measures are asked for their values.

    The orders: as the run has them; by docno, both ways (trec_eval's is descending); useful
    documents first, and last; and some random ones. The first four of these are what evaluators do
    or the ends for measures of relevance; others may have values a little beyond.

    Args:
        run: the run, in the order of its ranks.
        qrels: the labels.
        measures: the measures, complete with groups and target, by what they are called.
    """
    runs = {"now": run}
    tied = bool(tied_rows(run).any())
    if tied:
        runs |= {f"order {i}": _ordered(run, key) for i, key in enumerate(_keys(run, qrels))}
    depths = {name: _depth(measure) for name, measure in measures.items()}
    means: dict[str, list[float]] = {}
    for whole in (True, False):
        some = {name: m for name, m in measures.items() if (depths[name] is None) == whole}
        if some and not whole:
            deepest = max(depths[name] or 0 for name in some)
            runs = {name: frame[frame[RANK] < deepest] for name, frame in runs.items()}
            runs["now"] = run  # an evaluator that knows no ranks may order it otherwise
        if some:
            with warnings.catch_warnings(action="ignore"):  # other checks report the rest
                values = evaluate_runs(qrels, runs, list(some.values())).means
            means |= {n: values[format_measure(m)].tolist() for n, m in some.items()}
    defined = [name for name in measures if tied and not math.isnan(means[name][0])]
    rows = [[name, means[name][0], min(means[name]), max(means[name])] for name in defined]
    return pd.DataFrame(rows, columns=COLUMNS)


def _depth(measure: Any) -> int | None:
    """Return the number of ranks that a measure looks at; None: all.

    Expected exposure is normalized by the number of all documents that were retrieved.
    """
    if isinstance(measure, ExpectedExposure):
        return None
    if getattr(measure, "NAME", "") == "E":
        return _depth(measure.inner)
    return getattr(measure, "params", {}).get("cutoff")


def said_of(run: pd.DataFrame, moved: pd.DataFrame, cutoff: int) -> Iterator[Finding]:
    """Yield how many ties there are, and which measures they move."""
    tied = tied_rows(run)
    if not tied.any():
        return
    rows = run[tied]
    n_queries, n_top = rows[QID].nunique(), int((rows[RANK] < cutoff).sum())
    text = (
        f"{len(rows)} of {len(run)} rows share their score with another of their ranking, in "
        f"{n_queries} queries; {n_top} of them in the first {cutoff} ranks"
    )
    spread = (moved["highest"] - moved["lowest"]).to_numpy()
    if len(moved) and spread.max() >= MOVES:
        parts = [
            f"{row.measure} from {row.lowest:.4f} to {row.highest:.4f} (now {row.now:.4f})"
            for row, width in zip(moved.itertuples(), spread, strict=True)
            if width >= MOVES
        ]
        text += f"; their order moves {', '.join(parts)}"
        remedy = "break ties on purpose (a second score, or FairSampler), and the same in all runs"
        yield Finding("warning", "ties", "run", text, remedy, len(rows))
        return
    text += "; their order moves no measure by more than " + f"{MOVES:g}"
    yield Finding("note", "ties", "run", text, "nothing, at this cutoff", len(rows))


def _keys(run: pd.DataFrame, qrels: pd.DataFrame) -> Iterator[np.ndarray]:
    """Yield what the tied rows are ordered by, the smallest first."""
    by_name = np.empty(len(run), dtype=np.int64)
    by_name[np.argsort(run[DOCNO].to_numpy(dtype=str), kind="stable")] = np.arange(len(run))
    labels = qrels.set_index([QID, DOCNO])[LABEL]
    useful = labels.reindex(pd.MultiIndex.from_frame(run[[QID, DOCNO]])).fillna(0).to_numpy(float)
    yield from (-by_name, by_name, -useful, useful)
    generator = np.random.default_rng(42)
    for _ in range(SHUFFLES):
        yield generator.random(len(run))


def _ordered(run: pd.DataFrame, key: np.ndarray) -> pd.DataFrame:
    """Return the run with its ties broken by a key; scores become those of the ranks."""
    keys = [QID, *([SAMPLE] if SAMPLE in run.columns else [])]
    ranking = run.groupby(keys, sort=False).ngroup().to_numpy()
    order = np.lexsort((key, -run[SCORE].to_numpy(), ranking))
    start = np.flatnonzero(np.diff(ranking[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(start, np.diff([*start, len(order)]))
    return run.iloc[order].assign(**{RANK: place, SCORE: -place.astype(np.float64)})
