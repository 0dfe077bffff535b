"""Several targets in one evaluation, and targets on groups that no document has."""

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk import Groups
from fairtk.errors import DataWarning, InputError
from fairtk.remarks import UNREACHABLE

QRELS, RUN = {"q": {"a": 1, "b": 0}}, {"q": {"a": 2.0, "b": 1.0}}
GROUPS = pd.DataFrame({"docno": ["a", "b"], "group": ["x", "y"]})


def shares(**weights):
    return pd.DataFrame({"group": [*weights], "weight": [*weights.values()]})


@pytest.fixture
def files(tmp_path):
    """Return the paths of two targets; no document has the group z of the second."""
    paths = tmp_path / "even.tsv", tmp_path / "other.tsv"
    shares(x=0.5, y=0.5).to_csv(paths[0], sep="\t", index=False)
    shares(x=0.1, y=0.5, z=0.4).to_csv(paths[1], sep="\t", index=False)
    return paths


def jsd(p, q):
    p, q = np.array(p), np.array(q)
    m = (p + q) / 2
    logs = [np.where(v > 0, v * np.log(np.where(v > 0, v, 1) / m), 0).sum() for v in (p, q)]
    return sum(logs) / 2


@pytest.mark.parametrize("as_file", [True, False])
def test_a_target_on_a_group_without_documents(files, as_file):
    target = files[1] if as_file else shares(x=0.1, y=0.5, z=0.4)
    measure = "AWRF(browsing='MU')@2"  # x and y have a half of the exposure each
    with pytest.warns(DataWarning, match="0.4 .*'z'"):
        results = fairtk.evaluate(QRELS, RUN, [measure], groups={"g": GROUPS}, target=target)
    assert UNREACHABLE in [remark.kind for remark in results.remarks]
    expected = 1 - jsd([0.5, 0.5, 0.0], [0.1, 0.5, 0.4])
    assert results.per_query["value"].tolist() == pytest.approx([expected], abs=1e-12)


def test_a_target_of_other_groups_is_an_error():
    with pytest.raises(InputError, match="'female'"):
        fairtk.evaluate(QRELS, RUN, ["AWRF@2"], groups=GROUPS, target=shares(female=0.5, male=0.5))


def test_measures_name_one_of_several_targets(files):
    even, other = files
    measures = [f"AWRF(target='{even}',browsing='MU')@2", "AWRF(browsing='MU')@2"]
    with pytest.warns(DataWarning):
        results = fairtk.evaluate(QRELS, RUN, measures, groups=GROUPS, target=[other])
    values = results.per_query["value"].tolist()
    assert values == pytest.approx([1.0, 1 - jsd([0.5, 0.5, 0.0], [0.1, 0.5, 0.4])], abs=1e-12)


@pytest.mark.parametrize("second", ["uniform", shares(x=0.9, y=0.1)])
def test_a_target_that_no_measure_uses_is_an_error(files, second):
    with pytest.raises(InputError, match="no measure uses the target"):
        fairtk.evaluate(QRELS, RUN, ["AWRF@2"], groups=GROUPS, target=[files[0], second])


def test_a_target_per_attribute():
    other = Groups.from_frame(GROUPS.assign(group=["u", "v"]), name="h")
    both = [Groups.from_frame(GROUPS, name="g"), other]
    targets = [shares(x=0.5, y=0.5), shares(u=0.5, v=0.5)]
    measures = ["AWRF(groups='g',browsing='MU')@2", "AWRF(groups='h',browsing='MU')@2"]
    results = fairtk.evaluate(QRELS, RUN, measures, groups=both, target=targets)
    assert results.per_query["value"].tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("level", ["z", "@UNKNOWN"])
def test_added_levels_are_those_of_the_frame_with_all_levels(level):
    groups = Groups.from_frame(GROUPS)
    expected = Groups.from_frame(GROUPS, levels=[*groups.space.levels[0], level])
    assert groups.with_levels([level]).space == expected.space
    assert groups.with_levels([level]).key == expected.key
    assert max(expected.space.unknown) == (2 if level == "@UNKNOWN" else -1)


def test_added_levels_have_no_documents():
    groups = Groups.from_frame(GROUPS)
    more = groups.with_levels(["z", "x", "z"])
    assert more.space.levels[0][-1] == "z" and more.space.size == groups.space.size + 1
    assert more.to_frame().equals(groups.to_frame())
    assert groups.space.size == 2  # not changed


@pytest.mark.parametrize("first", ["relevance", "uniform"])
@pytest.mark.parametrize("named", ["file", "population"])
def test_a_measure_that_names_a_given_target_uses_it(files, first, named):
    second = str(files[0]) if named == "file" else named
    measures = ["AWRF@2", f"AWRF(target='{second}')@2"]
    targets = [first, second]
    both = fairtk.evaluate(QRELS, RUN, measures, groups=GROUPS, target=targets)
    alone = fairtk.evaluate(QRELS, RUN, measures, groups=GROUPS, target=first)
    assert both.per_query["value"].tolist() == alone.per_query["value"].tolist()
