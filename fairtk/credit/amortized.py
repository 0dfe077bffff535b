"""Who benefits over queries: providers, by exposure or credit; and askers, by what documents add
to the answers that groups of queries get.

An author, an outlet, the domain of a URL: whoever has several documents is judged over all
queries, not within each (Biega et al. 2018, "Equity of Attention").
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.credit.frame import expected_credit
from fairtk.display import despine, new_figure, write_figure
from fairtk.errors import InputError, ParameterError, UndefinedWarning, warn
from fairtk.exposure import BrowsingModel
from fairtk.frames import CREDIT, DOCNO, GROUP, LABEL, QID, FloatArray, ObjectArray, Qrels, Run
from fairtk.frames.accepted import accepts_dataframes
from fairtk.groups import Groups
from fairtk.groups.distances import attention_matrix
from fairtk.io import read_qrels, read_run
from fairtk.measures import EE_R, LabeledRun
from fairtk.measures.eu import ExpectedUtility

SUMMARY = {
    "amortized": "sum over providers of |share - merit share|: 0 is in proportion, 2 the most",
    "gini": "0: all providers have the same share; towards 1: one has all",
    "top": "share of those providers that have most",
    "minimum": "smallest share of a provider",
}
"""What is said of all providers together."""

_BLOCK = 1 << 24  # numbers in memory at a time
_ROUNDING = 1e-12  # means of gains below this part of the largest utility are 0


@dataclass(frozen=True)
class Providers:
    """What providers got over all queries.

    Attributes:
        table: a row per provider, most exposed first: ``provider``, ``documents`` (judged or
            retrieved in these queries), ``exposure`` (share of all, of credit if that was given),
            ``merit`` (share of the target), ``gap`` (exposure less merit).
        summary: a row for each of `SUMMARY`: ``name``, ``value``, ``low``, ``high``, by bootstrap
            over queries.
        unknown: share of exposure on documents without a provider, which are left out above.
        settings: how it was made.
    """

    table: pd.DataFrame
    summary: pd.DataFrame
    unknown: float
    settings: Mapping[str, Any]

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the Lorenz curves of exposure and of merit; return the figure, or write it.

        Args:
            path: an .svg, .pdf or .png file; None: only the figure is returned.
        """
        figure = new_figure((4.6, 4.2), "providers")
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="all alike")
        of = self.settings["of"]
        for name, what, style in (("exposure", of, "-"), ("merit", "merit", "--")):
            share = np.sort(self.table[name].to_numpy())
            x = np.linspace(0, 1, len(share) + 1)
            label = f"{what} (Gini {gini(share[None])[0]:.2f})"
            axes.plot(x, np.concatenate([[0.0], np.cumsum(share)]), style, label=label)
        axes.set(
            xlabel="share of providers, the least shown first",
            ylabel="share of what they get together",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        axes.legend(loc="upper left", frameon=False)
        despine(axes)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


@accepts_dataframes
def providers(
    qrels: pd.DataFrame | str | PathLike[str],
    run: pd.DataFrame | str | PathLike[str],
    providers: Groups | pd.DataFrame | str | PathLike[str],
    *,
    cutoff: int = 5,
    browsing: BrowsingModel | str = "MU",
    weights: Mapping[str, float] | None = None,
    top: float = 0.1,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 42,
) -> Providers:
    """Return what providers got over all queries: E_p = sum_q w_q sum_{d in p} e_qd.

    e_qd is the expected exposure of document d for query q (R, S or X), or its expected credit if
    the run is a frame C; merit is the same sum of the target of EE_R. The providers are those with
    a judged or retrieved document; of a frame C one that stands only in rankings whose credit is
    undefined (NaN, or adds up to 0) does not count as retrieved. A run that lacks a query gives
    nobody exposure there; a query whose credit is undefined is left out.

    Args:
        qrels: labels, which merit comes from: a frame or a file.
        run: R, S, X or C: a frame or a file.
        providers: who is behind each document (``docno``, ``group``, optional ``weight``). A file,
            a frame or groups.
        cutoff: ranks that are read; at least 1.
        browsing: the browsing model. A model or its string; for exact exposure that of the frame.
        weights: of queries by qid, e.g. how often they are asked, above 0; None: 1 each.
        top: the share of the providers whose part is shown as ``top``, in (0, 1).
        resamples: bootstrap samples of the queries, at least 2.
        confidence: of the intervals, in (0, 1).
        seed: the seed of the bootstrap.

    Raises:
        InputError: no document has a provider, a weight is missing; names the qid.
        ParameterError: a setting is out of its range.
    """
    from scipy import sparse

    where = "providers"
    cutoff = checks.whole("cutoff", cutoff, where)
    resamples = checks.whole("resamples", resamples, where, 2)
    top = checks.inside("top", top, where)
    confidence = checks.inside("confidence", confidence, where)
    seed = checks.whole("seed", seed, where, 0)
    if not isinstance(qrels, pd.DataFrame):
        qrels = read_qrels(qrels)
    if not isinstance(run, pd.DataFrame):
        run = read_run(run)
    owners = _owners(providers)
    try:
        measure = EE_R(browsing=browsing) @ cutoff
    except ParameterError as error:  # names the measure, which nobody asked for
        raise ParameterError(f"{where}: {str(error).removeprefix('EE_R: ')}") from None
    labels = Qrels(qrels, where, (DOCNO, LABEL), either=True)
    judged = LabeledRun(labels, Run(run, f"{where} (run)", either=True), where)
    of = "credit" if CREDIT in run.columns else "exposure"
    if of == "credit":
        judged, undefined = expected_credit(judged, where)
        got = np.zeros(judged.n_pairs)
        got[judged.pair_of_row] = judged.run.scores[judged.run.order]
    else:
        got = measure.exposure(judged)
    merit = measure.targets(judged)
    memberships = owners.memberships(judged.docnos, "drop")
    levels, column = np.unique(memberships.level, return_inverse=True)
    if not len(levels):
        raise InputError(
            f"{where}: none of the {len(judged.docnos)} judged or retrieved documents has a "
            f"provider; found docno {str(judged.docnos[0])!r} there, and "
            f"{str(owners.docnos[0])!r} among the providers' documents"
        )
    shape = (memberships.n_rows, len(levels))
    of_docs = sparse.csr_array((memberships.weight, column, memberships.start), shape=shape)
    each = _weights(weights, judged.qids)
    if of == "credit" and undefined.any():  # merit that nobody could earn is none
        warn(
            f"{where}: the credit of {int(undefined.sum())} of {len(each)} queries is undefined, "
            f"such as qid {str(judged.qids[undefined][0])!r}; they are left out, of merit too",
            UndefinedWarning,
        )
        each = np.where(undefined, 0.0, each)
    shares = [_by_query(judged, share, of_docs) for share in (got, merit)]
    sums = [each @ share for share in shares]
    whole = float((got * each[judged.pair_query]).sum())
    names = [str(owners.levels[level]) for level in levels]
    exposure, deserved = (_shared(row[None])[0] for row in sums)
    documents = np.bincount(column, minlength=len(levels))
    table = pd.DataFrame(
        {
            "provider": names,
            "documents": documents,
            "exposure": exposure,
            "merit": deserved,
            "gap": exposure - deserved,
        }
    ).sort_values(["exposure", "provider"], ascending=[False, True], ignore_index=True)
    settings = {"of": of, "cutoff": cutoff, "browsing": str(measure["browsing"]), "top": top}
    settings |= {"resamples": resamples, "confidence": confidence, "seed": seed}
    return Providers(
        table,
        _summary(shares, each, top, resamples, confidence, seed),
        1.0 - float(sums[0].sum()) / whole if whole > 0 else math.nan,
        settings,
    )


def gini(shares: FloatArray) -> FloatArray:
    """Return the Gini coefficient of each row of shares, which add up to 1; shape (n_rows,)."""
    n = shares.shape[1]
    ranks = 2 * np.arange(1, n + 1) - n - 1
    return np.asarray(np.sort(shares, axis=1) @ ranks / n)


def _owners(providers: Groups | pd.DataFrame | str | PathLike[str]) -> Groups:
    if isinstance(providers, Groups):
        return providers
    if isinstance(providers, pd.DataFrame):
        return Groups.from_frame(providers, name="provider")
    return Groups.read(providers)


def _weights(weights: Mapping[str, float] | None, qids: ObjectArray) -> FloatArray:
    if weights is None:
        return np.ones(len(qids))
    lacking = [qid for qid in qids if qid not in weights]
    if lacking:
        raise InputError(
            f"providers: every query needs a weight; qid {lacking[0]!r} has none ({len(lacking)} "
            "such queries)"
        )
    return np.array([checks.number(f"weights[{q!r}]", weights[q], "providers") for q in qids])


def _by_query(judged: LabeledRun, share: FloatArray, of_docs: Any) -> Any:
    """Return what each provider gets from each query, a ``scipy.sparse.csr_array``."""
    shape = (len(judged.qids), of_docs.shape[0])
    return attention_matrix(judged.pair_query, judged.pair_doc, share, shape) @ of_docs


def _shared(rows: FloatArray) -> FloatArray:
    """Return rows divided by their sums; NaN where one is 0."""
    total = rows.sum(axis=1, keepdims=True)
    return np.asarray(rows / np.where(total > 0, total, np.nan))


def _values(got: FloatArray, merit: FloatArray, top: float) -> FloatArray:
    """Return the values of `SUMMARY` for rows of what providers got; shape (n_rows, 4)."""
    shares, deserved = _shared(got), _shared(merit)
    n_top = max(1, math.ceil(top * shares.shape[1]))
    ordered = np.sort(shares, axis=1)
    values = [
        np.abs(shares - deserved).sum(axis=1),
        gini(shares),
        ordered[:, -n_top:].sum(axis=1),
        ordered[:, 0],
    ]
    return np.stack(values, axis=1)


def _summary(
    shares: list[Any], weight: FloatArray, top: float, resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return values and percentile intervals, of queries drawn with replacement."""
    got, merit = shares
    value = _values((weight @ got)[None], (weight @ merit)[None], top)[0]
    n_queries, n = got.shape
    drawn = [
        _values((times * weight) @ got, (times * weight) @ merit, top)
        for times in np.array_split(
            drawn_weights(n_queries, resamples, seed),
            max(1, resamples * max(n, n_queries) // _BLOCK),
        )
    ]
    low, high = percentiles(np.concatenate(drawn), confidence)
    return pd.DataFrame({"name": list(SUMMARY), "value": value, "low": low, "high": high})


@dataclass(frozen=True)
class QueryGain:
    """What documents add to the answers that groups of queries get.

    Attributes:
        table: a row per group: ``group``, ``queries``, the mean utility ``with`` documents and
            ``without``, their difference ``gain`` (above 0: documents help), ``low``, ``high``.
        comparison: rows ``difference`` (largest less smallest gain) and ``ratio`` (smallest by
            largest; NaN unless that is above 0), as in `fairtk.ByGroup`; paired bootstrap over
            queries. A difference of noise alone is above 0, too.
        undefined: queries of groups that are left out, as the utility is undefined there.
    """

    table: pd.DataFrame
    comparison: pd.DataFrame
    undefined: int


def query_gain(
    qrels: pd.DataFrame,
    run: pd.DataFrame,
    without: pd.DataFrame,
    groups: Groups | pd.DataFrame,
    utility: ExpectedUtility,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 42,
) -> QueryGain:
    """Return gain_g, the mean over the queries of a group of EU with documents less without.

    The gain of retrieval by group of queries, as in arXiv 2603.24218. Answers without documents are
    those of the generator alone: ``topics >> FlanT5()``, or a system of an experiment. Gain says
    what documents do for the answers of this generator, not whether the answers are good.

    Args:
        qrels: labels with ``gold_answer``.
        run: answers with documents (R or S with ``qanswer``).
        without: answers without, a row per query.
        groups: of queries: groups whose docnos are qids, or a frame (``qid``, ``group``). A query
            of several groups counts in each, whatever its weight.
        utility: ``EU(utility="rougeL")``; an error is turned around.
        resamples: bootstrap samples of the queries, at least 2.
        confidence: of the intervals, in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: no query has a group, or answers or gold answers are missing; names the qid.
        ParameterError: a setting is out of its range.
    """
    where = "query_gain"
    resamples = checks.whole("resamples", resamples, where, 2)
    confidence = checks.inside("confidence", confidence, where)
    if not isinstance(utility, ExpectedUtility):
        raise ParameterError(f"{where}: utility must be EU(utility=...); found {utility!r}")
    labels = Qrels(qrels, where, (QID,), either=True)
    for frame, what in ((run, "run"), (without, "without")):
        missing = labels.queries.find(Run(frame, f"{where} ({what})", either=True).queries)
        lacking = np.setdiff1d(np.arange(len(labels.qids)), missing)
        if len(lacking):
            raise InputError(
                f"{where}: {what} has no answer for qid {str(labels.qids[lacking[0]])!r} "
                f"({len(lacking)} such queries)"
            )
    both = [utility.score_all(LabeledRun.of(qrels, f, where, False)) for f in (run, without)]
    sign = 1.0 if utility.better == "higher" else -1.0
    gain = sign * (both[0] - both[1])
    askers = groups
    if isinstance(groups, pd.DataFrame):
        askers = Groups.from_frame(groups.rename(columns={QID: DOCNO}), name="askers")
    memberships = askers.memberships(labels.qids)
    counts = askers.space.known(memberships.level)
    levels, column = np.unique(memberships.level[counts], return_inverse=True)
    if not len(levels):
        raise InputError(f"{where}: none of the {len(labels.qids)} queries has a group")
    of_group = np.zeros((len(labels.qids), len(levels)))
    of_group[memberships.row[counts], column] = 1.0  # a query counts in each of its groups
    undefined = int((np.isnan(gain) & of_group.any(axis=1)).sum())
    there = np.flatnonzero(~np.isnan(gain) & of_group.any(axis=1))
    if not len(there):
        raise InputError(f"{where}: {utility!r} is undefined for all queries with a group")
    gain, of_group = gain[there], of_group[there]
    times = drawn_weights(len(there), resamples, seed)
    weight = np.concatenate([np.ones((1, len(there))), times])

    def means(value: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return np.asarray((weight * value) @ of_group / (weight @ of_group))

    gains = means(gain)
    low, high = percentiles(gains[1:], confidence)
    table = pd.DataFrame(
        {
            GROUP: [str(askers.levels[level]) for level in levels],
            "queries": (of_group > 0).sum(axis=0),
            "with": means(both[0][there])[0],
            "without": means(both[1][there])[0],
            "gain": gains[0],
            "low": low,
            "high": high,
        }
    )
    most, least = gains.max(axis=1), gains.min(axis=1)
    above = most > _ROUNDING * np.abs(np.stack(both)[:, there]).max()  # gains may cancel out
    ratio = np.divide(least, most, out=np.full(len(most), np.nan), where=above)
    pairs = (("difference", most - least), ("ratio", ratio))
    ends = [(name, v[0], *percentiles(v[1:], confidence)) for name, v in pairs]
    return QueryGain(
        table,
        pd.DataFrame(ends, columns=["name", "value", "low", "high"]),
        undefined,
    )


def drawn_weights(n: int, resamples: int, seed: int) -> FloatArray:
    """Return how often each of n queries is drawn, of n with replacement; (resamples, n)."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples)
    return np.asarray(drawn, dtype=np.float64)


def percentiles(drawn: FloatArray, confidence: float) -> tuple[Any, Any]:
    """Return the ends of the percentile interval of each column; NaN draws do not count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no draw is defined: NaN
        low, high = np.nanquantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high
