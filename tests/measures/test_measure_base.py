"""What every measure that is declared does: its parameters, and the README's example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairtk import FairMeasure
from fairtk.errors import ParameterError

README = Path(__file__).parents[2] / "README.md"


class Plain(FairMeasure):
    """A measure that declares no parameters."""

    NAME, PRETTY_NAME, BETTER, MISSING = "Plain", "Plain", "lower", 1.0


def test_a_measure_without_a_cutoff_says_how_to_get_one():
    with pytest.raises(ParameterError, match="Plain has no parameter 'cutoff', so it takes no @k"):
        Plain() @ 5


def test_a_measure_without_parameters_says_so():
    with pytest.raises(ParameterError, match="Plain has no parameter 'depth'; it has none$"):
        Plain(depth=5)


def test_the_plugin_in_the_readme_takes_a_cutoff():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(next(b for b in blocks if "hookimpl" in b), names)  # noqa: S102 - our own file
    (measure,) = names["fairtk_measures"]()
    assert repr(measure @ 5) == "MyMeasure@5"
