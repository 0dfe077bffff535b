"""Targets, AWRF's arithmetic and group expected exposure against TREC Fair Ranking 2022's code."""

import json
from pathlib import Path

import numpy as np
import pytest
from trec_worlds import exposure_of, groups_of, qrels_of, run_of, target_of, weights_of

from fairtk.errors import DuplicateError
from fairtk.exposure.browsing import TREC
from fairtk.groups import Target, factored, js_divergence
from fairtk.groups.divergence import loss_parts

GOLDEN = Path(__file__).parents[1] / "golden"


def cases(name):
    data = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return [
        pytest.param(data["worlds"][c["world"]], c, id=f"{c['id']}-{c['tag']}")
        for c in data["cases"]
    ]


@pytest.mark.parametrize("small", [0, 1 << 12], ids=["factored", "written-out"])
@pytest.mark.parametrize(("world", "case"), cases("awrf_targets"))
def test_task_1_targets(world, case, small, monkeypatch):
    monkeypatch.setattr(factored, "_FEW_LEVELS", small)
    groups, backgrounds = groups_of(world, case["dims"])
    assert sorted(backgrounds) == sorted(case["averaged_dims"])
    background = backgrounds if groups.space.crossed else backgrounds.get(case["dims"][0])
    target = Target.from_qrels(qrels_of(case), groups, background)
    want = weights_of(case["target"])
    rows = target.for_qids(["q"])
    every = np.arange(len(want))
    assert rows.lookup(np.zeros(len(want), dtype=np.int64), every) == pytest.approx(want, abs=1e-12)
    assert rows.expanded().dense()[0] == pytest.approx(want, abs=1e-12)
    assert rows.total()[0] == pytest.approx(1, abs=1e-12)
    assert rows.square()[0] == pytest.approx((want**2).sum(), rel=1e-12)


@pytest.mark.parametrize(("world", "case"), cases("awrf"))
def test_awrf(world, case):
    groups, _ = groups_of(world, case["dims"])
    target = target_of(case, groups)
    if len(set(case["ranking"])) < len(case["ranking"]):  # marked: refused here
        with pytest.raises(DuplicateError):
            exposure_of(groups, run_of([case["ranking"]]))
        return
    exposure = exposure_of(groups, run_of([case["ranking"]]))
    value = 1 - js_divergence(exposure, target.for_qids(["q"]))[0]
    want = case["expected"].get("AWRF")
    if "all pages unknown" in case["tag"]:
        assert np.isnan(value)
    elif want == "nan":  # marked: the reference takes the root of a tiny negative number
        assert value == pytest.approx(1, abs=1e-9)
    elif want is not None:  # runs that are too long are the measure's to refuse
        assert value == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize(("world", "case"), cases("eel"))
def test_task_2(world, case):
    groups, backgrounds = groups_of(world, case["dims"])
    target = target_of(case, groups)
    if case["target_kind"] == "task2":
        made = Target.from_work_needed(
            qrels_of(case),
            groups,
            world["quality"],
            backgrounds if groups.space.crossed else backgrounds.get(case["dims"][0]),
        )
        want = weights_of(case["target"])
        assert made.for_qids(["q"]).expanded().dense()[0] == pytest.approx(want, abs=1e-6)
    run = run_of(case["sequences"])
    rel = {str(p) for p in case["rel"]}
    counts = rel
    if not case["options"]["only_rel"] and rel.intersection(run["docno"]):
        counts = None  # the reference counts nothing at all where nothing relevant is shown
    scale = TREC().weights(np.arange(case["options"]["target_len"])).sum()
    values = loss_parts(exposure_of(groups, run, counts), target.for_qids(["q"]), scale)
    if "error" in case["expected"]:  # marked: the reference stumbles over one relevant document
        assert np.isfinite(values).all()
        return
    for value, key in zip(values, ("EE-D", "EE-R", "EE-L"), strict=True):
        assert value[0] == pytest.approx(case["expected"][key], rel=1e-5, abs=1e-12)
