"""What every measure does: its parameters, labels without ids, the plugin guide's example."""

from __future__ import annotations

import re
from pathlib import Path

import ir_measures
import pandas as pd
import pytest
from ir_measures import ParamInfo

from fairtk import EE_D, FairMeasure
from fairtk.errors import ParameterError

GUIDE = Path(__file__).parents[2] / "docs" / "plugin_guide.md"


class Plain(FairMeasure):
    """A measure that declares no parameters."""

    NAME, PRETTY_NAME, BETTER, MISSING = "Plain", "Plain", "lower", 1.0


def test_a_measure_without_a_cutoff_says_how_to_get_one():
    with pytest.raises(ParameterError, match="'cutoff'"):
        Plain() @ 5


def test_a_measure_without_parameters_says_so():
    with pytest.raises(ParameterError, match="'depth'"):
        Plain(depth=5)


def test_the_plugin_in_the_guide_takes_a_cutoff():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(next(b for b in blocks if "hookimpl" in b), names)  # noqa: S102 - our own file
    (measure,) = names["fairtk_measures"]()
    assert repr(measure @ 5) == "MyMeasure@5"


class Declared(FairMeasure):
    """A measure whose parameters are declared as ir_measures declares them."""

    NAME, PRETTY_NAME, BETTER, MISSING = "Declared", "Declared", "higher", 0.0
    SUPPORTED_PARAMS = {
        "cutoff": ParamInfo(dtype=int, desc="ranks"),
        "weight": ParamInfo(dtype=(int, float), default=0.5),
        "kind": ParamInfo(dtype=str, choices=["a", "b"], default="a"),
        "flag": ParamInfo(),
        "rel": ParamInfo(dtype=int, required=True),
    }

    def score_query(self, qrels, run):
        return self["weight"] * len(run)


def test_parameters_may_be_declared_as_in_ir_measures():
    measure = Declared(weight=0.25, rel=1, flag=True) @ 2
    assert repr(measure) == "Declared(weight=0.25,flag=True,rel=1)@2"
    assert measure["kind"] == "a" and Declared(kind="a") == Declared()
    qrels = pd.DataFrame({"qid": ["1"], "docno": ["a"], "label": [1]})
    run = pd.DataFrame({"qid": ["1"] * 3, "docno": list("abc"), "score": [3.0, 2.0, 1.0]})
    result = ir_measures.calc_aggregate([measure, Declared(rel=1)], qrels, run)
    assert result == {measure: 0.25 * 2, Declared(rel=1): 0.5 * 3}


@pytest.mark.parametrize(
    "params",
    [
        {"weight": "x"},
        {"kind": "c"},
        {"cutoff": 0},
        {"rel": True},
    ],
)
def test_parameters_of_ir_measures_are_checked(params):
    with pytest.raises(ParameterError, match=rf"\b{[*params][-1]}\b"):
        Declared(**params)


def test_a_required_parameter_is_missed_when_the_measure_is_asked():
    qrels = pd.DataFrame({"qid": ["1"], "docno": ["a"], "label": [1]})
    run = pd.DataFrame({"qid": ["1"], "docno": ["a"], "score": [1.0]})
    with pytest.raises(ParameterError, match="^Declared: rel is required"):
        ir_measures.calc_aggregate([Declared(weight=1) @ 2], qrels, run)


class Even(ParamInfo):
    """A declaration with a rule of its own."""

    def validate(self, value):
        return value % 2 == 0


def test_a_declaration_decides_itself():
    class Halved(Plain):
        """Takes even numbers."""

        NAME, SUPPORTED_PARAMS = "Halved", {"n": Even(dtype=int)}

    assert Halved(n=4)["n"] == 4
    with pytest.raises(ParameterError, match="got 3"):
        Halved(n=3)


def test_what_is_no_declaration_is_refused():
    with pytest.raises(ParameterError, match="'n'"):
        type("Undeclared", (Plain,), {"NAME": "Undeclared", "SUPPORTED_PARAMS": {"n": 3}})


def test_a_measure_given_for_a_model_is_shown_how_to_quote():
    from ir_measures import RBP

    with pytest.raises(ParameterError, match=r"quote it: browsing='RBP\(p=0.5\)'"):
        EE_D(browsing=RBP(p=0.5))
    with pytest.raises(ParameterError, match=r"browsing='RBP\(p=0.8\)'"):  # ir_measures' default
        EE_D(browsing=RBP(p=0.8))
    assert EE_D(n=1)["n"] == 1
    with pytest.raises(ParameterError, match="got 0"):
        EE_D(n=0)
