"""The page of each measure says everything, and its example gives what is printed."""

import doctest
import re

import pytest

import fairtk
from fairtk.measures.pages import SECTIONS, page_of, plain_text
from fairtk.plugins import loaded_plugins, registry
from fairtk.plugins.references import citation_keys

OURS = [
    registry.measures.get(name)
    for plugin in loaded_plugins()
    if plugin.name == "fairtk"
    for name in plugin.gave.get("fairtk_measures", [])
]


@pytest.mark.parametrize("measure", OURS, ids=lambda m: m.NAME)
class TestPage:
    def test_says_everything(self, measure):
        page = page_of(measure)
        assert tuple(page.sections) == SECTIONS
        assert all(page.sections.values()) and page.description and page.title
        assert page.facts["direction"].startswith(measure.BETTER)
        assert [row[0] for row in page.parameters] == list(measure.SUPPORTED_PARAMS)
        assert citation_keys(page.name)

    def test_example_is_true(self, measure):
        text = re.search(r"```python\n(.*?)```", page_of(measure).sections["Example"], re.S).group(
            1
        )
        test = doctest.DocTestParser().get_doctest(text, {}, measure.NAME, None, 0)
        assert len(test.examples) >= 4 and test.examples[-1].want
        texts = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=texts.append)
        assert texts == []

    def test_related_measures_exist(self, measure):
        names = re.findall(r"`(\w+)`", page_of(measure).sections["Related"])
        assert names and set(names) <= set(registry.measures.names())

    def test_reads_well_on_a_terminal(self, measure):
        for heading, text in page_of(measure).sections.items():
            plain = plain_text(text)
            assert "\\" not in plain and "$" not in plain and "```" not in plain, heading
            assert max(map(len, plain.splitlines())) <= 120


def test_formulas_in_letters():
    assert plain_text(r"$$\frac{1}{N} \sum_{i=1}^{N} a_k$$").strip() == "1 / N sum_(i=1)^N a_k"
    assert plain_text(r"$$\mathrm{EE\_D} = \frac{x_{dg}}{a + b}$$") == "EE_D = (x_dg) / (a + b)"


def test_a_measure_without_a_page_has_its_docstring():
    class Plain(fairtk.FairMeasure):
        """How plain it is.

        Not at all.
        """

        NAME, PRETTY_NAME, BETTER, MISSING = "Plain", "Plainness", "lower", float("nan")

    page = page_of(Plain())
    assert page.sections == {} and page.description == "How plain it is.\n\nNot at all."
    assert page.facts["a query missing from the run"].startswith("undefined (NaN)")
