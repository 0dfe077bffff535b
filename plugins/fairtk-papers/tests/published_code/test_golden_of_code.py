"""The measures of published code against numbers that this code computed."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fairtk_papers.published_code import (
    EE_D_expeval,
    EE_D_fair_rag,
    EE_L_expeval,
    EE_L_fair_rag,
    EE_R_expeval,
    EE_R_fair_rag,
    GroupEE_D_expeval,
    GroupEE_L_expeval,
    GroupEE_R_expeval,
)
from ir_measures import calc_aggregate
from small_frames import qrels_of, run_of

from fairtk import Groups

GOLDEN = Path(__file__).parents[4] / "tests" / "golden"
MACHINE = json.loads((GOLDEN / "ee_machine_user.json").read_text(encoding="utf-8"))["cases"]
BROWSING = json.loads((GOLDEN / "ee_browsing_models.json").read_text(encoding="utf-8"))["cases"]
FAIR_RAG = (EE_D_fair_rag, EE_R_fair_rag, EE_L_fair_rag)
EXPEVAL = (EE_D_expeval, EE_R_expeval, EE_L_expeval)
GROUP_EXPEVAL = (
    (GroupEE_D_expeval, "EE-D"),
    (GroupEE_R_expeval, "EE-R"),
    (GroupEE_L_expeval, "EE-L"),
)


def close(value, expected):
    return value == pytest.approx(expected, abs=1e-9, rel=1e-9)


def by_definition(case):
    """Return disparity, relevance and loss; the last two are NaN without a useful document."""
    k, useful = case["k"], {docno for docno, label in case["labels"].items() if label > 0}
    docnos = [docno for ranking in case["rankings"] for docno in ranking[:k]]
    exposure = {docno: docnos.count(docno) / len(case["rankings"]) for docno in {*docnos, *useful}}
    disparity = sum(e**2 for e in exposure.values())
    if not useful:
        return disparity, np.nan, np.nan
    target = {docno: min(1.0, k / len(useful)) * (docno in useful) for docno in exposure}
    relevance = sum(exposure[d] * target[d] for d in exposure)
    return disparity, relevance, sum((exposure[d] - target[d]) ** 2 for d in exposure)


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
@pytest.mark.parametrize("case", MACHINE, ids=lambda c: f"{c['id']}-{c['tag']}")
@pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning")
def test_fair_rag(case):
    qrels, run = qrels_of(case["labels"]), run_of(case["rankings"])
    raw = [m(normalize=False) @ case["k"] for m in FAIR_RAG]
    normalized = [m @ case["k"] for m in FAIR_RAG]
    got = calc_aggregate(raw + normalized, qrels, run)
    for key, measures in (("code_raw", raw), ("code_normalised", normalized)):
        want = case[key]
        if "error" in want:  # marked: the code raises; EE-R and EE-L are NaN here
            expected = by_definition(case)
            if key == "code_normalised":
                expected = (expected[0] / case["k"], np.nan, np.nan)
            assert [got[m] for m in measures] == pytest.approx(expected, abs=1e-12, nan_ok=True)
            continue
        assert close(got[measures[0]], want["disparity"])
        assert close(got[measures[1]], want["relevance"])
        assert close(got[measures[2]], want["difference"])


def expeval(case):
    options = case["options"]
    if options["umType"] == "rbp":
        browsing = f"RBP(p={options['umPatience']})"
    else:
        browsing = f"GERR(p={options['umPatience']}, u={options['umUtility']})"
    return {
        "browsing": browsing,
        "complete": options["complete"],
        "graded": not options["binarize"],
    }


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
@pytest.mark.parametrize("case", BROWSING, ids=lambda c: f"{c['id']}-{c['tag']}")
@pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning")
def test_expeval(case):
    qrels, run = qrels_of({d: g for d, _, g in case["qrels"]}), run_of(case["rankings"])
    if case["options"]["umPatience"] == 1:  # marked: the code divides by zero
        with pytest.raises(ValueError, match="p below 1"):
            EXPEVAL[0](**expeval(case))
        return
    raw = [m(normalize=False, **expeval(case)) for m in EXPEVAL]
    normalized = [m(**expeval(case)) for m in EXPEVAL]
    got = calc_aggregate(raw + normalized, qrels, run)
    if case["individual"]["raw"] is None:  # marked: nothing is printed without a useful document
        assert np.isnan(got[raw[1]])
        assert np.isnan(got[raw[2]])
        return
    missing = not case["rankings"]
    for key, measures in (("raw", raw), ("normalised", normalized)):
        want = case["individual"][key]
        assert close(got[measures[0]], want["EE-D"])
        if missing:  # marked: the code takes the wrong bound for EE-L; the worst value here
            assert got[measures[2]] > want["EE-L"]
            assert got[normalized[1]] == 0
        else:
            assert close(got[measures[1]], want["EE-R"])
            assert close(got[measures[2]], want["EE-L"])


@pytest.mark.parametrize(
    "case",
    [c for c in BROWSING if c["rankings"] and "EE-D" in (c["group"]["raw"] or {})],
    ids=lambda c: f"{c['id']}-{c['tag']}",
)
def test_expeval_of_groups(case):
    rows = [(d, g) for d, ids, _ in case["qrels"] for g in ids.split("|")]
    groups = Groups.from_frame(
        pd.DataFrame(rows, columns=["docno", "group"]), unknown=None, normalize=False
    )
    options = {**expeval(case), "groups": groups}
    qrels, run = qrels_of({d: g for d, _, g in case["qrels"]}), run_of(case["rankings"])
    for measure, key in GROUP_EXPEVAL:
        raw, normalized = measure(**options, normalize=False), measure(**options)
        got = calc_aggregate([raw, normalized], qrels, run)
        if case["group"]["raw"][key] == "inf":  # marked: no exposure is no disparity here
            assert got[raw] == 0 and got[normalized] <= 0  # the smallest value of a policy
            continue
        assert got[raw] == pytest.approx(case["group"]["raw"][key], abs=1e-9, rel=1e-9)
        if key == "EE-D" and case["group_normalised_EE-D_degenerate"]:
            # marked: the bounds differ by rounding errors, by which the code divides
            assert got[normalized] == 0
        else:
            expected = case["group"]["normalised"][key]
            assert got[normalized] == pytest.approx(expected, abs=1e-9, rel=1e-9)
