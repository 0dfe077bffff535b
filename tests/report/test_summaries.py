"""Printed results: systems by measures in 80 columns, and what to know below."""

import pandas as pd
import pytest

import fairtk
from fairtk.display.tables import text_width
from fairtk.errors import DataWarning

MEASURES = [
    "EE_D@5", "EE_R@5", "EE_L@5", "E(measure='nDCG@5')", "P@5", "AP",
    "EE_D(browsing='RBP(p=0.8)',estimator='unbiased',bounds='exact',n='judged+retrieved')@100",
]  # fmt: skip
QRELS = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d1", "d1"], "label": [1, 1]})
RUN = pd.DataFrame(
    [("q1", "d1", 2.0), ("q1", "d2", 1.0), ("q2", "d2", 2.0)], columns=["qid", "docno", "score"]
)


def printed(names, measures=MEASURES, qrels=QRELS):
    with pytest.warns():  # of short rankings
        return fairtk.evaluate(qrels, dict.fromkeys(names, RUN), measures)


@pytest.mark.parametrize(
    "names",
    [
        ["a"],
        ["bm25", "fair"],
        [f"system {i} " * 12 for i in range(3)],
        ["x" * 200],
        ["日本語" * 50],
    ],
    ids=["one", "two", "words", "long", "wide"],
)
@pytest.mark.parametrize("n_measures", [1, 4, 7])
def test_results_fit_into_80_columns(names, n_measures):
    results = printed(names, MEASURES[:n_measures])
    text = repr(results)
    assert max(map(text_width, text.splitlines())) <= 80
    # a row per system, with the values of each measure
    mean = results.means["EE_D@5"].iloc[0]
    assert text.count(f"  {mean:.4f}") >= len(names)
    assert "n = 2 queries" in text


def test_first_the_values_then_n_and_remarks():
    """EE_R@1 is 1 for q1 and 0 for q2; q3 has no useful document."""
    qrels = pd.concat([QRELS, pd.DataFrame({"qid": ["q3"], "docno": ["d1"], "label": [0]})])
    results = printed(["one"], ["EE_R@1"], qrels)
    head, _, row, *below = repr(results).splitlines()
    assert head.split() == ["system", "EE_R@1"] and row.split() == ["one", "0.5000", "(2/3)"]
    below = " ".join(below)
    assert 0 <= below.index("n = 3 queries") < below.index("missing")
    html = results._repr_html_()
    assert "0.5000 (2/3)" in html and html.index("</table>") < html.index("n = 3 queries")
    long = results.counts  # a row per system and measure
    assert long[["system", "measure", "mean", "n"]].to_numpy().tolist() == [
        ["one", "EE_R@1", 0.5, 2]
    ]


def test_systems_without_measures_or_with_failures():
    topics = pd.DataFrame({"qid": ["q1", "q2"], "query": ["a", "b"]})
    assert repr(fairtk.Experiment({"one": RUN}, topics)).splitlines()[2] == "one"

    class Fails(fairtk.transformers.FairTransformer):
        def transform(self, inp):
            if "q1" in set(inp["qid"]):
                raise ValueError("no answer")
            return inp.assign(docno="d1", score=1.0, rank=0)

    with pytest.warns(DataWarning):
        failed = fairtk.Experiment({"one": Fails()}, topics, QRELS, ["EE_R@1"], batch_size=1)
    head, _, row, *below = repr(failed).splitlines()
    assert head.split() == ["system", "EE_R@1", "failed"] and row.split() == ["one", "0.5000", "1"]
    assert "Failed queries" in " ".join(below)
