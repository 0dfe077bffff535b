"""What every measure does: its parameters, labels without ids, the README's example."""

from __future__ import annotations

import re
from pathlib import Path

import ir_measures
import pandas as pd
import pytest

from fairtk import EE_D, EE_R, FairMeasure
from fairtk.errors import InputError, ParameterError

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


@pytest.mark.parametrize("column", ["query_id", "doc_id"])
def test_labels_without_an_id_are_refused(column):
    qrels = pd.DataFrame({"query_id": ["1", "2"], "doc_id": ["a", "b"], "relevance": [1, 0]})
    run = pd.DataFrame({"query_id": ["1"], "doc_id": ["a"], "score": [1.0]})
    qrels.loc[1, column] = None
    name = {"query_id": "qid", "doc_id": "docno"}[column]
    with pytest.raises(InputError, match=rf"{name} is missing \(NaN\) in row 1 of the qrels"):
        ir_measures.calc_aggregate([EE_D @ 1, EE_R @ 1], qrels, run)
