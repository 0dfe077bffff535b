"""EE-D, EE-R and EE-L against published numbers and a brute-force computation of the papers."""

import json
from pathlib import Path

import numpy as np
import pytest
from ir_measures import calc_aggregate
from small_frames import qrels_of, run_of

from fairtk import EE_D, EE_L, EE_R

GOLDEN = Path(__file__).parents[1] / "golden"
MACHINE = json.loads((GOLDEN / "ee_machine_user.json").read_text())["cases"]
BROWSING = json.loads((GOLDEN / "ee_browsing_models.json").read_text())["cases"]


def close(value, expected):
    return value == pytest.approx(expected, abs=1e-9, rel=1e-9)


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
@pytest.mark.parametrize("case", MACHINE, ids=lambda c: f"{c['id']}-{c['tag']}")
@pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning")
def test_machine_user_paper(case):
    qrels, run = qrels_of(case["labels"]), run_of(case["rankings"])
    k, want = case["k"], case["paper_k_clipped"]
    raw = [m(normalize=False) @ k for m in (EE_D, EE_R, EE_L)]
    normalized = [m @ k for m in (EE_D, EE_R, EE_L)]
    got = calc_aggregate(raw + normalized, qrels, run)
    assert close(got[raw[0]], want["EE-D"])
    assert close(got[normalized[0]], want["EE-D_norm"])
    if case["m"] == 0:  # marked: an ideal policy over nothing useful means nothing; NaN here
        assert all(np.isnan(got[m]) for m in (*raw[1:], *normalized[1:]))
        return
    assert close(got[raw[1]], want["EE-R"])
    assert close(got[raw[2]], want["EE-L"])
    assert close(got[normalized[1]], want["EE-R_norm"])
    assert close(got[normalized[2]], want["EE-L_norm_as_code"])


def browsing_of(case):
    options = case["options"]
    if options["umType"] == "rbp":
        return f"RBP(p={options['umPatience']})"
    return f"GERR(p={options['umPatience']}, u={options['umUtility']})"


def test_raw_values_of_browsing_models():
    """Where labels cover all documents, the paper's raw values are those of expeval."""
    checked = 0
    for case in BROWSING:
        o = case["options"]
        grades = [g for _, _, g in case["qrels"]]
        judged = {d for d, _, _ in case["qrels"]}
        retrieved = {d for r in case["rankings"] for d in r}
        plain = o["complete"] and o["umPatience"] < 1 and min(grades) >= 0 and max(grades) > 0
        if not plain or not retrieved or retrieved - judged:
            continue
        qrels, run = qrels_of({d: g for d, _, g in case["qrels"]}), run_of(case["rankings"])
        options = {"browsing": browsing_of(case), "graded": not o["binarize"], "normalize": False}
        measures = [m(**options) for m in (EE_D, EE_R, EE_L)]
        got = calc_aggregate(measures, qrels, run)
        for measure, key in zip(measures, ("EE-D", "EE-R", "EE-L"), strict=True):
            assert close(got[measure], case["individual"]["raw"][key]), (case["id"], key)
        checked += 1
    assert checked >= 15
