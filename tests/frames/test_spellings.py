"""Rules that are skipped because no id has a character that they change."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairtk.frames.spellings import SPELLINGS


@pytest.mark.parametrize("words", SPELLINGS)
@given(name=st.text(min_size=1))
@example(name="007")
@example(name="d-1.0")
@example(name="A/ b_c.txt\ufeff")
@example(name="\u24b6\u0130e\u0301")
def test_a_rule_without_its_characters_changes_only_what_one_before_it_does(words, name):
    changed, spell = SPELLINGS[words]
    if not re.search(changed, name):
        before = [rule.spell for rule in list(SPELLINGS.values())[: list(SPELLINGS).index(words)]]
        assert spell(name) in (name, *(earlier(name) for earlier in before))
