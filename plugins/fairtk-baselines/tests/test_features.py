import math

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fairtk_baselines import encoders
from fairtk_baselines.features import Features
from fixed_encoder import FixedEncoder
from hypothesis import given
from hypothesis import strategies as st

from fairtk.errors import ColumnError, InputError, ParameterError
from fairtk.testing import TransformerContract, toy_documents, toy_run, toy_samples


def run(rows):
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "text"])


def by_docno(features, inp):
    out = features.transform(inp)
    return {
        docno: dict(zip(features.names, values, strict=True))
        for docno, values in zip(out["docno"], out["features"], strict=True)
    }


class TestFeatures(TransformerContract):
    def make(self):
        return Features()

    def others(self):
        toys = encoders.get("lsa", toy_documents())
        return [
            Features(toys),
            Features(encoders.get("lsa", toy_documents(), seed=1, dimensions=2)),
            Features(columns=["rank"]),
            Features(toys, columns=["rank"]),
            Features(columns=["rank", "length"]),
        ]


class TestFeaturesWithEncoder(TransformerContract):
    def make(self):
        return Features(encoders.get("lsa", toy_documents()), columns=["rank"])

    def other_values(self):
        return {"encoder": None, "columns": ()}


def test_by_hand():
    # n = 2; "fox" is in one text: idf = ln(3/2) + 1 = 1.405465; "den" in both: ln(3/3) + 1 = 1.
    # "fox den": (1.405465, 1), length sqrt(1.975332 + 1) = 1.724915; "fox" is 1.405465 / 1.724915
    # of it. The query "fox fox": the direction of "fox"; one distinct word.
    found = by_docno(
        Features(),
        run([("1", "Fox fox", "a", 7.0, "fox den"), ("1", "Fox fox", "b", 5.0, "den den den")]),
    )
    assert found["a"] == pytest.approx(
        {
            "score": 1,
            "tfidf_cosine": 0.814802,
            "query_words": 1,
            "log_length": math.log(3),
        },
        abs=1e-5,
    )
    assert found["b"] == pytest.approx(
        {"score": 0, "tfidf_cosine": 0, "query_words": 0, "log_length": math.log(4)}
    )


def test_query_words_that_no_text_has_count():
    # n = 1: idf("fox") = ln(2/2) + 1 = 1; df("owl") = 0: idf = ln(2/1) + 1 = 1.693147. The query is
    # (1, 1.693147), length 1.966393; the text is "fox": cosine 1 / 1.966393 = 0.508545
    found = by_docno(Features(), run([("1", "fox owl", "a", 7.0, "fox")]))["a"]
    assert found["tfidf_cosine"] == pytest.approx(0.508545, abs=1e-5)
    assert found["query_words"] == 0.5


def test_equal_scores_say_nothing():
    found = by_docno(Features(), run([("1", "x y", d, 3.0, "z") for d in "abc"]))
    assert {values["score"] for values in found.values()} == {0.5}


def test_scores_of_any_size():
    values = [1.5e308, 0.0, -1.5e308]
    found = by_docno(
        Features(), run([("1", "x", d, s, "z") for d, s in zip("abc", values, strict=True)])
    )
    assert [found[d]["score"] for d in "abc"] == [1, 0.5, 0]


def test_texts_and_queries_without_words():
    inp = run([("1", "", "a", 2.0, "fox"), ("1", "", "b", 1.0, ""), ("2", "fox", "b", 1.0, "!")])
    for values in Features().transform(inp)["features"]:
        assert np.isfinite(values).all()
        assert values[1] == values[2] == 0  # cosine and share of words
    only_empty = run([("1", "", "a", 2.0, "")])
    assert Features().transform(only_empty)["features"].iloc[0].tolist() == [0.5, 0, 0, 0]


def test_dense_cosine():
    # (3, 4) and (4, 3) have length 5: 24 / 25; opposite vectors -1; a zero vector 0
    inp = run(
        [("1", "3 4", d, 9.0 - i, t) for i, (d, t) in
         enumerate([("a", "4 3"), ("b", "-6 -8"), ("c", "0 0")])]
    )  # fmt: skip
    found = by_docno(Features(FixedEncoder()), inp)
    dense = [found[d]["dense_cosine"] for d in "abc"]
    assert dense == pytest.approx([0.96, -1, 0])


def test_texts_are_encoded_once():
    encoder = FixedEncoder()
    Features(encoder).transform(run([(q, "1 0", "a", 1.0, "0 1") for q in "12345"]))
    assert encoder.encoded == 2  # the text and the query


def test_columns_are_features_too():
    inp = toy_run().assign(length=range(17), share=0.25)
    features = Features(columns=["length", "share"])
    assert features.names[-2:] == ("length", "share")
    out = features.transform(inp)
    assert [v[-2:].tolist() for v in out["features"]] == [[i, 0.25] for i in range(17)]


def test_rows_keep_their_columns_in_the_order_of_ranks():
    inp = toy_run().sample(frac=1, random_state=1)
    out = Features().transform(inp)
    by_query = out.drop(columns="features").sort_values("qid", kind="stable", ignore_index=True)
    pd.testing.assert_frame_equal(by_query, toy_run())
    assert out["features"].iloc[0].dtype == np.float64
    one, two = out["features"].iloc[:2]
    one[:] = 9
    assert two[0] != 9


WORDS = st.lists(st.sampled_from(["fox", "den", "owl", "a", "Éa"]), max_size=6).map(" ".join)


@given(
    st.lists(
        st.tuples(st.sampled_from(["1", "2"]), st.floats(-1e3, 1e3), WORDS), min_size=1, max_size=8
    ),
    WORDS,
)
def test_ranges(rows, query):
    inp = run([(q, query, f"d{i}", score, text) for i, (q, score, text) in enumerate(rows)])
    values = np.stack(Features().transform(inp)["features"])
    assert np.isfinite(values).all() and (values >= 0).all()
    assert (values[:, :3] <= 1).all()
    for qid in inp["qid"].unique():
        own = Features().transform(inp[inp["qid"] == qid])
        together = Features().transform(inp)
        both = together[together["qid"] == qid]
        assert np.array_equal(np.stack(own["features"]), np.stack(both["features"]))


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"text": None}, InputError, "the text of qid 'q1', docno 'd3'"),
        ({"query": float("nan")}, InputError, "the query of qid 'q1', docno 'd3'"),
        ({"query": "another"}, InputError, "qid 'q1' must have the same query"),
        ({"length": float("inf")}, InputError, "'length' of qid 'q1', docno 'd3'"),
        ({"length": None}, InputError, "'length' of qid 'q1', docno 'd3'"),
        ({"length": "long"}, ColumnError, "'length' must hold numbers"),
    ],
)
def test_bad_rows_are_named(change, error, named):
    inp = toy_run().assign(length=1.0).astype({"query": object, "text": object, "length": object})
    for column, value in change.items():
        inp.loc[0, column] = value
    with pytest.raises(error, match=named):
        Features(columns=["length"]).transform(inp)


def test_vectors_that_are_not_finite():
    with pytest.raises(InputError):
        Features(FixedEncoder()).transform(run([("1", "1 0", "a", 1.0, "nan 0")]))


def test_samples_are_refused():
    with pytest.raises(ColumnError, match="sample"):
        Features().transform(toy_samples())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"encoder": "lsa"}, "requires documents"),
        ({"encoder": 3}, "got int"),
        ({"columns": "rank"}, "list of names"),
        ({"columns": ["rank", "rank"]}, "duplicate name"),
        ({"columns": ["score"]}, "duplicate name"),
    ],
)
def test_settings_that_cannot_be_used(arguments, named):
    with pytest.raises(ParameterError, match=named):
        Features(**arguments)


def test_schematic():
    """PyTerrier would draw the empty tuple of columns as a list of stages, and fail."""
    for features in (Features(), Features(FixedEncoder()), Features(columns=["rank"])):
        assert "Features" in pt.schematic.draw(features)
