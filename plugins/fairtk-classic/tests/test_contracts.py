"""All measures keep to the contract of measures."""

import math

import pandas as pd
import pytest
from fairtk_classic import (
    ABR,
    ARP,
    ERBE,
    ERBP,
    ERBR,
    EXP,
    EXPRU,
    EXPU,
    GFR,
    IAA,
    NDKL,
    PEER,
    FAIR_prefix,
    MaxSkew,
    MinSkew,
    Skew,
    logDP,
    logEUR,
    logRUR,
    rKL,
    rND,
    rRD,
)
from frames import groups, target

from fairtk.testing import MeasureContract

DOCNOS = [f"d{i}" for i in range(1, 9)]
LETTERS = "abacbacb"
GROUPS = groups({d: x for d, x in zip(DOCNOS, LETTERS, strict=True)})
SOFT = groups({**{d: x for d, x in zip(DOCNOS, LETTERS, strict=True)}, "d1": {"a": 0.5, "b": 0.5}})
TARGET = target({"a": 0.5, "b": 0.3, "c": 0.2}, GROUPS)
SOFT_TARGET = target({"a": 0.5, "b": 0.3, "c": 0.2}, SOFT)
B, T = {"groups": GROUPS, "protected": "b"}, {"groups": GROUPS, "target": TARGET}

# measure, value of a missing query where the target or the parameters set it
MEASURES = [
    (rND(**B, step=2), None),
    (rND(**B, step=2, target=TARGET) @ 5, None),
    (rND(groups=SOFT, protected="b", step=3), None),
    (rKL(**B, step=2) @ 6, None),
    (rRD(**B, step=2), None),
    (rRD(**B, step=2, target=TARGET) @ 5, None),
    (FAIR_prefix(**B), None),
    (FAIR_prefix(**B, p=0.4) @ 5, None),
    (FAIR_prefix(**B, target=TARGET), None),
    (logDP(**B) @ 5, None),
    (logDP(**B, per="document", absolute=True), None),
    (logEUR(**B) @ 6, None),
    (logRUR(**B, amortize=False, browsing="RBP(p=0.8)"), None),
    (IAA, None),
    (IAA(browsing="MU") @ 3, None),
    (NDKL(**T), math.log(5)),
    (NDKL(groups=SOFT, target=SOFT_TARGET, base=2) @ 4, math.log2(5)),
    (Skew(**T, group="b", smoothing=0.1) @ 4, None),
    (MinSkew(**T, smoothing=0.1) @ 4, math.log(0.1)),
    (MaxSkew(**T) @ 4, math.log(5)),
    (ABR(groups=GROUPS), 0.0),
    (ABR(groups=SOFT, amortize=True, empty="skip") @ 4, 0.0),
    (EXP(groups=GROUPS) @ 6, 0.0),
    (EXP(groups=GROUPS, combine="max-min", population="collection") @ 6, 1.0),
    (EXP(groups=GROUPS, combine="variance", browsing="TREC"), 2 / 9),
    (EXPU(groups=GROUPS, combine="max/min"), None),
    (EXPU(groups=SOFT, population="judged") @ 5, 0.0),
    (EXPRU(groups=GROUPS, combine="mean-deviation"), None),
    (ERBE(groups=GROUPS), 0.0),
    (ERBE(groups=GROUPS, gamma=0.5, combine="l2") @ 5, math.sqrt(3)),
    (ERBP(groups=GROUPS, combine="max-deviation"), 0.2 * 2 / 3),
    (ERBR(groups=GROUPS) @ 6, 0.0),
    (ARP(groups=GROUPS), 1.0),
    (ARP(groups=SOFT, combine="min/max"), 0.0),
    (PEER(groups=GROUPS) @ 5, None),
    (PEER(groups=GROUPS, weights="0:0.5,1:0.5", unretrieved="last") @ 4, None),
    (GFR(**T, max_label=2), None),
    (GFR(**T, max_label=3, user="iRBU", similarity="RNOD") @ 5, None),
    (GFR(**T, max_label=2, part="GF", similarity="NMD"), None),
    (GFR(**T, max_label=2, part="REL"), None),
]
LABELS = {"q1": "20111000", "q2": "01200110", "q3": "11111111"}
ORDERS = {
    "q1": [3, 1, 5, 2, 6, 4, 8, 7],
    "q2": [2, 4, 6, 1, 3, 5, 7, 8],
    "q3": [8, 6, 1, 4, 2, 7, 5, 3],
}


@pytest.mark.parametrize(("measure", "missing"), MEASURES, ids=lambda v: repr(v))
class TestContract(MeasureContract):
    knows_documents = True

    @pytest.fixture(autouse=True)
    def _set(self, measure, missing):
        self.measure, self.missing = measure, missing

    def qrels(self):
        rows = [
            (qid, docno, int(label))
            for qid, labels in LABELS.items()
            for docno, label in zip(DOCNOS, labels, strict=True)
        ]
        return pd.DataFrame(rows, columns=["qid", "docno", "label"])

    def samples(self):
        rows = []
        for qid, order in ORDERS.items():
            for sample in range(3):
                turned = order[sample:] + order[:sample]
                for rank, number in enumerate(turned[::-1] if sample % 2 else turned):
                    rows.append((qid, "query", f"d{number}", -float(rank), rank, sample))
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank", "sample"])


def test_all_measures_are_here():
    import fairtk_classic

    names = {*fairtk_classic.__all__} - {"ABR"}  # which is EXP
    assert {type(m).NAME for m, _ in MEASURES} == names
