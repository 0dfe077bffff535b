"""Exposure of providers over all queries, and the gain of groups of queries from documents.

Providers with several documents, such as authors, outlets or domains, are evaluated over all
queries, not within each query (Biega et al. 2018, "Equity of Attention").
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
from fairtk.errors import InputError, ParameterError, UndefinedWarning, format_list, such, warn
from fairtk.exposure import BrowsingModel
from fairtk.frames import CREDIT, DOCNO, GROUP, LABEL, QID, FloatArray, ObjectArray, Qrels, Run
from fairtk.frames.accepted import accepts_dataframes
from fairtk.groups import Groups
from fairtk.groups.distances import attention_matrix
from fairtk.io import read_qrels, read_run
from fairtk.measures import EE_R, LabeledRun
from fairtk.measures.eu import ExpectedUtility

SUMMARY = {
    "amortized": "sum over providers of |share - merit share|, from 0 (proportional) to 2",
    "gini": "0 if all providers have the same share; near 1 if one has all",
    "top": "share of the top providers",
    "minimum": "smallest share of a provider",
}
"""The summary values over all providers."""

_BLOCK = 1 << 24  # numbers in memory at a time
_ROUNDING = 1e-12  # mean gains below this share of the largest utility count as 0


@dataclass(frozen=True)
class Providers:
    """Shares of providers over all queries.

    Attributes:
        table: a row per provider, most exposed first: ``provider``, ``documents`` (judged or
            retrieved in these queries), ``exposure`` (share of exposure, or of credit for a frame
            C), ``merit`` (share of the target), ``gap`` (exposure minus merit).
        summary: a row for each of `SUMMARY`: ``name``, ``value``, ``low``, ``high`` (bootstrap over
            queries).
        unknown: the share of exposure of documents without a provider, which the tables exclude.
        settings: the settings.
    """

    table: pd.DataFrame
    summary: pd.DataFrame
    unknown: float
    settings: Mapping[str, Any]

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the Lorenz curves of exposure and merit, and return the figure.

        Args:
            path: an .svg, .pdf or .png file to write; `None` to write no file.
        """
        figure = new_figure((4.6, 4.2), "providers")
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="equal shares")
        of = self.settings["of"]
        for name, what, style in (("exposure", of, "-"), ("merit", "merit", "--")):
            share = np.sort(self.table[name].to_numpy())
            x = np.linspace(0, 1, len(share) + 1)
            label = f"{what} (Gini {gini(share[None])[0]:.2f})"
            axes.plot(x, np.concatenate([[0.0], np.cumsum(share)]), style, label=label)
        axes.set(
            xlabel="share of providers, smallest first",
            ylabel="cumulative share",
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
    """Compare the exposure of providers over all queries with their merit.

    The exposure of provider p is E_p = sum_q w_q sum_{d in p} e_qd, where e_qd is the expected
    exposure of document d for query q (R, S or X), or its expected credit (C). Merit is the same
    sum for the target of EE_R. The table has the providers with a judged or retrieved document. A
    query missing from the run gives no exposure. A query with undefined credit is left out.

    Args:
        qrels: labels for merit: a frame or a file.
        run: R, S, X or C: a frame or a file.
        providers: the provider of each document (``docno``, ``group`` and optionally ``weight``).
            A file, a frame or groups.
        cutoff: the number of ranks to read, at least 1.
        browsing: the browsing model, such as ``"RBP(p=0.8)"``. An object or its name; for exact
            exposure, the model of the frame.
        weights: weights of queries by qid, e.g. their frequency, above 0; `None` for 1.
        top: the share of providers, those with most exposure, for the summary value ``top``, in
            (0, 1).
        resamples: bootstrap samples of the queries, at least 2.
        confidence: confidence level of the intervals, in (0, 1).
        seed: the seed of the bootstrap.

    Raises:
        InputError: no document has a provider, or a weight is missing (names the qid).
        ParameterError: a setting is out of its range.
    """
    from scipy import sparse

    where = "providers"
    cutoff = checks.integer("cutoff", cutoff, where)
    resamples = checks.integer("resamples", resamples, where, 2)
    top = checks.open_interval("top", top, where)
    confidence = checks.open_interval("confidence", confidence, where)
    seed = checks.integer("seed", seed, where, 0)
    if not isinstance(qrels, pd.DataFrame):
        qrels = read_qrels(qrels)
    if not isinstance(run, pd.DataFrame):
        run = read_run(run)
    owners = _owners(providers)
    try:
        measure = EE_R(browsing=browsing) @ cutoff
    except ParameterError as error:  # without the name of the measure
        raise ParameterError(f"{where}: {str(error).removeprefix('EE_R: ')}") from None
    labels = Qrels(qrels, where, (DOCNO, LABEL), either=True)
    if not len(labels.frame):
        raise InputError(f"{where} (qrels): no rows")
    judged = LabeledRun(labels, Run(run, f"{where} (run)", either=True), where)
    of = "credit" if CREDIT in run.columns else "exposure"
    if of == "credit":
        judged, undefined = expected_credit(judged, where)
        received = np.zeros(judged.n_pairs)
        received[judged.pair_of_row] = judged.run.scores[judged.run.order]
    else:
        received = measure.exposure(judged)
    merit = measure.targets(judged)
    memberships = owners.memberships(judged.docnos, "drop")
    levels, column = np.unique(memberships.level, return_inverse=True)
    if not len(levels):
        raise InputError(
            f"{where}: providers and run have no document in common (docno "
            f"{str(owners.docnos[0])!r} in the providers, {str(judged.docnos[0])!r} in the run); "
            "check that both use the same docnos"
        )
    shape = (memberships.n_rows, len(levels))
    of_docs = sparse.csr_array((memberships.weight, column, memberships.start), shape=shape)
    weight = _weights(weights, judged.qids)
    if of == "credit" and undefined.any():
        warn(
            f"{where}: credit is undefined for {int(undefined.sum())} of {len(weight)} queries "
            f"({format_list(map(str, judged.qids[undefined]), 3)}); credit and merit exclude them",
            UndefinedWarning,
        )
        weight = np.where(undefined, 0.0, weight)
    amounts = [_by_query(judged, amount, of_docs) for amount in (received, merit)]
    sums = [weight @ amount for amount in amounts]
    total = float((received * weight[judged.pair_query]).sum())
    names = [str(owners.levels[level]) for level in levels]
    exposure, merit_share = (_shares(row[None])[0] for row in sums)
    documents = np.bincount(column, minlength=len(levels))
    table = pd.DataFrame(
        {
            "provider": names,
            "documents": documents,
            "exposure": exposure,
            "merit": merit_share,
            "gap": exposure - merit_share,
        }
    ).sort_values(["exposure", "provider"], ascending=[False, True], ignore_index=True)
    settings = {"of": of, "cutoff": cutoff, "browsing": str(measure["browsing"]), "top": top}
    settings |= {"resamples": resamples, "confidence": confidence, "seed": seed}
    return Providers(
        table,
        _summary(amounts, weight, top, resamples, confidence, seed),
        1.0 - float(sums[0].sum()) / total if total > 0 else math.nan,
        settings,
    )


def gini(shares: FloatArray) -> FloatArray:
    """Return the Gini coefficient of each row of shares, which sum to 1; shape (n_rows,)."""
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
    missing = [qid for qid in qids if qid not in weights]
    if missing:
        raise InputError(
            f"providers: missing weight of qid {missing[0]!r} ({such(len(missing), 'query')})"
        )
    return np.array([checks.number(f"weights[{q!r}]", weights[q], "providers") for q in qids])


def _by_query(judged: LabeledRun, amount: FloatArray, of_docs: Any) -> Any:
    """Return the amount of each provider in each query, as a ``scipy.sparse.csr_array``."""
    shape = (len(judged.qids), of_docs.shape[0])
    return attention_matrix(judged.pair_query, judged.pair_doc, amount, shape) @ of_docs


def _shares(rows: FloatArray) -> FloatArray:
    total = rows.sum(axis=1, keepdims=True)
    return np.asarray(rows / np.where(total > 0, total, np.nan))


def _values(amount: FloatArray, merit: FloatArray, top: float) -> FloatArray:
    """Return the values of `SUMMARY` for rows of amounts of providers; shape (n_rows, 4)."""
    shares, merit_shares = _shares(amount), _shares(merit)
    n_top = max(1, math.ceil(top * shares.shape[1]))
    ordered = np.sort(shares, axis=1)
    values = [
        np.abs(shares - merit_shares).sum(axis=1),
        gini(shares),
        ordered[:, -n_top:].sum(axis=1),
        ordered[:, 0],
    ]
    return np.stack(values, axis=1)


def _summary(
    amounts: list[Any], weight: FloatArray, top: float, resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return values and percentile intervals over queries drawn with replacement."""
    amount, merit = amounts
    value = _values((weight @ amount)[None], (weight @ merit)[None], top)[0]
    n_queries, n = amount.shape
    drawn = [
        _values((times * weight) @ amount, (times * weight) @ merit, top)
        for times in np.array_split(
            drawn_weights(n_queries, resamples, seed),
            max(1, resamples * max(n, n_queries) // _BLOCK),
        )
    ]
    low, high = percentiles(np.concatenate(drawn), confidence)
    return pd.DataFrame({"name": list(SUMMARY), "value": value, "low": low, "high": high})


@dataclass(frozen=True)
class QueryGain:
    """The gain from documents in the answers of groups of queries.

    Attributes:
        table: a row per group: ``group``, ``queries``, the mean utility ``with`` documents and
            ``without``, their difference ``gain`` (above 0 if documents help), ``low``, ``high``.
        comparison: rows ``difference`` (largest minus smallest gain) and ``ratio`` (smallest
            divided by largest; NaN unless the largest is above 0), as in `fairtk.ByGroup`, with a
            paired bootstrap over queries. Noise alone also gives a difference above 0.
        undefined: the number of queries with a group that are left out because their utility is
            undefined.
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
    """Return the gain of each group: the mean of EU with documents minus EU without documents.

    A generator answers without documents if its input is topics: ``FlanT5()(topics)``. The gain
    does not say whether the answers are good.

    Args:
        qrels: labels with ``gold_answer``.
        run: answers with documents (R or S with ``qanswer``).
        without: answers without documents, a row per query.
        groups: groups of queries: groups whose docnos are qids, or a frame (``qid``, ``group``). A
            query with several groups counts fully in each.
        utility: ``EU(utility="rougeL")``; the sign of an error is inverted.
        resamples: bootstrap samples of the queries, at least 2.
        confidence: confidence level of the intervals, in (0, 1).
        seed: the seed of the bootstrap.

    Raises:
        InputError: no query has a group, or answers or gold answers are missing (names the qid).
        ParameterError: a setting is out of its range.

    References:
        arXiv 2603.24218.
    """
    where = "query_gain"
    resamples = checks.integer("resamples", resamples, where, 2)
    confidence = checks.open_interval("confidence", confidence, where)
    if not isinstance(utility, ExpectedUtility):
        raise ParameterError(f"{where}: utility must be EU(utility=...), got {utility!r}")
    labels = Qrels(qrels, where, (QID,), either=True)
    for frame, what in ((run, "run"), (without, "without")):
        present = labels.queries.find(Run(frame, f"{where} ({what})", either=True).queries)
        missing = np.setdiff1d(np.arange(len(labels.qids)), present)
        if len(missing):
            raise InputError(
                f"{where}: missing answer of qid {str(labels.qids[missing[0]])!r} in {what} "
                f"({such(len(missing), 'query')})"
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
    defined = np.flatnonzero(~np.isnan(gain) & of_group.any(axis=1))
    if not len(defined):
        raise InputError(f"{where}: {utility!r} is undefined for all queries with a group")
    gain, of_group = gain[defined], of_group[defined]
    times = drawn_weights(len(defined), resamples, seed)
    weight = np.concatenate([np.ones((1, len(defined))), times])

    def means(value: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return np.asarray((weight * value) @ of_group / (weight @ of_group))

    gains = means(gain)
    low, high = percentiles(gains[1:], confidence)
    table = pd.DataFrame(
        {
            GROUP: [str(askers.levels[level]) for level in levels],
            "queries": (of_group > 0).sum(axis=0),
            "with": means(both[0][defined])[0],
            "without": means(both[1][defined])[0],
            "gain": gains[0],
            "low": low,
            "high": high,
        }
    )
    most, least = gains.max(axis=1), gains.min(axis=1)
    above = most > _ROUNDING * np.abs(np.stack(both)[:, defined]).max()  # gains may cancel out
    ratio = np.divide(least, most, out=np.full(len(most), np.nan), where=above)
    pairs = (("difference", most - least), ("ratio", ratio))
    ends = [(name, v[0], *percentiles(v[1:], confidence)) for name, v in pairs]
    return QueryGain(
        table,
        pd.DataFrame(ends, columns=["name", "value", "low", "high"]),
        undefined,
    )


def drawn_weights(n: int, resamples: int, seed: int) -> FloatArray:
    """Return the counts of n queries in bootstrap samples of size n; shape (resamples, n)."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples)
    return np.asarray(drawn, dtype=np.float64)


def percentiles(drawn: FloatArray, confidence: float) -> tuple[Any, Any]:
    """Return the ends of the percentile interval of each column, ignoring NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN if no draw is defined
        low, high = np.nanquantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high
