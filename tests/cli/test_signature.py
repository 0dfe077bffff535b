"""Options that are read from signatures, and messages in the words of the command line."""

from collections.abc import Sequence
from typing import Literal

import click
import pytest

from fairtk.cli.group import FairtkGroup
from fairtk.cli.signature import in_options, option_type, signature_command
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


def test_an_annotation_for_type_checkers_is_a_text():
    assert option_type("pd.DataFrame | None", {}) == (str, False)
