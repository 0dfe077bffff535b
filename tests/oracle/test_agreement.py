"""fairtk agrees with plain implementations of the published definitions, on random queries.

`docs/concepts/agreement.md` has the table.
"""

import ast
import dataclasses
import math
from pathlib import Path

import plain
import pytest
from agreement_table import (
    PAGE,
    TASK1,
    Definition,
    absent,
    agreement,
    few_documents,
    no_groups,
    no_useful,
    rows_of,
    undefined_credit_only,
)
from ir_measures import nDCG
from plain import Query

from fairtk import AWRF, EE_D, EE_L, EE_R, E, GroupEE_D, GroupEE_L, GroupEE_R, nDCG_AWRF, nDCG_TREC
from fairtk.credit import AE_D, AE_L, AE_R, CreditAWRF, CreditGap

EE = {"EE_D": EE_D, "EE_R": EE_R, "EE_L": EE_L}
GROUP_EE = {"GroupEE_D": GroupEE_D, "GroupEE_R": GroupEE_R, "GroupEE_L": GroupEE_L}


def definitions(k, groups, target):
    """Yield the definitions with a cutoff."""
    ideal = (absent, no_useful, few_documents)
    yield Definition(
        "paper",
        plain.paper,
        {name: measure(graded=False) @ k for name, measure in EE.items()},
        {"EE_D": (absent, few_documents), "EE_R": ideal, "EE_L": ideal},
    )
    by_group = {"groups": groups, "target": target}
    ndcg, awrf, score = nDCG_TREC @ k, AWRF(**by_group) @ k, nDCG_AWRF(**by_group) @ k
    undefined = (absent, no_groups)
    yield Definition(
        TASK1,
        plain.task1,
        {"nDCG": ndcg, "AWRF": awrf, "Score": score},
        {"nDCG": undefined, "AWRF": (*undefined, no_useful), "Score": undefined},
    )
    yield Definition(
        "TREC 2022, Task 2",
        plain.task2,
        {name: measure(**by_group) @ k for name, measure in GROUP_EE.items()},
        dict.fromkeys(GROUP_EE, (absent, no_useful)),
    )
    yield Definition(
        "trec_eval", plain.trec_eval, {"nDCG": E(nDCG @ k)}, {"nDCG": ()}, has_missing=True
    )
    left_out = (absent, undefined_credit_only)
    yield Definition(
        "credit",
        plain.credit,
        {"AE_D": AE_D @ k, "AE_R": AE_R @ k, "AE_L": AE_L @ k, "CreditGap": CreditGap @ k},
        {"AE_D": (absent,), "AE_R": left_out, "AE_L": left_out, "CreditGap": (absent,)},
    )
    yield Definition(
        "credit of groups",
        plain.credit_of_groups,
        {"AWRF": CreditAWRF(**by_group), "CreditGap": CreditGap(groups=groups) @ k},
        {"AWRF": (absent,), "CreditGap": (absent,)},
    )


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
def test_values_agree_and_the_page_has_the_table():
    assert rows_of(agreement(definitions)) in PAGE.read_text(encoding="utf-8")


def test_plain_implementations_import_nothing_of_fairtk():
    tree = ast.parse(Path(plain.__file__).read_text(encoding="utf-8"))
    modules = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    modules += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert set(modules) == {"collections", "dataclasses", "math", "typing"}


def test_the_paper_by_hand():
    # k = 2, n = 4, m = 1: target 1 for a, (2 - 1) / (4 - 1) = 1/3 for the others
    # exposure: a 1, b 1/2, c 1/2: EE-D (1 + 1/4 + 1/4) / 2; EE-R 1 + 1/6 + 1/6 of 1 + 1/3
    query = Query({"a": 1, "b": 0, "c": 0, "d": 0}, [["a", "b", "d"], ["a", "c", "d"]])
    found = plain.paper(query, cutoff=2)
    assert found["EE_D"] == pytest.approx(0.75)
    assert found["EE_R"] == pytest.approx(1.0)
    # the loss: two of (1/2 - 1/3)^2 and one of (1/3)^2, of 4/3 + 2
    assert found["EE_L"] == pytest.approx((2 / 36 + 1 / 9) / (4 / 3 + 2))
    # the code gives b and c no target: 1 of 4/3
    assert plain.fair_rag(query, cutoff=2)["EE_R"] == pytest.approx(0.75)


def test_trec_by_hand():
    # ranks 1 and 2 weigh 1, rank 3 1 / log2(3): the useful a and c have 1 + 0.63093 of 2
    query = Query(
        {"a": 1, "c": 1}, [["a", "b", "c"]], {"a": {"x": 1.0}, "b": {"y": 1.0}}, {"x": 1.0}
    )
    found = plain.task1(query, cutoff=3)
    assert found["nDCG"] == pytest.approx((1 + 1 / math.log2(3)) / 2)
    # exposure 1/2, 1/2 against 1, 0: JSD = (ln 2 / 2 + ln(2/3)) / 2 + ... in closed form
    jsd = 0.5 * (math.log(1 / 0.75)) + 0.5 * (0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(2))
    assert found["AWRF"] == pytest.approx(1 - jsd)
    assert plain.trec_eval(query, cutoff=3)["nDCG"] == pytest.approx(1.5 / (1 + 1 / math.log2(3)))


CREDIT = [
    {"a": 3.0, "c": 1.0}, {"b": 1.0, "c": 1.0, "e": -2.0}, {"a": math.nan, "b": 1.0}, {"d": 0.0}
]  # fmt: skip


def test_credit_by_hand():
    """Shares: a 3/4, c 1/4; b and c 1/2, e 0; the others are undefined. Alpha: 3/8, 1/4, 3/8."""
    query = Query({"a": 2, "b": 1, "c": 0}, [], credit=CREDIT)
    # n = 5; two places: a and b have 1/2 each: AE_R (3/8 + 1/4) / 2 of 1/2
    # shares of two places: a 1/4, b 1/4, c 1/2; the gap 1/64 + 0 + 1/64
    assert plain.credit(query, cutoff=2) == pytest.approx(
        {
            "AE_D": (9 + 4 + 9) / 64,
            "AE_R": 5 / 8,
            "AE_L": (1 + 4 + 9) / 64 / 1.5,
            "CreditGap": 1 / 32,
        }
    )
    # three: the third is for c, d and e alike, so that 1/3, 1/3, 1/9, 1/9, 1/9
    found = plain.credit(query, cutoff=3)
    assert found["AE_R"] == pytest.approx(3 / 8 + 1 / 4 + 3 / 8 / 3)
    distance = (3 / 8 - 1 / 3) ** 2 + (1 / 4 - 1 / 3) ** 2 + (3 / 8 - 1 / 9) ** 2 + 2 / 81
    assert found["AE_L"] == pytest.approx(distance / (1 + 2 / 9 + 3 / 81))
    # shares of three places: the second ranking has three documents, 1/3 each
    gap = (1 / 8) ** 2 + (1 / 4 - 1 / 6) ** 2 + (5 / 12 - 3 / 8) ** 2 + (1 / 6) ** 2
    assert found["CreditGap"] == pytest.approx(gap)
    assert set(plain.credit(dataclasses.replace(query, labels={"c": 0}), cutoff=2)) == {
        "AE_D", "CreditGap",
    }  # fmt: skip
    with pytest.raises(ValueError, match="no ranking of the query has defined credit"):
        plain.credit(dataclasses.replace(query, credit=CREDIT[2:]), cutoff=2)


def test_credit_of_groups_by_hand():
    # c and e have no group: x 3/8, y 1/4, thus 3/5 and 2/5 against halves
    query = Query({}, [], {"a": {"x": 1.0}, "b": {"y": 1.0}}, {"x": 0.5, "y": 0.5}, credit=CREDIT)
    found = plain.credit_of_groups(query, cutoff=2)
    jsd = 0.3 * math.log(0.6 / 0.55) + 0.2 * math.log(0.4 / 0.45)
    jsd += 0.25 * math.log(0.5 / 0.55) + 0.25 * math.log(0.5 / 0.45)
    # x 3/8 - 1/4, y 1/4 - 1/4, unknown 3/8 - 1/2
    assert found == pytest.approx({"AWRF": 1 - jsd, "CreditGap": 1 / 32})
    # a half member: x 3/16 - 1/8, y the same and 0, unknown -1/8: 1/256 + 1/256 + 1/64
    both = dataclasses.replace(query, groups={"a": {"x": 0.5, "y": 0.5}, "b": {"y": 1.0}})
    assert plain.credit_of_groups(both, cutoff=2)["CreditGap"] == pytest.approx(6 / 256)
    # a quarter member: x 1/4 times 1/8, y 0, unknown 3/4 times 1/8 and -1/8: 1/1024 + 1/1024
    quarter = dataclasses.replace(query, groups={"a": {"x": 0.25}, "b": {"y": 1.0}})
    assert plain.credit_of_groups(quarter, cutoff=2)["CreditGap"] == pytest.approx(2 / 1024)
    assert plain.credit_of_groups(dataclasses.replace(query, groups={}), cutoff=2) == {}
    # the one document with a group has neither credit nor exposure
    beyond = dataclasses.replace(query, credit=[{"c": 1.0, "d": 0.0}], groups={"d": {"x": 1.0}})
    assert "CreditGap" not in plain.credit_of_groups(beyond, cutoff=1)
