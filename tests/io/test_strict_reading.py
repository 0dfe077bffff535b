"""What is no table, no number or no text is an error with file and line, never other numbers."""

import gzip
import zlib

import numpy as np
import pandas as pd
import pytest

from fairtk.errors import FormatError, InputError
from fairtk.groups import Groups, Target
from fairtk.io import lines as content
from fairtk.io import read_answers, read_gold_answers, read_qrels, read_run
from fairtk.io.rows import NUMBER, number_of

RUN = "q1 Q0 d1 1 3 t\nq1 Q0 d2 2 2 t\n"
TSV = "qid\tdocno\tscore\nq1\td1\t3\nq1\td2\t2\n"
QRELS = "q1 0 d1 1\nq1 0 d2 0\n"
NAMED = "qid\tdocno\tlabel\nq1\td1\t1\nq1\td2\t0\n"
GROUPS = "docno\tgroup\tweight\nd1\tx\t1\nd2\ty\t1\n"
BARE = "docno,group\nd1,x\nd2,y\n"
TARGET = "group\tweight\nx\t0.5\ny\t0.5\n"
ANSWERS = "qid\tsample\tqanswer\nq1\t0\ta\nq1\t1\tb\n"
GOLD = "qid\tgold_answer\nq1\ta\nq2\tb\n"
LIST = "id\tpage_id\n1\t30\n1\t31\n"

READERS = {
    "run": (RUN, read_run),
    "tsv": (TSV, read_run),
    "qrels": (QRELS, read_qrels),
    "named": (NAMED, read_qrels),
    "groups": (GROUPS, Groups.read),
    "bare": (BARE, Groups.read),
    "target": (TARGET, Target.read),
    "answers": (ANSWERS, read_answers),
    "gold": (GOLD, read_gold_answers),
    "list": (LIST, read_run),
}
HEADED = ["tsv", "named", "groups", "bare", "target", "answers", "gold", "list"]


@pytest.fixture
def refused(tmp_path):
    """Read a file that must be refused; return the line that is named, and the message."""

    def read(reader, raw, packed=False):
        path = tmp_path / f"{reader}.txt"
        raw = raw if isinstance(raw, bytes) else raw.encode()
        path.write_bytes(gzip.compress(raw) if packed else raw)
        with pytest.raises(FormatError) as caught:
            READERS[reader][1](path)
        message = str(caught.value)
        assert message.startswith(str(path))
        assert "\n" not in message and len(message) < 1000
        return caught.value.line, message

    return read


def lines(text):
    return text.splitlines(keepends=True)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("reader", READERS)
def test_marks_and_ends_of_lines_change_nothing(reader, packed, tmp_path):
    text, read = READERS[reader]
    path, found = tmp_path / f"{reader}.txt", []
    for same in (text, "\ufeff" + text, text.replace("\n", "\r\n")):
        raw = same.encode()
        path.write_bytes(gzip.compress(raw) if packed else raw)
        value = read(path)
        found.append(value if isinstance(value, pd.DataFrame) else value.to_frame())
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0], other)


def separator(text):
    return next(s for s in "\t, " if s in text)


def inside(text, line, what):
    """Return the text with something before the last two characters of a line."""
    of_text = lines(text)
    of_text[line] = of_text[line][:-2] + what + of_text[line][-2:]
    return "".join(of_text)


def longer(text):
    """Return the text with another field in each line but the header."""
    head, _, rest = text.partition("\n")
    return f"{head}\n" + rest.replace("\n", f"{separator(text)}1\n")


TABBED = [reader for reader in HEADED if reader != "list"]  # its columns may have spaces between
# what happened to a file, the line that is named (from 1, or from the end), words of the message
DAMAGES = {
    "a field less": (lambda t: t[: t.rindex(separator(t))], -1, "columns", READERS),
    "a field more": (lambda t: t[:-1] + separator(t) + "1\n", -1, "columns", READERS),
    "NUL": (lambda t: inside(t, 1, "\0"), 2, "NUL", READERS),
    "a byte order mark": (lambda t: t.replace("\n", "\n\ufeff", 1), 2, "", READERS),
    "expected UTF-8": (lambda t: inside(t, -1, "\udce9"), -1, "the byte 0xe9", READERS),
    "a carriage return": (lambda t: t + "7\rx", 0, "carriage return", READERS),
    "no line ends": (lambda t: t + "x" * (content.LINE + 1), 0, "at most 1 MiB", READERS),
    "two headers": (lambda t: t + t.replace("1", "5"), 0, "", HEADED),
    "a field more in every line": (longer, 2, "expected", HEADED),
    "spaces before a name": (
        *(lambda t: t.replace(separator(t), separator(t) + " ", 1), 1, "surrounding spaces"),
        TABBED,
    ),
    "spaces before an id": (lambda t: t.replace("\n", "\n ", 1), 2, "spaces around it", TABBED),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("damage", "reader"), [(name, reader) for name in DAMAGES for reader in DAMAGES[name][-1]]
)
def test_damaged_lines(damage, reader, packed, refused):
    text = READERS[reader][0]
    change, line, message, _ = DAMAGES[damage]
    raw = change(text).encode(errors="surrogateescape")
    found, said = refused(reader, raw, packed)
    assert found == (line if line > 0 else len(lines(text)) + 1 + line)
    assert message in said


class TestQuotes:
    @pytest.mark.parametrize(
        ("reader", "text", "line"),
        [
            # one stray quote reaches to the end, or to the next quoted field
            ("named", 'qid\tdocno\tlabel\nq1\t"d1\t1\nq1\td2\t0\n', 2),
            ("groups", 'docno\tgroup\tweight\n"d1\tx\t1\nd2\ty\t1\n"d3"\tx\t1\n', 2),
            # two of them swallow the lines between
            ("named", 'qid\tdocno\tlabel\nq1\t"d1\t1\nq1\td2"\t0\n', 2),
            ("groups", 'docno\tgroup\tweight\nd1\t"x\t1\nd2\ty"\t1\n', 2),
            ("target", 'group\tweight\nx\t0.5\n"y\t0.25\nz"\t0.25\n', 3),
            ("answers", 'qid\tsample\tqanswer\nq1\t0\t"a\nq1\t1\tb"\n', 2),
            ("bare", 'docno,group\nd1,"x"y\n', 2),
        ],
    )
    def test_stray_ones(self, refused, reader, text, line):
        assert refused(reader, text)[0] == line

    def test_whole_fields_are_unquoted(self, tmp_path):
        path = tmp_path / "groups.csv"
        path.write_text('"docno","group"\n"d,1","a ""b"""\n\n"d2","y"\n')
        assert Groups.read(path).to_frame()["docno"].tolist() == ["d,1", "d2"]

    def test_a_header_alone_may_be_quoted(self, tmp_path):
        path = tmp_path / "groups.tsv"
        path.write_text('"docno"\t"group"\nd1\tx\nd2\ty\n')
        assert Groups.read(path).to_frame()["docno"].tolist() == ["d1", "d2"]

    def test_texts_of_several_lines(self, tmp_path):
        path = tmp_path / "answers.tsv"
        path.write_text('qid\tqanswer\tnote\nq1\t"a\nb"\t\nq2\t"c, ""d"""\t\n')
        assert read_answers(path)["qanswer"].tolist() == ["a\nb", 'c, "d"']


NO_NUMBERS = [
    "1_000",
    "\u0661",
    "\uff11",
    "\u00b2",
    "1,5",
    "0x10",
    "1e",
    "--1",
    "1.5f",
    "nan",
    "inf",
]
PLACES = {
    "run": ("q1 Q0 d1 1 {} t\n", 1),
    "tsv": ("qid\tdocno\tscore\nq1\td1\t{}\n", 2),
    "qrels": ("q1 0 d1 {}\n", 1),
    "named": ("qid\tdocno\tlabel\nq1\td1\t{}\n", 2),
    "groups": ("docno\tgroup\tweight\nd1\tx\t1\nd2\tx\t{}\n", 3),
    "target": ("group\tweight\nx\t1\ny\t{}\n", 3),
    "answers": ("qid\tsample\tqanswer\nq1\t{}\ta\n", 2),
}


@pytest.mark.parametrize("field", [*NO_NUMBERS, "9" * 5000])
@pytest.mark.parametrize("reader", PLACES)
def test_what_is_no_number(reader, field, refused):
    text, line = PLACES[reader]
    assert refused(reader, text.format(field))[0] == line


@pytest.mark.parametrize("field", ["1.5", "1_0", "x", "9" * 5000, "99999999999999999999"])
def test_ranks_are_integers(field, refused):
    assert refused("run", f"q1 Q0 d1 {field} 3 t\n")[0] == 1


@pytest.mark.parametrize(
    "text", [*NO_NUMBERS, "", " 1", "1 ", "1e400", ".", "+", "1e5", "-.5", "7."]
)
def test_numbers_are_ascii_decimals(text):
    expected = float(text) if NUMBER.fullmatch(text) or text in ("nan", "inf") else None
    found = number_of(text)
    assert found == expected or (found != found and expected != expected)


def test_braces_in_the_second_column(refused):
    line, message = refused("run", "q1 {a} d1 1 3 t\nq1 {0} d2 2 2 t\n")
    assert (line, "got '{0}' after '{a}'" in message) == (2, True)


class TestJson:
    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("[" * 200_000 + "]" * 200_000, "nested too deep"),
            ("9" * 5000, "thousands of digits"),
            ('{"a": 1, "a": 2}', "duplicate key 'a'"),
            ("nul", "Expecting value"),
        ],
    )
    def test_what_cannot_be_read(self, value, message, refused):
        good = '{"qid": "q1", "docno": "d1", "label": 1, "x": 0}\n'
        line, found = refused("named", good + good.replace("d1", "d2").replace("0}", value + "}"))
        assert (line, message in found) == (2, True)

    @pytest.mark.parametrize(
        ("qid", "label", "message"),
        [
            ('"q\\ud800"', "1", "unpaired surrogate"),
            ('"q1 "', "1", "has spaces around it"),
            ('"q\\u0000"', "1", "has the character U+0000"),
            ("1.5", "1", "qid must be text"),
            ('"q1"', "true", "label must be a finite number"),
            ('"q1"', "1" * 400, "label must be a finite number"),
            ('"q1"', '"1_0"', "label must be a finite number"),
            ('"q1"', "[1]", "label must be a finite number"),
        ],
    )
    def test_values(self, qid, label, message, refused):
        text = f'{{"qid": {qid}, "docno": "d1", "label": {label}}}\n'
        line, found = refused("named", '{"qid": "q0", "docno": "d", "label": 1}\n' + text)
        assert (line, message in found) == (2, True)


class TestFields:
    def test_long_ones(self, tmp_path, refused):
        long = "x" * 200_000
        path = tmp_path / "long.tsv"
        path.write_text(f"docno\tgroup\nd1\t{long}\n")
        assert long in Groups.read(path).levels
        line, message = refused("bare", f'docno,group\nd0,"y"\nd1,"{long}"\n')
        assert (line, "at most 131,072 characters" in message) == (3, True)


def bomb(megabytes):
    """Return a gzip file that unpacks to one line, made without unpacking."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b"x" * (1 << 20)
    return b"".join(packer.compress(block) for _ in range(megabytes)) + packer.flush()


@pytest.mark.parametrize("reader", READERS)
def test_a_gzip_bomb_is_bounded_while_it_is_unpacked(reader, tmp_path):
    import tracemalloc

    path = tmp_path / f"{reader}.gz"
    # members of a gzip file follow each other: 64 of 32 MiB are 2 GiB in one line
    path.write_bytes(gzip.compress(READERS[reader][0].encode()) + bomb(32) * 64)
    tracemalloc.start()
    try:
        with pytest.raises(
            FormatError, match=f"{path.name}:[0-9]+: a line must be at most 1 MiB long"
        ):
            READERS[reader][1](path)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_json_entries_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("fairtk.io.lines.JSON_ENTRY", 1 << 20)
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"qid": "1"}\n{"qid": "') + bomb(8))
    with pytest.raises(FormatError, match="x.jsonl"):
        read_qrels(path)


class TestParquet:
    FRAME = pd.DataFrame({"qid": ["q1", "q2"] * 50, "docno": [f"d{i}" for i in range(100)],
                          "label": np.arange(100.0)})  # fmt: skip

    def test_flipped_bytes_and_cut_files(self, tmp_path):
        path = tmp_path / "qrels.parquet"
        from fairtk.io import write_qrels

        write_qrels(self.FRAME, path)
        good, expected = path.read_bytes(), read_qrels(path)
        random = np.random.default_rng(7)
        refused = 0
        for case in range(150):
            raw = bytearray(good)
            if case % 3:
                raw[random.integers(len(raw))] ^= 1 << random.integers(8)
            else:
                del raw[random.integers(len(raw)) :]
            path.write_bytes(raw)
            try:
                found = read_qrels(path)
            except InputError as error:
                assert str(error).startswith(str(path))
                refused += 1
            else:
                # what is not noticed is in what nobody reads (statistics, who made the file)
                pd.testing.assert_frame_equal(found, expected)
        assert refused > 100

    @pytest.mark.parametrize(
        "values",
        [[["a"], ["b"]], [b"a", b"b"], [1.5, 2.5], [None, "a"], [{"x": 1}, {"x": 2}],
         pd.to_datetime(["2020-01-01", "2020-01-02"]), [True, False]],
    )  # fmt: skip
    @pytest.mark.parametrize(
        ("columns", "read"),
        [(["qid", "docno", "label"], read_qrels), (["docno", "group", "weight"], Groups.read),
         (["qid", "docno", "score"], read_run)],
    )  # fmt: skip
    def test_wrong_types(self, columns, read, values, tmp_path):
        path = tmp_path / "x.parquet"
        for place in (0, 1, 2):
            good = [["a", "b"], ["c", "d"], [1.0, 0.5]]
            if columns[place] == "group" and (values[0] is None or isinstance(values[0], list)):
                continue  # an unknown group, or several groups
            if place == 2 and isinstance(values[0], float):
                continue  # a number
            frame = pd.DataFrame(dict(zip(columns, good, strict=True)))
            frame[columns[place]] = values
            frame.to_parquet(path)
            with pytest.raises(FormatError, match=f"x.parquet: .*{columns[place]}"):
                read(path)

    def test_folders_named_like_settings_add_no_columns(self, tmp_path):
        folder = tmp_path / "alpha=1"
        folder.mkdir()
        self.FRAME.to_parquet(folder / "qrels.parquet")
        assert list(read_qrels(folder / "qrels.parquet").columns) == ["qid", "docno", "label"]


@pytest.mark.parametrize("text", ['[{"qid": "1", "docno": "a"}]', '[\n  {\n    "qid": "1"\n  }\n]'])
@pytest.mark.parametrize("read", [read_run, read_qrels, read_answers, Groups.of])
def test_a_json_list_of_rows_is_refused_with_the_option_of_pandas(tmp_path, read, text):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"rows\.json:1: .*lines=True"):
        read(str(path))
