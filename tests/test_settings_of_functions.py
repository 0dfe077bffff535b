"""Settings of public classes and functions refuse None, NaN, an empty string and other types."""

import importlib
import inspect
import math

import pytest
from settings_calls import calls

import fairtk
from fairtk.testing.toys import check_refused, is_one_of

SCALARS = {"int", "float", "str", "bool"}


def invalid(parameter):
    """Return values that a parameter with scalar annotations must refuse."""
    words = set(str(parameter.annotation).replace("|", " ").split())
    if not words & SCALARS or words - SCALARS - {"None"}:
        return []
    values = [math.nan, "", [1.5], object()]
    values += [] if "None" in words else [None]
    values += [] if "str" in words else ["x"]
    values += [] if "bool" in words else [True]
    values += [] if "float" in words else [1.5]
    return [value for value in values if not is_one_of(value, [parameter.default])]


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("name", calls())
def test_settings(name):
    call, arguments = calls()[name]
    call(**arguments)  # the call is valid but for the setting
    for setting, parameter in inspect.signature(call).parameters.items():
        for value in invalid(parameter):
            changed = {**arguments, setting: value}
            what = f"{name}({setting}={value!r})"
            check_refused(lambda changed=changed: call(**changed), setting, what)


@pytest.mark.parametrize("call", [fairtk.register_groups, fairtk.register_target])
def test_names(call):
    value = calls()["FairQR"][1]["groups" if call is fairtk.register_groups else "target"]
    for name in ("", math.nan, 5, ["a"]):
        check_refused(lambda name=name: call(value, name), "name", f"{call.__name__}: {name!r}")


OTHERS = {
    # a result or a part of one, which users do not make
    *("CorrectedMean", "CurveValue", "FairQROutcome", "Frontier", "MarginTest", "PairedTest"),
    *(
        "OffPolicyUtility",
        "Precision",
        "Providers",
        "QueryGain",
        "Remark",
        "Results",
        "TwoLevelMean",
        "Comparison",
        "Finding",
    ),
    # tested by their contracts, or by tests of files and processes
    *("CollectionBM25", "DaskExecutor", "NeuralScorer", "query_gain", "export", "prune"),
    *("JensenShannon", "KullbackLeibler", "ReverseKullbackLeibler"),
    # names only
    *("Target", "background", "hookimpl", "plot_trace", "register_groups", "register_target"),
    *("combinations", "document_attention", "leave_notes", "remark"),
}


@pytest.mark.parametrize(
    "module",
    [
        *("fairtk", "fairtk.transformers", "fairtk.credit", "fairtk.analysis"),
        *("fairtk.statistics", "fairtk.experiment", "fairtk.groups"),
    ],
)
def test_everything_with_settings_is_here(module):
    package = importlib.import_module(module)
    names = {
        name
        for name in package.__all__
        if name not in OTHERS
        and (inspect.isfunction(call := getattr(package, name)) or inspect.isclass(call))
        and any(map(invalid, inspect.signature(call).parameters.values()))
    }
    assert names - calls().keys() == set(), "add a valid call to settings_calls.py"
