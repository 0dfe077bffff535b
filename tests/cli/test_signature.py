"""Options that are read from signatures, and messages in the words of the command line."""

import ast
import inspect
import pkgutil
from collections.abc import Sequence
from typing import Literal

import click
import pytest

from fairtk.cli.group import FairtkGroup, cli
from fairtk.cli.signature import in_options, option_type, signature_command
from fairtk.cli.source import signature
from fairtk.errors import ParameterError

CALLS = []


def work(
    runs: Sequence[str],
    measures: Sequence[str],
    *,
    method: Literal["a", "b"] = "a",
    n_samples: int = 10,
    target_share: float | None = None,
    is_fast: bool = False,
    levels: Sequence[int] = (1, 2),
) -> None:
    """Do some work.

    Args:
        runs: the runs.
        measures: the measures.
        method: how it is done: ``"a"`` or
            ``"b"``. Neither is better.
        n_samples: samples (`fairtk.FairSampler`).
        target_share: the share, at most 1. None: half.
        is_fast: do less.
    """
    CALLS.append((runs, measures, method, n_samples, target_share, is_fast, levels))
    if n_samples < 1:
        raise ParameterError(f"work: n_samples must be at least 1; found {n_samples}")
    if target_share == 0:
        raise ParameterError("`target_share` is 0, so `runs` are empty: give `is_fast=True`")


@signature_command(
    "Work.",
    {f"{__name__}:work": "runs measures method n_samples target_share is_fast levels"},
)
@click.option("--level", "levels", type=int, multiple=True, default=(5,))
@click.option("--more", is_flag=True)
def command(more, **options):
    """Work on RUNS."""
    work(**options)


@click.group(cls=FairtkGroup)
@click.option("--debug", is_flag=True)
def group(debug):
    pass


group.add_command(command, "work")


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.run").write_text("")
    CALLS.clear()
    return lambda *words: click.testing.CliRunner().invoke(group, ["work", *words])


def test_names_types_and_defaults(call):
    assert call("a.run", "-m", "x").exit_code == 0
    words = "a.run a.run -m x --measure y --method b -n 3 --target-share .5 --is-fast --level 7"
    assert call(*words.split()).exit_code == 0
    assert CALLS == [
        (("a.run",), ("x",), "a", 10, None, False, (5,)),
        (("a.run", "a.run"), ("x", "y"), "b", 3, 0.5, True, (7,)),
    ]


def test_help_has_choices_defaults_and_the_first_sentence(call):
    text = " ".join(call("--help").stdout.split())
    assert "--method [a|b] How it is done: a or b. [default: a]" in text
    assert "-n, --samples INTEGER Samples. [default: 10]" in text
    assert "--target-share FLOAT The share, at most 1. [default: half]" in text
    assert text.index("--is-fast") < text.index("--level") < text.index("--more")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["-m", "x", "-n", "0"], "Error: --samples must be at least 1"),
        (["-m", "x", "--target-share", "0"],
         "Error: --target-share is 0, so RUNS are empty: give --is-fast"),
        (["-m", "x", "--method", "c"], "'--method'"),
        ([], "'-m' / '--measure'"),
    ],
)  # fmt: skip
def test_errors_name_options(call, words, place):
    result = call("a.run", *words)
    assert result.exit_code == 2 and place in result.stderr


def test_the_function_is_not_imported_before_it_is_needed():
    broken = signature_command("Broken.", {"a_module_that_nobody_has:work": "x"})(lambda: None)
    assert broken.short_help == "Broken." and broken.get_short_help_str() == "Broken."
    with pytest.raises(ModuleNotFoundError):
        broken.get_params(click.Context(broken))


def test_parameters_of_others_keep_their_names():
    for text in ("EE_D: n_samples must be 1", "`EE_D(runs=1)`", "`seed`", "give n_samples=1"):
        assert in_options(text, command) == text
    assert in_options("give `n_samples=5`", command) == "give --samples 5"


def kinds(source, tmp_path, monkeypatch):
    (tmp_path / "a_module.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    parameters, _ = signature("a_module:work")
    types = {name: option_type(p) for name, p in parameters.items()}
    return {
        name: (getattr(kind, "choices", kind), several) for name, (kind, several) in types.items()
    }


def test_types_are_read_through_aliases_imports_and_texts(tmp_path, monkeypatch):
    source = """
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias
from fairtk.experiment.compare_runs import Queries
if TYPE_CHECKING:
    import pandas as pd
    from nowhere import Some
Way: TypeAlias = Literal["x", "y"]
Number = int | None
Positive = Annotated[int, "above 0"]
def work(a: "pd.DataFrame | None", b: "Way | Literal['z']", c: Queries, d: Number, e: Some,
         f: "Sequence[Way] | str", g=1, *, h: tuple[float, ...] = (1.0,),
         i: Positive | None = 1, j: Annotated[Way, "either"] = "x"): ...
"""
    assert kinds(source, tmp_path, monkeypatch) == {
        "a": (str, False),
        "b": (("x", "y", "z"), False),
        "c": (("all", "common"), False),
        "d": (int, False),
        "e": (str, False),
        "f": (("x", "y"), True),
        "g": (str, False),
        "h": (float, True),
        "i": (int, False),
        "j": (("x", "y"), False),
    }


def test_signatures_read_are_those_of_python(monkeypatch):
    context = click.Context(cli)
    for name in cli.list_commands(context):
        functions = getattr(cli.get_command(context, name), "functions", {})
        for target, names in functions.items():
            function = pkgutil.resolve_name(target)
            parameters, text = signature(target)
            assert text == (inspect.getdoc(function) or ""), target
            for name in names.split():
                if (expected := inspect.signature(function).parameters.get(name)) is not None:
                    assert parameters[name].default == expected.default, (target, name)
                    written = ast.unparse(parameters[name].annotation)
                    assert written.replace('"', "'") == str(expected.annotation), (target, name)
