"""Cells of groups: several groups, unknown groups, and remarks on labels that may be wrong."""

import re
import warnings
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from api_exports import parameters
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import fairtk
from fairtk import AWRF, EU, Groups, Target, credit
from fairtk.errors import DataWarning, DuplicateError, FormatError, InputError, ParameterError
from fairtk.groups.cells import SPELLINGS
from fairtk.io.formats import GroupFile
from fairtk.remarks import KINDS, SEVERAL_GROUPS, SIMILAR_GROUPS, UNKNOWN_SPELLINGS

DOCNOS = ["d1", "d2", "d3", "d4", "d5"]
CELLS = dict(zip(DOCNOS, [["x", "y"], ["x"], ["y"], [], ["y", "z"]], strict=True))
RUN = pd.DataFrame(
    [(qid, docno, -float(rank)) for qid in ("q1", "q2") for rank, docno in enumerate(DOCNOS)],
    columns=["qid", "docno", "score"],
)
QRELS = RUN[["qid", "docno"]].assign(label=[1, 0, 1, 0, 1, 0, 1, 1, 0, 0])
ANSWERS = RUN.assign(qanswer="bread", sample=0, rank=-RUN["score"].astype(int))
LONG = pd.DataFrame(
    [(docno, group) for docno, cell in CELLS.items() for group in cell or [None]],
    columns=["docno", "group"],
)
TEXTS = ["|".join(cell) for cell in CELLS.values()]
FRAME = pd.DataFrame({"docno": list(CELLS), "group": pd.Series([*CELLS.values()], dtype=object)})


def of_type(kind):
    return FRAME.assign(group=[kind(cell) for cell in FRAME["group"]])


def of_arrow():
    column = pa.array(list(CELLS.values()), pa.list_(pa.string()))
    return pa.table({"docno": list(CELLS), "group": column})


def file_of_texts(folder):
    rows = "".join(f"{docno}\t{text}\n" for docno, text in zip(CELLS, TEXTS, strict=True))
    path = folder / "group.tsv"
    path.write_text("docno\tgroup\n" + rows, encoding="utf-8")
    return GroupFile(path, "|", None)


def file_of_lists(folder):
    path = folder / "group.parquet"
    FRAME.to_parquet(path)
    return path


FORMS = {
    "lists": lambda folder: of_type(list),
    "tuples": lambda folder: of_type(tuple),
    "sets": lambda folder: of_type(set),
    "frozen sets": lambda folder: of_type(frozenset),
    "arrays": lambda folder: of_type(np.array),
    "Arrow": lambda folder: of_arrow(),
    "Arrow in pandas": lambda folder: of_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda folder: pytest.importorskip("polars").DataFrame(of_arrow()),
    "DuckDB": lambda folder: pytest.importorskip("duckdb").arrow(of_arrow()),
    "a dict": lambda folder: CELLS,
    "texts in a frame": lambda folder: Groups.from_frame(FRAME.assign(group=TEXTS), separator="|"),
    "texts in a file": file_of_texts,
    "lists in a file": file_of_lists,
}


def named(source):
    """Return the argument for parameters that accept a dict of attributes."""
    return {"group": source} if isinstance(source, dict) else [source]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A folder with the results of an experiment."""
    import pyterrier as pt

    folder = tmp_path_factory.mktemp("cells") / "store"
    topics = pd.DataFrame({"qid": ["q1", "q2"], "query": ["a", "b"]})
    fairtk.Experiment({"a": pt.Transformer.from_df(RUN)}, topics, save_dir=folder)
    return folder


def gain(source):
    """Return the gain of the queries d1 to d5."""
    topics = {"qid": DOCNOS, "gold_answer": ["bread", "milk", "bread", "bread", "milk"]}
    run = pd.DataFrame({"qid": DOCNOS, "docno": "d", "score": 1.0, "qanswer": "bread"})
    without = pd.DataFrame({"qid": DOCNOS, "qanswer": "milk"})
    qrels = pd.DataFrame(topics).assign(docno="d", label=1)
    result = credit.query_gain(qrels, run, without, source, EU(utility="em"), resamples=20)
    return result.table


def exported(source, folder, store):
    output = folder / "export"
    measured = {"qrels": QRELS, "measures": ["AWRF@2"], "target": "uniform"}
    fairtk.experiment.export(store, output, groups=named(source), **measured)
    return pd.read_parquet(output / "values.parquet")


def order_audit(source):
    import pyterrier as pt

    last = len(DOCNOS) - 1
    turned = pt.apply.generic(lambda run: run.assign(score=-run["score"], rank=last - run["rank"]))
    run = RUN.assign(query="a", rank=-RUN["score"].astype(int))
    return credit.order_audit(turned, run, 3, groups=source, resamples=9).preferences


ENTRIES = {
    "fairtk.coverage groups": lambda s, *_: fairtk.coverage(s, RUN),
    "fairtk.doctor groups": lambda s, *_: fairtk.doctor(
        QRELS, RUN, groups=named(s), target="uniform", cutoff=2
    ).table[["check", "text"]],
    "fairtk.evaluate groups": lambda s, *_: (
        fairtk.evaluate(QRELS, RUN, ["AWRF@2"], groups=named(s), target="uniform").per_query
    ),
    "fairtk.credit.order_audit groups": lambda s, *_: order_audit(s),
    "fairtk.explain groups": lambda s, *_: fairtk.explain(
        QRELS, RUN, AWRF @ 2, groups=s, target="uniform"
    ).to_frame(),
    "fairtk.frontier groups": lambda s, *_: (
        fairtk.frontier(
            QRELS,
            {"a": RUN},
            "AWRF@2",
            alphas=[1, 2],
            groups=named(s),
            target="uniform",
            resamples=20,
        ).curve
    ),
    "fairtk.sensitivity groups": lambda s, *_: (
        fairtk.sensitivity(
            QRELS, {"a": RUN, "b": RUN[::2]}, "AWRF@2", groups=named(s), target="uniform"
        ).table
    ),
    "fairtk.credit.providers providers": lambda s, *_: (
        credit.providers(QRELS, RUN, s, cutoff=2, resamples=20).table
    ),
    "fairtk.credit.query_gain groups": lambda s, *_: gain(s),
    "fairtk.experiment.export groups": exported,
    "fairtk.experiment.open_results groups": lambda s, folder, store: (
        fairtk.experiment.open_results(
            store, QRELS, ["AWRF@2"], groups=named(s), target="uniform"
        ).per_query
    ),
}
"""A call with groups or providers per parameter; it gets the groups and two folders."""


def test_each_parameter_for_groups_has_a_call():
    accepted = parameters(re.compile(r"^Any|Sequence\[Any\]|DataFrame"))
    of_groups = {name for name in accepted if name.endswith((" groups", " providers"))}
    assert of_groups - {"fairtk.demo.DemoData groups"} == {*ENTRIES}


@cache
def of_long_form(entry, folder, store):
    return ENTRIES[entry](Groups.from_frame(LONG), folder, store)


# one of each kind, a cell, a mapping, a frame of another library and a file, at every entry: all
# forms are the same groups
CASES = {
    *product(ENTRIES, ("lists", "a dict", "polars", "texts in a file")),
    *product(["fairtk.evaluate groups"], FORMS),
}


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
@pytest.mark.parametrize(("entry", "form"), sorted(CASES))
def test_all_forms_of_several_groups_have_the_same_values(entry, form, tmp_path, store):
    expected = of_long_form(entry, store.parent / "long", store)
    assert_frame_equal(ENTRIES[entry](FORMS[form](tmp_path), tmp_path, store), expected)


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_several_groups_are_the_same_groups(form, tmp_path):
    assert Groups.of(FORMS[form](tmp_path)) == Groups.from_frame(LONG)


labels = st.sampled_from(["x", "y", "z", "Unknown", "n/a"])


@given(st.lists(st.lists(labels, unique=True), min_size=1, max_size=6), st.booleans(), st.data())
def test_cells_are_the_long_form(cells, decided, data):
    docnos = [f"d{row}" for row in range(len(cells))]
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(cells), max_size=len(cells)))
    frame = pd.DataFrame({"docno": docnos, "weight": weights})
    lists = frame.assign(group=pd.Series(cells, dtype=object))
    long = lists.explode("group", ignore_index=True)
    settings = {"unknown_values": ["unknown", "N/A"] if decided else ()}
    if decided:  # a document is unknown once
        unknown = long["group"].isna() | long["group"].isin(["Unknown", "n/a"])
        long = long.assign(group=long["group"].mask(unknown, "@UNKNOWN")).drop_duplicates()
    expected = Groups.from_frame(long, unknown_values=())
    assert Groups.from_frame(lists, **settings) == expected
    for separator in ("|", "; "):
        texts = frame.assign(group=[separator.join(cell) for cell in cells])
        assert Groups.from_frame(texts, separator=separator, **settings) == expected
    texts = frame.assign(group=[str(cell) for cell in cells])
    assert Groups.from_frame(texts, separator="|", **settings) == expected


def awrf(groups, docno):
    run = pd.DataFrame({"qid": ["q"], "docno": [docno], "score": [1.0]})
    qrels = pd.DataFrame({"qid": ["q"], "docno": [docno], "label": [1]})
    measure = AWRF(groups=groups, target=Target.uniform(groups)) @ 1
    return measure.calc_aggregate(qrels, run)


def test_awrf_of_a_document_with_two_groups():
    frame = pd.DataFrame({"docno": ["d1", "d2", "d3"], "group": ["x;y", "x", "y"]})
    # The attention (1/2, 1/2) is the target: 1.
    assert awrf(Groups.from_frame(frame, separator=";"), "d1") == pytest.approx(1)
    # As three groups: (1, 0, 0) and (1/3, 1/3, 1/3) have the mean (2/3, 1/6, 1/6). The divergence
    # is (ln(3/2) + (1/3) ln(1/2) + (2/3) ln(2)) / 2 = (.405465 + .231049) / 2 = .318257.
    with pytest.warns(DataWarning):
        groups = Groups.from_frame(frame)
    assert awrf(groups, "d1") == pytest.approx(1 - 0.318257, abs=1e-6)


def test_awrf_with_unknown_groups():
    frame = pd.DataFrame({"docno": ["d1", "d2", "d3"], "group": ["x", "y", "N/A"]})
    # (1, 0) and (1/2, 1/2) have the mean (3/4, 1/4). The divergence is
    # (ln(4/3) + (1/2) ln(2/3) + (1/2) ln(2)) / 2 = (.287682 - .202733 + .346574) / 2 = .215762.
    groups = Groups.from_frame(frame, unknown_values=["n/a"])
    assert awrf(groups, "d1") == pytest.approx(1 - 0.215762, abs=1e-6)
    # As a third group, with the divergence of the test above.
    groups = Groups.from_frame(frame, unknown_values=())
    assert awrf(groups, "d1") == pytest.approx(1 - 0.318257, abs=1e-6)


def kinds(caught):
    """Return the kinds of remarks that were emitted as warnings."""
    texts = {KINDS[kind].template.partition(" (")[0]: kind for kind in KINDS}
    return [texts[str(warning.message).partition(" (")[0]] for warning in caught]


def remarks(labels, **settings):
    docnos = [f"d{row}" for row in range(len(labels))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Groups.from_frame(pd.DataFrame({"docno": docnos, "group": labels}), **settings)
    assert {warning.category for warning in caught} <= {DataWarning}
    assert {warning.filename for warning in caught} <= {__file__}
    return kinds(caught)


@pytest.mark.parametrize("spelling", sorted(SPELLINGS))
@pytest.mark.parametrize("change", [str, str.upper, str.title, " {} ".format, "\t{}".format])
def test_spellings_of_unknown_are_remarked(spelling, change):
    labels = ["x", "y", change(spelling)]
    assert remarks(labels) == [UNKNOWN_SPELLINGS]
    assert remarks(labels, unknown_values=()) == []
    assert remarks(labels, unknown_values=[spelling]) == []
    assert remarks(labels, levels=labels) == []
    assert remarks(labels, unknown=change(spelling)) == []


@pytest.mark.parametrize(
    "labels",
    [
        *([f"x{sign}y", "x", "y"] for sign in ";|,/&+:\t\n"),
        ["x, Y", "y", "X"],
        ["x;y;z", "x", "y", "z"],
        ["['x', 'y']", "['x']"],
        ["['x' 'y']"],
        ['["x", "y"]'],
        ["('x', 'y')"],
        ["{'x', 'y'}"],
        ["[x, y]"],
    ],
)
def test_several_groups_in_a_label_are_remarked(labels):
    assert remarks(labels) == [SEVERAL_GROUPS]
    assert remarks(labels, levels=labels) == []


@pytest.mark.parametrize("labels", [["A", "a"], ["a", "a "], ["new york", "New  York"]])
def test_similar_labels_are_remarked(labels):
    assert remarks(labels) == [SIMILAR_GROUPS]
    assert remarks(labels, levels=labels) == []


@pytest.mark.parametrize(
    "labels",
    [
        ["Trinidad; Tobago", "Trinidad", "Chile"],
        ["Smith, John", "Smith, Anna", "John"],
        ["n/a/b", "unknown artist", "nano"],
        ["AC/DC", "[deleted]", "(x)", "a;"],
        [1, 2, 12],
    ],
)
def test_other_labels_have_no_remark(labels):
    assert remarks(labels) == []


def test_a_name_with_a_separator_is_one_group():
    frame = pd.DataFrame({"docno": ["a", "b"], "group": ["Trinidad; Tobago", "Trinidad"]})
    assert list(Groups.from_frame(frame).levels) == ["Trinidad", "Trinidad; Tobago"]


def test_written_groups_are_read_without_a_remark(tmp_path):
    frame = pd.DataFrame({"docno": ["a", "b", "c"], "group": ["Trinidad", "trinidad", "None"]})
    with pytest.warns(DataWarning):
        groups = Groups.from_frame(frame, unknown_values=())
    groups.write(tmp_path / "group.tsv")
    assert Groups.read(tmp_path / "group.tsv") == groups


@pytest.mark.parametrize("cell", [{"x": 1}, ["x", ["y"]], [{"x"}]])
def test_cells_without_groups_are_refused(cell):
    frame = pd.DataFrame({"docno": ["d1", "d2"], "group": pd.Series([["x"], cell], dtype=object)})
    with pytest.raises(InputError, match="'d2'"):
        Groups.from_frame(frame)


def test_errors_name_the_row_of_the_cell(tmp_path):
    cells = pd.Series([["x", "y"], ["x"], ["z", "x"]], dtype=object)
    frame = pd.DataFrame({"docno": ["d1", "d2", "d2"], "group": cells})
    with pytest.raises(DuplicateError, match="'d2'"):
        Groups.from_frame(frame)
    (tmp_path / "a.tsv").write_text("docno\tgroup\nd1\tx|y\nd2\tx\nd2\tz|x\n")
    with pytest.raises(FormatError, match="first in line 3") as caught:
        Groups.read(tmp_path / "a.tsv", separator="|")
    assert caught.value.line == 4
    with pytest.raises(InputError, match="'z'.*'d2'"):
        Groups.from_frame(frame[:1].assign(docno="d2", group=[["x", "z"]]), levels=["x"])
    with pytest.raises(InputError, match="'d1'"):
        Groups.from_frame(LONG[:1].assign(group="n/a"), unknown=None, unknown_values=["n/a"])


@pytest.mark.parametrize("settings", [{"separator": ""}, {"separator": 1}, {"unknown_values": [1]}])
def test_settings_of_cells_are_checked(settings):
    with pytest.raises(ParameterError, match=next(iter(settings))):
        Groups.from_frame(LONG, **settings)
