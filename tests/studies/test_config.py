"""What all configurations of studies share: TOML, names of keys, kinds of values, paths."""

import pytest

from fairtk.errors import FormatError, InputError
from fairtk.studies.configuration import (
    AMOUNT,
    COUNT,
    FLAG,
    NAMES,
    NUMBERS,
    TEXT,
    beside,
    check_keys,
    check_kinds,
    kind_of_source,
    read_config,
)


def test_keys_are_suggested_and_tables_are_tables(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("cutoff = 5\n[llm]\nmodel = 'm'\n")
    assert read_config(path, ("cutoff", "llm"), ("llm",)) == {"cutoff": 5, "llm": {"model": "m"}}
    with pytest.raises(FormatError, match="unknown key 'cutoff'; did you mean 'cutof'"):
        read_config(path, ("cutof", "llm"), ())
    with pytest.raises(FormatError, match=r"'cutoff' must be a table: \[cutoff\]"):
        read_config(path, ("cutoff", "llm"), ("cutoff",))
    with pytest.raises(FormatError, match="unknown key 'modl' in .llm.; did you mean 'model'"):
        check_keys({"modl": 1}, ("model",), path, "llm")


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (TEXT, ["", "a"], [1, ["a"], True]),
        (FLAG, [True, False], [0, "true"]),
        (COUNT, [0, 7], [-1, True, 1.0, "1"]),
        (AMOUNT, [0, 0.5, 7], [-0.1, True, float("inf"), float("nan"), "1"]),
        (NAMES, [[], ["a", "b"]], ["a", [1], ["a", 1]]),
        (NUMBERS, [[], [1, 2]], [1, ["a"], [True], [0.5]]),
    ],
)
def test_kinds_of_values(tmp_path, kind, right, wrong):
    for value in right:
        check_kinds({"key": value}, {"key": kind, "other": kind}, tmp_path)
    for value in wrong:
        with pytest.raises(FormatError, match="'key' must be .*; found"):
            check_kinds({"key": value}, {"key": kind}, tmp_path)


def test_paths_are_relative_to_the_file(tmp_path):
    table = {"a": "x/y", "b": "/z", "c": {"m": [1, 2]}}
    beside(tmp_path / "study.toml", (table, "a"), (table, "b"), (table, "c"), (table, "d"))
    assert table == {"a": str(tmp_path / "x/y"), "b": "/z", "c": {"m": [1, 2]}}


def test_what_a_command_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "study.toml").write_text("")
    for source, kind in (("data", "folder"), ("study.toml", "file"), ("lamp/4/dev", "dataset")):
        assert kind_of_source(source) == kind
    for source in ("none.toml", "./none", "/none/at/all"):
        with pytest.raises(InputError, match="there is no file or folder"):
            kind_of_source(source)
