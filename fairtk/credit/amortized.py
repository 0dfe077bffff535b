"""Exposure of providers over all queries, and the gain of groups of queries from documents.

Providers with several documents, such as authors, outlets or domains, are evaluated over all
queries, not within each query (Biega et al. 2018, "Equity of Attention").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk import checks
from fairtk.credit.frame import expected_credit
from fairtk.display import despine, new_figure, number_text, write_figure
from fairtk.display.figures import draw_shares
from fairtk.display.tables import UNDEFINED, frame_html, frames_text
from fairtk.errors import InputError, ParameterError, UndefinedWarning, warn
from fairtk.exposure import BrowsingModel, sum_by_index
from fairtk.frames import CREDIT, DOCNO, GROUP, LABEL, QID, FloatArray, ObjectArray, Qrels, Run
from fairtk.frames.accepted import frame_of
from fairtk.groups import Groups
from fairtk.groups.exposure import attention_matrix
from fairtk.io.qrels import as_qrels
from fairtk.io.runs import as_run
from fairtk.measures import EE_R, FairMeasure, LabeledRun
from fairtk.measures.eu import ExpectedUtility
from fairtk.measures.facts import RunFacts, remarks_on_runs
from fairtk.remarks import (
    LENGTHS_DIFFER,
    MERITS_DIFFER,
    MISSING,
    MISSING_MERIT,
    SIZES_DIFFER,
    emit,
)
from fairtk.statistics.bootstrap import bootstrap_counts
from fairtk.statistics.intervals import TOO_FEW, mean_intervals, no_interval
from fairtk.wording import format_list, short, such

SUMMARY = {
    "amortized": "sum over providers of |share - merit share|, from 0 (proportional) to 2",
    "gini": "0 if all providers have the same share; near 1 if one has all",
    "top": "share of the top providers",
    "minimum": "smallest share of a provider",
}
"""The summary values over all providers.

With few queries, chance alone gives shares that differ. It raises the first three values and lowers
the last. See `noise_interval` for their intervals.
"""

_BLOCK = 1 << 24  # numbers in memory at a time
_ROUNDING = 1e-12  # mean gains below this share of the largest utility count as 0


@dataclass(frozen=True)
class Providers:
    """Shares of providers over all queries.

    Attributes:
        table: a row per provider, most exposed first: ``provider``, ``documents`` (judged or
            retrieved in these queries), ``exposure`` (share of exposure, or of credit for a frame
            C), ``merit`` (share of the target), ``gap`` (exposure minus merit).
        summary: a row for each of `SUMMARY`: ``name``, ``value``; ``chance``, the mean value for
            this number of queries if shares differ by chance alone, so that the expected share of
            each provider is its merit share (``amortized``) or all are equal (the others);
            the interval ``low`` to ``high`` (see `noise_interval`), and ``note``, the reason if it
            is NaN.
        unknown: the share of exposure of documents without a known provider, which the tables
            exclude.
        settings: the settings.
        facts: the measure of merit, the labels, and the facts about the run, to compare runs.
    """

    table: pd.DataFrame
    summary: pd.DataFrame
    unknown: float
    settings: Mapping[str, Any]
    facts: tuple[FairMeasure, Qrels, RunFacts] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"{frames_text(self.table, self.summary)}\n\n{self.unknown_text}"

    @property
    def unknown_text(self) -> str:
        """`unknown` as a sentence without its period."""
        of = self.settings["of"]
        if math.isnan(self.unknown):
            return f"The share of {of} without a known provider is {UNDEFINED}: no {of}"
        return f"{self.unknown:.1%} of {of} has no known provider"

    def _repr_html_(self) -> str:
        return frame_html(self.table, "Providers") + frame_html(self.summary, "All providers")

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
            label = f"{what} (Gini {number_text(gini(share[None])[0], 2)})"
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
            write_figure(figure, path)
        return figure


def plot_shares(
    results: Mapping[str, Providers], path: str | PathLike[str] | None = None, *, most: int = 20
) -> Any:
    """Draw the shares of providers in several systems next to each other.

    Bars are the shares of exposure (or credit), marks the merit shares, one on each bar if they
    differ between systems. The providers are those with the largest share in any system;
    `providers` accepts groups, too.

    Args:
        results: the result of `providers` by the name of the system, for the same labels.
        path: an .svg, .pdf or .png file to write; `None` to write no file.
        most: the maximum number of providers, at least 1.

    Returns:
        The figure.

    Raises:
        ParameterError: there are no results, results for exposure and for credit, or for other
            queries.
        MissingExtraError: matplotlib is not installed.
    """
    shares, merits = compared_shares(results)
    most = checks.integer("most", most, "plot_shares")
    is_drawn = shares.index.isin(shares.max(axis=1).nlargest(most).index)
    drawn, marks = shares[is_drawn], merits[is_drawn]
    figure = draw_shares(
        drawn.index.tolist(),
        {name: drawn[name].to_numpy() for name in drawn},
        [marks[name].to_numpy() for name in marks],
        "merit",
        "plot_shares",
    )
    axes = figure.axes[0]
    axes.set_xlabel(f"share of {next(iter(results.values())).settings['of']}")
    if len(drawn) < len(shares):
        axes.set_title(f"{len(drawn)} of {len(shares)} providers", fontsize=8, loc="left")
    if path is not None:
        write_figure(figure, path)
    return figure


def compared_shares(results: Mapping[str, Providers]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the shares of providers in each system, and their merit, largest merit first.

    A provider without documents in a system has the share 0. Merit has a column for each system if
    it differs between them, e.g. with the number of documents, and otherwise the column ``merit``.

    Raises:
        ParameterError: there are no results, results for exposure and for credit, or for other
            queries.
    """
    results = checks.mapping("results", results, "plot_shares")
    for name, result in results.items():
        if not isinstance(result, Providers):
            raise ParameterError(
                f"plot_shares: results must be results of `providers` by name, got "
                f"{short(result)} for {name!r}"
            )
    kinds = {result.settings["of"] for result in results.values()}
    if len(kinds) != 1:
        kind = " and ".join(sorted(kinds)) or "none"
        raise ParameterError(f"plot_shares: expected results for exposure or credit, got {kind}")
    _warn_of_differences(results)
    tables = {name: result.table.set_index("provider") for name, result in results.items()}
    shares, merits = (
        pd.DataFrame({name: table[column] for name, table in tables.items()}).fillna(0.0)
        for column in ("exposure", "merit")
    )
    largest = merits.max(axis=1).sort_index().sort_values(ascending=False, kind="stable")
    if np.ptp(merits.to_numpy(), axis=1).max() <= _ROUNDING:
        merits = merits.iloc[:, :1].set_axis(["merit"], axis=1)
    return shares.loc[largest.index], merits.loc[largest.index]


def _warn_of_differences(results: Mapping[str, Providers]) -> None:
    """Warn if systems have rankings or targets that are not comparable."""
    measures, labels, _ = zip(*(result.facts for result in results.values()), strict=True)
    first, *others = results
    for name in others:
        if not np.array_equal(results[name].facts[1].qids.text, labels[0].qids.text):
            raise ParameterError(
                f"plot_shares: results must be for the same labels, but those of {first!r} and "
                f"{name!r} have different queries"
            )
    facts = {name: result.facts[2] for name, result in results.items()}
    emit(
        replace(
            remark,
            kind=MERITS_DIFFER if remark.kind == SIZES_DIFFER else remark.kind,
            measure="providers",  # it has no parameters of EE_R
        )
        for remark in remarks_on_runs([*dict.fromkeys(measures)], labels[0], facts)
        if remark.kind in (SIZES_DIFFER, LENGTHS_DIFFER)
    )


def providers(
    qrels: pd.DataFrame | str | PathLike[str],
    run: pd.DataFrame | str | PathLike[str],
    providers: Groups | pd.DataFrame | str | PathLike[str],
    *,
    separator: str | None = None,
    unknown_values: Iterable[str] | None = None,
    cutoff: int = 5,
    browsing: BrowsingModel | str = "MU",
    weights: Mapping[str, float] | None = None,
    top: float = 0.1,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 42,
    parent: str | None = None,
) -> Providers:
    """Compare the exposure of providers over all queries with their merit.

    The exposure of provider p is E_p = sum_q w_q sum_{d in p} e_qd, where e_qd is the expected
    exposure of document d for query q (R, S or X), or its expected credit (C). Merit is the same
    sum for the target of EE_R. The table has the providers with a judged or retrieved document. A
    query missing from the run gives no exposure (a warning). A query with undefined credit is left
    out.

    Args:
        qrels: labels for merit: a frame or a file.
        run: R, S, X or C: a frame or a file.
        providers: the provider of each document (``docno``, ``group`` and optionally ``weight``).
            A file, a frame, a dict ``{docno: provider}`` or groups. A list of providers in a
            document's cell is several providers.
        separator: splits texts with several providers; see `fairtk.Groups.from_frame`.
        unknown_values: texts that mean an unknown provider; see `fairtk.Groups.from_frame`.
        cutoff: the number of ranks to read, at least 1.
        browsing: the browsing model, such as ``"RBP(p=0.8)"``. An object or its name; for exact
            exposure, the model of the frame.
        weights: weights of queries by qid, e.g. their frequency, above 0; `None` for 1.
        top: the share of providers, those with most exposure, for the summary value ``top``, in
            (0, 1).
        resamples: bootstrap samples of the queries, at least 2.
        confidence: confidence level of the intervals, in (0, 1).
        seed: the seed of the bootstrap.
        parent: the separator of document and passage in docnos, e.g. ``"%p"``: ``d1%p3`` is a
            passage of ``d1``, and a docno without it is its own document. Labels, groups and
            providers are then of documents. `None` for the column ``parent`` of runs, if any.

    Raises:
        InputError: no document has a known provider, or a weight is missing (names the qid).
        ParameterError: a setting is out of its range.
    """
    from scipy import sparse

    where = "providers"
    cutoff = checks.integer("cutoff", cutoff, where)
    resamples = checks.integer("resamples", resamples, where, 2)
    top = checks.open_interval("top", top, where)
    confidence = checks.open_interval("confidence", confidence, where)
    seed = checks.integer("seed", seed, where, 0)
    owners = Groups.of(providers, separator, unknown_values)
    if not len(owners.docnos):
        raise InputError(f"{where} (providers): no rows")
    for name, value in (("browsing", browsing), ("cutoff", cutoff)):
        EE_R.SUPPORTED_PARAMS[name].accept(value, name, where, {})  # errors name the function
    measure = EE_R(browsing=browsing) @ cutoff
    labels = as_qrels(qrels, where, (DOCNO, LABEL))
    if not len(labels):
        raise InputError(f"{where} (qrels): no rows")
    judged = LabeledRun(labels, as_run(run, f"{where} (run)").with_parents(parent), where)
    of = "credit" if CREDIT in judged.run.frame.columns else "exposure"
    name = fspath(run) if isinstance(run, str | PathLike) else ""
    facts = RunFacts.of(judged, cutoff)
    of_run = remarks_on_runs([measure], labels, {name: facts})
    emit(
        replace(remark, kind=MISSING_MERIT, detail=of)
        if remark.kind == MISSING
        else replace(remark, measure=remark.measure and where)  # it has no parameters of EE_R
        for remark in of_run
    )
    if of == "credit":
        judged, shares = expected_credit(judged)
        undefined = shares.undefined
        received = np.zeros(judged.n_pairs)
        received[judged.pair_of_row] = judged.run.scores[judged.run.order]
    else:
        received = measure.exposure(judged)
    merit = measure.targets(judged)
    memberships = owners.memberships(judged.docnos, "drop")
    is_known = owners.space.known(memberships.level)
    levels, column = np.unique(memberships.level[is_known], return_inverse=True)
    if len(memberships.level) and not len(levels):
        raise InputError(
            f"{where}: the provider of all retrieved and labeled documents is unknown; add rows to "
            "the providers, or change `unknown_values`"
        )
    if not len(levels):
        raise InputError(
            f"{where}: providers and run have no document in common (docno "
            f"{str(owners.docnos[0])!r} in the providers, {str(judged.docnos[0])!r} in the run); "
            "check that both use the same docnos"
        )
    row = np.repeat(np.arange(memberships.n_rows), memberships.size)[is_known]
    shape = (memberships.n_rows, len(levels))
    of_docs = sparse.csr_array((memberships.weight[is_known], (row, column)), shape=shape)
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
        (measure, labels, facts),
    )


def gini(shares: FloatArray) -> FloatArray:
    """Return the Gini coefficient of each row of shares, which sum to 1; shape (n_rows,)."""
    n = shares.shape[1]
    ranks = 2 * np.arange(1, n + 1) - n - 1
    return np.asarray(np.sort(shares, axis=1) @ ranks / n)


def _weights(weights: Mapping[str, float] | None, qids: ObjectArray) -> FloatArray:
    if weights is None:
        return np.ones(len(qids))
    weights = {str(q): w for q, w in checks.mapping("weights", weights, "providers").items()}
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


def _values(ordered: FloatArray, distance: FloatArray, top: float) -> FloatArray:
    """Return the values of `SUMMARY`, shape (n_rows, 4).

    Args:
        ordered: shares of providers, sorted in each row; shape (n_rows, n_providers).
        distance: the sums of absolute differences between shares and merit shares, shape (n_rows,).
        top: the share of the top providers.
    """
    n_top = max(1, math.ceil(top * ordered.shape[1]))
    values = [distance, gini(ordered), ordered[:, -n_top:].sum(axis=1), ordered[:, 0]]
    return np.stack(values, axis=1)


def _summary(
    amounts: list[Any], weight: FloatArray, top: float, resamples: int, confidence: float, seed: int
) -> pd.DataFrame:
    """Return values with their expectations by chance and their intervals."""
    used = weight > 0
    weight = weight[used]
    amount, merit = (part[used] for part in amounts)
    n_queries, n = amount.shape
    share, merit_share = (_shares((weight @ part)[None]) for part in (amount, merit))
    value = _values(np.sort(share, axis=1), np.abs(share - merit_share).sum(axis=1), top)[0]
    noise, chance, alike = np.full((3, 1, len(SUMMARY)), np.nan)
    if n_queries > 1:
        chance, alike = _exchanged(amount, merit, weight[used], top, resamples, seed)
        wide = expansion(n_queries, confidence)
        parts: list[FloatArray] = []
        for times in np.array_split(
            bootstrap_counts(n_queries, resamples, seed)[1:],
            max(1, resamples * max(n, n_queries) // _BLOCK),
        ):
            drawn, drawn_merit = (_shares((times * weight) @ part) for part in (amount, merit))
            errors = np.sort(drawn - share, axis=1)
            distance = np.abs(drawn - drawn_merit - (share - merit_share)).sum(axis=1)
            parts.append(wide * _noise(errors, distance, top))
        noise = np.concatenate(parts)
    n_top = max(1, math.ceil(top * n))
    bounds = [(0.0, 2.0), (0.0, 1 - 1 / n), (n_top / n, 1.0), (0.0, 1 / n)]
    rows = [
        [name, number, _mean(by_chance), *noise_interval(number, sizes, confidence, ends)]
        for name, number, by_chance, *sizes, ends in zip(
            SUMMARY, value, chance.T, noise.T, alike.T, bounds, strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["name", "value", "chance", "low", "high", "note"])


def _noise(errors: FloatArray, distance: FloatArray, top: float) -> FloatArray:
    """Return N(e) of sorted errors of shares; see `noise_interval`."""
    signs = [_values(rows, distance, top) for rows in (errors, -errors[:, ::-1])]
    return np.asarray(np.abs(signs).max(axis=0))


def _exchanged(
    amount: Any, merit: Any, weight: FloatArray, top: float, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return values and N(e) of samples in which the providers of each query are exchanged.

    If providers are treated alike, each provider's amount and merit in a query are as likely to be
    those of any other provider. So each query's providers are shifted by a random number, with
    amounts and merits together. Unlike bootstrap samples, these show what is possible for providers
    that chance has left without exposure in all queries. Both results have shape (resamples, 4).
    """
    rng, (n_queries, n) = np.random.default_rng([seed, 1]), amount.shape
    values, noise = np.zeros((2, resamples, len(SUMMARY)))
    parts = [part.tocoo() for part in (amount, merit)]
    for draw in range(resamples):
        shift = rng.integers(n, size=n_queries)
        share, merit_share = (
            _shares(
                sum_by_index((part.col + shift[part.row]) % n, part.data * weight[part.row], n)[
                    None
                ]
            )
            for part in parts
        )
        distance = np.abs(share - merit_share).sum(axis=1)
        share = np.sort(share, axis=1)
        values[draw] = _values(share, distance, top)[0]
        noise[draw] = _noise(share - 1 / n, distance, top)[0]
    return values, noise


def _mean(values: FloatArray) -> float:
    """Return the mean of the defined values, or NaN."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan


@dataclass(frozen=True)
class QueryGain:
    """The gain from documents in the answers of groups of queries.

    Attributes:
        table: a row per group: ``group``, ``queries``, the mean utility ``with`` documents and
            ``without``, their difference ``gain`` (above 0 if documents help), its Student's t
            interval ``low`` to ``high``, and ``note``, the reason if it is NaN.
        comparison: rows ``difference`` (largest minus smallest gain) and ``ratio`` (smallest
            divided by largest; NaN unless the largest is above 0), as in `fairtk.ByGroup`:
            ``name``, ``value``; ``chance``, the expected value for these numbers of queries if all
            groups have the same expected gain; the interval ``low`` to ``high`` of the difference
            (see `noise_interval`), and ``note``, the reason if it is NaN.
        undefined: the number of queries with a group that are left out because their utility is
            undefined.
    """

    table: pd.DataFrame
    comparison: pd.DataFrame
    undefined: int

    def __repr__(self) -> str:
        undefined = f"{self.undefined} queries with a group are undefined"
        return f"{frames_text(self.table, self.comparison)}\n\n{undefined}"

    def _repr_html_(self) -> str:
        return frame_html(self.table, "Gains") + frame_html(self.comparison, "All groups")


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
        raise ParameterError(f"{where}: utility must be EU(utility=...), got {short(utility)}")
    labels = Qrels(qrels, where, (QID,), either=True)
    for frame, what in ((run, "run"), (without, "without")):
        present = labels.qids.find(Run(frame, f"{where} ({what})", either=True).qids)
        missing = np.setdiff1d(np.arange(len(labels.qids)), present)
        if len(missing):
            raise InputError(
                f"{where}: missing answer of qid {str(labels.qids[missing[0]])!r} in {what} "
                f"({such(len(missing), 'query')})"
            )
    both = [
        utility.score_all(LabeledRun.of(qrels, frame, where)).values for frame in (run, without)
    ]
    sign = 1.0 if utility.better == "higher" else -1.0
    gain = sign * (both[0] - both[1])
    askers = frame_of(groups)
    if isinstance(askers, pd.DataFrame):
        askers = askers.rename(columns={QID: DOCNO})
    askers = Groups.of(askers)
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
    size = of_group.sum(axis=0)
    with np.errstate(invalid="ignore"):
        gains = gain @ of_group / size
        means = [value[defined] @ of_group / size for value in both]
    rows = np.where(of_group.T > 0, gain, np.nan)
    width = utility.bounds[1] - utility.bounds[0]
    low, high = mean_intervals(rows, confidence=confidence, bounds=(-width, width))
    table = pd.DataFrame(
        {
            GROUP: [str(askers.levels[level]) for level in levels],
            "queries": size.astype(int),
            "with": means[0],
            "without": means[1],
            "gain": gains,
            "low": low,
            "high": high,
            "note": [no_interval(row) for row in rows],
        }
    )
    rounding = _ROUNDING * np.abs(np.stack(both)[:, defined]).max()
    times = bootstrap_counts(len(defined), resamples, seed)[1:]
    with np.errstate(invalid="ignore"):
        errors = (times * gain) @ of_group / (times @ of_group) - gains
    comparison = _compared(gains, errors, size, float(gain.mean()), rounding, 2 * width, confidence)
    return QueryGain(table, comparison, undefined)


def _compared(
    gains: FloatArray,
    errors: FloatArray,
    size: FloatArray,
    common: float,
    rounding: float,
    largest: float,
    confidence: float,
) -> pd.DataFrame:
    """Return `QueryGain.comparison`.

    Args:
        gains: the gains of the groups, shape (n_groups,).
        errors: the gains in bootstrap samples minus `gains`, shape (resamples, n_groups); NaN for a
            group without queries.
        size: the numbers of queries of the groups.
        common: the gain of all queries.
        rounding: gains up to this size are 0.
        largest: the largest possible difference.
        confidence: the level of the interval.
    """

    def difference_and_ratio(rows: FloatArray) -> FloatArray:
        most, least = rows.max(axis=-1), rows.min(axis=-1)
        ratio = np.divide(least, most, out=np.full_like(most, np.nan), where=most > rounding)
        return np.stack([most - least, ratio])

    errors = errors[~np.isnan(errors).any(axis=1)]
    difference, ratio = difference_and_ratio(gains[None])[:, 0]
    chances = [math.nan, math.nan]
    ends = math.nan, math.nan, "a group has fewer than two queries"
    if size.min() > 1:
        alike = difference_and_ratio(common + errors * np.sqrt(size / (size - 1)))
        chances = [float(values.mean()) for values in alike]  # NaN if a ratio is undefined
        noise, _ = difference_and_ratio(errors * expansion(size, confidence))
        ends = noise_interval(difference, [noise], confidence, (0.0, largest))
    rows = [
        ("difference", difference, chances[0], *ends),
        ("ratio", ratio, chances[1], math.nan, math.nan, "see the interval of the difference"),
    ]
    return pd.DataFrame(rows, columns=["name", "value", "chance", "low", "high", "note"])


def expansion(n: npt.ArrayLike, confidence: float) -> FloatArray:
    """Return the factor that makes bootstrap errors of a mean as wide as Student's t interval.

    Bootstrap errors of a mean of n values have the variance s^2 (n - 1) / n^2 and are nearly
    normal. The factor is sqrt(n / (n - 1)) t / z, with the quantiles t and z (Hesterberg 2015,
    "What Teachers Should Know About the Bootstrap").

    Args:
        n: numbers of values, each at least 2.
        confidence: the level of the interval.
    """
    from scipy.stats import norm, t

    size, level = np.asarray(n, dtype=np.float64), (1 + confidence) / 2
    factor = np.sqrt(size / (size - 1)) * t.ppf(level, size - 1) / norm.ppf(level)
    return np.asarray(factor, dtype=np.float64)


def noise_interval(
    value: float,
    noises: Sequence[FloatArray],
    confidence: float,
    bounds: tuple[float, float],
) -> tuple[float, float, str]:
    """Return an interval of a statistic that chance alone moves away from its boundary.

    Let f be the sum of absolute values, Gini, the sum of the largest values, their minimum, or the
    range. Of unequal shares or gains s it is estimated by f(s + e) with errors e, whose mean is 0.
    At the boundary, where all s are equal, f(s + e) is always on one side of f(s), so percentile
    intervals do not contain f(s). But f or -f is sublinear: f(s + e) <= f(s) + f(e), and
    f(s) <= f(s + e) + f(-e). So the distance between f(s + e) and f(s) is at most
    N(e) = max(|f(e)|, |f(-e)|), and value +- the quantile of N(e) contains f(s) with at least the
    level of the quantile, for all s. Bootstrap samples of the queries give the errors. With few
    queries they are too small for providers that chance has left without exposure, so `providers`
    also has the errors at the boundary; the larger quantile counts. Far from the boundary the
    interval is wider than necessary.

    Args:
        value: f(s + e).
        noises: one or several arrays of N(e), each of shape (resamples,); NaN if undefined.
        confidence: the level of the interval.
        bounds: the smallest and the largest possible value.

    Returns:
        The ends and ``""``; NaN, NaN and the reason if there is no noise.
    """
    known = [noise[~np.isnan(noise)] for noise in noises]
    if math.isnan(value) or not all(map(len, known)):
        return math.nan, math.nan, "the value is undefined" if math.isnan(value) else TOO_FEW
    half = max(float(np.quantile(noise, confidence)) for noise in known)
    if half <= _ROUNDING * max(1.0, abs(value)):
        return math.nan, math.nan, "the bootstrap samples have equal values"
    # rounding may put the value outside its bounds
    low, high = max(value - half, bounds[0]), min(value + half, bounds[1])
    return min(low, value), max(high, value), ""
