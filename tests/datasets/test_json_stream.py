"""Reading a JSON array element by element: the same values as json.load, at the right places."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.datasets.fetching import iterate_array, line_of
from fairtk.errors import FormatError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=6), st.booleans(), st.sampled_from([None, 2]))
def test_same_as_json_load_and_bytes_lead_back(tmp_path_factory, values, ascii_only, indent):
    path = tmp_path_factory.mktemp("stream") / "values.json"
    text = json.dumps(values, ensure_ascii=ascii_only, indent=indent)
    # lone surrogates cannot be written as UTF-8
    path.write_bytes(text.encode("utf-8", "replace"))
    expected = json.loads(path.read_bytes())
    elements = list(iterate_array(path))
    assert [e.value for e in elements] == expected
    assert [e.number for e in elements] == list(range(len(values)))
    raw = path.read_bytes()
    assert [json.loads(raw[e.start : e.end]) for e in elements] == expected


def test_lines_and_byte_order_mark(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf[\n {"a": "\xc3\xa9"},\n\n {"b": 1}\n]\n')
    first, second = iterate_array(path)
    assert [line_of(path, element.start) for element in (first, second)] == [2, 4]
    assert path.read_bytes()[second.start : second.end] == b'{"b": 1}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x\.json: expected a JSON array"),
        ("<html>no</html>", r"x\.json:1: expected a JSON array"),
        ('{"a": 1}', r"x\.json: expected a JSON array"),
        ("[1,\n2,", r"x\.json: expected a JSON array .Input data was truncated"),
        ('[{"a": 1},\n {"a" 2}]', r"x\.json:2: "),
        ('\ufeff[{"a": 1},\n 2, {"a" 2}]', r"x\.json:2: "),
        ("[1, " + "[" * 200_000 + "]" * 200_001, r"x\.json: expected a JSON array"),
        ("[1,\n" + "9" * 5000 + "]", r"x\.json:2: element 1 "),
        ('[1,\n"\\ud800 and more text"]', r"x\.json:2: "),
        ("[1]\n 2", r"x\.json:2: "),
    ],
)
def test_errors_name_the_line(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        list(iterate_array(path))


def test_elements_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("fairtk.datasets.fetching.JSON_ENTRY", 1000)
    path = tmp_path / "x.json"
    path.write_text('[1,\n"' + "x" * 10_000 + '"]')
    with pytest.raises(FormatError, match="x.json"):
        list(iterate_array(path))


def test_not_utf8(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'["\xff"]')
    with pytest.raises(FormatError, match="1.*0"):
        list(iterate_array(path))
