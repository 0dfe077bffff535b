"""One refinement step, Q -> Q."""

from __future__ import annotations

import pandas as pd
import pytest

from fairtk.errors import ColumnError, DataWarning, DuplicateError, InputError, ParameterError
from fairtk.llm import KeywordRefiner
from fairtk.testing import TransformerContract
from fairtk.transformers.fair_qr.keywords import QueryRefiner

TERMS = {"f": ["she", "woman", "her", "girl"], "m": ["he", "man"]}


def topics(*rows, **columns):
    return pd.DataFrame(rows, columns=["qid", "query"]).assign(**columns)


def scripted(answers):
    """Return a model that answers by the keywords it is given."""

    def model(prompts):
        found = []
        for prompt in prompts:
            line = next(x for x in prompt.splitlines() if x.startswith("Current keywords: "))
            found.append(answers[line.removeprefix("Current keywords: ")])
        return found

    return model


class TestContract(TransformerContract):
    def make(self):
        return QueryRefiner(KeywordRefiner(TERMS), group="f")

    def others(self):
        return [
            QueryRefiner(KeywordRefiner(TERMS), group="m"),
            QueryRefiner(KeywordRefiner(TERMS, terms=1), group="f"),
            QueryRefiner(KeywordRefiner(TERMS), group="f", prompt="refine-few-shot"),
            QueryRefiner(KeywordRefiner(TERMS), group="f", attribute="gender"),
        ]

    def inp(self):
        return topics(("q1", "space travel"), ("q2", "chess"), ("q3", "rivers"))


def test_the_earlier_query_is_kept():
    out = QueryRefiner(KeywordRefiner(TERMS, terms=1), group="f")(topics(("1", "space"), n=[7]))
    assert out.to_dict("records") == [
        {"qid": "1", "query": "space she", "query_0": "space", "n": 7}
    ]
    twice = QueryRefiner(KeywordRefiner(TERMS, terms=1), group="f")
    pipeline = twice >> QueryRefiner(KeywordRefiner(TERMS, terms=1), group="m")
    [row] = pipeline(topics(("1", "space"))).to_dict("records")
    assert row == {"qid": "1", "query": "space she he", "query_0": "space she", "query_1": "space"}


def test_the_prompt_names_the_earliest_query():
    seen = []

    def model(prompts):
        seen.extend(prompts)
        return ["a, b"] * len(prompts)

    frame = topics(("1", "now"), query_0=["before"], query_1=["first"])
    out = QueryRefiner(model, group="f", attribute="gender")(frame)
    assert "Original query: first\nCurrent keywords: now" in seen[0]
    assert "women" not in seen[0] and "f (gender)" in seen[0]
    assert out.loc[0, ["query", "query_0", "query_1", "query_2"]].tolist() == [
        "a b", "now", "before", "first"
    ]  # fmt: skip


def test_groups_by_query():
    frame = topics(("1", "space"), ("2", "chess"))
    by_qid = QueryRefiner(KeywordRefiner(TERMS, 1), group={"1": "m", "2": "f"})(frame)
    column = QueryRefiner(KeywordRefiner(TERMS, 1))(frame.assign(group=["m", "f"]))
    assert by_qid["query"].tolist() == column["query"].tolist() == ["space he", "chess she"]
    with pytest.raises(InputError, match="'group'.*qid '2'.*got None"):
        QueryRefiner(KeywordRefiner(TERMS), group={"1": "m"})(frame)
    with pytest.raises(ColumnError, match="'group'"):
        QueryRefiner(KeywordRefiner(TERMS))(frame)


def test_what_cannot_be_read_is_missing_and_named():
    model = scripted({"a": "women, space", "b": "I'm sorry, I can't.", "c": "", "d": "x " * 10_000})
    frame = topics(*zip("1234", "abcd", strict=True))
    with pytest.warns(DataWarning, match="3 of 4"):
        out = QueryRefiner(model, group="f")(frame)
    assert out[["qid", "query", "query_0"]].values.tolist() == [["1", "women space", "a"]]
    with pytest.warns(DataWarning, match="1 of 1"):
        out = QueryRefiner(model, group="f")(frame[2:3])
    assert out.empty and list(out.columns) == ["qid", "query", "query_0"]


def test_bad_input():
    refiner = QueryRefiner(KeywordRefiner(TERMS), group="f")
    with pytest.raises(DuplicateError, match="qid '1'"):
        refiner(topics(("1", "a"), ("1", "b")))
    with pytest.raises(ColumnError, match="column 'docno'"):
        refiner(topics(("1", "a"), docno=["d"]))
    with pytest.raises(InputError, match="'query'.*qid '1'.*got None"):
        refiner(topics(("1", None)))
    with pytest.raises(InputError, match="group 'x'"):
        QueryRefiner(KeywordRefiner(TERMS), group="x")(topics(("1", "a")))
    with pytest.raises(ParameterError, match="prompt"):
        QueryRefiner(KeywordRefiner(TERMS), group="f", prompt="rag")
    with pytest.raises(ParameterError, match="group"):
        QueryRefiner(KeywordRefiner(TERMS), group=3)
    with pytest.raises(ParameterError, match="llm"):
        QueryRefiner(3, group="f")
