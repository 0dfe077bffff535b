"""Credit from citations: sentences, numbers in all forms, and the weights of GEO by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.credit.citations import WEIGHTS, citation_credit, split_sentences


def cited(answer):
    return [sorted(sentence.cited) for sentence in split_sentences(answer)]


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("Mills turn [1]. Roads end [2].", [[1], [2]]),
        ("Mills turn.[1] Roads end.[2][3]", [[1], [2, 3]]),
        ("Mills turn. [1] Roads end.", [[1], []]),
        ("Mills [1, 2] turn [2]", [[1, 2]]),
        ("Ranges [1-3] and [2–4].", [[1, 2, 3, 4]]),
        ("Falling [3-1].", [[1, 3]]),
        ("Nested [[2]] and [ 5 ].", [[2, 5]]),
        ("Nested [[1], [2]] and [3 [4]].", [[1, 2, 3, 4]]),
        ("Other scripts [٣] [２].", [[2, 3]]),
        ('She said "yes." [4] Then left!', [[4], []]),
        ("水车转动[1]。道路结束。[2]", [[1], [2]]),
        ("No number [a] [1a] [] [²] 3.5 is none.", [[]]),
        ("", []),
        (" \n", []),
    ],
)
def test_what_sentences_cite(answer, places):
    assert cited(answer) == places


def test_weights_by_hand():
    # words of more than two letters: "mills turn slowly" 3, "roads end" 2, "they lie" 2
    answer = "Mills turn slowly [1]. Roads end [1][3]. They lie [3, 9]."
    count, beyond = citation_credit(answer, 3)
    assert count.tolist() == [1 + 1 / 2, 0, 1 / 2 + 1] and beyond == 1
    words, _ = citation_credit(answer, 3, "words")
    assert words.tolist() == [3 + 2 / 2, 0, 2 / 2 + 2]
    position, _ = citation_credit(answer, 3, "position")
    later = math.exp(-1 / 2), math.exp(-2 / 2)  # S = 3
    assert position == pytest.approx([3 + later[0], 0, later[0] + 2 * later[1]])
    single, _ = citation_credit("Mills turn [2].", 2, "position")
    assert single.tolist() == [0, 2]  # S = 1: factor 1


@pytest.mark.parametrize("answer", ["", "I cannot answer.", "Beyond [7]."])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_nothing_cited_is_undefined(answer, weight):
    credit, beyond = citation_credit(answer, 3, weight)
    assert np.isnan(credit).all() and credit.shape == (3,)
    assert beyond == ("[7]" in answer)


@given(st.text(alphabet="ab .!?[]0123,-", max_size=60), st.integers(0, 4))
def test_credit_is_finite_and_adds_up(answer, n):
    credit, beyond = citation_credit(answer, n)
    sentences = split_sentences(answer)
    with_documents = [s for s in sentences if any(1 <= p <= n for p in s.cited)]
    assert beyond == sum(sum(not 1 <= p <= n for p in s.cited) for s in sentences)
    if with_documents:
        # each sentence that cites a document gives 1 in all
        assert credit.sum() == pytest.approx(len(with_documents)) and (credit >= 0).all()
    else:
        assert np.isnan(credit).all()
