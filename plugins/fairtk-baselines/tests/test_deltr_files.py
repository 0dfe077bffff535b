"""Saving and loading DELTR."""

import json

import pandas as pd
import pytest
from deltr_data import frame, groups, labels, made_up
from fairtk_baselines import DELTR
from fairtk_baselines.deltr import PUBLISHED

from fairtk import Groups
from fairtk.errors import FormatError, InputError, ParameterError

RUN, QRELS, GROUPS = made_up(levels=("a", "b", "c"))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"protected": "b", "gamma": 0},
        {"protected": ["b", "c"], "groups_apart": "each", "exposure": "relative"},
        {"protected_as_feature": False, "seed": 4, "labels": "share"},
        {**PUBLISHED, "max_iterations": 5},
    ],
)
def test_round_trip(tmp_path, settings):
    fitted = DELTR(GROUPS, **settings).fit(RUN, QRELS)
    fitted.save(tmp_path / "model")
    loaded = DELTR.load(tmp_path / "model")
    assert loaded == fitted  # floats keep all digits
    assert repr(loaded) == repr(fitted)
    pd.testing.assert_frame_equal(loaded.transform(RUN), fitted.transform(RUN))
    pd.testing.assert_frame_equal(loaded.gaps(RUN), fitted.gaps(RUN))


def test_crossed_groups_and_strange_names(tmp_path):
    docs = ["d0", "d1", "d2", "d3"]
    first = groups(dict(zip(docs, ["ä", "b\tc", "b\tc", "NA"], strict=True)), name="one/../two")
    second = Groups.from_frame(
        pd.DataFrame({"docno": docs, "group": ["x", "x", "y", "y"]}), name="two", unknown=None
    )
    run = frame({"q": docs}, [[4.0], [3.0], [2.0], [1.0]])
    fitted = DELTR(first * second, groups_apart="each").fit(run, labels([("q", "d0", 1)]))
    fitted.save(tmp_path)
    loaded = DELTR.load(tmp_path)
    assert loaded == fitted
    assert loaded.groups.levels == fitted.groups.levels
    fixed = DELTR(first * second, [("b\tc", "y")]).fit(run, labels([("q", "d0", 1)]))
    fixed.save(tmp_path)
    assert DELTR.load(tmp_path) == fixed


def test_other_groups_at_inference(tmp_path):
    fitted = DELTR(GROUPS, "b").fit(RUN, QRELS)
    fitted.save(tmp_path)
    other = groups({"new1": "a", "new2": "b", "new3": "c"})
    loaded = DELTR.load(tmp_path, groups=other)
    run = frame({"q": ["new1", "new2"]}, [[1, 1, 3]] * 2)
    scores = loaded.transform(run).set_index("docno")["score"]
    assert scores["new2"] - scores["new1"] == pytest.approx(fitted.model.group_weights[0])
    with pytest.raises(ParameterError, match="'b'"):
        DELTR.load(tmp_path, groups=groups({"new1": "a", "new2": "z"}))


def test_nothing_to_save(tmp_path):
    with pytest.raises(InputError):
        DELTR(GROUPS).save(tmp_path)
    assert not list(tmp_path.iterdir())


def edited(change):
    def edit(folder):
        path = folder / "deltr.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        change(record)
        path.write_text(json.dumps(record), encoding="utf-8")

    return edit


def weight(record):
    record["model"]["weights"][0] += 1e-9


def without_groups(folder):
    next(folder.glob("groups-*")).unlink()


def broken_groups(folder):
    path = next(folder.glob("groups-*"))
    path.write_bytes(path.read_bytes()[:60])


def other_groups(folder):
    groups({"x": "a", "y": "b"}).write(next(folder.glob("groups-*")))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            edited(lambda r: r["model"].pop("mean")),
            "invalid description .*'mean' is missing",
        ),
        (edited(lambda r: r["model"]["mean"].pop()), "invalid description ..* one length"),
        (edited(lambda r: r["model"].update(neutral=[])), "one share per column"),
        (edited(lambda r: r["model"].update(weights=["x"])), "damaged"),
        (edited(lambda r: r["model"].update(weights=[float("nan")] * 3)), "finite numbers"),
        (edited(lambda r: r["settings"].update(gamma=2.0)), "not those that were saved"),
        (edited(lambda r: r.update(groups=[])), "damaged"),
        (edited(lambda r: r.update(settings=3)), "damaged"),
        (edited(weight), "not those that were saved"),
        (without_groups, "missing or does not match .*no such file"),
        (broken_groups, "missing or does not match"),
        (other_groups, "other content"),
    ],
)
def test_damaged_folders_are_told(tmp_path, damage, message):
    DELTR(GROUPS).fit(RUN, QRELS).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(FormatError, match=message):
        DELTR.load(tmp_path)
