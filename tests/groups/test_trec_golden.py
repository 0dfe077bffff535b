"""Targets against TREC Fair Ranking 2022's code; values are in tests/measures."""

import json
from pathlib import Path

import numpy as np
import pytest
from trec_worlds import groups_of, qrels_of, weights_of

from fairtk.groups import Target

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
    monkeypatch.setattr("fairtk.groups.target._FEW_LEVELS", small)
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


@pytest.mark.parametrize(("world", "case"), cases("eel"))
def test_task_2_targets(world, case):
    if case["target_kind"] == "uniform":
        return
    groups, backgrounds = groups_of(world, case["dims"])
    background = backgrounds if groups.space.crossed else backgrounds.get(case["dims"][0])
    target = Target.from_work_needed(qrels_of(case), groups, world["quality"], background)
    found = target.for_qids(["q"]).expanded().dense()[0]
    assert found == pytest.approx(weights_of(case["target"]), abs=1e-6)
