"""Files as they are found: each is read, or refused with the file, the line and what to do."""

import codecs
import gzip
import json
import re

import pandas as pd
import pytest
from click.testing import CliRunner

from fairtk.cli.group import cli
from fairtk.errors import DataWarning, FormatError
from fairtk.io import read_qrels, read_run

RUN = [("q1", "a", 3.0), ("q1", "b", 2.0), ("q2", "c", 1.5)]
LABELS = [("q1", "a", 2), ("q2", "c", 1)]
TREC = "q1 Q0 a 1 3.0 t\nq1 Q0 b 2 2.0 t\nq2 Q0 c 1 1.5 t\n"
NAMED = "qid\tdocno\tscore\nq1\ta\t3.0\nq1\tb\t2.0\nq2\tc\t1.5\n"
MARCO = "q1\ta\t1\nq1\tb\t2\nq2\tc\t1\n"
COLBERT = "q1\ta\t1\t3.0\nq1\tb\t2\t2.0\nq2\tc\t1\t1.5\n"
TREC_LABELS = "q1 0 a 2\nq2 0 c 1\n"
BEIR = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq2\tc\t1\n"
RANX = json.dumps({"q1": {"a": 3.0, "b": 2.0}, "q2": {"c": 1.5}})
RANX_LABELS = json.dumps({"q1": {"a": 2}, "q2": {"c": 1}}, indent=1)


def parquet(rows, columns):
    def write(path):
        pd.DataFrame(rows, columns=columns).to_parquet(path)

    return write


BEIR_PARQUET = parquet(LABELS, ["query-id", "corpus-id", "score"])

# the name of the form, the file's name, its content, the format to give, and a word of the message
RUNS_READ = [
    ("TREC, six columns", "a.run", TREC, None),
    ("TREC, five columns", "a.run", TREC.replace(" t\n", "\n"), None),
    ("TREC with tabs", "a.run", TREC.replace(" ", "\t"), None),
    ("TREC, gzipped", "a.run.gz", gzip.compress(TREC.encode()), None),
    ("TREC, gzipped without the suffix", "a.run", gzip.compress(TREC.encode()), None),
    ("TREC with a byte order mark", "a.run", codecs.BOM_UTF8 + TREC.encode(), None),
    ("TREC with CRLF", "a.run", TREC.replace("\n", "\r\n"), None),
    ("TREC with blank lines and spaces", "a.run", "\n" + TREC.replace(" ", "   ") + "\n\n", None),
    ("TREC without the last line end", "a.run", TREC.rstrip("\n"), None),
    ("TREC by name", "a.run", TREC, "trec"),
    ("TSV with a header", "a.tsv", NAMED, None),
    ("CSV with a header", "a.csv", NAMED.replace("\t", ","), None),
    ("TSV with quotes", "a.tsv", re.sub(r"\b([abc])\b", r'"\1"', NAMED), None),
    ("TSV with ir_measures' names", "a.tsv", "query_id\tdoc_id" + NAMED[9:], None),
    ("MS MARCO", "a.tsv", MARCO, "msmarco"),
    ("MS MARCO with a header", "a.tsv", "qid\tdocno\trank\n" + MARCO, "msmarco"),
    ("ColBERT", "a.tsv", COLBERT, "msmarco"),
    ("ranx JSON", "a.json", RANX, "json"),
    ("ranx JSON in several lines", "a.json", json.dumps(json.loads(RANX), indent=2), "json"),
    (
        "JSON lines",
        "a.jsonl",
        "".join(
            json.dumps(dict(zip(("qid", "docno", "score"), row, strict=True))) + "\n" for row in RUN
        ),
        None,
    ),
    ("Parquet", "a.parquet", parquet(RUN, ["qid", "docno", "score"]), None),
    ("Parquet without the suffix", "a", parquet(RUN, ["qid", "docno", "score"]), None),
]
QRELS_READ = [
    ("TREC labels", "q.txt", TREC_LABELS, None),
    ("TREC labels with tabs", "q.txt", TREC_LABELS.replace(" ", "\t"), None),
    ("TREC labels with CRLF", "q.txt", TREC_LABELS.replace("\n", "\r\n"), None),
    ("labels without the iteration", "q.txt", TREC_LABELS.replace(" 0 ", " "), "trec"),
    ("labels with a decimal point", "q.txt", TREC_LABELS.replace("2\n", "2.0\n"), None),
    ("BEIR", "q.tsv", BEIR, None),
    ("BEIR by name", "q.tsv", BEIR, "beir"),
    ("BEIR without its header", "q.tsv", BEIR.partition("\n")[2], "beir"),
    ("BEIR as Parquet", "q.parquet", BEIR_PARQUET, None),
    ("ranx JSON labels", "q.json", RANX_LABELS, "json"),
    ("Parquet labels", "q.parquet", parquet(LABELS, ["qid", "docno", "label"]), "parquet"),
]
READER = {"run": read_run, "qrels": read_qrels}
REFUSED = [
    ("MS MARCO unnamed", "run", "a.tsv", MARCO, 1, "format='msmarco'"),
    ("ColBERT unnamed", "run", "a.tsv", COLBERT, 1, "format='msmarco'"),
    ("MS MARCO with a header, unnamed", "run", "a.tsv", "qid\tdocno\trank\n" + MARCO, 1, "msmarco"),
    ("labels without the iteration", "run", "a.txt", "q1 a 1\n", 1, "read_qrels"),
    ("labels without the iteration, unnamed", "qrels", "q.txt", "q1 a 1\n", 1, "format='trec'"),
    ("TREC Fair, Task 1, without its header", "run", "a.tsv", "4\t30\n", 1, "format='trec-fair'"),
    ("TREC Fair, Task 2, without its header", "run", "a.tsv", "4\t1\t3\n", 1, "format='trec-fair'"),
    ("MS MARCO as labels", "qrels", "a.tsv", MARCO, 1, "format='msmarco'"),
    ("ColBERT as labels", "qrels", "a.tsv", COLBERT, 1, "format='msmarco'"),
    ("ranx JSON unnamed", "run", "a.json", RANX, 1, "read_run(..., format='json')"),
    (
        "ranx JSON labels unnamed",
        "qrels",
        "q.json",
        RANX_LABELS,
        1,
        "read_qrels(..., format='json'",
    ),
    ("BEIR labels as a run", "run", "q.tsv", BEIR, 1, "format='beir'"),
    ("TREC labels as a run", "run", "q.txt", TREC_LABELS, 1, "qrels come first"),
    ("a TREC run as labels", "qrels", "a.run", TREC, 1, "qrels come first"),
    ("UTF-16", "run", "a.run", TREC.encode("utf-16"), 1, "iconv"),
    ("Latin-1", "run", "a.run", "q1 Q0 é 1 3 t\n".encode("latin-1"), 1, "iconv"),
    ("the header twice", "run", "a.tsv", NAMED + NAMED, 5, "concatenated"),
    ("ids with spaces", "run", "a.run", TREC.replace(" b ", " b c "), 2, "6 columns"),
    ("a byte order mark within", "run", "a.run", TREC + "\ufeff" + TREC, 4, "concatenated"),
    ("a stray quote", "run", "a.tsv", NAMED.replace("b\t", '"b\t'), 3, "quote the whole field"),
    ("a broken last line", "run", "a.run", TREC[:-7], 3, "6 columns"),
    ("not Parquet", "run", "a.parquet", TREC, None, "Parquet"),
    ("another label for a document", "qrels", "q.tsv", BEIR + "q1\ta\t0\n", 4, "line 2"),
]


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("form", "name", "content", "format"), RUNS_READ, ids=[case[0] for case in RUNS_READ]
)
def test_runs_are_read(write, form, name, content, format):
    run = read_run(write(name, content), format=format)
    assert [*zip(run["qid"], run["docno"], strict=True)] == [row[:2] for row in RUN]
    assert run["rank"].tolist() == [0, 1, 0]
    # a run of MS MARCO has no scores
    ranks = [-1.0, -2.0, -1.0] if form.startswith("MS MARCO") else [row[2] for row in RUN]
    assert run["score"].tolist() == ranks


@pytest.mark.parametrize(
    ("form", "name", "content", "format"), QRELS_READ, ids=[case[0] for case in QRELS_READ]
)
def test_labels_are_read(write, form, name, content, format):
    labels = read_qrels(write(name, content), format=format)
    assert [*labels.itertuples(index=False, name=None)] == LABELS


@pytest.mark.parametrize(
    ("form", "what", "name", "content", "line", "remedy"),
    REFUSED,
    ids=[case[0] for case in REFUSED],
)
def test_others_are_refused(write, form, what, name, content, line, remedy):
    path = write(name, content)
    with pytest.raises(FormatError, match=re.escape(remedy)) as error:
        READER[what](path)
    assert (error.value.path, error.value.line) == (path, line)


def test_labels_are_not_read_as_ranks(write):
    path = write("a.tsv", "1\ta\t1\n1\tb\t1\n")
    with pytest.raises(FormatError, match="duplicate rank") as error:
        read_run(path, format="msmarco")
    assert error.value.line == 2


def test_equal_rows_of_labels_are_counted(write):
    repeated = write("q.tsv", BEIR + "q1\ta\t2\n")
    with pytest.warns(DataWarning, match=r"line 4.*\(1\)"):
        labels = read_qrels(repeated)
    assert [*labels.itertuples(index=False, name=None)] == LABELS


@pytest.mark.parametrize(
    ("form", "what", "name", "content", "format"),
    [(form, "run", *case) for form, *case in RUNS_READ if case[-1]]
    + [(form, "qrels", *case) for form, *case in QRELS_READ if case[-1]],
    ids=[case[0] for case in (*RUNS_READ, *QRELS_READ) if case[-1]],
)
def test_the_command_line_has_the_same_formats(write, form, what, name, content, format):
    path = write(name, content)
    files = {"qrels": write("labels", TREC_LABELS), "run": write("run", TREC)} | {what: path}
    arguments = ["evaluate", *map(str, files.values()), "-m", "nDCG@2", f"--{what}-format", format]
    result = CliRunner().invoke(cli, arguments)
    # q1: a is first and has the label 2; q2: c is first and has the label 1
    assert result.exit_code == 0 and "1.0000" in result.output


@pytest.mark.parametrize("content", [MARCO, RANX, BEIR], ids=["MS MARCO", "ranx", "BEIR"])
def test_a_message_of_the_command_line_names_the_option(write, content):
    files = [write("labels", TREC_LABELS), write("a.tsv", content)]
    result = CliRunner().invoke(cli, ["evaluate", *map(str, files), "-m", "nDCG@2"])
    assert result.exit_code == 2
    assert re.search(r"--(run|qrels)-format (msmarco|json|beir)", result.output)
