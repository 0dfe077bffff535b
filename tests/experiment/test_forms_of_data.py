"""Each function of runs and labels has the same result for each form of them."""

from functools import cache

import pandas as pd
import pyarrow as pa
import pytest
from ir_measures import Qrel, ScoredDoc

import fairtk
from fairtk import FairSampler, Groups
from fairtk.credit import providers
from fairtk.io import write_qrels, write_run

RUN = pd.DataFrame(
    [(q, f"d{i}", 9.0 - i) for q in ("q1", "q2", "q3") for i in range(6)],
    columns=["qid", "docno", "score"],
)
QRELS = pd.DataFrame(
    [(q, f"d{i}", 1) for q in ("q1", "q2", "q3") for i in (0, 3)], columns=["qid", "docno", "label"]
)
GROUPS = pd.DataFrame({"docno": [f"d{i}" for i in range(6)], "group": list("ababab")})
SAMPLED = FairSampler(n_samples=5, seed=1)(RUN)
THEIRS = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}


def dicts(frame):
    value = frame.columns[2]
    by_query = frame.groupby("qid", sort=False)
    return {qid: dict(zip(own["docno"], own[value], strict=True)) for qid, own in by_query}


def tuples(frame):
    rows = frame.itertuples(index=False, name=None)
    if "label" in frame:
        return [Qrel(*row, "0") for row in rows]
    return [ScoredDoc(*row) for row in rows]


def polars_frame(frame):
    return pytest.importorskip("polars").from_arrow(pa.table(frame))


def relation(frame):
    return pytest.importorskip("duckdb").arrow(pa.table(frame))


FORMS = {
    "dicts": dicts,
    "named tuples": tuples,
    "iterators": lambda frame: iter(tuples(frame)),
    "ir_measures' names": lambda frame: frame.rename(columns=THEIRS),
    "Arrow": pa.table,
    "polars": polars_frame,
    "DuckDB": relation,
    "file": None,
}
FUNCTIONS = {
    "evaluate": lambda qrels, run: fairtk.evaluate(qrels, run, ["EE_D@5", "nDCG@5"]).means,
    "evaluate, several": lambda qrels, run: fairtk.evaluate(qrels, [run, SAMPLED], "EE_D@5").means,
    "evaluate, no labels": lambda qrels, run: fairtk.evaluate(None, run, "EE_D@5").means,
    "compare": lambda qrels, run: fairtk.compare(qrels, {"a": run, "b": SAMPLED}, "EE_D@5").means,
    "explain": lambda qrels, run: fairtk.explain(qrels, run, "EE_L@5").queries,
    "explain, one query": lambda q, run: fairtk.explain(q, run, "EE_L@5", qid="q2").queries,
    "doctor": lambda qrels, run: fairtk.doctor(qrels, run).table,
    "precision": lambda qrels, run: fairtk.precision(qrels, SAMPLED, "EE_D@3").means,
    "coverage": lambda qrels, run: Groups.from_frame(GROUPS).coverage(run),
    "providers": lambda qrels, run: providers(qrels, run, GROUPS, resamples=2).table,
    "Experiment": lambda qrels, run: fairtk.Experiment([run], None, qrels, ["EE_D@5"]).means,
}
NOT_ACCEPTED = {("file", "Experiment"), ("ir_measures' names", "Experiment")}
CASES = [(form, name) for form in FORMS for name in FUNCTIONS if (form, name) not in NOT_ACCEPTED]


@cache
def of_frames(name):
    return FUNCTIONS[name](QRELS, RUN)


@pytest.mark.parametrize(("form", "name"), CASES, ids=map(", ".join, CASES))
@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
def test_each_form_has_the_same_result(form, name, tmp_path):
    if form == "file":
        write_qrels(QRELS, tmp_path / "qrels.txt")
        write_run(RUN, tmp_path / "a.run")
        qrels, run = tmp_path / "qrels.txt", tmp_path / "a.run"
    else:
        qrels, run = FORMS[form](QRELS), FORMS[form](RUN)
    result = FUNCTIONS[name](qrels, run)
    # names of systems and files differ
    assert result.to_numpy().tolist() == of_frames(name).to_numpy().tolist()
