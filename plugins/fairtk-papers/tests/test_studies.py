"""What all configurations of studies share: TOML, names of keys, kinds of values, paths."""

import pytest
from fairtk_papers.studies import (
    AMOUNT,
    COUNT,
    FLAG,
    NAMES,
    NUMBERS,
    PATH,
    PRICES,
    SEVERAL,
    STRING,
    TABLE,
    TABLES,
    read_config,
)

from fairtk.errors import FormatError


@pytest.fixture
def read(tmp_path):
    def read(text, kinds):
        path = tmp_path / "a.toml"
        path.write_text(text)
        return read_config(path, kinds)

    return read


def test_keys_are_suggested_and_tables_are_tables(read):
    text, model = "cutoff = 5\n[llm]\nmodel = 'm'\n", {"model": STRING}
    expected = {"cutoff": 5, "llm": {"model": "m"}}
    assert read(text, {"cutoff": COUNT, "llm": model}) == expected
    assert read(text, {"cutoff": COUNT, "llm": TABLE, "other": STRING}) == expected
    for kinds, message in (
        ({"cutof": COUNT, "llm": model}, "unknown key 'cutoff'; did you mean 'cutof'"),
        ({"cutoff": TABLE, "llm": model}, r"'cutoff' must be a table: \[cutoff\]"),
        ({"cutoff": model, "llm": model}, r"'cutoff' must be a table: \[cutoff\]"),
        ({"cutoff": SEVERAL, "llm": model}, r"table: \[cutoff\], or several: \[\[cutoff\]\]"),
        ({"cutoff": COUNT, "llm": TABLES}, r"settings of 'model' must be a table: \[llm.model\]"),
        ({"cutoff": COUNT, "llm": {"modl": STRING}}, "key 'model' in .llm.; did you mean 'modl'"),
        ({"cutoff": COUNT, "llm": {"model": FLAG}}, "'model' must be true or false, got 'm'"),
        ({"cutoff": STRING, "lm": model}, "unknown key 'llm'"),  # keys before values
    ):
        with pytest.raises(FormatError, match=message) as found:
            read(text, kinds)
        assert "\n" not in str(found.value) and "a.toml" in str(found.value)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (STRING, ["''", "'a'"], ["1", "['a']", "true"]),
        (FLAG, ["true", "false"], ["0", "'true'"]),
        (COUNT, ["0", "7"], ["-1", "true", "1.0", "'1'"]),
        (AMOUNT, ["0", "0.5", "7"], ["-0.1", "true", "inf", "nan", "'1'"]),
        (NAMES, ["[]", "['a', 'b']"], ["1", "'a'", "[1]", "['a', 1]"]),
        (NUMBERS, ["[]", "[1, 2]"], ["1", "['a']", "[true]", "[0.5]"]),
        (PRICES, ["{m = [1, 2.5]}"], ["{m = 3}", "{m = [3]}", "{m = [3, 'x']}", "3"]),
        (SEVERAL, ["{a = 1}", "[{a = 1}, {}]"], ["1", "[1]"]),
    ],
)
def test_kinds_of_values(read, kind, right, wrong):
    for value in right:
        assert read(f"key = {value}", {"key": kind, "other": kind}).keys() == {"key"}
    for value in wrong:
        with pytest.raises(FormatError, match="'key'"):
            read(f"key = {value}", {"key": kind})


def test_paths_are_relative_to_the_file(read, tmp_path):
    kinds = {"a": PATH, "b": PATH, "c": {"path": PATH, "prices": PRICES}, "d": PRICES}
    text = "a = 'x/y'\nb = '/z'\nd = {m = [1, 2]}\n[c]\npath = 'p'\nprices = 'q'\n"
    inside = {"path": str(tmp_path / "p"), "prices": str(tmp_path / "q")}
    expected = {"a": str(tmp_path / "x/y"), "b": "/z", "c": inside, "d": {"m": [1, 2]}}
    assert read(text, kinds) == expected
