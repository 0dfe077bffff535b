"""A measure that misbehaves is named, with its plugin and the query."""

import ir_measures
import numpy as np
import pytest

from fairtk.errors import MeasureError
from fairtk.measures import FairMeasure
from fairtk.testing import toy_qrels, toy_run


def measure(give, whole=False):
    class Odd(FairMeasure):
        """A measure that misbehaves."""

        NAME = "Odd"
        PRETTY_NAME = "odd"
        BETTER = "higher"
        MISSING = 0.0

    def all_at_once(self, judged):
        return give(judged.qids)

    def one_by_one(self, qrels, run):
        return give(qrels["qid"].iloc[0])

    name, function = ("score_all", all_at_once) if whole else ("score_query", one_by_one)
    setattr(Odd, name, function)
    return Odd()


def calc(measure):
    return ir_measures.calc([measure], toy_qrels(), toy_run())


@pytest.mark.parametrize("given", ["0.5", None, np.inf, -np.inf, 1j, [0.5], {}])
def test_what_is_no_number_is_named(given):
    wanted = rf"measure Odd \(module {__name__}\), qid 'q1' must return a finite number"
    with pytest.raises(MeasureError, match=wanted):
        calc(measure(lambda qid: given))


@pytest.mark.parametrize("given", [1, True, np.float32(0.5), np.bool_(True), np.int8(1)])
def test_numbers_of_any_kind(given):
    assert calc(measure(lambda qid: given)).aggregated[measure(None)] == float(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda qids: np.array(["1"] * len(qids)), "qid 'q1' must return .*got '1'"),
        (lambda qids: [1.0] * (len(qids) - 1) + [None], "qid 'q4' must return .*got None"),
        (lambda qids: np.where(qids == "q2", np.inf, 1.0), "qid 'q2' must return .*got inf"),
        (lambda qids: 1.0, r"\(4\), got values of shape \(\)"),
        (lambda qids: np.ones(2), r"\(4\), got values of shape \(2,\)"),
    ],
)
def test_all_queries_at_once(given, message):
    with pytest.raises(MeasureError, match=message):
        calc(measure(given, whole=True))


def test_other_failures_keep_their_kind_and_say_where():
    def fail(qid):
        raise KeyError("x")

    with pytest.raises(KeyError) as caught:
        calc(measure(fail))
    assert caught.value.__notes__[0] == f"(in measure Odd (module {__name__}), qid 'q1')"
