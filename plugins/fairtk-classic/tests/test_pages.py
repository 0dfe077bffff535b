"""The page of each measure has a worked example, which gives what is printed."""

import doctest
import re

import fairtk_classic
import pytest

from fairtk.measures.pages import page_of


@pytest.mark.parametrize("name", fairtk_classic.__all__)
def test_the_example_is_true(name):
    example = page_of(getattr(fairtk_classic, name)).sections["Example"]
    code, said = re.search(r"```python\n(.*?)```\n(.*)", example, re.DOTALL).groups()
    test = doctest.DocTestParser().get_doctest(code, {}, name, None, 0)
    assert test.examples[-1].want and said.strip()
    found = []
    doctest.DocTestRunner().run(test, out=found.append)
    assert found == []
