"""A measure that compares groups of queries has no values of queries, whatever reports them."""

import warnings

import ir_measures
import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from ir_measures import RR

import fairtk
from fairtk import ByGroup, E, Groups
from fairtk.cli.group import cli

QIDS = ["q1", "q2", "q3"]
QRELS = pd.DataFrame({"qid": QIDS, "docno": "a", "label": 1})
TOPICS = pd.DataFrame({"qid": QIDS, "query": "words"})
# RR of a: 1/2, 1 and 0; means: short (q1 and q2) 3/4, long 0; their difference is 3/4
RUN = pd.DataFrame(
    {
        "qid": ["q1", "q1", "q2", "q3"],
        "docno": ["b", "a", "a", "b"],
        "score": [2.0, 1.0, 1.0, 1.0],
        "rank": [0, 1, 0, 0],
    }
)
KINDS = pd.DataFrame({"docno": QIDS, "group": ["short", "short", "long"]})
OF_QUERIES = ByGroup(RR, Groups.from_frame(KINDS, name="kinds"), by="query")
MEASURES = {"plain": OF_QUERIES, "expected": E(OF_QUERIES)}


def of_results(results):
    values = results.per_query
    return values.loc[values["measure"].str.contains("ByGroup"), "value"]


def loaded(measure, folder):
    results = fairtk.evaluate(QRELS, RUN, [measure])
    results.save(folder)
    assert fairtk.Results.load(folder).counts["n"].tolist() == [3]
    return of_results(fairtk.Results.load(folder))


CALLS = {
    "evaluate": lambda m, f: of_results(fairtk.evaluate(QRELS, RUN, [m, RR])),
    "compare": lambda m, f: of_results(fairtk.compare(QRELS, {"a": RUN, "b": RUN}, [m])),
    "Experiment": lambda m, f: of_results(fairtk.Experiment({"a": RUN}, TOPICS, QRELS, [m])),
    "per_sample": lambda m, f: fairtk.evaluate(QRELS, RUN, [m]).per_sample["value"],
    "loaded": loaded,
    "ir_measures": lambda m, f: pd.Series(
        [
            one.value
            for one in ir_measures.iter_calc([m], *map(pt.model.to_ir_measures, (QRELS, RUN)))
        ]
    ),
    "pt.Experiment": lambda m, f: pt.Experiment([RUN], TOPICS, QRELS, [m], perquery=True)["value"],
}


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_only_the_mean_has_a_value(call, measure, tmp_path):
    values = call(measure, tmp_path)
    assert len(values) >= 3 and values.isna().all()


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_the_mean_is_the_comparison(measure):
    results = fairtk.evaluate(QRELS, RUN, [measure, RR])
    assert results.means.iloc[0].tolist() == [0.75, 0.5]
    assert results.counts["n"].tolist() == [3, 3] and results.undefined.empty
    assert results.per_query["value"].dropna().tolist() == [0.5, 1.0, 0.0]  # of RR
    with warnings.catch_warnings(action="ignore", category=fairtk.errors.UndefinedWarning):
        table = fairtk.compare(QRELS, {"a": RUN, "b": RUN}, [measure]).table
    assert table["mean"].tolist() == [0.75, 0.75] and table["p"].isna().all()
    assert "<svg" in results._repr_html_()


def test_the_command_prints_no_value_of_a_query(tmp_path):
    fairtk.io.write_qrels(QRELS, tmp_path / "q.txt")
    fairtk.io.write_run(RUN, tmp_path / "a.run")
    KINDS.to_csv(tmp_path / "kinds.tsv", sep="\t", index=False)
    words = ["evaluate", str(tmp_path / "q.txt"), str(tmp_path / "a.run"), "-m"]
    words += ["ByGroup(RR, groups='kinds', by='query')", "-g", str(tmp_path / "kinds.tsv")]
    result = CliRunner().invoke(cli, [*words, "--per-query", "--format", "csv"])
    assert result.exit_code == 0, result.output
    assert [line.rpartition(",")[2] for line in result.stdout.splitlines()[1:]] == ["nan"] * 3
