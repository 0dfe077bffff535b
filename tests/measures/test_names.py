"""The names of groups and targets: what measures print, and what names stand for."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from small_frames import qrels_of, run_of, small_groups

import fairtk
from fairtk import AWRF, E, GroupEE_L, Target
from fairtk.errors import InputError, ParameterError
from fairtk.experiment.identity import describe, key_of
from fairtk.measures import ByGroup, nDCG_AWRF, parse

QRELS, RUN = qrels_of({"a": 1, "b": 0}), run_of([["a", "b"]])


def named(name, levels="xyy"):
    return small_groups("abc", levels, name)


def test_a_target_by_word():
    groups = named("by word")
    for word, target in (
        ("uniform", Target.uniform(groups)),
        ("population", Target.population({"x": 1, "y": 2}, groups)),
    ):
        measure = AWRF(groups=groups, target=word) @ 2
        assert repr(measure) == f"AWRF(groups='by word',target='{word}')@2"
        shares = measure["target"].distributions.expanded().dense()
        assert shares == pytest.approx(target.distributions.expanded().dense())
        assert nDCG_AWRF(groups=groups, target=word)["target"] == measure["target"]
        assert GroupEE_L(groups=groups, target=word)["target"] == measure["target"]
    for wrong in ({"groups": groups, "target": "relevance"}, {"target": "uniform"}):
        with pytest.raises(ParameterError, match="target"):
            AWRF(**wrong)


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_a_target_by_word_where_measures_lack_one():
    groups = named("given")
    for word in ("uniform", "population", "relevance"):
        label = f"AWRF(groups='given',target='{word}')@2"
        results = fairtk.evaluate(QRELS, RUN, "AWRF@2", groups=groups, target=word)
        assert results.measures == [label]
    # a has x alone; b and c have y: the population is 1/3 and 2/3
    shown = fairtk.evaluate(QRELS, RUN, "AWRF(browsing='MU')@2", groups=groups, target=word)
    assert shown.means.to_numpy().item() == pytest.approx(
        1 - fairtk.groups.js_divergence(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])).item()
    )


def test_names_of_targets(tmp_path):
    groups = small_groups("abc", ["x", "y", None], "of targets")
    Target.uniform(groups).write(tmp_path / "mine.tsv")
    targets = {
        "uniform": Target.uniform(groups),
        "uniform+unknown": Target.uniform(groups, unknown=True),
        "population": Target.population({"x": 1, "y": 3}, groups),
        "relevance": Target.from_qrels(
            pd.DataFrame({"qid": "q", "docno": ["a"], "label": [1]}), groups
        ),
        "mine": Target.read(tmp_path / "mine.tsv", groups),
    }
    frame = pd.DataFrame({"group": ["x", "y"], "weight": [0.25, 0.75]})
    targets["registered"] = Target.from_frame(frame, groups)
    fairtk.register_target(targets["registered"], "registered")
    for name, target in targets.items():
        assert AWRF(groups=groups, target=target).params["target"] == name
    unnamed = Target.from_frame(frame.assign(weight=[0.5, 0.5]), groups)
    assert AWRF(groups=groups, target=unnamed).params["target"] == unnamed.key
    with pytest.raises(ParameterError, match="'uniform'"):
        fairtk.register_target(unnamed, "uniform")


def test_a_measure_keeps_its_objects():
    one, other = named("kept"), named("kept", "xxy")
    first, second = (AWRF(groups=g, target="uniform") for g in (one, other))
    assert repr(first) == repr(second) and first != second and hash(first) == hash(second)
    for measure, groups in ((first, one), (second, other)):
        for again in (measure @ 5, measure(base=2), measure @ 5 * measure @ 5, E(measure) @ 5):
            inner = again.parts[0] if again.parts else again
            assert inner["groups"] is groups
        assert nDCG_AWRF(groups=groups, target="uniform")["groups"] is groups


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
@pytest.mark.parametrize(
    "ask",
    [
        lambda measures: ir_measures.calc_aggregate(measures, QRELS, RUN),
        lambda measures: fairtk.evaluate(QRELS, RUN, measures),
        lambda measures: fairtk.Experiment({"run": ours(RUN)}, None, ours(QRELS), measures),
        lambda measures: pt.Experiment(
            [ours(RUN).assign(query="q")], ours(QRELS)[["qid"]].assign(query="q"), ours(QRELS),
            measures,
        ),
    ],
    ids=["ir_measures", "evaluate", "Experiment", "pt.Experiment"],
)  # fmt: skip
@pytest.mark.parametrize("inside", [False, True], ids=["", "inside"])
def test_two_of_one_name_in_one_call_are_refused(ask, inside):
    one, other = named("twice"), named("twice", "xxy")
    measures = [AWRF(groups=g, target="uniform") @ k for g, k in ((one, 2), (other, 2))]
    if inside:  # labels that differ
        measures = [measures[0], ByGroup(measures[1], one)]
    with pytest.raises(InputError, match="'twice'"):
        ask(measures)
    ask(measures[:1])


def test_two_targets_of_one_name_are_refused():
    groups = named("two targets")
    shares = ({"x": 1, "y": 1}, {"x": 1, "y": 3})
    measures = [AWRF(groups=groups, target=Target.population(s, groups)) for s in shares]
    with pytest.raises(InputError, match="'population'.*register_target"):
        fairtk.evaluate(QRELS, RUN, measures)
    with pytest.raises(ParameterError, match="'population'"):  # the documents' shares are others
        AWRF(groups=groups, target="population")


def test_uniform_is_another_target_for_other_groups():
    measures = [AWRF(groups=named(name), target="uniform") @ 2 for name in ("this", "that")]
    assert len(fairtk.evaluate(QRELS, RUN, measures).measures) == 2


def test_what_a_string_stands_for():
    groups = named("in a string")
    measure = AWRF(groups=groups, target="uniform") @ 2
    assert parse(repr(measure)) == measure
    assert parse(repr(E(measure))) == E(measure)
    other = AWRF(groups=named("in a string", "xxy"), target="uniform") @ 2
    with pytest.raises(ParameterError, match="register_groups"):
        parse(repr(measure))
    fairtk.register_groups(groups)
    assert parse(repr(other)) == measure != other
    with pytest.raises(ParameterError, match="'nowhere'.*register_groups"):
        parse("AWRF(groups='nowhere')")


def test_saved_results_have_labels_and_check_what_they_are_measured_with_again(tmp_path):
    groups = named("saved")
    measure = AWRF(groups=groups, target="uniform") @ 2
    label = repr(measure)
    fairtk.evaluate(QRELS, RUN, measure).save(tmp_path)
    loaded = fairtk.Results.load(tmp_path)
    assert loaded.measures == [label]
    assert loaded.config["digests"] == {
        label: {"groups": groups.digest(), "target": measure["target"].digest()}
    }
    assert loaded.per_sample.empty  # of exposure
    del measure, groups
    fairtk.register_groups(named("saved", "xxy"))
    with pytest.raises(ParameterError, match="register_groups"):
        _ = fairtk.Results.load(tmp_path).per_sample


def test_names_are_no_part_of_identities():
    frame = pd.DataFrame({"group": ["x", "y"], "weight": [0.5, 0.5]})
    groups = named("identity")
    targets = [Target.from_frame(frame, groups), Target.population({"x": 1, "y": 1}, groups)]
    keys = [key_of(describe(AWRF(groups=groups, target=t) @ 2, "")) for t in targets]
    assert keys[0] == keys[1]
    nested = [key_of(describe(E(AWRF(groups=groups, target=t)) @ 2, "")) for t in targets]
    assert nested[0] == nested[1] != keys[0]


def ours(frame):
    return pt.model.from_ir_measures(frame)
