"""What a writer writes, its reader returns; otherwise the writer refuses it and writes no file."""

import csv
import inspect
import io
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from api_exports import exports
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import fairtk
from fairtk.display import Table, csv_text
from fairtk.errors import DataWarning, InputError
from fairtk.frames import Run
from fairtk.groups import Groups, Target
from fairtk.io.tables import is_missing
from fairtk.report import Section, load_sections, save_sections

TRAPS = [
    *("nan", "None", "NA", "null", "", " ", " a", "a ", "1", "1.0", "[1]", '["a"]', '["a", "b"]'),
    *("a\tb", "a\nb", "a\r\nb", "a\rb", '"', '"a', 'a"b', "a,b", "'", "\\n", "\\", "\\ud800", "{}"),
    *(
        "\ufeffa",
        "\u2028",
        "\x85",
        "\0",
        "\x1f",
        "é",
        "𝒳",
        "\ud800",
        "# fairtk: {}",
        "a\tb\n1\t2\t3",
    ),
    *("PAR1", '{"a":1}', "qid", "qid,docno,a", "label", "Q0", "id", "group", "-", "0", "#"),
]
TEXT = st.one_of(st.sampled_from(TRAPS), st.text(max_size=6))
ANSWER = st.one_of(TEXT, st.sampled_from([None, float("nan"), pd.NA, 3, 1.5, ["a"]]))
GOLD = st.one_of(TEXT, st.lists(TEXT, max_size=3), st.sampled_from([None, float("nan"), 3]))
NUMBER = st.one_of(st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False))
VALUE = st.one_of(TEXT, NUMBER, st.booleans(), st.sampled_from([None, float("nan"), ["a", "b"]]))
IDS = st.lists(TEXT, min_size=1, max_size=3, unique=True)
NAMES = st.one_of(st.sampled_from(["note", "text", "rel", "2020", "a b"]), st.text(max_size=6))


def column(draw, values, n):
    return pd.Series([draw(values) for _ in range(n)], dtype=object)


def objects(columns):
    """Return a frame whose texts may have unpaired surrogates."""
    return pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in columns.items()})


@st.composite
def answers(draw):
    """Return a frame of answers."""
    qids = draw(IDS)
    n = len(qids)
    frame = objects({"qid": qids}).assign(qanswer=column(draw, ANSWER, n))
    if draw(st.booleans()):
        frame["sample"] = range(n)
    if draw(st.booleans()):
        frame["gold_answer"] = column(draw, GOLD, n)
    return frame


@st.composite
def qrels(draw):
    """Return qrels with other columns."""
    rows = [(q, d) for q in draw(IDS) for d in draw(IDS)]
    frame = objects({"qid": [q for q, _ in rows], "docno": [d for _, d in rows]})
    frame["label"] = [draw(NUMBER) for _ in rows]
    if draw(st.booleans()):
        frame["gold_answer"] = column(draw, GOLD, len(rows))
    if draw(st.booleans()):
        name = draw(NAMES)
        if name not in frame.columns:
            frame.insert(draw(st.integers(0, 3)), name, column(draw, VALUE, len(rows)))
    return frame


@st.composite
def runs(draw):
    """Return a run, sampled or not, with ties."""
    samples = [0, 2] if draw(st.booleans()) else [None]
    rows = [(q, d, s) for q in draw(IDS) for s in samples for d in draw(IDS)]
    qids, docnos, sample = zip(*rows, strict=True)
    frame = objects({"qid": qids, "docno": docnos}).assign(sample=sample)
    frame["score"] = [draw(st.one_of(st.sampled_from([0.0, 1.0]), NUMBER)) for _ in rows]
    return frame if samples[0] == 0 else frame.drop(columns="sample")


@st.composite
def any_frames(draw):
    """Return a frame with any columns."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3))
    n = draw(st.integers(0, 3))
    values = [column(draw, draw(st.sampled_from([VALUE, TEXT, GOLD, NUMBER])), n) for _ in names]
    frame = pd.concat(values, axis=1)
    frame.columns = pd.Index(names, dtype=object)
    return frame


@st.composite
def groups(draw):
    """Return groups with weights."""
    docnos, levels = draw(IDS), draw(IDS)
    name, unknown = draw(NAMES), draw(st.sampled_from([None, levels[0]]))
    rows = [(d, g, draw(st.integers(1, 3))) for d in docnos for g in levels]
    docno, group, weight = zip(*rows, strict=True)
    frame = objects({"docno": docno, "group": group}).assign(weight=weight)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # labels that seem to be several
            return Groups.from_frame(frame, name, unknown=unknown, unknown_values=())
    except InputError:
        reject()


@st.composite
def targets(draw):
    """Return a target, for each query or for all."""
    levels, qids, name = draw(IDS), draw(IDS), draw(NAMES)
    qids = qids if draw(st.booleans()) else qids[:1]
    columns = {"qid": [q for q in qids for _ in levels], name: levels * len(qids)}
    frame = objects(columns).assign(weight=1 / len(levels))
    if draw(st.booleans()):
        frame = frame[frame["qid"] == qids[0]].drop(columns="qid")
    try:
        return Target.from_frame(frame)
    except InputError:
        reject()


@st.composite
def sections(draw):
    """Return sections of a report."""
    table = st.lists(st.tuples(TEXT, TEXT), max_size=2)
    return [
        Section(
            draw(TEXT),
            tuple(draw(st.lists(TEXT, max_size=2))),
            Table(["a", "b"], [list(row) for row in draw(table)], draw(TEXT), draw(TEXT)),
        )
    ]


def plain(value):
    """Return a value as it is compared: a list of one text is the text."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if is_missing(value) else value


def records(frame, text=()):
    """Return the rows as dicts; values of some columns as text."""
    return [
        {name: str(v) if name in text else plain(v) for name, v in row.items()}
        for row in frame.to_dict("records")
    ]


def tables_as(suffix, known):
    """Return a function of a frame: its rows as the format keeps them."""
    is_text = suffix.removesuffix(".gz") in (".tsv", ".csv")

    def rows(frame):
        others = [c for c in frame.columns if c not in known]
        texts = {"qid", "docno", "qanswer"}.intersection(frame.columns)
        frame = frame.assign(**{c: frame[c].astype(str) for c in texts})
        return sorted(map(repr, (sorted(r.items()) for r in records(frame, others * is_text))))

    return rows


def rankings(frame):
    """Return what a run ranks: docnos and scores of each ranking."""
    run = Run(frame, "test")
    sample = run.ranking_sample[run.ranking].tolist() if run.sampled else [None] * len(run.doc)
    qids, docnos = run.qids[run.query].tolist(), run.docnos[run.doc].tolist()
    scores = pd.Series(frame["score"].astype(float)).to_numpy()[run.order].tolist()
    return sorted(zip(qids, sample, range(len(qids)), docnos, scores, strict=True), key=repr)


def pages(frame):
    """Return what a list of TREC Fair Ranking ranks: docnos of each ranking."""
    return [(q, s, d) for q, s, _, d, _ in rankings(frame)]


def write_csv(text, path):
    """Write a text whose surrogates the writer must have refused, as any file would."""
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def read_saved(path):
    """Read as PyTerrier does, from an open file."""
    with path.open("rb") as stream:
        return fairtk.io.save_format[0](stream)


def read_csv(path):
    """Return the rows after the header."""
    text = path.read_bytes().decode("utf-8", "surrogatepass")
    return [*map(tuple, csv.reader(io.StringIO(text, newline="")))][1:]


@dataclass
class Pair:
    """A writer and its reader."""

    values: Any
    write: Callable
    read: Callable
    suffixes: tuple[str, ...]
    same: Callable = lambda suffix: lambda value: value
    """A function of the suffix that returns what is compared of a value."""


LABELS, TEXTS = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet"), (".tsv", ".csv.gz")
QRELS = {"qid", "docno", "label", "gold_answer"}
PAIRS = {
    "fairtk.io.write_answers": Pair(
        answers(),
        fairtk.io.write_answers,
        fairtk.io.read_answers,
        (*LABELS, ".csv"),
        lambda suffix: tables_as(suffix, {"qid", "qanswer", "gold_answer", "sample"}),
    ),
    "fairtk.io.write_answers (gold)": Pair(
        answers().map(lambda f: f.assign(gold_answer=f["qanswer"], qanswer="a")),
        fairtk.io.write_answers,
        fairtk.io.read_gold_answers,
        (*LABELS, ".csv"),
        lambda suffix: lambda f: tables_as(suffix, QRELS)(f[["qid", "gold_answer"]]),
    ),
    "fairtk.io.write_qrels": Pair(
        qrels(),
        fairtk.io.write_qrels,
        fairtk.io.read_qrels,
        LABELS,
        lambda suffix: tables_as(suffix, QRELS),
    ),
    "fairtk.io.write_qrels (TREC)": Pair(
        qrels().map(lambda f: f[["qid", "docno", "label"]]),
        fairtk.io.write_qrels,
        fairtk.io.read_qrels,
        (".txt", ".txt.gz"),
        lambda suffix: tables_as(suffix, QRELS),
    ),
    "fairtk.io.write_run": Pair(
        runs(),
        fairtk.io.write_run,
        fairtk.io.read_run,
        (".txt", ".txt.gz", ".parquet"),
        lambda suffix: rankings,
    ),
    "fairtk.io.write_run (tag)": Pair(
        TEXT,
        lambda tag, path: fairtk.io.write_run(pd.DataFrame(ONE_ROW), path, tag),
        lambda path: fairtk.io.read_run(path).empty or path.read_text("utf-8").split(" ")[5][:-1],
        (".txt",),
    ),
    "fairtk.io.write_task_run": Pair(
        runs(),
        fairtk.io.write_task_run,
        fairtk.io.read_run,
        (".tsv", ".tsv.gz"),
        lambda suffix: pages,
    ),
    "fairtk.io.write_parquet": Pair(
        any_frames(),
        fairtk.io.write_parquet,
        lambda path: fairtk.io.read_parquet(path)[0],
        (".parquet",),
        lambda suffix: lambda frame: ([*frame.columns], records(frame)),
    ),
    "fairtk.io.save_format": Pair(
        any_frames(),
        fairtk.io.save_format[1],
        read_saved,
        (".parquet",),
        lambda suffix: lambda frame: ([*frame.columns], records(frame)),
    ),
    "fairtk.Groups.write": Pair(
        groups(),
        Groups.write,
        Groups.read,
        (".tsv", ".csv.gz", ".parquet"),
        lambda suffix: lambda g: (g.name, list(g.levels), records(g.to_frame())),
    ),
    "fairtk.Target.write": Pair(
        targets(),
        Target.write,
        Target.read,
        (".tsv", ".csv.gz", ".parquet"),
        lambda suffix: lambda target: records(target.to_frame()),
    ),
    "fairtk.report.save_sections": Pair(
        sections(),
        lambda value, path: (path.mkdir(), save_sections(path, value)),
        load_sections,
        ("",),
    ),
    "fairtk.display.csv_text": Pair(
        st.lists(st.tuples(TEXT, TEXT), max_size=3),
        lambda rows, path: write_csv(csv_text(["a", "b"], rows), path),
        read_csv,
        (".csv",),
    ),
}
ONE_ROW = {"qid": ["q"], "docno": ["d"], "score": [1.0]}
WRITERS = re.compile(r"(write|save|dump)(_|$)")
ELSEWHERE = {
    # tested with their own objects; their values come from files that fairtk read
    "fairtk.Results.save": "tests/experiment/test_saved_again.py",
    "fairtk.Results.to_trec": "tests/experiment/test_formats.py",
    "fairtk.batch.Batches.write": "tests/batch/test_batches.py",
    "fairtk.datasets.lamp.write_folder": "tests/datasets/test_lamp_dataset.py",
    # no reader: for people, or for other programs
    "fairtk.display.write_figure": "",
    "fairtk.report.write_report": "",
    "fairtk_papers.fair_qr.QrResults.save": "",
    "fairtk_papers.fair_rag.RagResults.save": "",
    "fairtk_papers.fair_rag.save_model_sections": "",
}
CASES = [(name, suffix) for name, pair in PAIRS.items() for suffix in pair.suffixes]


def round_trip(pair, suffix, value):
    """Write and read a value; return whether the writer accepts it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"file{suffix}"
        try:
            pair.write(value, path)
        except InputError:
            assert not path.is_file()
            return False
        same = pair.same(suffix)
        assert same(pair.read(path)) == same(value)
        return True


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_a_reader_returns_what_was_written(name, suffix):
    pair = PAIRS[name]

    @settings(max_examples=6, deadline=None, database=None)
    @given(pair.values)
    def check(value):
        round_trip(pair, suffix, value)

    check()


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_a_reader_returns_what_was_written_thoroughly(name, suffix):
    pair = PAIRS[name]

    @settings(max_examples=400, deadline=None, database=None)
    @given(pair.values)
    def check(value):
        round_trip(pair, suffix, value)

    check()


def writers():
    """Yield the exported functions and the methods of exported classes that write."""
    for name, value in exports().items():
        if WRITERS.match(name.rpartition(".")[2]):
            yield name
        if inspect.isclass(value):
            own = [n for n in vars(value) if WRITERS.match(n)]
            yield from (f"{name}.{method}" for method in own)


@pytest.mark.skipif(not Path("docs/api.txt").exists(), reason="the list is in the sources only")
def test_each_writer_is_tested():
    tested = {name.partition(" (")[0] for name in PAIRS} | ELSEWHERE.keys()
    assert sorted({*writers()} - tested) == []
    unknown = ELSEWHERE.keys() - {*writers()} - {"fairtk.Results.to_trec"}
    assert sorted(name for name in unknown if find_spec(name.partition(".")[0])) == []
    files = {file for file in ELSEWHERE.values() if file}
    assert [file for file in files if not (Path(__file__).parents[2] / file).exists()] == []


ORDINARY = ["nan", "None", "NA", "", "1", "a\tb", "a\nb", "a\r\nb", 'a "b"', "é 𝒳", "[1]"]
"""Texts that every format of answers must hold."""


@pytest.mark.parametrize("suffix", PAIRS["fairtk.io.write_answers"].suffixes)
def test_ordinary_texts_are_written(suffix):
    qids = [f"q{i}" for i in range(len(ORDINARY))]
    frame = pd.DataFrame({"qid": qids, "qanswer": ORDINARY, "gold_answer": ORDINARY})
    frame["gold_answer"] = pd.Series([["a", "b"], *ORDINARY[1:]], dtype=object)
    assert round_trip(PAIRS["fairtk.io.write_answers"], suffix, frame)
    assert round_trip(PAIRS["fairtk.io.write_answers (gold)"], suffix, frame)
    labeled = frame[["qid", "gold_answer"]].assign(docno="d", label=1)
    assert suffix == ".csv" or round_trip(PAIRS["fairtk.io.write_qrels"], suffix, labeled)


@pytest.mark.parametrize("suffix", LABELS)
@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_answer_is_refused(tmp_path, suffix, missing):
    path = tmp_path / f"file{suffix}"
    frame = pd.DataFrame({"qid": ["q1", "q2"], "qanswer": ["a", missing]})
    with pytest.raises(InputError, match="qanswer.*'q2'"):
        fairtk.io.write_answers(frame, path)
    labels = frame.assign(docno="d", label=1, gold_answer=frame["qanswer"])
    with pytest.raises(InputError, match="gold_answer.*'q2'"):
        fairtk.io.write_qrels(labels.drop(columns="qanswer"), path)
    assert not path.exists()


@pytest.mark.parametrize(("name", "known"), [("sim", "score"), ("rel", "label"), ("pid", "docno")])
def test_a_column_that_would_get_another_name_is_refused(tmp_path, name, known):
    frame = pd.DataFrame({"qid": ["q"], "docno": ["d"], "label": [1], "score": [1.0], name: [2]})
    with pytest.raises(InputError, match=f"'{name}'.*'{known}'"):
        fairtk.io.write_qrels(frame.drop(columns="score"), tmp_path / "qrels.tsv")
    with pytest.raises(InputError, match=f"'{name}'.*'{known}'"):
        fairtk.io.write_run(frame.drop(columns="label"), tmp_path / "run.parquet")


def test_an_answer_that_looks_like_a_list_stays_a_text(tmp_path):
    frame = pd.DataFrame({"qid": ["q"], "qanswer": ['["a"]']})
    for suffix in LABELS:
        fairtk.io.write_answers(frame, tmp_path / f"answers{suffix}")
        assert fairtk.io.read_answers(tmp_path / f"answers{suffix}")["qanswer"][0] == '["a"]'


def test_parquet_returns_lists_as_lists(tmp_path):
    frame = pd.DataFrame({"qid": ["a", "b", "c"], "gold_answer": [["x"], None, ["y", "z"]]})
    fairtk.io.write_parquet(frame, tmp_path / "file.parquet")
    values = fairtk.io.read_parquet(tmp_path / "file.parquet")[0]["gold_answer"].tolist()
    assert values == [["x"], None, ["y", "z"]]
