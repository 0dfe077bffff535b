"""Providers over a stream of queries: how exposure, or credit, adds up for those behind documents.

An author, an outlet, the domain of a URL: whoever has several documents is judged over all
queries, not within each (Biega et al. 2018, "Equity of Attention").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import InputError
from fairtk.exposure import BrowsingModel
from fairtk.frames import CREDIT, DOCNO, LABEL, FloatArray, ObjectArray, Qrels, Run
from fairtk.groups import Groups, attention_matrix
from fairtk.io import new_figure, open_axes, read_qrels, read_run, write_figure
from fairtk.measures import EE_R, Judged, expected_credit

SUMMARY = {
    "amortized": "sum over providers of |share - merit share|: 0 is in proportion, 2 the most",
    "gini": "0: all providers have the same share; towards 1: one has all",
    "top": "share of those providers that have most",
    "minimum": "smallest share of a provider",
}
"""What is said of all providers together."""

_BLOCK = 1 << 24  # numbers in memory at a time


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
        for name, style in (("exposure", "-"), ("merit", "--")):
            share = np.sort(self.table[name].to_numpy())
            x = np.linspace(0, 1, len(share) + 1)
            label = f"{self.settings['of']} (Gini {gini(share[None])[0]:.2f})"
            label = label if name == "exposure" else f"merit (Gini {gini(share[None])[0]:.2f})"
            axes.plot(x, np.concatenate([[0.0], np.cumsum(share)]), style, label=label)
        axes.set(
            xlabel="share of providers, the least shown first",
            ylabel="share of what they get together",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        axes.legend(loc="upper left", frameon=False)
        open_axes(axes)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


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
    a judged or retrieved document. A run that lacks a query gives nobody exposure there.

    Args:
        qrels: labels, which merit comes from: a frame or a file.
        run: R, S, X or C: a frame or a file.
        providers: who is behind each document: groups, a frame (``docno``, ``group``, optional
            ``weight``) or a file of them.
        cutoff: ranks that are read; at least 1.
        browsing: a browsing model or its string; that of the frame for exact exposure.
        weights: of queries by qid, e.g. how often they are asked, above 0; None: 1 each.
        top: the share of providers of ``top``, in (0, 1).
        resamples: bootstrap samples of the queries, at least 2.
        confidence: of the intervals, in (0, 1).
        seed: of the bootstrap.

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
    measure = EE_R(browsing=browsing) @ cutoff
    labels = Qrels(qrels, where, (DOCNO, LABEL), either=True)
    judged = Judged(labels, Run(run, f"{where} (run)", either=True), where)
    of = "credit" if CREDIT in run.columns else "exposure"
    if of == "credit":
        judged, _ = expected_credit(judged, where)
        got = np.zeros(judged.n_pairs)
        got[judged.pair_of_row] = judged.run.scores[judged.run.order]
    else:
        got = measure.form.of_pairs(judged)[2]
    merit = measure.form.targets(judged)
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


def _by_query(judged: Judged, share: FloatArray, of_docs: Any) -> Any:
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
    generator = np.random.default_rng(seed)
    block, drawn = max(1, _BLOCK // max(n, n_queries)), []
    for begin in range(0, resamples, block):
        rows = min(block, resamples - begin)
        times = generator.multinomial(n_queries, np.full(n_queries, 1 / n_queries), rows)
        drawn.append(_values((times * weight) @ got, (times * weight) @ merit, top))
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.nanquantile(np.concatenate(drawn), ends, axis=0)
    return pd.DataFrame({"name": list(SUMMARY), "value": value, "low": low, "high": high})
