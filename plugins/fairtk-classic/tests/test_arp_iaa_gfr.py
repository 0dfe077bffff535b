"""ARP, IAA and GFR by hand."""

from math import log2, sqrt

import numpy as np
import pytest
from fairtk_classic import ARP, GFR, IAA
from fairtk_classic.gfr import similarity_of
from frames import groups, spelled, target, value

from fairtk import Target
from fairtk.errors import InputError, ParameterError, UndefinedWarning


def arp(letters, levels=None, **options):
    members, ranking = spelled(letters)
    return value(ARP(groups=groups(members, levels=levels), **options), ranking)


def test_arp_by_hand():
    # p x p: mixed pairs (p, x) won and (x, p) lost: 1/2 each
    assert arp("pxp") == pytest.approx(0)
    assert arp("ppxx") == pytest.approx(1)  # p wins all 4
    # a b c: a wins 2 of 2, b 1 of 2, c 0 of 2
    assert arp("abc") == pytest.approx(1)
    assert arp("abc", combine="variance") == pytest.approx(1 / 6)
    # a b c b a: a's first wins 3, its second none: 3 of 6; b: first wins c and the last a, second
    # wins the last a: 3 of 6; c: wins b and a, loses to a and b: 2 of 4
    assert arp("abcba") == pytest.approx(0)
    # a a b c, groups of 2, 1, 1: a 4 of 4, b 1 of 3, c 0 of 3
    assert arp("aabc", combine="mean-deviation") == pytest.approx((5 / 9 + 1 / 9 + 4 / 9) / 3)
    assert arp("a.b.") == pytest.approx(1)


def test_arp_undefined():
    with pytest.warns(UndefinedWarning):
        assert np.isnan(arp("pxp", levels=["p", "x", "y"]))
    assert arp("pxp", levels=["p", "x", "y"], empty="skip") == pytest.approx(0)
    with pytest.warns(UndefinedWarning):
        assert np.isnan(arp("ppp", levels=["p", "x"], empty="skip"))


def test_arp_of_documents_in_part():
    # a: half p, half x; b: x; c: p. Pairs of p above x: a over b 1/2. x above p: a's x over c 1/2,
    # b over c 1: p wins 1/2 of 2
    made = groups({"a": {"p": 0.5, "x": 0.5}, "b": "x", "c": "p"})
    assert value(ARP(groups=made), ["a", "b", "c"]) == pytest.approx(0.5)


def test_iaa_by_hand():
    # attention 1, 1/2 of a sum of 3/2: 2/3, 1/3; relevance 1/4, 3/4: 5/12 + 5/12
    assert value(IAA, ["a", "b"], {"a": 1, "b": 3}) == pytest.approx(5 / 6)
    # over both orders, each has 1/2: |1/2 - 1/4| twice
    assert value(IAA, [["a", "b"], ["b", "a"]], {"a": 1, "b": 3}) == pytest.approx(1 / 2)
    assert value(IAA, [["a", "b"], ["b", "a"]], {"a": 2, "b": 2}) == pytest.approx(0)
    # attention and relevance apart
    assert value(IAA, ["a"], {"a": 0, "b": 1}) == pytest.approx(2)


def test_iaa_undefined():
    with pytest.warns(UndefinedWarning):
        assert np.isnan(value(IAA, ["a"], {"a": 0}))
    with pytest.raises(ParameterError):
        value(IAA(browsing="MU"), ["a"])


def test_similarities_by_hand():
    # three ordinal groups, p = (1, 0, 0), q = (1/3, 1/3, 1/3)
    p, q = np.array([[1.0, 0.0, 0.0]]), np.full((1, 3), 1 / 3)
    # m = (2/3, 1/6, 1/6): KL(p, m) = log2(3/2); KL(q, m) = log2(1/2) / 3 + 2 log2(2) / 3 = 1/3
    jsd = (log2(1.5) + 1 / 3) / 2
    assert similarity_of(p, q, "JSD") == pytest.approx([1 - jsd])
    # cumulative 1, 1, 1 and 1/3, 2/3, 1: (2/3 + 1/3) / 2
    assert similarity_of(p, q, "NMD") == pytest.approx([1 / 2])
    # squares 4/9, 1/9, 1/9. From 1: 1 x 1/9 + 2 x 1/9 = 3/9; from 2: 4/9 + 1/9 = 5/9; from 3:
    # 2 x 4/9 + 1/9 = 9/9; mean 17/27; over n - 1 = 2: 17/54
    assert similarity_of(p, q, "RNOD") == pytest.approx([1 - sqrt(17 / 54)])
    # a group without a target is left out of the mean: q = (0, 1, 0): squares 1, 1, 0; from 2: 1
    q = np.array([[0.0, 1.0, 0.0]])
    assert similarity_of(p, q, "RNOD") == pytest.approx([1 - sqrt(1 / 2)])
    # opposite ends: JSD and NMD see no similarity; RNOD: from 3: 2 x 1 / 2
    q = np.array([[0.0, 0.0, 1.0]])
    for kind in ("JSD", "NMD", "RNOD"):
        assert similarity_of(p, q, kind) == pytest.approx([0])
        assert similarity_of(q, q, kind) == pytest.approx([1])


MADE = groups({"a": "x", "b": "y", "c": "x"}, levels=["x", "y"])
EVEN = target({"x": 0.5, "y": 0.5}, MADE)


def test_gfr_by_hand():
    # labels 1, 0, 1 of at most 1: P = 1/2, 0, 1/2; stops 1/2, 0, 1/4
    labels = {"a": 1, "b": 0, "c": 1}
    ranking = ["a", "b", "c"]
    ask = GFR(groups=MADE, target=EVEN)
    # REL = 1/2 x 1 + 1/4 x 1/3 = 7/12
    assert value(ask(part="REL"), ranking, labels) == pytest.approx(7 / 12)
    # iRBU: 1/2 p + 1/4 p^3
    found = value(ask(part="REL", user="iRBU"), ranking, labels)
    assert found == pytest.approx(0.99 / 2 + 0.99**3 / 4)
    # D@1 = (1, 0); b is not relevant: (1/2, 1/2), so D@3 = (2.5, .5) / 3 = (5/6, 1/6)
    # NMD: |1 - 1/2| / 1 = 1/2 at 1; |5/6 - 1/2| = 1/3 at 3: GF = 1/2 x 1/2 + 1/4 x 2/3 = 5/12
    found = value(ask(part="GF", similarity="NMD"), ranking, labels)
    assert found == pytest.approx(5 / 12)
    # GFR is the mean of the two
    assert value(ask(similarity="NMD"), ranking, labels) == pytest.approx(1 / 2)


def test_gfr_of_graded_labels_by_hand():
    # label 2 of at most 2: P = 3/4; label 1: 1/4. REL = 3/4 + (1/4)(1/4) / 2
    found = value(
        GFR(groups=MADE, target=EVEN, max_label=2, part="REL"), ["a", "b"], {"a": 2, "b": 1}
    )
    assert found == pytest.approx(3 / 4 + 1 / 32)


def test_gfr_of_several_attributes_is_the_mean_over_all():
    first = groups({"a": "x", "b": "y"}, name="first", levels=["x", "y"])
    second = groups({"a": "u", "b": "u", "z": "v"}, name="second", levels=["u", "v"])
    labels, ranking = {"a": 1, "b": 1}, ["a", "b"]
    parts = []
    for made, kind, part in ((first, "JSD", "REL"), (first, "JSD", "GF"), (second, "NMD", "GF")):
        even = Target.uniform(made, unknown=False)
        asked = GFR(groups=made, target=even, similarity=kind, part=part)
        parts.append(value(asked, ranking, labels))
    both = first * second
    asked = GFR(groups=both, target=Target.uniform(both, unknown=False), similarity="JSD,NMD")
    assert value(asked, ranking, labels) == pytest.approx(np.mean(parts))


def test_gfr_of_unknown_groups_is_even():
    # a document without a group is in all alike: closer to an even target than one that is not
    made = groups({"a": "x", "b": "y"}, levels=["x", "y"])
    ask = GFR(groups=made, target=target({"x": 0.5, "y": 0.5}, made), part="GF")
    with pytest.warns(match="less than half"):
        assert value(ask, ["?"], {"?": 1}) == pytest.approx(0.5)


def test_gfr_undefined_and_wrong():
    ask = GFR(groups=MADE, target=EVEN)
    with pytest.warns(UndefinedWarning):
        assert np.isnan(value(ask, ["a"], {"a": 0}))
    with pytest.raises(InputError, match="max_label=1, got 2 .*docno 'b'"):
        value(ask, ["a"], {"a": 1, "b": 2})
    with pytest.raises(ParameterError, match="'JSD'.*'KL'"):
        GFR(similarity="KL")
    with pytest.raises(ParameterError, match="'toy'.*got ..*'JSD'.*'NMD'"):
        GFR(groups=MADE, similarity="JSD,NMD")
    with pytest.raises(ParameterError):
        GFR(groups=groups({"a": "x"}))
    with pytest.raises(ParameterError):
        value(GFR(groups=MADE), ["a"])
