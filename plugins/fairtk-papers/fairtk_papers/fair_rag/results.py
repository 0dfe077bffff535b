"""What the study found: values, tables, and the folder in which they lie."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display import Table
from fairtk.errors import FormatError, NotFoundError
from fairtk.experiment import environment, open_results
from fairtk.frames import DOCNO, LABEL, QID
from fairtk.io import read_parquet, write_parquet
from fairtk.io.lines import read_json
from fairtk.report import Section, save_sections
from fairtk.statistics import mean_intervals
from fairtk_papers.fair_rag.figures import (
    credit_words,
    plot_credit,
    plot_requests,
    plot_spread,
    plot_trade_off,
    spread_words,
    trade_off_words,
)
from fairtk_papers.fair_rag.labels import AGREEMENT
from fairtk_papers.fair_rag.settings import CITATIONS, RagSettings
from fairtk_papers.fair_rag.tables import (
    AE_D,
    ALPHA,
    APART,
    COVERED,
    CREDIT_MEASURES,
    DETERMINISTIC,
    DOCUMENTS,
    EE_D,
    EE_R,
    EU,
    GENERATOR,
    INTERVAL,
    MEASURE,
    MODEL,
    NORMALIZED_EU,
    ORACLE,
    PAPER,
    RETRIEVER,
    TABLE,
    TASK,
    VALUE,
    credit_table,
    fairness_intervals,
    fitted_latex,
    paper_numbers,
    paper_tables,
    place_table,
    trade_offs,
    uniform_end,
)
from fairtk_papers.studies import (
    FACTS,
    SETTINGS,
    frame_table,
    write_json,
    write_pictures,
    write_tables,
)

NDCG = "nDCG"
MEASURES = (EE_D, EE_R, NDCG, EU, NORMALIZED_EU)
FORMAT = 1
"""Of saved results; raised when names or meanings of values change."""
_STATISTICS = ("queries", "documents", "documents std", "useful", "useful std", "percent useful")
_STATISTICS_TABLES = {"flan-t5-small": 13, "flan-t5-base": 14, "flan-t5-xxl": 15}


def _with_interval(values: pd.Series[float]) -> str:
    (low,), (high,) = mean_intervals(values.to_numpy(float)[None])
    half = (high - low) / 2
    return f"{values.mean():.3f}" + ("" if np.isnan(half) else f" +-{half:.3f}")


@dataclass(frozen=True)
class RagResults:
    """The results of a `RagStudy`.

    Attributes:
        values: one row per model, policy, query and measure: ``task``, ``retriever``,
            ``generator``, ``alpha`` (a number, ``"oracle"`` or ``"deterministic"``), ``qid``,
            ``measure`` (``EE_D``, ``EE_R``, ``nDCG``, ``EU``: the expected utility, ``normalized
            EU``: divided by the best single ranking's), ``value``. EE_D: lower is more even; all
            others: higher is better. With credit those of `fairtk_papers.fair_rag.credit_values`,
            too.
        sizes: ``task``, ``generator``, ``qid``, ``documents``, ``useful``.
        collections: per task and generator where the labels are from, queries looked at and left
            out, the statistics of Tables 13 to 15, agreement with published labels.
        notes: what could not be done, and what to do.
        settings: how it was done.
        licenses: of the data.
        environment: with which versions.
        agreement: how far generators' own labels agree; see `label_agreement`.
    """

    values: pd.DataFrame
    sizes: pd.DataFrame
    collections: pd.DataFrame
    notes: list[str]
    settings: RagSettings
    licenses: list[str]
    environment: Mapping[str, Any] = field(default_factory=environment)
    agreement: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=AGREEMENT))

    @property
    def means(self) -> pd.DataFrame:
        """One row per model and policy: means over the queries whose value is defined, and n."""
        return self._by_policy("mean")

    def means_with_intervals(self) -> pd.DataFrame:
        """Return `means` as texts with half of their 95 % t interval: ``0.712 +-0.045``."""
        return self._by_policy(_with_interval)

    def _by_policy(self, aggregate: Any) -> pd.DataFrame:
        order = list(self.settings.systems)
        names = {alpha: name for name, alpha in self.settings.systems.items()}
        policy = pd.Categorical(self.values[ALPHA].map(names), order, ordered=True)
        models = self.values[MODEL].drop_duplicates()
        rows = self.values.assign(policy=policy).groupby([*MODEL, "policy", MEASURE], observed=True)
        means = rows[VALUE].agg(aggregate).unstack(MEASURE)
        means = means[[m for m in (*MEASURES, *CREDIT_MEASURES) if m in means.columns]]
        means["queries"] = rows[QID].nunique().unstack(MEASURE).max(axis=1)
        return models.merge(means.reset_index(), on=MODEL).astype({"policy": str})

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the paper's tables by name.

        ``means``; ``fairness_intervals`` (Tables 1, 6 to 12); ``trade_offs`` (3 to 5);
        ``collections`` (13 to 15); ``uniform_end`` (the check of the left end of the curves);
        ``label_agreement`` if two generators have labels of their own, e.g. a model in two dtypes;
        ``credit`` and ``credit_by_place`` if the study has credit.
        """
        cutoff = self.settings.cutoff
        agreement = {} if self.agreement.empty else {"label_agreement": self.agreement}
        return {
            "means": self.means,
            "fairness_intervals": fairness_intervals(self.values, cutoff=cutoff, sizes=self.sizes),
            "trade_offs": trade_offs(self.values, seed=self.settings.seed),
            "collections": self._collections(),
            "uniform_end": uniform_end(self.values, self.sizes, cutoff=cutoff),
            **agreement,
            **(
                {"credit": credit_table(self.values), "credit_by_place": place_table(self.values)}
                if self.has_credit
                else {}
            ),
        }

    @property
    def has_credit(self) -> bool:
        """Whether there is credit beside exposure."""
        return bool((self.values[MEASURE] == AE_D).any())

    def _collections(self) -> pd.DataFrame:
        """Return the statistics with what the paper prints beside them."""
        table = self.collections.copy()
        printed = paper_numbers()
        printed = printed[printed[TABLE].isin(_STATISTICS_TABLES.values())]
        printed = printed.set_index([TABLE, TASK, GENERATOR, "statistic"])[VALUE]
        for name in _STATISTICS:
            keys = [
                (_STATISTICS_TABLES.get(generator, 0), task, generator, name)
                for task, generator in zip(table[TASK], table[GENERATOR], strict=True)
            ]
            paper = printed.reindex(pd.MultiIndex.from_tuples(keys)).to_numpy()
            table.insert(list(table.columns).index(name) + 1, f"{name}, {PAPER}", paper)
        return table

    # Files ------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write values, tables (CSV, Markdown, LaTeX; `paper_tables` beside them) and settings.

        Args:
            folder: the study's; results of other settings lie beside these.

        Returns:
            The folder of these settings in it.
        """
        place = Path(folder) / SETTINGS / self.settings.name
        place.mkdir(parents=True, exist_ok=True)
        write_parquet(self.values.assign(**{ALPHA: self.values[ALPHA].map(str)}),
                      place / "values.parquet")  # fmt: skip
        write_parquet(self.sizes, place / "sizes.parquet")
        tables = self.tables()
        write_tables(place, tables)
        laid_out = paper_tables(tables["fairness_intervals"], tables["trade_offs"])
        write_tables(place, laid_out, fitted_latex)
        facts = {
            "format": FORMAT,
            "settings": self.settings.as_json(),
            "notes": self.notes,
            "licenses": self.licenses,
            "collections": self.collections.to_dict("records"),
            "agreement": self.agreement.to_dict("records"),
            "environment": dict(self.environment),
        }
        write_json(place / FACTS, facts)
        return place

    @staticmethod
    def load(folder: str | PathLike[str], setting: str | None = None) -> RagResults:
        """Read what `save` wrote.

        Args:
            folder: the study's folder.
            setting: the name of the settings; None: the only ones.

        Raises:
            FormatError: there are no results in the folder, they are of another format, or a file
                is damaged.
            NotFoundError: there are results of several settings, and none or another is named.
        """
        there = saved_settings(folder)
        if not there:
            raise FormatError("expected results of fairtk rag; there are none", folder)
        if setting is None and len(there) == 1:
            setting = there[0]
        if setting not in there:
            raise NotFoundError("setting (`setting`)", setting or "", there)
        place = Path(folder) / SETTINGS / str(setting)
        facts = read_json(place / FACTS)
        if facts.get("format") != FORMAT:
            raise FormatError(
                f"expected results of format {FORMAT}, got format {facts.get('format', 'none')}: "
                "run the study again; no prompt is requested again",
                place / FACTS,
            )
        values = read_parquet(place / "values.parquet")[0]
        chosen = dict(facts["settings"])
        return RagResults(
            values=values.assign(**{ALPHA: values[ALPHA].map(_alpha)}),
            sizes=read_parquet(place / "sizes.parquet")[0],
            collections=pd.DataFrame(facts["collections"]),
            notes=facts["notes"],
            settings=RagSettings(**{**chosen, "alphas": tuple(chosen["alphas"])}),
            licenses=facts["licenses"],
            environment=facts["environment"],
            agreement=pd.DataFrame(facts.get("agreement", []), columns=AGREEMENT),
        )


def model_folder(folder: str | PathLike[str], setting: str, model: tuple[str, ...]) -> Path:
    """Return where a model's rankings and answers are saved.

    Args:
        folder: the study's.
        setting: the name of the settings.
        model: task, retriever, generator.
    """
    name = "--".join(re.sub(r"[^\w.]+", "_", part) for part in model)
    return Path(folder) / SETTINGS / setting / "models" / name


def saved_settings(folder: str | PathLike[str]) -> list[str]:
    """Return the names of the settings of which a study's folder has results."""
    return sorted(p.parent.name for p in Path(folder).glob(f"{SETTINGS}/*/{FACTS}"))


def _alpha(text: str) -> float | str:
    return text if text in (DETERMINISTIC, ORACLE) else float(text)


TRADE_OFFS = {
    "disparity_and_quality": (EE_D, EE_R, "ranking quality against disparity of exposure"),
    "quality_and_utility": (EE_R, NORMALIZED_EU, "utility of answers against ranking quality"),
    "disparity_and_utility": (
        EE_D,
        NORMALIZED_EU,
        "utility of answers against disparity of exposure",
    ),
}
"""The paper's Figures 4 and 5 by file name: x, y, and what they show."""


def write_figures(results: RagResults, folder: Path) -> None:
    """Write the study's figures as SVG and PDF; Figure 7 where rankings are saved.

    Args:
        results: the study's.
        folder: of the settings, as `RagResults.save` returns it.
    """
    for by in (RETRIEVER, GENERATOR):
        if by == GENERATOR and results.values[GENERATOR].nunique() < 2:
            continue
        for name, (x, y, _) in TRADE_OFFS.items():
            figure = plot_trade_off(results.values, x, y, by=by, straight=(x, y) == (EE_D, EE_R))
            write_pictures(figure, folder, f"{name}_by_{by}", "svg", "pdf")
    _write_requests(results, folder)
    for task, part in results.values.groupby(TASK, sort=False):
        write_pictures(plot_spread(part), folder, f"spread_{task}", "svg", "pdf")
        if results.has_credit:
            write_pictures(plot_credit(part), folder, f"credit_{task}", "svg", "pdf")


def _write_requests(results: RagResults, folder: Path) -> None:
    """Write Figure 7: a query of each task, if its rankings are saved, at the smallest alpha."""
    settings, sizes = results.settings, results.sizes
    models = results.values.drop_duplicates(TASK)[MODEL]
    for model in models.itertuples(index=False, name=None):
        place = model_folder(folder.parents[1], settings.name, model)
        if not place.is_dir():
            continue
        saved, alpha = open_results(place), f"alpha {min(settings.alphas):g}"
        run = saved.rankings(alpha)
        run = run[run[QID] == run[QID].iloc[0]]
        qid, labels = run[QID].iloc[0], saved.qrels
        useful = () if labels is None else labels[(labels[QID] == qid) & (labels[LABEL] > 0)][DOCNO]
        size = _of(sizes, (model[0], model[2], qid), [TASK, GENERATOR, QID])
        figure = plot_requests(
            run, cutoff=settings.cutoff, candidates=size[DOCUMENTS].iloc[0], useful=useful
        )
        title = f"{', '.join(model)}, {alpha}\n{figure.get_suptitle()}"
        figure.suptitle(title, fontsize=9)
        write_pictures(figure, folder, f"requests_{model[0]}", "svg", "pdf")


def save_model_sections(results: RagResults, folder: str | PathLike[str]) -> list[Path]:
    """Write each model's sections beside its results, where ``fairtk report`` finds them.

    Args:
        results: the study's.
        folder: the study's, with rankings kept.

    Returns:
        The models' folders, each of which ``fairtk report`` takes.
    """
    places, tables = [], results.tables()
    for model in results.values[MODEL].drop_duplicates().itertuples(index=False, name=None):
        places.append(model_folder(folder, results.settings.name, model))
        save_sections(places[-1], _sections(results, model, tables))
    return places


def _sections(
    results: RagResults, model: tuple[str, str, str], tables: Mapping[str, pd.DataFrame]
) -> Iterator[Section]:
    task, _, generator = model
    values = results.values
    beside = values[(values[TASK] == task) & (values[GENERATOR] == generator)]
    collection = _of(tables["collections"], (task, generator), [TASK, GENERATOR])
    facts = collection.iloc[0]
    yield Section(
        "Queries and labels",
        (
            f"Labels: {facts['labels']}. {facts['looked at']} queries were looked at; "
            f"{facts['left out']} have fewer than {results.settings.min_useful} useful documents "
            "and are left out. A label says that this generator answers better with the document "
            "than without any; it says nothing about readers.",
            *results.notes,
        ),
        _table(collection.drop(columns=["labels"])),
    )
    pairs = tables.get("label_agreement")
    if pairs is not None and len(pairs := pairs[pairs[TASK] == task]):
        yield Section(
            "Labels of other generators",
            (
                "A label belongs to a generator; of one model in two dtypes, what is flipped is "
                "rounding: a gain's sign decides.",
            ),
            frame_table(pairs),
        )
    intervals = _of(tables["fairness_intervals"], model)
    yield Section(
        "Utility by level of exposure (Tables 1 and 6 to 12)",
        (
            "Rankings of all alphas, grouped by how uneven the exposure of a query's documents is "
            "(normalized EE-D). value: mean normalized EU in the interval minus that of the fixed "
            "ranking; paired: the same query by query, with its 95 % interval (low, high), not "
            f"corrected for {int(intervals['p'].notna().sum())} comparisons, and its p-value, "
            "corrected for them (Holm).",
        ),
        _table(intervals[[INTERVAL, "points", "queries", "baseline", "mean", VALUE, "paired",
                          "low", "high", "p_corrected", "note", PAPER, APART]]),
    )  # fmt: skip
    slopes = _of(tables["trade_offs"], model)
    yield Section(
        "Slopes and areas of the trade-offs (Tables 3 to 5)",
        (
            "The paper does not say how lines are fitted or areas closed, so both ways are shown. "
            "covered: the part of the range 0 to 1 of x that the runs cover; over the rest an area "
            "is extrapolated. Intervals (low, high): 95 %, bootstrap over queries, not corrected "
            "for the number of rows.",
        ),
        _table(slopes[["x", "y", "statistic", VALUE, "low", "high", COVERED, PAPER, APART]]),
    )
    for x, y, title in TRADE_OFFS.values():
        yield Section(
            title.capitalize(),
            _bias_prose(results, model) if x == EE_D else (),
            figure=plot_trade_off(beside, x, y, straight=(x, y) == (EE_D, EE_R)),
            alternative=trade_off_words(beside, x, y, title),
        )
    yield Section(
        "How queries spread",
        figure=plot_spread(_of(values, model)),
        alternative=spread_words(_of(values, model)),
    )
    if results.has_credit:
        own = _of(values, model)
        yield Section(
            "Credit beside exposure",
            _credit_prose(results.settings.credit, len(_of(tables["credit"], model))),
            _table(_of(tables["credit"], model)),
            figure=plot_credit(own),
            alternative=credit_words(own),
        )
        yield Section(
            "Credit by place in the prompt",
            (
                "Share of a prompt's credit that the document at each place gets. Better "
                "documents stand first, more so the larger alpha is: what differs between places "
                "is theirs as well as the place's. Intervals (95 %, Student's t) are not corrected "
                "for the number of rows.",
            ),
            _table(_of(tables["credit_by_place"], model)),
        )
    ends = _of(tables["uniform_end"], model)
    yield Section(
        "The uniform end of the curves",
        ("What a policy that ignores the scores would have, exactly, beside the smallest alpha.",),
        _table(ends),
    )


def _bias_prose(results: RagResults, model: tuple[str, ...]) -> tuple[str, ...]:
    """Return what sampling adds to a model's means of EE_D, whose intervals do not hold it."""
    n_samples, cutoff = results.settings.n_samples, results.settings.cutoff
    if n_samples < 2:
        return ("From one sample per query the sampling bias of EE_D cannot be estimated.",)
    values = _of(results.values, model)
    values = values[(values[MEASURE] == EE_D) & ~values[ALPHA].isin([DETERMINISTIC, ORACLE])]
    sizes = _of(results.sizes, (model[0], model[2]), [TASK, GENERATOR]).set_index(QID)[DOCUMENTS]
    single = values[QID].map(sizes).clip(upper=cutoff) / cutoff  # EE_D of a single ranking
    means = ((single - values[VALUE]) / (n_samples - 1)).groupby(values[ALPHA]).mean()
    bias = ", ".join(f"alpha {alpha:g} {mean:+.4f}" for alpha, mean in means.items())
    return (
        f"EE_D is the plain estimate from {n_samples} samples. Intervals do not hold its sampling "
        f"bias (plain minus unbiased estimate): {bias}.",
    )


def _credit_prose(maker: str, n_rows: int) -> tuple[str, ...]:
    """Return what a report says of credit before its table of so many rows."""
    how = {
        "one-out": "what the utility of the answer loses without the document",
        "shapley": "the mean, over all orders of the documents, of what each adds to the utility "
        "of the answer (exact Shapley values)",
        CITATIONS: "what the sentences of the answer cite",
    }[maker]
    return (
        f"Credit of a document in a prompt: {how}. exposure: the same measure if each document "
        "of a prompt had an equal share; value: of credit. AE_D and CreditGap of sampled rankings "
        "are unbiased estimates, which do not depend on the number of samples, and may be below 0; "
        "a query needs two rankings with positive credit for them. "
        "low and high: 95 % t interval of the difference, or of the value where exposure has none, "
        f"not corrected for {n_rows} comparisons. undefined: share of the rankings "
        "without positive credit, which are left out; below 0: share of the documents whose "
        "credit counts as 0. In the figure, the dashed line is the even share of a place.",
        "It says what this generator's answers rest on, by this utility. It is no statement of "
        "causes in the world, of who owes whom, or of copyright.",
    )


def _of(frame: pd.DataFrame, key: tuple[str, ...], columns: list[str] = MODEL) -> pd.DataFrame:
    """Return a model's rows."""
    chosen = (frame[columns] == list(key)).all(axis=1)
    return frame[chosen]


def _table(frame: pd.DataFrame) -> Table:
    rest = frame.drop(columns=[c for c in (*MODEL, "table") if c in frame.columns])
    # the paper prints nothing for other models
    return frame_table(rest.loc[:, rest.notna().any().to_numpy()])
