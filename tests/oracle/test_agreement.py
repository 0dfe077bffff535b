"""fairtk agrees with plain implementations of the published definitions, on random queries.

`docs/concepts/agreement.md` has the table of `agreement()`.
"""

import ast
import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plain
import pytest
from ir_measures import nDCG
from plain import Query

import fairtk
from fairtk import AWRF, EE_D, EE_L, EE_R, E, Groups, Target, nDCG_AWRF, nDCG_TREC
from fairtk.credit import AE_D, AE_L, AE_R, CreditGap

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "agreement.md"
CUTOFFS = (1, 3, 5)
QUERIES = 300
TASK1 = "TREC 2022, Task 1"
EE = {"EE_D": EE_D, "EE_R": EE_R, "EE_L": EE_L}


def random_query(rng):
    """Return a query; some have no useful, few, or only useful documents, or are not in the run."""
    docnos = [f"d{i}" for i in range(rng.integers(4, 15))]
    judged = [d for d in docnos if rng.random() < 0.8] or docnos[:1]
    share = rng.choice([0, 0.5, 1], p=[0.05, 0.9, 0.05])
    labels = {d: int(rng.integers(1, 3)) if rng.random() < share else 0 for d in judged}
    depth = rng.integers(1, len(docnos) + 1)
    n_samples = 0 if rng.random() < 0.03 else rng.integers(1, 4)
    rankings = [rng.permutation(docnos)[:depth].tolist() for _ in range(n_samples)]
    groups = {}
    for docno in docnos:
        if rng.random() < 0.8:
            levels = rng.choice(["x", "y", "z"], rng.integers(1, 3), replace=False).tolist()
            groups[docno] = {level: 1 / len(levels) for level in levels}
    target = dict(zip("xyz", rng.dirichlet([1, 1, 1]).tolist(), strict=True))
    credit = [
        {d: math.nan if rng.random() < 0.05 else float(rng.integers(-1, 4)) for d in ranking}
        for ranking in rankings
    ]
    return Query(labels, rankings, groups, target, credit)


def frames(queries):
    """Return labels, a run with credit, groups, and the target of each query."""
    labels, run, members, targets = [], [], [], []
    for qid, query in queries.items():
        labels += [(qid, qid + d, label) for d, label in query.labels.items()]
        for sample, (ranking, credit) in enumerate(zip(query.rankings, query.credit, strict=True)):
            run += [(qid, sample, qid + d, r, -float(r), credit[d]) for r, d in enumerate(ranking)]
        for d, levels in query.groups.items():
            members += [(qid + d, level, weight) for level, weight in levels.items()]
        targets += [(qid, level, weight) for level, weight in query.target.items()]
    columns = ["qid", "sample", "docno", "rank", "score", "credit"]
    groups = Groups.from_frame(pd.DataFrame(members, columns=["docno", "group", "weight"]))
    target = Target.from_frame(pd.DataFrame(targets, columns=["qid", "group", "weight"]), groups)
    qrels = pd.DataFrame(labels, columns=["qid", "docno", "label"])
    return qrels, pd.DataFrame(run, columns=columns), groups, target


# The cases in which fairtk departs from a definition; the page says how.


def absent(query, k):
    return not query.rankings


def no_useful(query, k):
    return not query.useful


def few_documents(query, k):
    return len(query.documents) < k


def all_useful(query, k):
    return len(query.useful) == len(query.labels) <= k


def no_groups(query, k):
    return not any(d in query.groups for ranking in query.rankings for d in ranking[:k])


def undefined_credit_only(query, k):
    return bool(query.documents - set(query.labels).union(*plain.credited(query)))


@dataclasses.dataclass
class Definition:
    """A published definition, fairtk's measures of its values, and the cases of departures."""

    name: str
    values: Callable[..., dict[str, float]]
    measures: dict[str, Any]
    departures: dict[str, tuple[Callable[[Query, int], bool], ...]]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


EXPEVAL = [
    {"p": 0.5, "u": None, "complete": False, "graded": True},
    {"p": 0.8, "u": None, "complete": True, "graded": False},
    {"p": 0.5, "u": 0.5, "complete": True, "graded": True},
    {"p": 0.9, "u": 0.3, "complete": False, "graded": False},
    {"p": 0.0, "u": None, "complete": False, "graded": True},
]


def definitions(k, groups, target):
    """Yield the definitions with a cutoff; expeval has none."""
    ideal = (absent, no_useful, few_documents)
    yield Definition(
        "paper",
        plain.paper,
        {name: measure(graded=False) @ k for name, measure in EE.items()},
        {"EE_D": (absent, few_documents), "EE_R": ideal, "EE_L": ideal},
    )
    yield Definition(
        "fair-rag",
        plain.fair_rag,
        {name: measure(variant="fair-rag") @ k for name, measure in EE.items()},
        {"EE_D": (absent, no_useful, all_useful), "EE_R": (absent,), "EE_L": (absent,)},
    )
    for settings in EXPEVAL:
        p, u = settings["p"], settings["u"]
        options = {key: settings[key] for key in ("complete", "graded")}
        options["browsing"] = f"RBP(p={p})" if u is None else f"GERR(p={p}, u={u})"
        yield Definition(
            "expeval",
            plain.expeval,
            {name: measure(variant="expeval", **options) for name, measure in EE.items()},
            {"EE_D": (no_useful,), "EE_R": (absent,), "EE_L": (absent,)},
            settings,
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
        {name: measure(**by_group) @ k for name, measure in EE.items()},
        dict.fromkeys(EE, (absent, no_useful)),
    )
    yield Definition("trec_eval", plain.trec_eval, {"nDCG": E(nDCG @ k)}, {"nDCG": ()})
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
        {"AWRF": AWRF(**by_group, of="credit"), "CreditGap": CreditGap(groups=groups) @ k},
        {"AWRF": (absent,), "CreditGap": (absent,)},
    )


def plain_values(definition, query, k):
    """Return the plain values; none if the published code has none, or fails with an error."""
    if not query.rankings and definition.name not in ("expeval", "trec_eval"):
        return {}
    try:
        return definition.values(query, cutoff=k, **definition.settings)
    except (ZeroDivisionError, IndexError, ValueError):
        return {}


def agreement():
    """Return how many values agree, and differ in a known case, by definition and value."""
    rng = np.random.default_rng(16)
    queries = {f"q{i}": random_query(rng) for i in range(QUERIES)}
    single = {
        q: dataclasses.replace(query, rankings=query.rankings[:1]) for q, query in queries.items()
    }
    qrels, credit, groups, target = frames(queries)
    run = credit.drop(columns="credit")
    runs = {
        "credit": credit.drop(columns="score"),
        "credit of groups": credit.drop(columns="score"),
        TASK1: run[run["sample"] == 0].drop(columns="sample"),
    }
    counts = Counter()
    for k in CUTOFFS:
        for one in definitions(k, groups, target):
            systems = {"run": runs.get(one.name, run)}
            results = fairtk.evaluate(qrels, systems, list(one.measures.values()))
            values = results.per_query.set_index(["measure", "qid"])["value"]
            for qid, query in (single if one.name == TASK1 else queries).items():
                expected = plain_values(one, query, k)
                for name, label in zip(one.measures, results.measures, strict=True):
                    ours, other = values[label, qid], expected.get(name, math.nan)
                    agrees = ours == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True)
                    known = any(case(query, k) for case in one.departures[name])
                    assert agrees or known, (one.name, name, k, one.settings, query, ours, other)
                    counts[one.name, name, agrees] += 1
    return counts


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
def test_values_agree_and_the_page_has_the_table():
    counts = agreement()
    rows = [
        f"| {name} | {value} | {counts[name, value, True]:,} | {counts[name, value, False]:,} |"
        for name, value in dict.fromkeys(key[:2] for key in counts)
    ]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")


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


def test_an_absent_query_is_no_empty_ranking():
    """Its values by expeval's own rule, of a topic that the run lacks; EE-D is 1 in both.

    p = .5, without u, one grade: EE-D its upper bound, 1; both bounds of EE-R equal, 1 by default;
    EE-L the bound of EE-R, 0. Two grades, 2 and 1: targets 1 and .5, EE-R its lower bound, 0; EE-L
    1 + .25 over 1.25 + 1 / (1 - .5) = 3.25.
    """
    settings = {"p": 0.5, "u": None, "complete": False}
    one = plain.expeval(plain.Query({"a": 1, "b": 1, "c": 0}, []), **settings)
    assert one == {"EE_D": 1.0, "EE_R": 1.0, "EE_L": 0.0}
    two = plain.expeval(plain.Query({"a": 2, "b": 1}, []), **settings)
    assert two == {"EE_D": 1.0, "EE_R": 0.0, "EE_L": pytest.approx(1.25 / 3.25)}
