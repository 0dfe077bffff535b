"""Numbers on pages that are counted or computed from the tree."""

import json
import re
from pathlib import Path

import fairtk

ROOT = Path(__file__).parents[2]


def test_the_number_of_reference_cases():
    files = [json.loads(p.read_text("utf-8")) for p in (ROOT / "tests" / "golden").glob("*.json")]
    # outputs.json has digests of fairtk's own outputs, and no cases
    n_cases = sum(len(file["cases"]) for file in files if "cases" in file)
    page = (ROOT / "docs" / "concepts" / "trust.md").read_text("utf-8")
    paper = (ROOT / "paper.md").read_text("utf-8")
    assert re.findall(r"(\d+) cases in `tests/golden`", page) == [str(n_cases)]
    assert re.findall(r"(\d+) reference cases", paper) == [str(n_cases)]


def test_the_disparity_of_the_uniform_policy_of_the_demo():
    demo = fairtk.demo.load()
    uniform = fairtk.BM25Scorer() >> fairtk.PlackettLuceExposure(alpha=0, cutoff=5)
    results = fairtk.evaluate(demo.qrels, uniform(demo.candidates), ["EE_D@5"])
    value = float(results.means.iloc[0, 0])
    page = (ROOT / "docs" / "concepts" / "exposure.md").read_text("utf-8")
    assert re.findall(r"uniform policy has a mean EE_D of (\S+)\.\n", page) == [f"{value:.2f}"]
