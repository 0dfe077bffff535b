"""Credit beside exposure in the study: its values, its prompts, and what ends and resumes it."""

import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
import rag_world
from fairtk_papers.fair_rag import (
    RagConfiguration,
    RagResults,
    RagSettings,
    plot_credit,
)
from fairtk_papers.fair_rag.credit import credit_values, list_subsets
from fairtk_papers.fair_rag.figures import credit_text
from fairtk_papers.fair_rag.tables import credit_table, position_table

from fairtk import Candidates, Generator, prompts
from fairtk.display import write_figure
from fairtk.errors import DataWarning, ParameterError
from fairtk.experiment import open_results


def frame(rows):
    return pd.DataFrame(rows, columns=["qid", "sample", "docno", "rank", "credit"])


QRELS = pd.DataFrame(
    {"qid": ["q1"] * 4 + ["q2"] * 2, "docno": list("abcdef"), "label": [1, 0, 0, 1, 1, 0]}
)
CREDIT = frame(
    [
        ("q1", 0, "a", 0, 3.0), ("q1", 0, "b", 1, 1.0),
        ("q1", 1, "a", 0, -1.0), ("q1", 1, "c", 1, 2.0),
        ("q1", 2, "d", 0, 0.0), ("q1", 2, "b", 1, 0.0),
        ("q2", 0, "e", 0, np.nan), ("q2", 0, "f", 1, np.nan),
        ("q2", 1, "e", 0, np.nan), ("q2", 1, "f", 1, np.nan),
    ]
)  # fmt: skip


def values_of(by_alpha, qrels=QRELS):
    values = credit_values(by_alpha, qrels, 2)
    return values.assign(task="t", retriever="r", generator="g")


def test_values_by_hand():
    values = values_of({1.0: CREDIT}).set_index(["qid", "measure"])["value"]
    one = values["q1"]
    # shares: a 3/4, b 1/4; then c 1, for a's -1 counts as 0; the third ranking is left out
    # from two rankings the unbiased square is their inner product: no document has credit in both
    assert one["AE_D"] == pytest.approx(0, abs=1e-12)
    assert one["AE_D of exposure"] == pytest.approx(0.5 * 0.5)  # a is in both
    # useful are a and d, the target of each is 1/2: AE_R is the credit that they have
    assert one["AE_R"] == pytest.approx(0.375) and one["AE_R of exposure"] == pytest.approx(0.5)
    # credit minus exposure: a 1/4, b -1/4; then a -1/2, c 1/2
    assert one["CreditGap"] == pytest.approx(-1 / 8)
    assert one["credit sum"] == pytest.approx((4 + 1 + 0) / 3)
    assert one["credit undefined"] == pytest.approx(1 / 3)
    assert one["credit below 0"] == pytest.approx(1 / 6)
    assert one["credit at place 1"] == pytest.approx((0.75 + 0) / 2)
    assert one["credit at place 2"] == pytest.approx((0.25 + 1) / 2)
    assert np.isnan(values["q2", "AE_D"]) and values["q2", "credit undefined"] == 1
    assert np.isnan(values["q2", "credit sum"])


def test_tables_pair_credit_with_exposure():
    other = CREDIT[CREDIT["qid"] == "q1"].assign(qid="q2", credit=1.0)
    values = values_of(
        {1.0: pd.concat([CREDIT[CREDIT["qid"] == "q1"], other])},
        pd.concat([QRELS[:4], QRELS[:4].assign(qid="q2")]),
    )
    table = credit_table(values).set_index("measure")
    # q2: credit is exposure, so that the difference is 0 there
    difference = 0 - 0.25
    row = table.loc["AE_D"]
    assert row["difference"] == pytest.approx(difference / 2) and row["queries"] == 2
    # t interval of two differences d and 0: d / 2 -+ t(.975, 1 df) |d| / 2
    assert row["high"] - row["low"] == pytest.approx(12.7062 * abs(difference), rel=1e-4)
    assert table.loc["CreditGap", "value"] == pytest.approx(-1 / 16)
    assert table["undefined"].tolist() == pytest.approx([1 / 6] * 4)
    places = position_table(values)
    assert places["place"].tolist() == [1, 2] and places["value"].sum() == pytest.approx(1)


def test_a_query_without_any_credit_is_drawn_and_said(tmp_path):
    fixed = CREDIT[CREDIT["sample"] == 0]  # the policy of the deterministic run: 9/16 + 1/16
    values = values_of({0.0: CREDIT, "deterministic": fixed})
    figure = plot_credit(values)
    limits = [axes.get_ylim() for axes in figure.axes if axes.get_visible()]
    assert all(low == 0 and high <= 1.03 for low, high in limits)  # of shares
    write_figure(figure, tmp_path / "credit.png")
    assert (tmp_path / "credit.png").stat().st_size > 10_000
    words = credit_text(values)
    assert "alpha 0: 0.250, 0.000" in words and "deterministic: 0.500, 0.625" in words


def test_lists_that_differ_are_asked_once():
    lists = list_subsets([("q", ("a", "b")), ("q", ("b", "a")), ("r", ("a",))], "shapley")
    expected = {("q", ()), ("q", ("a",)), ("q", ("b",)), ("q", ("a", "b")), ("q", ("b", "a"))}
    assert lists == expected | {("r", ()), ("r", ("a",))}
    one_out = list_subsets([("q", ("a", "b", "c"))], "one-out")
    assert {part for _, part in one_out} == {
        *(("a", "b", "c"), ("a", "b"), ("a", "c"), ("b", "c")),
    }


def test_settings_of_credit(tmp_path):
    assert RagSettings(credit="none").name == RagSettings().name
    assert RagSettings(credit="one-out").name != RagSettings().name
    with pytest.raises(ParameterError):
        RagSettings(credit="shapely")
    with pytest.raises(ParameterError, match="256.*'one-out'"):
        RagSettings(credit="shapley", cutoff=9)
    with pytest.raises(ParameterError, match=r"n_samples=1.*n_samples=10"):
        RagSettings(credit="citations", n_samples=1)
    path = tmp_path / "study.toml"
    path.write_text('datasets = ["lamp/4/dev"]\ncredit = "shapley"\n', encoding="utf-8")
    assert RagConfiguration.read(path).settings.credit == "shapley"


# ------------------------------------------------------------------------------------- the study


def n_answers(folder):
    with closing(sqlite3.connect(folder / "experiment.sqlite")) as store:
        return store.execute("SELECT COUNT(*) FROM answers").fetchone()[0]


@pytest.mark.slow
@pytest.mark.parametrize("maker", ["one-out", "shapley"])
def test_a_study_with_credit(finished_rag, tmp_path, maker):
    shutil.copytree(finished_rag, tmp_path, dirs_exist_ok=True)
    before = n_answers(tmp_path)
    own = rag_world.study(tmp_path, credit=maker)
    rows = own.plan().rows.set_index("retriever")
    lists = {"one-out": 6, "shapley": 32}[maker]
    assert rows.loc["BM25, credit", "rankings"] == 3 * (2 * 3 + 1) * lists
    planned = rows.loc["BM25, credit", "prompts"]
    assert own.plan().total["prompts"] == planned
    results = own.run(keep_rankings=True)
    assert n_answers(tmp_path) - before == planned  # nothing twice, and nothing unforeseen
    assert own.plan().total["prompts"] == 0
    status = own.status()
    assert status["stage"].str.contains("BM25, credit, alpha 8").sum() == 1
    assert status["missing"].sum() == 0
    assert {"AE_D", "AE_R", "CreditGap"} <= set(results.means.columns)
    assert results.means.set_index("policy").loc["oracle", ["AE_D"]].isna().all()
    if maker == "shapley":  # efficiency: credit adds up to what all documents gain
        labels = own.label(own.tasks[0], own.generator(own.tasks[0], "tiny")).gains
        nothing = labels.baseline.set_index("qid")["utility"]
        for alpha, part in results.values.groupby("alpha"):
            wide = part.pivot(index="qid", columns="measure", values="value")
            if alpha != "oracle":
                gain = wide["EU"] - nothing[wide.index]
                assert wide["credit sum"].tolist() == pytest.approx(gain.tolist())
    place = results.save(tmp_path)
    assert (place / "tables" / "credit_by_place.csv").exists()
    assert (
        RagResults.load(tmp_path, own.settings.name)
        .tables()["credit"]
        .equals(results.tables()["credit"])
    )
    [saved] = place.glob("models/*")
    assert open_results(saved).credit("alpha 8")["sample"].nunique() == 3


class Citing:
    """A model that cites the second document."""

    name = "citing"

    def generate(self, prompts):
        return ["So it is [2]." for _ in prompts]

    def digest(self):
        return self.name


def test_citations_are_read_from_the_answers_and_ask_nothing(tmp_path):
    generator = Generator(Citing(), prompts.get("lamp-2"), 5)
    own = rag_world.study(tmp_path, make=lambda task, cutoff: generator, credit="citations")
    [task] = own.tasks
    candidates = Candidates(task.dataset)(task.topics[:3])
    qrels = candidates[["qid", "docno"]].assign(label=1, gold_answer="x")
    own.experiment(task, "BM25", generator, qrels)
    before = n_answers(tmp_path)
    answers = own.credited(task, "BM25", generator, qrels)
    assert answers.systems == ["alpha 0", "alpha 8", "deterministic"]
    for name in answers.systems:
        rows = answers.rankings(name)
        assert rows["credit"].tolist() == (rows["rank"] == 1).astype(float).tolist()
    assert n_answers(tmp_path) == before


@pytest.mark.slow
def test_answers_without_citations_have_no_credit(finished_rag, tmp_path):
    shutil.copytree(finished_rag, tmp_path, dirs_exist_ok=True)
    with pytest.warns(DataWarning):
        results = rag_world.study(tmp_path, credit="citations").run()
    table = results.tables()["credit"]
    assert table["value"].isna().all() and (table["undefined"] == 1).all()
