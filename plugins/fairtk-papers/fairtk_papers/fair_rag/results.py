"""The results of the study: values, tables, figures and pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display import Table, number_text, rounded_text
from fairtk.errors import FormatError, NotFoundError
from fairtk.experiment import environment, open_results
from fairtk.frames import DOCNO, LABEL, QID
from fairtk.io import read_parquet, write_parquet
from fairtk.report import Section, save_sections
from fairtk_papers.fair_rag.figures import (
    credit_text,
    plot_credit,
    plot_requests,
    plot_spread,
    plot_trade_off,
    spread_text,
    trade_off_text,
)
from fairtk_papers.fair_rag.labels import AGREEMENT
from fairtk_papers.fair_rag.settings import CITATIONS, RagSettings
from fairtk_papers.fair_rag.tables import (
    AE_D,
    CREDIT_MEASURES,
    DETERMINISTIC,
    EE_D,
    EE_R,
    EU,
    MODEL,
    NORMALIZED_EU,
    ORACLE,
    UNBIASED,
    credit_table,
    fairness_intervals,
    fitted_latex,
    mean_with_interval,
    paper_numbers,
    paper_tables,
    position_table,
    select,
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
FORMAT = 2
"""The format of saved results; raised when names or meanings of values change."""
_STATISTICS = ("queries", "documents", "documents std", "useful", "useful std", "percent useful")


def _with_interval(values: pd.Series[float]) -> str:
    mean, low, high = mean_with_interval(values.to_numpy(float))
    half = (high - low) / 2
    return number_text(mean, 3) + ("" if np.isnan(half) else f" +-{rounded_text(half, 3)}")


ANSWERS = [*MODEL, "alpha"]
"""The first columns of `RagResults.answer_status`."""


@dataclass(frozen=True)
class RagResults:
    """The results of a `RagStudy`.

    Attributes:
        values: one row per model, policy, query and measure: ``task``, ``retriever``,
            ``generator``, ``alpha`` (a number, ``"oracle"`` or ``"deterministic"``), ``qid``,
            ``measure`` (``EE_D``, ``EE_R``, ``nDCG``, the expected utility ``EU``, and
            ``normalized EU``, divided by the utility of the best single ranking), ``value``. A
            lower EE_D is more even exposure; for the other measures higher is better. EE_D of
            sampled policies is the unbiased estimate, which may be below 0 for a query and is NaN
            with one sample. With credit, there are also the measures of `credit_values`.
        sizes: ``task``, ``generator``, ``qid``, ``documents``, ``useful``.
        collections: one row per task and generator: the source of the labels, the numbers of
            queries and excluded queries, the statistics of Tables 13 to 15, and the agreement with
            published labels.
        notes: the parts that could not be run, each with a fix.
        settings: the settings of the study.
        licenses: the licenses of the data.
        environment: the versions of the software.
        agreement: the agreement between the labels of generators; see `label_agreement`.
        answer_status: the number of answers with each status (`fairtk.Results.answer_status`), one
            row per model and policy: ``task``, ``retriever``, ``generator``, ``alpha``, and a
            column per status.
    """

    values: pd.DataFrame
    sizes: pd.DataFrame
    collections: pd.DataFrame
    notes: list[str]
    settings: RagSettings
    licenses: list[str]
    environment: Mapping[str, Any] = field(default_factory=environment)
    agreement: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=AGREEMENT))
    answer_status: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=ANSWERS))

    @property
    def means(self) -> pd.DataFrame:
        """Means over the queries with a value, and their number: one row per model and policy."""
        return self._by_policy("mean")

    def means_with_intervals(self) -> pd.DataFrame:
        """Return `means` as strings with half of the 95 % t interval: ``0.712 +-0.045``.

        There is no interval if all queries have the same value, or only one has a value. Without a
        value, the mean is ``"undefined"``.
        """
        return self._by_policy(_with_interval)

    def _by_policy(self, aggregate: Any) -> pd.DataFrame:
        order = list(self.settings.systems)
        names = {alpha: name for name, alpha in self.settings.systems.items()}
        policy = pd.Categorical(self.values["alpha"].map(names), order, ordered=True)
        models = self.values[MODEL].drop_duplicates()
        rows = self.values.assign(policy=policy).groupby(
            [*MODEL, "policy", "measure"], observed=True
        )
        means = rows["value"].agg(aggregate).unstack("measure")
        means = means[[m for m in (*MEASURES, *CREDIT_MEASURES) if m in means.columns]]
        means["queries"] = rows[QID].nunique().unstack("measure").max(axis=1).astype(int)
        return models.merge(means.reset_index(), on=MODEL).astype({"policy": str})

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables by name.

        The tables are ``means``; ``fairness_intervals`` (Tables 1 and 6 to 12); ``trade_offs`` (3
        to 5); ``collections`` (13 to 15); ``uniform_end`` (the left end of the curves);
        ``label_agreement`` if at least two generators have labels of their own; ``answer_status``
        if the status of some answers is not ``ok``; ``credit`` and
        ``credit_by_place`` (by position in the prompt) if the study has credit.
        """
        cutoff = self.settings.cutoff
        tables = {
            "means": self.means,
            "fairness_intervals": fairness_intervals(self.values, self.sizes, cutoff=cutoff),
            "trade_offs": trade_offs(self.values, seed=self.settings.seed),
            "collections": self._collections(),
            "uniform_end": uniform_end(self.values, self.sizes, cutoff=cutoff),
        }
        if not self.agreement.empty:
            tables["label_agreement"] = self.agreement
        if self.answer_status.drop(columns=[*ANSWERS, "ok"], errors="ignore").to_numpy().any():
            tables["answer_status"] = self.answer_status
        if self.has_credit:
            tables["credit"] = credit_table(self.values)
            tables["credit_by_place"] = position_table(self.values)
        return tables

    @property
    def has_credit(self) -> bool:
        """Whether the study has credit."""
        return bool((self.values["measure"] == AE_D).any())

    def _collections(self) -> pd.DataFrame:
        """Return the statistics next to those in the paper."""
        table = self.collections.copy()
        printed = paper_numbers().set_index(["retriever", *MODEL[::2], "statistic"])["value"]
        for name in _STATISTICS:
            keys = table[["task", "generator"]].assign(statistic=name)  # of no retriever
            paper = printed[""].reindex(pd.MultiIndex.from_frame(keys)).to_numpy()
            table.insert(list(table.columns).index(name) + 1, f"{name}, paper", paper)
        return table

    # Files ------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write values, tables (CSV, Markdown, LaTeX), the paper's tables and the settings.

        Args:
            folder: the study's folder.

        Returns:
            The subfolder with the results of these settings.
        """
        results = Path(folder) / SETTINGS / self.settings.name
        results.mkdir(parents=True, exist_ok=True)
        write_parquet(self.values.assign(alpha=self.values["alpha"].map(str)),
                      results / "values.parquet")  # fmt: skip
        write_parquet(self.sizes, results / "sizes.parquet")
        tables = self.tables()
        write_tables(results, tables)
        in_paper_layout = paper_tables(tables["fairness_intervals"], tables["trade_offs"])
        write_tables(results, in_paper_layout, fitted_latex)
        facts = {
            "format": FORMAT,
            "settings": self.settings.as_json(),
            "notes": self.notes,
            "licenses": self.licenses,
            "collections": self.collections.to_dict("records"),
            "agreement": self.agreement.to_dict("records"),
            "answer_status": self.answer_status.to_dict("records"),
            "environment": dict(self.environment),
        }
        write_json(results / FACTS, facts)
        return results

    @staticmethod
    def load(folder: str | PathLike[str], setting: str | None = None) -> RagResults:
        """Read saved results.

        Args:
            folder: the study's folder.
            setting: the name of the settings; optional if the folder has only one.

        Raises:
            FormatError: the folder has no results, their format is unknown, or a file is damaged.
            NotFoundError: `setting` is unknown, or it is `None` and the folder has several.
        """
        names = saved_settings(folder)
        if not names:
            raise FormatError("expected results of fairtk rag, got no settings folder", folder)
        if setting is None and len(names) == 1:
            setting = names[0]
        if setting not in names:
            raise NotFoundError("setting", setting or "", names)
        results = Path(folder) / SETTINGS / str(setting)
        try:
            facts = json.loads((results / FACTS).read_text(encoding="utf-8"))
        except ValueError as error:
            raise FormatError(f"invalid JSON ({error})", results / FACTS) from None
        if facts.get("format") != FORMAT:
            raise FormatError(
                f"expected results of format {FORMAT}, got format {facts.get('format', 'none')}; "
                "run the study again, which reuses recorded answers",
                results / FACTS,
            )
        values = read_parquet(results / "values.parquet")[0]
        return RagResults(
            values=values.assign(alpha=values["alpha"].map(_alpha)),
            sizes=read_parquet(results / "sizes.parquet")[0],
            collections=pd.DataFrame(facts["collections"]),
            notes=facts["notes"],
            settings=RagSettings(**facts["settings"]),
            licenses=facts["licenses"],
            environment=facts["environment"],
            agreement=pd.DataFrame(facts.get("agreement", []), columns=AGREEMENT),
            answer_status=pd.DataFrame(facts.get("answer_status", [])),
        )


def model_folder(folder: str | PathLike[str], setting: str, model: tuple[str, ...]) -> Path:
    """Return the folder for rankings and answers of a model: (task, retriever, generator)."""
    name = "--".join(re.sub(r"[^\w.]+", "_", part) for part in model)
    return Path(folder) / SETTINGS / setting / "models" / name


def saved_settings(folder: str | PathLike[str]) -> list[str]:
    """Return the names of the settings with results in a study's folder."""
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
"""The horizontal and vertical measure and the title of Figures 4 and 5, by file name."""


def write_figures(results: RagResults, folder: Path) -> None:
    """Write the figures as SVG and PDF, Figure 7 only if the rankings are saved.

    Args:
        results: the results.
        folder: the folder that `RagResults.save` returns.
    """
    for by in ("retriever", "generator"):
        if by == "generator" and results.values["generator"].nunique() < 2:
            continue
        for name, (x, y, _) in TRADE_OFFS.items():
            figure = plot_trade_off(results.values, x, y, by=by, straight=(x, y) == (EE_D, EE_R))
            write_pictures(figure, folder, f"{name}_by_{by}", "svg", "pdf")
    _write_requests(results, folder)
    for task, part in results.values.groupby("task", sort=False):
        write_pictures(plot_spread(part), folder, f"spread_{task}", "svg", "pdf")
        if results.has_credit:
            write_pictures(plot_credit(part), folder, f"credit_{task}", "svg", "pdf")


def _write_requests(results: RagResults, folder: Path) -> None:
    """Write Figure 7 for the first query of each task whose rankings are saved."""
    settings, sizes = results.settings, results.sizes
    models = results.values.drop_duplicates("task")[MODEL]
    for model in models.itertuples(index=False, name=None):
        rankings = model_folder(folder.parents[1], settings.name, model)
        if not rankings.is_dir():
            continue
        saved, alpha = open_results(rankings), f"alpha {min(settings.alphas):g}"
        run = saved.rankings(alpha)
        run = run[run[QID] == run[QID].iloc[0]]
        qid, labels = run[QID].iloc[0], saved.qrels
        assert labels is not None  # the study saves its labels
        useful = labels[(labels[QID] == qid) & (labels[LABEL] > 0)][DOCNO]
        size = select(sizes, (model[0], model[2], qid), ["task", "generator", QID])
        figure = plot_requests(
            run, cutoff=settings.cutoff, candidates=size["documents"].iloc[0], useful=useful
        )
        title = f"{', '.join(model)}, {alpha}\n{figure.get_suptitle()}"
        figure.suptitle(title, fontsize=9)
        write_pictures(figure, folder, f"requests_{model[0]}", "svg", "pdf")


def save_model_sections(results: RagResults, folder: str | PathLike[str]) -> list[Path]:
    """Write the sections of each model's page, for ``fairtk report``.

    Args:
        results: the results.
        folder: the study's folder, with saved rankings.

    Returns:
        The folders of the models, each an argument for ``fairtk report``.
    """
    folders, tables = [], results.tables()
    for model in results.values[MODEL].drop_duplicates().itertuples(index=False, name=None):
        folders.append(model_folder(folder, results.settings.name, model))
        save_sections(folders[-1], _sections(results, model, tables))
    return folders


def _sections(
    results: RagResults, model: tuple[str, str, str], tables: Mapping[str, pd.DataFrame]
) -> Iterator[Section]:
    task, _, generator = model
    values = results.values
    retrievers = values[(values["task"] == task) & (values["generator"] == generator)]
    collection = select(tables["collections"], (task, generator), ["task", "generator"])
    facts = collection.iloc[0]
    yield Section(
        "Queries and labels",
        (
            f"Labels: {facts['labels']}. {facts['left out']} of {facts['looked at']} queries have "
            f"fewer than {results.settings.min_useful} useful documents and are excluded. A useful "
            "document improves this generator's answers; it is not necessarily useful to people.",
            *results.notes,
        ),
        _table(collection.drop(columns=["labels"])),
    )
    pairs = tables.get("label_agreement")
    if pairs is not None and len(pairs := pairs[pairs["task"] == task]):
        yield Section(
            "Labels of other generators",
            (
                "Labels depend on the generator. flipped: documents that are useful for only one "
                "of the two. Between two dtypes of one model, labels flip because of rounding: a "
                "label is the sign of a gain.",
            ),
            frame_table(pairs),
        )
    intervals = select(tables["fairness_intervals"], model)
    n_tests = int(intervals["p"].notna().sum())
    correction = f", not corrected for {n_tests} comparisons," if n_tests > 1 else ","
    yield Section(
        "Utility by level of exposure (Tables 1 and 6 to 12)",
        (
            "A point is one query at one alpha. The points are grouped by the normalized EE-D, the "
            f"unevenness of exposure. {UNBIASED} value: the mean normalized EU of the points minus "
            "that of the deterministic ranking. paired: the mean difference over queries, with its "
            "95 % "
            f"interval (low, high){correction} and its p-value after Holm's correction.",
        ),
        _table(intervals[["interval", "points", "queries", "baseline", "mean", "value", "paired",
                          "low", "high", "p_corrected", "note", "paper", "from paper"]]),
    )  # fmt: skip
    slopes = select(tables["trade_offs"], model)
    yield Section(
        "Slopes and areas of the trade-offs (Tables 3 to 5)",
        (
            "The paper does not say whether it fits lines to means or to points, so the table has "
            "both. covered: the share of the range 0 to 1 of x that the runs cover. The rest of "
            "an area is extrapolated. low, high: 95 % bootstrap intervals over queries, not "
            "corrected for the number of rows.",
        ),
        _table(slopes.drop(columns="queries")),
    )
    for x, y, title in TRADE_OFFS.values():
        yield Section(
            title.capitalize(),
            (UNBIASED,) if x == EE_D else (),
            figure=plot_trade_off(retrievers, x, y, straight=(x, y) == (EE_D, EE_R)),
            alternative=trade_off_text(retrievers, x, y, title),
        )
    yield Section(
        "Distribution over queries",
        figure=plot_spread(select(values, model)),
        alternative=spread_text(select(values, model)),
    )
    if results.has_credit:
        yield Section(
            "Credit and exposure",
            _credit_prose(results.settings.credit, len(select(tables["credit"], model))),
            _table(select(tables["credit"], model)),
            figure=plot_credit(select(values, model)),
            alternative=credit_text(select(values, model)),
        )
        yield Section(
            "Credit by position in the prompt",
            (
                "The share of a prompt's credit at each position. A larger alpha puts better "
                "documents first, so a difference between positions can also be a difference "
                "between documents. Intervals (95 %, Student's t) are not corrected for the number "
                "of rows.",
            ),
            _table(select(tables["credit_by_place"], model)),
        )
    yield Section(
        "The uniform end of the curves",
        (
            "Exact values of a uniform policy, which ignores scores, and the means at the "
            "smallest alpha.",
        ),
        _table(select(tables["uniform_end"], model)),
    )


def _credit_prose(method: str, n_rows: int) -> tuple[str, ...]:
    """Return the introduction of a credit table with `n_rows` rows."""
    definition = {
        "one-out": "the loss in the answer's utility if the document is left out",
        "shapley": "the mean gain in the answer's utility from adding the document, over all "
        "orders (exact Shapley values)",
        CITATIONS: "the sentences of the answer that cite the document",
    }[method]
    return (
        f"Credit of a document in a prompt: {definition}. value: the measure of credit; exposure: "
        "the same measure with equal credit for all documents of a prompt. AE_D and CreditGap of "
        "sampled rankings are unbiased estimates. They can be below 0 and require two rankings of "
        "a query with positive credit. low, high: the 95 % t interval of the difference, or of "
        "the value if exposure is empty (no interval if all queries have the same value), not "
        f"corrected for {n_rows} comparisons. undefined: the share of rankings without positive "
        "credit, which are excluded. below 0: the share of documents with negative credit, which "
        "counts as 0. The dashed line in the figure is an "
        "equal share.",
        "Credit measures how much the utility of this generator's answers depends on each "
        "document. It does not measure causes in the world, authorship or copyright.",
    )


def _table(frame: pd.DataFrame) -> Table:
    rest = frame.drop(columns=[c for c in (*MODEL, "table") if c in frame.columns])
    # columns with the paper's numbers are empty for other models
    return frame_table(rest.loc[:, rest.notna().any().to_numpy()])
