"""Measure strings and configurations of studies: what is read is read again as the same, and
everything else is one line with the place.

pytest -m slow tests/campaign/test_campaign_strings.py --campaign-cases 9000 --campaign-seed 7
"""

from __future__ import annotations

import os
import tomllib
import warnings

import pytest
from hypothesis import strategies as st

from fairtk.errors import FairtkError
from fairtk.measures import parse
from fairtk.measures.params import written
from fairtk.studies.fair_qr import QrConfiguration
from fairtk.studies.fair_rag import RagConfiguration

pytestmark = pytest.mark.slow

PLACES = st.integers(0, 1 << 16)
PLAIN = ["nDCG@5", "RR", "AP(rel=2)", "P@3", "Compat", "EE_D@5", "EE_R", "EE_L(normalize=False)@7",
         "EE_D(browsing='RBP(p=0.8)')", "EE_R(bounds='exact',browsing='GERR(p=0.8,u=0.4)')@5",
         "EU(utility='accuracy')", "EU", "nDCG_TREC@10", "ERR@20", "Bpref"]  # fmt: skip
HOSTILE = [
    "__import__('os').environ.__setitem__('CAMPAIGN', 'run')", "lambda: 1", "[x for x in y]",
    "f'{1}'", "{}", "{'a': {}}", "()", "*", "**a", "a=1", "...", "nDCG@5@6", "@5", "nDCG@", "E()",
    "E(,)", "'", '"', "\\", "\0", "\ud800", "\u202e", "\x0b", "\n", "#", ";", ":=", "1e999", "0x1F",
    "1_0", "-1", "1" * 5000, "nDCG@" + "9" * 400, "-" * 3000 + "1", "not " * 3000 + "1",
    "x" * 100_000, "nDCG@5 * " * 3000 + "RR", "E(" * 5000, "E(" * 25 + "RR" + ")" * 25,
    "(" * 199 + "RR" + ")" * 199, "[" * 90 + "]" * 90, "a." * 5000 + "b", "a" + "(b)" * 2000,
    "a" + "[0]" * 3000, "E(measure='" + "E(" * 50 + "'", "'\\''" * 2000, "1if 2else 3",
    "nDCG(rel=[1,2])", "E(measure=3)", "EE_D(browsing='RBP(p=__import__(1))')", "AWRF(groups='x')",
    "EE_D(browsing=" + "'" * 999, "ByGroup(measure='EE_D', groups='nothing')", "é@5", "nDCG\xa0@5",
    "nDCG@5 if True else RR", "yield", "await x", "None", "True", "1j", "b'x'", "%s", "RR, RR",
]  # fmt: skip


def nested(inner):
    """Return strategies of strings that hold others."""
    return st.one_of(
        st.builds("E({})".format, inner),
        st.builds("E(measure={!r})".format, inner),
        st.builds("({})".format, inner),
        st.builds("{}@{}".format, inner, st.integers(-1, 30)),
        st.builds("{} * {}".format, inner, inner),
        st.builds("Product(left={!r}, right={!r})".format, inner, inner),
        st.builds("E({}, {}={})".format, inner, st.sampled_from(["k", "rel", "bounds"]), inner),
    )


RIGHT = st.recursive(st.sampled_from(PLAIN), nested, max_leaves=9)
SIGNS = st.one_of(st.sampled_from("()[]{}@*'\"=,.-+\\ #019eE\t\n"), st.characters())


@st.composite
def strings(draw):
    """Draw a string that is right, hostile, or of pieces of both with signs in and out of it."""
    text = draw(st.one_of(RIGHT, st.sampled_from(HOSTILE), st.text(max_size=30)))
    for _ in range(draw(st.integers(0, 3))):
        at, much = draw(st.integers(0, len(text))), draw(st.integers(0, 3))
        piece = draw(st.one_of(SIGNS, SIGNS, st.sampled_from([*PLAIN, *HOSTILE]), st.just("")))
        text = text[:at] + piece + text[at + much :]
    return text


def test_measure_strings(campaign):
    """Nothing is run, nothing takes long, and what is read is read again as the same."""

    def check(text):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                measure = parse(text)
            except FairtkError as error:
                assert isinstance(error, ValueError)
                assert "\n" not in str(error) and "character" in str(error), error
                assert len(str(error)) < 3 * len(text) + 2000, error
                return "refused"
            finally:
                assert "CAMPAIGN" not in os.environ
            assert parse(repr(measure)) == measure
            assert parse(written(measure)) == measure
        return "read"

    campaign("measure strings", strings(), check)


# Configurations -----------------------------------------------------------------------------------

LEDGER = '[ledger]\npath = "l.sqlite"\noffline = true\nmax_calls = 9\nprices = {m = [1, 2.5]}\n'
ENGINE = '[engine]\nexecutor = "serial"\nworkers = 2\n'
QR = """folder = "."
attributes = ["gender", "geography"]
systems = ["bm25", "fair-qr"]
cutoff = 5
candidates = 9
seed = 3
folds = 2
ndcg = "TREC"
[bm25]
k1 = 0.9
[fair-qr]
max_iterations = 3
threshold = 0.1
[variations]
depth = [5, 10]
[options.mmr]
lam = 0.5
[llm]
backend = "openai"
model = "m"
temperature = "none"
extra_body = {top_p = 0.5}
"""
RAG = """folder = "."
tasks = [2, 4]
split = "dev"
alphas = [1, 2.5]
n_samples = 9
cutoff = 3
seed = 4
limit = 7
labels = "own"
truncation = "published"
generators = ["t5:google/flan-t5-small"]
retrievers = ["bm25", "contriever"]
[options."t5:google/flan-t5-small"]
batch_tokens = 99
"""
STUDIES = [(QrConfiguration, QR + LEDGER + ENGINE), (RagConfiguration, RAG + LEDGER + ENGINE)]
VALUES = ["1", "-1", "0", "2.5", "nan", "inf", "true", "''", "'x'", "[]", "[1]", "['a', 1]", "{}",
          "9" * 30, "{a = 1}", "[[1]]", "1979-05-27", "'\\n'", "[{}]", "'../..'", '"\\u0000"',
          "[" * 3000, "9" * 5000, "{a=" * 90 + "1" + "}" * 90, "[" * 90 + "]" * 90, "1e400",
          "'" * 3]  # fmt: skip
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["value", "key", "line gone", "line twice", "sign", "table", "dotted"]),
        PLACES, PLACES, st.sampled_from(VALUES), SIGNS,
    ), max_size=2,
)  # fmt: skip


def edited(text, kind, place, other, value, sign):
    """Return a configuration with one change."""
    lines = text.splitlines()
    at = place % max(1, len(lines))
    key, equals, old = lines[at].partition(" = ") if lines else ("", "", "")
    if kind == "sign":
        at = place % (len(text) + 1)
        return text[:at] + sign + text[at + other % 2 :]
    if kind in ("value", "key", "dotted") and equals:
        name = {"value": key, "key": f"'{sign}{key}'", "dotted": f"{key}.x"}[kind]
        lines[at] = f"{name} = {value if kind == 'value' else old}"
    elif kind == "line gone":
        del lines[at : at + 1]
    elif kind == "line twice":
        lines.insert(other % (len(lines) + 1), "".join(lines[at : at + 1]))
    else:
        lines.insert(other % (len(lines) + 1), f"[{'a.' * (place % 50)}c]")
    return "\n".join(lines)


def test_configurations(campaign, tmp_path):
    """A configuration that says the same is the same; an error names its file in one line."""
    path = tmp_path / "study.toml"

    def read(kind, text):
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return kind.read(path)

    whole = [read(kind, text) for kind, text in STUDIES]

    def check(drawn):
        place, edits = drawn
        kind, text = STUDIES[place % len(STUDIES)]
        original = tomllib.loads(text)
        for edit in edits:
            text = edited(text, *edit)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                configuration = read(kind, text)
            except FairtkError as error:
                assert str(path) in str(error) and len(str(error).splitlines()) == 1, error
                assert len(str(error)) < len(text) + 2000
                return "refused"
        same = tomllib.loads(path.read_bytes().decode()) == original
        assert not same or configuration == whole[place % len(STUDIES)], text
        return "same" if same else "another"

    campaign("configurations", st.tuples(PLACES, EDITS), check)
