"""Keys survive moves of modules and new versions; an output that changes raises `output_version`.

``PYTHONPATH=tests python tests/experiment/test_outputs_and_keys.py`` writes the golden file again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import pkgutil
import tempfile
from pathlib import Path

import numpy as np
import output_cases
import pandas as pd
import pytest

import fairtk
from fairtk.experiment.identity import describe, key_of

CASES = dict(output_cases.CASES)
PLUGINS = ["fairtk_baselines", "fairtk_classic", "fairtk_hello"]
if all(importlib.util.find_spec(name) for name in PLUGINS):
    import plugin_output_cases

    CASES |= plugin_output_cases.CASES
if importlib.util.find_spec("fairtk_papers"):
    import papers_output_cases

    CASES |= papers_output_cases.CASES

GOLDEN = Path(__file__).parents[1] / "golden" / "outputs.json"


SINGLE = {  # of single precision, whose last digits differ between processors
    *("fairtk.ContrieverScorer", "fairtk.SpladeScorer", "fairtk.MeanEncoder"),
    *("fairtk.SpladeEncoder", "fairtk_baselines.DLF", "fairtk_baselines.LsaEncoder"),
    *("fairtk_baselines.Features", "fairtk_baselines.DELTR", "fairtk_baselines.LinearModel"),
    "fairtk_baselines.VectorSearch",
}


def content(value, digits):
    """Return an output as JSON values, numbers with so many digits."""
    if isinstance(value, pd.DataFrame):
        return {name: content(value[name].tolist(), digits) for name in sorted(value.columns)}
    if isinstance(value, np.ndarray | list | tuple):
        return [content(item, digits) for item in value]
    if isinstance(value, dict):
        return {str(key): content(value[key], digits) for key in sorted(value)}
    if isinstance(value, float | np.floating):
        return f"{float(value):.{digits}g}"
    return value.item() if isinstance(value, np.generic) else value


def without_libraries(description):
    """Return an identity without what differs between machines: versions and fairtk's folder."""
    if isinstance(description, str):
        return description.replace(str(Path(fairtk.__file__).parent), "fairtk")
    if isinstance(description, dict):
        subset = {k: v for k, v in description.items() if k != "libraries"}
        return {k: without_libraries(v) for k, v in subset.items()}
    if isinstance(description, list):
        return [without_libraries(item) for item in description]
    return description


def entry(name, folder):
    """Return the key of a case's object, its `output_version`, and the digest of its output."""
    instance, output = CASES[name](folder)
    text = json.dumps(content(output, 3 if name in SINGLE else 6), sort_keys=True)
    return {
        "key": key_of(without_libraries(describe(instance, ""))),
        "output_version": type(instance).output_version,
        "output": hashlib.sha256(text.encode()).hexdigest()[:16],
    }


def declaring(package, prefix):
    """Return the identity names with a prefix that the classes of a package declare."""
    names = set()
    inside = pkgutil.walk_packages(getattr(package, "__path__", []), f"{package.__name__}.")
    for name in [package.__name__, *(module.name for module in inside)]:
        if ".testing" in name or name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and "output_version" in vars(value):
                names.add(vars(value)["identity_name"])
    return {name for name in names if name.startswith(f"{prefix}.")}


def test_each_class_that_declares_a_version_has_a_case():
    assert declaring(fairtk, "fairtk") == {*output_cases.CASES}


def test_each_class_of_fairtk_papers_that_declares_a_version_has_a_case():
    package = pytest.importorskip("fairtk_papers")
    # a study's stage runs the systems of the other cases, and a given run is what was given
    names = {*papers_output_cases.CASES, "fairtk.StudySystem", "fairtk_papers.GivenRun"}
    declared = declaring(package, "fairtk") | declaring(package, "fairtk_papers")
    assert declared - {*output_cases.CASES} == names


@pytest.mark.parametrize("name", PLUGINS)
def test_each_class_of_a_plugin_that_declares_a_version_has_a_case(name):
    package = pytest.importorskip(name)
    assert declaring(package, name) == {case for case in CASES if case.startswith(f"{name}.")}


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@pytest.mark.parametrize("name", sorted(CASES))
def test_key_and_output(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))[name]
    found = entry(name, tmp_path)
    assert found["key"] == expected["key"], "stored results would not be found"
    if found["output_version"] == expected["output_version"]:
        assert found["output"] == expected["output"], f"raise output_version of {name}"
    else:
        pytest.fail(f"write {GOLDEN.name} again, for the new output_version of {name}")


if __name__ == "__main__":
    entries = {}
    for case in sorted(CASES):
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            entries[case] = entry(case, Path(place))
    GOLDEN.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
