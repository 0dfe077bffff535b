"""FAStarIR on frames: which documents count, what is asked for, what is said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fairtk_baselines import FAStarIR
from fairtk_baselines.fa_star_ir import mtable, multinomial_test

from fairtk.errors import ColumnError, DataWarning, InputError, ParameterError
from fairtk.groups import Groups, Target
from fairtk.testing import TransformerContract, toy_groups, toy_run

TOYS = Groups.from_frame(toy_groups(), name="place", unknown=None)
PEOPLE = ["@UNKNOWN", "a", "b", "c"]


def people(**memberships):
    """Return groups of documents: ``d1="a"``, or ``d1={"a": 1, "b": 1}``."""
    rows = [
        (docno, level, weight)
        for docno, levels in memberships.items()
        for level, weight in (levels.items() if isinstance(levels, dict) else [(levels, 1.0)])
    ]
    frame = pd.DataFrame(rows, columns=["docno", "group", "weight"])
    return Groups.from_frame(frame, name="people", levels=PEOPLE)


def run_of(*docnos, qid="q"):
    rows = [(qid, docno, -float(place)) for place, docno in enumerate(docnos)]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def target_of(**shares):
    """Return a target: ``q={"a": 0.5, ...}``."""
    rows = [(qid, level, w) for qid, levels in shares.items() for level, w in levels.items()]
    return Target.from_frame(
        pd.DataFrame(rows, columns=["qid", "people", "weight"]).rename(columns={"people": "group"}),
    )


ALTERNATING = people(a1="a", a2="a", a3="a", a4="a", b1="b", b2="b", c1="c", u="@UNKNOWN")


class TestBinomialContract(TransformerContract):
    # alpha .3 without correction: F(0; 2, .5) = .25 asks for one protected document of two, and
    # F(1; 4, .5) = .3125 for no second one among four: every toy query but q1 has enough houses
    def make(self):
        return FAStarIR(TOYS, 0.5, cutoff=4, alpha=0.3, protected="house", adjust="none")

    def others(self):
        same = {"cutoff": 4, "alpha": 0.3, "protected": "house", "adjust": "none"}
        changes = [
            {"cutoff": 5},
            {"alpha": 0.2},
            {"protected": ["house", "sea"]},
            {"protected": None},
            {"adjust": "below"},
            {"merge_below": 0.2},
            {"samples": 200},
            {"seed": 1},
        ]
        every = [FAStarIR(TOYS, 0.5, **{**same, **change}) for change in changes]
        named = {"cutoff": 4, "alpha": 0.3, "adjust": "none"}
        return [
            *every,
            FAStarIR(TOYS, 0.4, **same),
            FAStarIR(TOYS, {"house": 0.5}, **named),
            FAStarIR(TOYS, {"house": 0.5}, test="multinomial", **named),
        ]

    def other_values(self):
        return {"groups": Groups.from_frame(toy_groups()[1:]), "test": "multinomial"}

    def test_it_does_something(self):
        out = self.make().transform(self.inp())
        assert out[out["qid"] == "q2"]["docno"].tolist()[:3] == ["d2", "d6", "d4"]


class TestMultinomialContract(TransformerContract):
    def make(self):
        shares = {"house": 0.3, "sea": 0.2}
        return FAStarIR(TOYS, shares, cutoff=4, alpha=0.3, test="multinomial", adjust="below")

    def other_values(self):
        groups = Groups.from_frame(toy_groups()[1:])
        refused = {"protected": "house"}
        return {"groups": groups, "p": {"sea": 0.5}, "test": "binomial", "adjust": "none"} | refused


class TestTargetContract(TransformerContract):
    def make(self):
        target = Target.population({"house": 0.4, "sea": 0.3, "land": 0.3}, TOYS)
        return FAStarIR(TOYS, target, cutoff=4, alpha=0.2)

    def other_values(self):
        groups = Groups.from_frame(toy_groups()[1:])
        texts = {"protected": "house", "test": "multinomial", "adjust": "none"}
        return {"groups": groups, "p": 0.5, **texts}

    def test_it_does_something(self):
        moved = self.make().transform(toy_run())["docno"].tolist()
        assert moved != toy_run()["docno"].tolist()


# --- which documents count


def test_order_by_hand():
    # k = 4, p = .5, alpha = .3, no correction: 0, 1, 1, 2 are needed, since F(0; 2) = .25,
    # F(1; 3) = .5, F(0; 3) = .125, F(1; 4) = .3125 > .3 > F(0; 4): the last is 1, not 2
    assert mtable(4, 0.5, 0.3, "none").needed == (0, 1, 1, 1)
    fair = FAStarIR(ALTERNATING, 0.5, cutoff=4, alpha=0.3, protected="b", adjust="none")
    out = fair(run_of("a1", "a2", "a3", "a4", "b1", "b2"))
    assert out["docno"].tolist() == ["a1", "b1", "a2", "a3", "a4", "b2"]
    assert out["rank"].tolist() == [0, 1, 2, 3, 4, 5]
    assert out["score"].tolist() == [0, -1, -2, -3, -4, -5]
    assert out.columns.tolist() == ["qid", "docno", "score", "rank"]


def test_a_floor_and_no_ceiling():
    fair = FAStarIR(ALTERNATING, 0.1, cutoff=4, protected="a")
    run = run_of("a1", "a2", "a3", "a4", "b1", "b2")
    assert fair(run)["docno"].tolist() == run["docno"].tolist()


def test_most_exposed_level_is_the_other_side():
    # In the first four ranks a has two documents, b one at rank 1, which weighs 1 as rank 2 does:
    # a: ranks 2 and 3, 1 + 1/log2(3) = 1.63; b: 1; c, rank 4: 1/2. So b and c are protected.
    fair = FAStarIR(ALTERNATING, 0.5, cutoff=4)
    run = run_of("b1", "a1", "a2", "c1", "a3", "a4", "b2")
    report = fair.check(run)
    assert report[["group", "shown"]].to_numpy().tolist() == [["all but a", 2]]
    # at k = 1 it is b
    assert FAStarIR(ALTERNATING, 0.5, cutoff=1).check(run)["group"].tolist() == ["all but b"]


def test_ties_in_exposure_go_by_target_then_order():
    run = run_of("b1", "a1", "u")
    assert FAStarIR(ALTERNATING, 0.5, cutoff=2).check(run)["group"].tolist() == ["all but a"]
    target = target_of(q={"a": 0.3, "b": 0.7})
    assert FAStarIR(ALTERNATING, target, cutoff=2).check(run)["group"].tolist() == ["all but b"]


def test_nothing_known_in_the_input():
    run = run_of("u", "nobody")
    assert FAStarIR(ALTERNATING, 0.0).check(run)["group"].tolist() == ["all but a"]
    target = target_of(q={"a": 0.3, "c": 0.7})
    with pytest.warns(DataWarning):
        out = FAStarIR(ALTERNATING, target, cutoff=2, alpha=0.9)(run)
    assert out["docno"].tolist() == ["u", "nobody"]


def test_soft_memberships_count_from_one_half():
    groups = people(
        half={"a": 1, "b": 1},
        less={"a": 2, "b": 1},
        spread={"b": 1, "c": 1, "a": 1},
        unsure={"b": 1, "@UNKNOWN": 1.5},
        b="b",
        u="@UNKNOWN",
    )

    def shown(docno, **settings):
        report = FAStarIR(groups, cutoff=1, **settings).check(run_of(docno))
        return report["shown"].tolist()

    assert shown("half", p=0.5, protected="b") == [1]
    assert shown("less", p=0.5, protected="b") == [0]
    assert shown("unsure", p=0.5, protected="b") == [0]
    assert shown("u", p=0.5, protected="b") == [0]
    assert shown("no row", p=0.5, protected="b") == [0]
    assert shown("spread", p=0.5, protected=["b", "c"]) == [1]
    # apart: the level of most weight; of equal ones, that with the smaller share
    apart = {"test": "multinomial", "merge_below": 0}
    assert shown("spread", p={"b": 0.3, "c": 0.2}, **apart) == [0, 1]
    assert shown("spread", p={"b": 0.2, "c": 0.3}, **apart) == [1, 0]
    assert shown("less", p={"b": 0.2, "a": 0.3}, **apart) == [1, 0]


# --- what is asked for


def test_each_query_takes_its_own_share():
    target = target_of(q1={"a": 0.5, "b": 0.2, "@UNKNOWN": 0.3}, q2={"a": 0.1, "b": 0.4, "c": 0.5})
    run = pd.concat([run_of("a1", "b1", "c1", qid="q1"), run_of("a1", "b1", "c1", qid="q2")])
    report = FAStarIR(ALTERNATING, target, cutoff=3, protected=["b", "c"]).check(run)
    assert report["p"].tolist() == pytest.approx([0.2, 0.9])
    assert report["group"].tolist() == ["b + c", "b + c"]
    for row in report.itertuples():
        assert row.alpha == mtable(3, row.p).adjusted_alpha
        assert row.fail_probability == mtable(3, row.p).fail_probability


def test_rare_levels_make_one_group():
    groups = Groups.from_frame(
        pd.DataFrame({"docno": list("vwxyz"), "group": list("vwxyz")}), name="people"
    )
    target = target_of(q={"v": 0.5, "w": 0.3, "x": 0.09, "y": 0.07, "z": 0.04})
    run = run_of("v", "y", "w", "z", "x")
    fair = FAStarIR(groups, target, cutoff=10, test="multinomial")
    report = fair.check(run)
    assert report["group"].tolist() == ["w", "x + y + z"]
    assert report["p"].tolist() == pytest.approx([0.3, 0.2])
    assert report["shown"].tolist() == [1, 3]
    test = multinomial_test(10, report["p"].tolist())
    assert report["alpha"].tolist() == [test.adjusted_alpha] * 2
    apart = FAStarIR(groups, target, cutoff=10, test="multinomial", merge_below=0.05)
    assert apart.check(run)["group"].tolist() == ["w", "x", "y", "z"]


def test_multinomial_keeps_levels_apart():
    # b has plenty: together nothing is asked for, apart c is
    docs = {f"b{i}": "b" for i in range(9)} | {f"a{i}": "a" for i in range(9)}
    groups = people(**docs, c1="c", c2="c", c3="c")
    order = [d for i in range(9) for d in (f"a{i}", f"b{i}")]
    run = run_of(*order, "c1", "c2", "c3")
    target = target_of(q={"a": 0.4, "b": 0.2, "c": 0.4})
    result = FAStarIR(groups, target, cutoff=10, protected=["b", "c"], alpha=0.2)(run)
    assert result["docno"].tolist() == run["docno"].tolist()
    settings = {"cutoff": 10, "protected": ["b", "c"], "alpha": 0.2, "test": "multinomial"}
    apart = FAStarIR(groups, target, **settings)
    assert apart.check(run)["unfair"].tolist() != [0, 0]
    out = apart(run)
    assert out["docno"].str.startswith("c")[:10].any()
    assert apart.check(out)["unfair"].tolist() == [0, 0]


def test_crossed_attributes():
    first = people(d1="a", d2="a", d3="b", d4="b")
    second = Groups.from_frame(
        pd.DataFrame({"docno": ["d1", "d2", "d3", "d4"], "group": ["x", "y", "x", "y"]}), name="xy"
    )
    run = run_of("d1", "d2", "d3", "d4")
    fair = FAStarIR(first * second, 0.7, cutoff=2, alpha=0.4, protected=("b", "y"))
    assert fair.protected == (("b", "y"),)
    assert fair(run)["docno"].tolist() == ["d4", "d1", "d2", "d3"]
    assert fair.check(run)["group"].tolist() == ["b x y"]
    target = Target.population({"people": {"a": 0.5, "b": 0.5}, "xy": {"x": 0.5, "y": 0.5}},
                               first * second)  # fmt: skip
    report = FAStarIR(first * second, target, cutoff=4, test="multinomial").check(run)
    assert report["p"].tolist() == [0.25] * 3
    assert report["shown"].tolist() == [1, 1, 1]


# --- what is said


def test_too_few_protected_documents():
    run = pd.concat([run_of("a1", "a2", "a3", "b1", qid="q1"), run_of("a1", "a2", "a3", qid="q2")])
    fair = FAStarIR(ALTERNATING, 0.9, cutoff=4, protected="b")
    with pytest.warns(DataWarning, match="2 of 2.*'q1'.*'q2'"):
        out = fair(run)
    assert out["docno"].tolist() == ["b1", "a1", "a2", "a3", "a1", "a2", "a3"]
    report = fair.check(out)
    assert report["shown"].tolist() == [1, 0]
    needed = mtable(4, 0.9).needed
    assert report["unfair"].tolist() == [needed.index(2) + 1, needed.index(1) + 1]


def test_queries_without_target():
    assert mtable(4, 0.8).needed == (0, 1, 1, 2)
    target = target_of(q1={"a": 0.2, "b": 0.8})
    run = pd.concat([run_of("a1", "a2", "b1", "b2", qid=qid) for qid in ("q1", "q2")])
    for test in ("binomial", "multinomial"):
        fair = FAStarIR(ALTERNATING, target, cutoff=4, protected="b", test=test)
        with pytest.warns(DataWarning, match="1 of 2.*'q2'"):
            out = fair(run)
        assert out["docno"].tolist() == ["a1", "b1", "a2", "b2", "a1", "a2", "b1", "b2"]
        report = fair.check(run)
        assert report["group"].tolist() == ["b", "no target"]
        assert report["unfair"].isna().tolist() == [False, True]


def test_a_target_of_one_group():
    # all of the target is the most exposed level: nothing is asked for
    target = target_of(q={"a": 1.0})
    run = run_of("a1", "a2", "b1")
    for test in ("binomial", "multinomial"):
        out = FAStarIR(ALTERNATING, target, test=test)(run)
        assert out["docno"].tolist() == run["docno"].tolist()


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"p": 1.2}, ParameterError),
        ({"p": {"a": 0.6, "b": 0.6}}, ParameterError),
        ({"p": {"a": 0.1}, "protected": "a"}, ParameterError),
        ({"p": 0.5, "protected": "z"}, InputError),
        ({"p": 0.5, "protected": 3}, InputError),
        ({"p": {}}, ParameterError),
        ({"p": {"x": 0.1}}, InputError),
        ({"p": 0.5, "protected": ["a", "a"]}, ParameterError),
        ({"p": 0.5, "protected": "@UNKNOWN"}, ParameterError),
        ({"p": 0.5, "cutoff": 0}, ParameterError),
        ({"p": 0.5, "alpha": 1}, ParameterError),
        ({"p": 0.5, "test": "binomal"}, ParameterError),
        ({"p": 0.5, "adjust": "no"}, ParameterError),
        ({"p": 0.5, "test": "multinomial"}, ParameterError),
        ({"p": 0.5, "merge_below": 2}, ParameterError),
        ({"p": 0.5, "samples": 5}, ParameterError),
        ({"p": 0.5, "groups": "gender"}, ParameterError),
    ],
)
def test_settings_out_of_range(settings, kind):
    with pytest.raises(kind, match=rf"\b{[*settings][-1]}\b"):
        FAStarIR(**{"groups": ALTERNATING, **settings})


def test_one_known_level():
    groups = Groups.from_frame(
        pd.DataFrame({"docno": ["d1", "d2"], "group": ["a", "@UNKNOWN"]}), name="people"
    )
    with pytest.raises(InputError):
        FAStarIR(groups, 0.5)
    assert FAStarIR(groups, 0.5, protected="a").protected == ("a",)


def test_target_of_other_groups():
    with pytest.raises(InputError, match="unknown level 'z'"):
        FAStarIR(ALTERNATING, target_of(q={"z": 1.0}))


def test_sampled_runs_are_refused():
    with pytest.raises(ColumnError, match="FAStarIR"):
        FAStarIR(ALTERNATING, 0.5)(run_of("a1").assign(sample=0))


def test_protected_may_be_any_collection_of_levels():
    groups = people(d1="a", d2="b", d3="c")
    for several in (["b", "c"], ("c", "b"), {"b", "c"}, np.array(["b", "c"])):
        assert FAStarIR(groups, 0.3, protected=several).protected == ("b", "c")
