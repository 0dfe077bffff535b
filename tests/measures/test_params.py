"""Measures as strings: what is read back, where an error is, how deep they go, no code is run."""

import re

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, nDCG

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.measures import EE_D, EE_R, E, format_measure, parse

PLAIN = st.sampled_from(
    [
        "nDCG",
        "nDCG@5",
        "RR",
        "P(rel=2)@3",
        "EE_R@5",
        "EE_R(browsing='RBP(p=0.8)')",
        "EU(utility='f1')",
    ]
)


def _product(left, right):
    return parse("Product")(left=left, right=right)


MEASURES = st.recursive(
    PLAIN.map(parse),
    lambda inner: st.one_of(inner.map(E), st.tuples(inner, inner).map(lambda two: _product(*two))),
    max_leaves=6,
)


@given(MEASURES)
def test_every_form_of_a_measure_is_read_back(measure):
    assert parse(repr(measure)) == parse(format_measure(measure)) == measure
    assert ir_measures.parse_measure(repr(measure)) == measure


@given(MEASURES)
def test_the_length_of_a_string_is_linear_in_that_of_the_measure(measure):
    """Quotes in quotes doubled the backslashes with each measure around them."""
    leaves = len(re.findall(r"nDCG|RR|P\(|EE_R|EU", repr(measure)))
    assert len(repr(measure)) <= 60 * leaves + 800


TOKENS = st.sampled_from(
    [*"()@*,=+-.[]{}'\"\\#:; \n\x00é\ud800", "nDCG", "EE_D", "E", "E(", "5", "0.8", "browsing="]
    + ["'RBP(p=0.8)'", "measure=", "**", "lambda", "Product", "__import__", "None", "999999999999"]
)


@given(st.one_of(st.lists(TOKENS, max_size=12).map("".join), st.text(max_size=20)))
def test_any_string_is_a_measure_or_one_line_with_a_place(text):
    try:
        measure = parse(text)
    except ValueError as error:
        assert isinstance(error, InputError)
        place = re.search(r" \(character (\d+): .*\)$", str(error))
        assert place and "\n" not in str(error), str(error)
        assert 1 <= int(place[1]) <= max(len(text), 1)
    else:
        assert parse(repr(measure)) == measure


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("E(nDGC@5)", "unknown measure 'nDGC'; did you mean 'nDCG'? (character 3: 'nDGC@5)')"),
        ("é", "(character 1: 'é')"),
        ("EE_D(browsing='é')", "EE_D: browsing: unknown browsing model 'é'"),
        ("EU(utility='é', foo=1)", "upper_bound, utility (character 21: '1)')"),
        ("E(nDCG@5", "Name(parameter=value)@5 (character 2: '(nDCG@5')"),
        ("E(\nnDCG, x)", "parameters must have names, name=value (character 1: 'E( nDCG, x)')"),
        ("nDCG@5 *", "(character 8: '*')"),
        ("nDCG@5, RR", "expected one measure, got several: 'nDCG@5, RR' (character 9: 'RR')"),
        ("nDCG; import os", "(character 5: '; import os')"),
        (
            "nDCG(dcg='x', dcg='log2')",
            "nDCG: got multiple values for dcg (character 19: \"'log2')\")",
        ),
        ("E(nDCG, measure=RR)", "E: got multiple values for measure (character 17: 'RR)')"),
        ("E(nDCG@5)(RR)", "E: got multiple values for measure (character 11: 'RR)')"),
        ("EE_D@5@10", "EE_D@5: duplicate cutoff; drop @10 (character 1: 'EE_D@5@10')"),
        ("E({[]: 1})", "(character 3: '{[]: 1})')"),
        ("nDCG@" + "9" * 5000, "nDCG@99"),
        ("nDCG@\ud800", "(character 6: '\\ud800')"),
        # trec_eval ends the whole process at a cutoff of 0; a cutoff is not left out in silence
        ("nDCG@0", "nDCG: cutoff must be an integer of at least 1, got 0 (character 1: 'nDCG@0')"),
        (
            "E(AP(rel=0))",
            "AP: rel must be an integer of at least 1, got 0 (character 3: 'AP(rel=0))')",
        ),
        ("E(P@-3)", "P: cutoff must be an integer of at least 1, got -3"),
        ("E(R)@0", "R: cutoff must be an integer of at least 1, got 0"),
        ("E(Compat)@5", "Compat: unsupported params found: ["),
        ("E(E(Compat))@5", "Compat: unsupported params found: ['cutoff']"),
        ("(E(Compat) * RR)@5", "Compat: unsupported params found: ['cutoff']"),
        ("ByGroup(Compat)@5", "Compat: unsupported params found: ['cutoff']"),
    ],
)
def test_an_error_tells_the_place(text, message):
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert message in str(caught.value) and len(str(caught.value)) < 400


def test_measures_that_are_no_strings_have_ranges_too():
    for make in (lambda: parse(nDCG @ 0), lambda: E(nDCG @ 0), lambda: E(nDCG) @ 0):
        with pytest.raises(ParameterError, match="got 0"):
            make()


def test_nothing_is_run(tmp_path):
    for text in (
        f"nDCG(dcg=open({str(tmp_path / 'x')!r}, 'w'))",
        "EE_D(browsing=__import__('os'))",
    ):
        with pytest.raises(NotFoundError):
            parse(text)
    assert not list(tmp_path.iterdir())


def nested(depth):
    return "E(" * (depth - 1) + "nDCG@5" + ")" * (depth - 1)


def test_measures_nest():
    """With quotes in quotes, 20 took two minutes, and the time doubled with each."""
    deepest = parse(nested(20))
    assert format_measure(deepest) == nested(20) and parse(repr(deepest)) == deepest
    factors = parse(" * ".join(["EE_R@5"] * 20))
    assert format_measure(factors) == " * ".join(["EE_R@5"] * 20)
    for text in (
        *(nested(5000), " * ".join(["EE_R@5"] * 20_000)),
        *("nDCG@" + "-" * 100_000 + "5", "[" * 150 + "]" * 150, "(" * 100_000),
    ):
        with pytest.raises(ParameterError):
            parse(text)


def test_a_factor_keeps_that_it_has_no_cutoff():
    """``nDCG * EE_R@5`` is ``(nDCG * EE_R)@5``."""
    product = nDCG * EE_R @ 5
    assert format_measure(_product(nDCG, EE_R @ 5)) == "nDCG * (EE_R@5)"
    assert (
        format_measure(_product(nDCG @ 5, EE_R @ 5)) == "nDCG@5 * EE_R@5" == format_measure(product)
    )
    assert format_measure(_product(RR, _product(nDCG, EE_R))) == "RR * (nDCG * EE_R)"
    assert parse("EE_D@5") == EE_D @ 5


def test_a_model_without_quotes_is_shown_with_its_settings():
    for model in ("RBP(p=0.8)", "GERR(p=0.8)"):  # RBP is also a measure
        with pytest.raises(ParameterError, match=re.escape(f"browsing={model!r}")):
            parse(f"EE_D(browsing={model})@5")
    with pytest.raises(
        ParameterError, match="normalize must be of type bool"
    ):  # quotes would not help
        parse("EE_D(normalize=yes)@5")
