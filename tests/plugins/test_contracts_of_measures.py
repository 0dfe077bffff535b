"""Every registered measure passes the contract that plugin authors' measures have to pass."""

import numpy as np
import pytest
from ir_measures import nDCG, parse_measure

from fairtk import EE_D, EE_L, EE_R, EU, E, GroupEE_D, GroupEE_L, GroupEE_R
from fairtk.credit import (
    AE_D,
    AE_L,
    AE_R,
    CitationPrecision,
    CitationRecall,
    CreditAWRF,
    CreditGap,
)
from fairtk.groups import Groups, Target
from fairtk.measures import AWRF, ByGroup, Product, nDCG_AWRF, nDCG_TREC, parse
from fairtk.plugins import registry
from fairtk.testing import MeasureContract, toy_groups, toy_samples


def variant(measure, missing=None):
    """Return a measure whose parameters another one of its class lacks."""
    return pytest.param(measure, missing, marks=pytest.mark.slow)


# measure, value of a missing query where the parameters change it
MEASURES = [
    (EE_D @ 3, None),
    variant(EE_D(browsing="RBP(p=0.8)")),
    (EE_D(browsing="DCG", bounds="exact", n=20) @ 2, None),
    # one deterministic ranking: 3 documents with exposure 1
    variant(EE_D(normalize=False) @ 3, 3.0),
    (EE_R @ 3, None),
    variant(EE_R(browsing="GERR(p=0.9, u=0.4)", graded=False) @ 4),
    variant(EE_R(browsing="TREC", rel=2, n="judged") @ 3),
    (EE_L(bounds="exact", n=20) @ 2, None),
    (EU(utility="rougeL"), None),
    (E(nDCG @ 3), None),
    (E(EE_D @ 2), 1.0),  # the inner measure's own
    (Product(left=E(nDCG @ 3), right=EE_R @ 3), None),
    variant(nDCG_TREC @ 3),
    (nDCG_TREC(ideal=50, rel=2), None),
]


@pytest.mark.parametrize(("measure", "missing"), MEASURES, ids=lambda v: repr(v))
class TestBuiltins(MeasureContract):
    @pytest.fixture(autouse=True)
    def _set(self, measure, missing):
        self.measure, self.missing = measure, missing


GROUPS = Groups.from_frame(toy_groups(), name="toy")
TARGET = Target.uniform(GROUPS)
BY_GROUP = [
    (AWRF(groups=GROUPS, target=TARGET) @ 3, None),
    variant(AWRF(groups=GROUPS, target=TARGET, base=2, amortize=False)),
    (nDCG_AWRF(groups=GROUPS, target=TARGET) @ 3, None),
    (ByGroup(EE_R @ 3, GROUPS), None),
    (GroupEE_R(groups=GROUPS, target=TARGET) @ 3, None),
    # all attention on one group: 2^2 and 3^2; 2^2 and a target of 2/3 for each of three groups
    (GroupEE_D(groups=GROUPS) @ 2, 4.0),
    variant(GroupEE_D(groups=GROUPS, browsing="MU", useful_only=False) @ 3, 9.0),
    (GroupEE_L(groups=GROUPS, target=TARGET, graded=False) @ 2, 4 + 4 / 3),
]


@pytest.mark.parametrize(("measure", "missing"), BY_GROUP, ids=lambda v: repr(v))
class TestGroupMeasures(MeasureContract):
    knows_documents = True

    @pytest.fixture(autouse=True)
    def _set(self, measure, missing):
        self.measure, self.missing = measure, missing


CREDIT = [
    (AE_D, None),
    (AE_R @ 3, None),
    (AE_L(browsing="DCG", graded=False, bounds="exact") @ 2, None),
    (CreditGap @ 3, None),
    (CitationPrecision, None),
    (CitationRecall, None),
]


def credited(frame):
    """Return the first three ranks, with credit by rank that is 0 for some and below 0 for one."""
    frame = frame[frame["rank"] < 3].reset_index(drop=True)
    return frame.assign(credit=frame["rank"].map({0: 2.0, 1: 0.5, 2: -0.25}))


class OfCredit(MeasureContract):
    """The contract of a measure that reads credit frames."""

    def samples(self):
        return credited(toy_samples())

    def whole_run(self):
        whole = super().whole_run()
        return whole.assign(rank=whole.groupby("qid").cumcount())

    def policies(self):
        turned = self.run().assign(credit=lambda f: f["credit"].abs())
        return {"a plain run": self.run(), "a sampled run": self.samples(), "turned": turned}


@pytest.mark.parametrize(("measure", "missing"), CREDIT, ids=lambda v: repr(v))
class TestCreditMeasures(OfCredit):
    @pytest.fixture(autouse=True)
    def _set(self, measure, missing):
        self.measure, self.missing = measure, missing


class TestCreditOfGroups(OfCredit):
    measure = CreditAWRF(groups=GROUPS, target=TARGET)
    knows_documents = True


def test_every_registered_measure_is_read_back_bare():
    for entry in registry.measures.entries():  # those of installed plugins, too
        for read in (parse, parse_measure):
            back = read(repr(entry.value))
            assert back == entry.value
            assert back.params == entry.value.params


class TestErrorUtility(MeasureContract):
    """LaMP-3's error: turned around by upper_bound, or without a worst value."""

    measure = EU(utility="mae", upper_bound=4)

    def qrels(self):
        return super().qrels().assign(gold_answer="3")

    def samples(self):
        samples = super().samples()
        return samples.assign(qanswer=(samples["sample"] % 5 + 1).astype(str))

    def policies(self):
        # the contract's run of unjudged documents answers "nothing", which is no number
        return {k: v for k, v in super().policies().items() if "unjudged" not in k}


class TestPlainError(TestErrorUtility):
    measure = EU(utility="mae")
    missing = np.nan
