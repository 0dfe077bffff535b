"""Tuning: chosen on other topics, by hand; what is trained; what is refused."""

from __future__ import annotations

import pandas as pd
import pyterrier as pt
import pytest
from experiment_stages import Trained, world

import fairtk
from fairtk.errors import (
    DataWarning,
    FairtkError,
    InputError,
    NotFoundError,
    ParameterError,
)

TOPICS = pd.DataFrame({"qid": [str(n) for n in range(6)], "query": ["words"] * 6})
QRELS = pd.DataFrame({"qid": TOPICS["qid"], "docno": "good", "label": 1})
HALVES = {str(n): n % 2 for n in range(6)}
THIRDS = {str(n): n % 3 for n in range(6)}
DOCS = ("bad", "worse", "good", "worst")


class Place(pt.Transformer):
    """Q -> R: the good document at a rank of its own for even and for odd topics."""

    def __init__(self, even, odd):
        super().__init__()
        self.ranks = (even, odd)

    def transform(self, inp):
        rows = []
        for qid, query in zip(inp["qid"], inp["query"], strict=True):
            docs = [d for d in DOCS if d != "good"]
            docs.insert(self.ranks[int(qid) % 2], "good")
            rows += [(qid, query, d, -float(r), r) for r, d in enumerate(docs)]
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank"])


def build(a=3):
    """a = 0 is best for even topics and bad for odd ones; a = 1 the other way round; 2: so so."""
    return Place(*{0: (0, 3), 1: (3, 0), 2: (1, 1), 3: (3, 3)}[a])


def test_each_fold_gets_what_is_best_for_the_others():
    tuned = fairtk.tune(build, {"a": [0, 1, 2]}, TOPICS, QRELS, "RR", HALVES)
    # fold 0 has the even topics: on the odd ones a=1 has RR 1, which is worst for fold 0 itself
    assert tuned.chosen[["fold", "a", "value", "topics"]].to_numpy().tolist() == [
        [0, 1, 1.0, 3],
        [1, 0, 1.0, 3],
    ]
    values = tuned.table.set_index("system")["value"]
    assert values["default"] == pytest.approx(1 / 4) and values["tuned"] == pytest.approx(1 / 4)
    assert list(tuned.table["topics"]) == [6, 6] and "tuned 0.2500" in repr(tuned)
    # mixed folds: each fold's others have an even and an odd third; RR of a = 0 and 1 is
    # (1 + 1/4) / 2 = .625 on each, of a = 2 1/2: the first of equal ones
    mixed = fairtk.tune(build, {"a": [2, 1, 0]}, TOPICS, QRELS, "RR", {**THIRDS})
    assert mixed.chosen["a"].tolist() == [1, 1, 1]
    assert mixed.values[mixed.values["system"] == "tuned"]["value"].mean() == pytest.approx(0.625)
    assert set(mixed.run["qid"]) == set(TOPICS["qid"]) and len(mixed.run) == 24


def test_what_is_better_is_the_measures():
    groups = fairtk.Groups.from_frame(
        pd.DataFrame({"docno": DOCS, "group": ["x", "x", "y", "x"]}), name="g"
    )
    half = fairtk.Target.uniform(groups)
    more = fairtk.tune(build, {"a": [0, 2]}, TOPICS, QRELS,
                       fairtk.AWRF(groups=groups, target=half) @ 2, HALVES)  # fmt: skip
    less = fairtk.tune(build, [{"a": [0]}, {"a": [2]}], TOPICS, QRELS, "EE_L@2", HALVES)
    assert more.chosen["a"].tolist() == [2, 2] or more.chosen["value"].max() <= 1
    worst = less.values.groupby("system")["value"].mean()
    # EE_L of the good document at rank 2 is no larger than at rank 4, where it gets nothing
    assert worst["tuned"] <= worst["default"] and less.chosen["a"].tolist() == [2, 0]


class Memory(Place, pt.Estimator):
    """Learns where good documents belong; notes what it was trained on and ranks."""

    fits: list = []
    seen: set = set()

    def __init__(self, a):
        super().__init__(3, 3)
        self.a = a
        self.known = frozenset()

    def fit(self, topics, qrels, *_):
        self.known = frozenset(topics["qid"])
        assert set(qrels["qid"]) == self.known
        Memory.fits.append((self.a, self.known))

    def transform(self, inp):
        Memory.seen.update((self.a, self.known, qid) for qid in inp["qid"])
        self.ranks = (self.a, self.a)
        return super().transform(inp)


def test_what_is_trained_never_saw_the_fold_that_is_chosen_for():
    Memory.fits.clear()
    Memory.seen.clear()
    tuned = fairtk.tune(lambda a: Memory(a), {"a": [1, 0]}, TOPICS, QRELS, "RR", THIRDS)
    assert tuned.default is None and tuned.chosen["a"].tolist() == [0, 0, 0]
    parts = [{qid for qid, fold in THIRDS.items() if fold == n} for n in range(3)]
    every = frozenset(TOPICS["qid"])
    # to choose for p, the topics of q are ranked without p and q; the topics of p without p
    assert Memory.seen == {
        (a, every - p - q, qid) for a in (0, 1) for p in parts for q in parts for qid in q
    }
    # of each setting, one copy for each of 3 folds, and one for each of 3 pairs of folds
    assert len(Memory.fits) == len(set(Memory.fits)) == 2 * (3 + 3)
    with pytest.raises(ParameterError):
        fairtk.tune(lambda a: Memory(a), {"a": [0]}, TOPICS, QRELS, "RR", HALVES)


def test_the_default_of_a_trained_system_is_trained_on_other_folds():
    Memory.seen.clear()
    tuned = fairtk.tune(lambda a=2: Memory(a), {"a": [0]}, TOPICS, QRELS, "RR", THIRDS)
    # the good document at rank 3, and with a=0 at rank 1
    assert tuned.table["value"].tolist() == pytest.approx([1 / 3, 1])
    assert all(qid not in known and len(known) == 4 for a, known, qid in Memory.seen if a == 2)


@pytest.mark.parametrize("trained", [False, True])
def test_build_is_called_once_per_setting_and_once_for_the_default(trained):
    calls = []

    def build(a=3):
        calls.append(a)
        return Memory(a) if trained else Place(a, a)

    grid = {"a": [*range(4, 14)]}
    fairtk.tune(
        build, grid, TOPICS, QRELS, "RR", dict(zip(THIRDS, (0, 1, 2, 3, 0, 1), strict=True))
    )
    assert sorted(calls) == sorted([*grid["a"], 3])


def failing(a=0):
    if a:
        raise ParameterError("Place: a must be 0")
    return build(a)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"folds": 9}, ParameterError, "number of topics .6., got 9"),
        ({"folds": 1}, ParameterError, "folds must be an integer of at least 2"),
        ({"folds": {"0": 1}}, InputError, "missing topics in `folds`: '1', '2'"),
        ({"folds": dict.fromkeys(HALVES, 1)}, ParameterError, "at least two folds"),
        ({"grid": {}}, ParameterError, "a grid must not be empty"),
        ({"grid": {"a": "12"}}, ParameterError, "the values of 'a' must be a list, got '12'"),
        ({"grid": "a"}, ParameterError, "must be a dict from setting to list"),
        (
            {"build": lambda a: None},
            InputError,
            "with a=0: `build` must return .* got None",
        ),
        ({"build": lambda a: 1 / a}, FairtkError, "with a=0: ZeroDivisionError: division by zero"),
        ({"grid": {"aa": [1]}}, NotFoundError, "`build`: 'aa'.*'a'"),
        ({"build": failing, "grid": {"a": [1]}}, InputError, "tune: with a=1: Place: a must"),
    ],
)
def test_bad_input(change, error, message):
    given = {"build": build, "grid": {"a": [0]}, "folds": 2} | change
    with pytest.raises(error, match=message):
        fairtk.tune(given["build"], given["grid"], TOPICS, QRELS, "RR", given["folds"])


class Broken(Place):
    """Fails for some topics, which are numbers."""

    def __init__(self, a, bad):
        super().__init__(a, a)
        self.bad = bad

    def transform(self, inp):
        if set(map(int, inp["qid"])) & set(self.bad):
            raise ZeroDivisionError
        return super().transform(inp)


@pytest.mark.parametrize(
    "build",
    [failing, lambda a=0: Broken(a, range(6) if a else ())],
    ids=["build", "transform"],
)
def test_a_setting_that_fails_is_named_and_the_others_are_kept(build):
    with pytest.warns(DataWarning, match="a=1.*(a must be 0|ZeroDivisionError)") as caught:
        tuned = fairtk.tune(build, {"a": [1, 0]}, TOPICS, QRELS, "RR", HALVES)
    assert len(caught) == 1
    assert tuned.chosen["a"].tolist() == [0, 0]
    expected = fairtk.tune(build, {"a": [0]}, TOPICS, QRELS, "RR", HALVES)
    assert tuned.run.equals(expected.run)


def test_a_default_that_fails_is_named_and_left_out():
    with pytest.warns(DataWarning, match="default.*ZeroDivisionError"):
        tuned = fairtk.tune(lambda a=0: Place(1 // a, 0), {"a": [1]}, TOPICS, QRELS, "RR", HALVES)
    assert tuned.default is None and tuned.table["system"].tolist() == ["tuned"]


def test_a_setting_that_always_fails_is_not_chosen_if_the_others_are_as_bad():
    """Failed queries have the worst value of RR, 0, and so has a run without good documents."""
    qrels = pd.concat([QRELS.assign(docno="unknown"), QRELS.assign(label=0)])

    def build(a):
        return Broken(3, range(6) if a else ())

    with pytest.warns(DataWarning, match="a=1"):
        tuned = fairtk.tune(build, {"a": [1, 0]}, TOPICS, qrels, "RR", HALVES)
    assert tuned.chosen["a"].tolist() == [0, 0] and tuned.chosen["value"].tolist() == [0, 0]
    assert len(tuned.run) == 24


def test_a_query_that_fails_has_the_worst_value():
    # a=0 has RR 1 for five topics and 0 for topic 1; a=1 has 1/2 for all: 2/3 against 1/2 for
    # the even fold (others: 1, 3, 5), 1 against 1/2 for the odd fold (others: 0, 2, 4)
    with pytest.warns(DataWarning, match="1 of 6 queries of a=0"):
        tuned = fairtk.tune(
            lambda a: Broken(a, () if a else [1]), {"a": [1, 0]}, TOPICS, QRELS, "RR", HALVES
        )
    assert tuned.chosen["a"].tolist() == [0, 0]
    assert tuned.chosen["value"].tolist() == pytest.approx([2 / 3, 1])


def test_a_finished_grid_is_read_from_its_store(tmp_path):
    """Nothing is trained or ranked again, with each executor."""
    log = tmp_path / "log"
    topics, qrels = world(n_queries=6)
    folds = dict(zip(topics["qid"], (0, 1, 2) * 2, strict=True))

    def tune(**options):
        return fairtk.tune(
            lambda seed: Trained(seed, str(log)),
            {"seed": [0, 1]},
            topics,
            qrels,
            "nDCG@3",
            folds,
            **options,
        )

    first = tune(save_dir=tmp_path / "grid", executor="processes", workers=1)
    before = log.read_text()
    again = tune(save_dir=tmp_path / "grid", batch_size=5)
    assert log.read_text() == before != ""
    plain = tune()
    for tuned in (again, plain):
        assert tuned.run.equals(first.run) and tuned.chosen.equals(first.chosen)
    stored = fairtk.experiment.stored_results(tmp_path / "grid")
    assert len(stored) == 6 and len(first.grid.systems) == 6


def test_folds_of_repeated_qids():
    folds = fairtk.experiment.folds
    once = folds(list("abcd"), 4)
    assert folds([qid for qid in "abcd" for _ in range(8)], 4) == once
    assert sorted(once.values()) == [0, 1, 2, 3]
    assert folds(iter([3, 1, 2, 1]), 2) == folds(["1", "2", "3"], 2)
