"""Slopes and areas of a study, the paper's numbers, and the uniform end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fairtk_papers.fair_rag.tables import (
    paper_numbers,
    paper_tables,
    sizes,
    trade_offs,
    uniform_end,
)
from values_of_models import ALPHAS, sizes_of, study

from fairtk import EE_D, EE_R

QUICK = {"resamples": 20}


def test_slopes_and_areas():
    table = trade_offs(study(), **QUICK)
    assert len(table) == 3 * 2 * 4  # trade-offs, models, statistics
    one = study()
    one = one[(one["retriever"] == "BM25") & one["alpha"].isin(ALPHAS)]
    wide = one.pivot(index=["alpha", "qid"], columns="measure", values="value")
    found = table[(table["retriever"] == "BM25") & (table["table"] == 5)].set_index("statistic")
    slope = np.polyfit(wide["EE_D"], wide["normalized EU"], 1)[0]
    assert found.loc["slope of points", "value"] == pytest.approx(slope)
    means = wide.groupby("alpha").mean()
    steps = np.interp([0, *means["EE_D"], 1], means["EE_D"], means["normalized EU"])
    area = np.trapezoid(steps, [0, *means["EE_D"], 1])
    assert found.loc["area of means", "value"] == pytest.approx(area)
    assert found["covered"].iloc[0] == pytest.approx(np.ptp(means["EE_D"]))
    assert (found["queries"] == 40).all()
    assert ((found["low"] <= found["value"]) & (found["value"] <= found["high"])).all()


def test_beside_the_paper():
    table = trade_offs(study(), **QUICK)
    row = table[(table["table"] == 3) & (table["generator"] == "flan-t5-base")].set_index(
        "statistic"
    )
    # Table 3, LaMP-4, Contriever, FlanT5Base: 0.1837 / 0.4303
    assert row["paper"].tolist() == [0.1837, 0.1837, 0.4303, 0.4303]
    np.testing.assert_allclose(row["from paper"], row["value"] - row["paper"])


def test_rows_may_come_in_any_order():
    values = study()
    table = trade_offs(values, **QUICK)
    mixed = trade_offs(values.sample(frac=1, random_state=3), **QUICK)
    keys = ["table", "retriever", "statistic"]
    pd.testing.assert_frame_equal(
        table.sort_values(keys, ignore_index=True), mixed.sort_values(keys, ignore_index=True)
    )
    repeated = values.set_index(np.zeros(len(values), dtype=int))  # as pd.concat leaves it
    pd.testing.assert_frame_equal(trade_offs(repeated, **QUICK), table)
    rows_left = values.drop(values[(values["qid"] == "q03") & (values["alpha"] == 2)].index)
    assert (trade_offs(rows_left, **QUICK)["queries"] == 40).all()


@pytest.mark.parametrize(
    ("n", "m"), [(50, 15), (20, 3), (20, 5), (20, 1), (8, 8), (4, 2), (4, 4), (3, 1), (6, 5)]
)
def test_the_uniform_end_is_what_the_measures_say(n, m):
    """Every document at each rank once: the exact exposure of a uniform policy."""
    docs = [f"d{i}" for i in range(n)]
    run = pd.DataFrame(
        [("q", docs[(i + s) % n], float(n - i), i, s) for s in range(n) for i in range(n)],
        columns=["qid", "docno", "score", "rank", "sample"],
    )
    qrels = pd.DataFrame({"qid": "q", "docno": docs, "label": [int(i < m) for i in range(n)]})
    found = {}
    for name, measure in (("EE_R", EE_R @ 5), ("EE_D", EE_D @ 5)):
        columns = {"qid": "query_id", "docno": "doc_id"}
        inputs = qrels.rename(columns=columns).rename(columns={"label": "relevance"})
        found[name] = measure.calc_aggregate(inputs, run.rename(columns=columns))
    values = pd.DataFrame(
        [("t", "r", "g", 0, "q", name, value) for name, value in found.items()],
        columns=["task", "retriever", "generator", "alpha", "qid", "measure", "value"],
    )
    row = uniform_end(values, sizes(qrels, "t", "g"), cutoff=5).iloc[0]
    assert row["uniform EE_R"] == pytest.approx(row["EE_R"])
    assert row["uniform EE_D"] == pytest.approx(row["EE_D"])
    assert row["share of useful"] == pytest.approx(m / n)
    if m > 5:  # the paper's reading
        assert row["uniform EE_R"] == pytest.approx(m / n)


def test_the_uniform_end_of_a_study():
    values = study()
    table = uniform_end(values, sizes_of(values), cutoff=5)
    assert table["alpha"].tolist() == [1, 1] and table["queries"].tolist() == [40, 40]
    assert table["uniform EE_R"].tolist() == pytest.approx([0.3, 0.3])
    assert table["uniform EE_D"].tolist() == pytest.approx([0.1, 0.1])
    nothing = uniform_end(values, sizes_of(values, useful=0), cutoff=5)
    assert nothing["queries"].tolist() == [0, 0] and nothing["uniform EE_R"].isna().all()


def test_the_papers_numbers():
    numbers = paper_numbers()
    assert len(numbers) == 882
    assert numbers["value"].notna().all()
    keys = ["table", "task", "retriever", "generator", "statistic"]
    assert not numbers.duplicated(keys).any()
    per_table = numbers.groupby("table").size()
    # 7 tasks x 9 models x 2; 9 models x (baseline and 5 intervals); 7 tasks x 6
    assert per_table.tolist() == [126] * 3 + [54] * 7 + [42] * 3
    at = numbers.set_index(keys)["value"]
    assert at[3, "LaMP-7", "Contriever", "flan-t5-xxl", "area"] == 0.4885
    assert at[4, "LaMP-7", "SPLADE", "flan-t5-xxl", "slope"] == -0.0623
    assert at[5, "LaMP-1", "SPLADE", "flan-t5-base", "area"] == 0.6644
    assert at[6, "LaMP-1", "SPLADE", "flan-t5-xxl", "[0.2, 0.4)"] == -0.16
    assert at[12, "LaMP-7", "BM25", "flan-t5-base", "[0.4, 0.6)"] == -0.11
    # queries left after filtering, over all tasks and generators
    assert numbers.loc[numbers["statistic"] == "queries", "value"].sum() == 9593
    # no area can be outside of [0, 1], nor a share beyond 100
    assert numbers.loc[numbers["statistic"] == "area", "value"].between(0, 1).all()
    assert numbers["value"].abs().max() < 1000
    numbers["value"] = 0.0
    assert paper_numbers()["value"].any()  # a copy each


def test_laid_out_as_the_papers_tables():
    """Table 3: retrievers within generators; 4 and 5: generators within retrievers."""
    slopes = pd.DataFrame(
        [
            [number, task, retriever, generator, statistic, value]
            for number, task in ((3, "LaMP-4"), (3, "LaMP-2"), (5, "LaMP-4"))
            for place, generator in enumerate(("small", "base"))
            for retriever in ("BM25", "SPLADE")
            if (task, generator, retriever) != ("LaMP-2", "base", "SPLADE")
            for statistic, value in zip(
                ("slope of points", "slope of means", "area of means", "area of points"),
                (0.12344 + place, 7, 0.5, 7) if retriever == "BM25" else (-1e-7, 7, np.nan, 7),
                strict=True,
            )
        ],
        columns=["table", "task", "retriever", "generator", "statistic", "value"],
    ).assign(covered=0.5)
    none = pd.DataFrame(columns=["task", "retriever", "generator"])
    tables = paper_tables(none, slopes)
    assert list(tables) == ["table_3", "table_5"]
    first, second = "0.1234 / 0.5000", "1.1234 / 0.5000"
    flat = ">-0.0001 / undefined"
    assert tables["table_3"].columns == ["Task", "small", "", "base", ""]
    assert tables["table_3"].rows == [
        ["", "BM25", "SPLADE", "BM25", "SPLADE"],
        ["LaMP-4", first, flat, second, flat],
        ["LaMP-2", first, flat, second, ""],
    ]
    assert tables["table_5"].columns == ["Task", "BM25", "", "SPLADE", ""]
    assert tables["table_5"].rows == [
        ["", "small", "base", "small", "base"],
        ["LaMP-4", first, second, flat, flat],
    ]
    caption = "Slope / AUC of normalized EU against disparity (EE-D) (Table 5 of Towards Fair RAG)"
    assert tables["table_5"].caption.startswith(caption)
