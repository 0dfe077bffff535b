"""Tuning: chosen on other topics, by hand; what is trained; what is refused."""

from __future__ import annotations

import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.errors import FairtkError, InputError, NotFoundError, ParameterError

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
    found = fairtk.tune(build, {"a": [0, 1, 2]}, TOPICS, QRELS, "RR", HALVES)
    # fold 0 has the even topics: on the odd ones a=1 has RR 1, which is worst for fold 0 itself
    assert found.chosen[["fold", "a", "value", "topics"]].to_numpy().tolist() == [
        [0, 1, 1.0, 3],
        [1, 0, 1.0, 3],
    ]
    values = found.table.set_index("system")["value"]
    assert values["default"] == pytest.approx(1 / 4) and values["tuned"] == pytest.approx(1 / 4)
    assert list(found.table["topics"]) == [6, 6] and "tuned 0.2500" in repr(found)
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
    """Learns where good documents belong; notes what it was trained on and asked for."""

    seen: list = []

    def __init__(self, a):
        super().__init__(3, 3)
        self.a = a
        self.known = set()

    def fit(self, topics, qrels, *_):
        self.known = set(topics["qid"])
        assert set(qrels["qid"]) == self.known

    def transform(self, inp):
        assert not self.known & set(inp["qid"])
        Memory.seen.append((self.a, frozenset(self.known), frozenset(inp["qid"])))
        self.ranks = (self.a, self.a)
        return super().transform(inp)


def test_what_is_trained_never_saw_the_fold_that_is_chosen_for():
    Memory.seen.clear()
    found = fairtk.tune(lambda a: Memory(a), {"a": [1, 0]}, TOPICS, QRELS, "RR", THIRDS)
    assert found.default is None and found.chosen["a"].tolist() == [0, 0, 0]
    parts = [frozenset(q for q, fold in THIRDS.items() if fold == n) for n in range(3)]
    every = frozenset(TOPICS["qid"])
    pairs = {(a, every - p - q, p | q) for a in (0, 1) for p in parts for q in parts if p != q}
    last = [(0, every - p, p) for p in parts]
    assert set(Memory.seen[:-3]) == pairs and len(Memory.seen) == 6 + 3
    assert Memory.seen[-3:] == last
    with pytest.raises(ParameterError):
        fairtk.tune(lambda a: Memory(a), {"a": [0]}, TOPICS, QRELS, "RR", HALVES)


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
        ({"build": failing, "grid": {"a": [0, 1]}}, InputError, "tune: with a=1: Place: a must"),
    ],
)
def test_bad_input(change, error, message):
    given = {"build": build, "grid": {"a": [0]}, "folds": 2} | change
    with pytest.raises(error, match=message):
        fairtk.tune(given["build"], given["grid"], TOPICS, QRELS, "RR", given["folds"])
