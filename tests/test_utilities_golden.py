"""The utilities agree with the published evaluation code on every recorded case."""

import json
import math
from pathlib import Path

import pytest

from fairtk import utilities
from fairtk.utilities import answer_text

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "lamp_metrics.json").read_text(encoding="utf-8")
)
CASES = {
    metric: [c for c in GOLDEN["cases"] if c["metric"] == metric]
    for metric in ("accuracy", "mae", "rouge")
}
VARIANTS = {
    "rouge1_f": ("rouge1", {}),
    "rougeL_f": ("rougeL", {}),
    "rouge_score_rouge1_nostem": ("rouge_score_rouge1", {}),
    "rouge_score_rougeL_nostem": ("rouge_score_rougeL", {}),
    "rouge_score_rouge1_stem": ("rouge_score_rouge1", {"use_stemmer": True}),
    "rouge_score_rougeL_stem": ("rouge_score_rougeL", {"use_stemmer": True}),
}


def name_of(case):
    return f"{case['id']}-{case['tag']}".replace(" ", "_")


def test_every_case_is_used():
    assert len(GOLDEN["cases"]) == 79 == sum(map(len, CASES.values()))


def test_the_rule_for_answers_without_content():
    for case in CASES["accuracy"] + CASES["mae"]:
        assert answer_text(case["prediction"]) == case["after_empty_rule"]
    for case in CASES["rouge"]:
        if case["empty_rule_applied"]:
            assert answer_text(case["prediction"]) == case["scored_prediction"].strip()


@pytest.mark.parametrize("case", CASES["accuracy"], ids=name_of)
def test_accuracy(case):
    utility = utilities.get("accuracy", labels=GOLDEN["labels"][str(case["task"])])
    assert utility([case["prediction"]], [case["gold"]]) == [case["accuracy"]]


@pytest.mark.parametrize("case", CASES["mae"], ids=name_of)
def test_mae(case):
    [value] = utilities.get("mae")([case["prediction"]], [case["gold"]])
    expected = float(case["mae"])
    assert math.isnan(value) if math.isnan(expected) else value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("case", CASES["rouge"], ids=name_of)
@pytest.mark.parametrize("key", VARIANTS)
def test_rouge(case, key):
    name, options = VARIANTS[key]
    if name.startswith("rouge_score"):
        pytest.importorskip("rouge_score")
    expected = case[key]
    if isinstance(expected, dict):
        # the package raises on a text without content; no word is shared, so the value is 0
        assert expected["error"] == "ValueError"
        expected = 0.0
    utility = utilities.get(name, **options)
    assert utility([case["prediction"]], [case["gold"]]) == [pytest.approx(expected, abs=1e-9)]
