"""One version everywhere."""

import re
from pathlib import Path

import fairtk

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_same_wherever_it_stands():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {fairtk.__version__}\n" in text
    assert f"Version {fairtk.__version__}}}" in fairtk.cite()
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## (Unreleased|\d+\.\d+\.\d+)", changes, flags=re.M)[0]
    assert newest == ("Unreleased" if ".dev" in fairtk.__version__ else fairtk.__version__)
