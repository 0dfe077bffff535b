"""LaMP's queries and documents agree with the published code's, and errors name the entry."""

from __future__ import annotations

import pytest

from fairtk.datasets.lamp.records import retrieval_query, to_doc
from fairtk.errors import FormatError, InputError, NotFoundError


def test_retrieval_queries_agree_with_the_published_code(golden):
    for case in golden("lamp_retrieval")["cases"]:
        if case["retrieval_query"] is None:
            with pytest.raises(FormatError, match="'article:'"):
                retrieval_query(case["task"], case["question"])
            continue
        found = retrieval_query(case["task"], case["question"])
        assert found == case["retrieval_query"], case["tag"]


def test_retrieval_documents_agree_with_the_published_code(golden):
    for case in golden("lamp_retrieval")["cases"]:
        plain = [to_doc(case["task"], "q", e).default_text() for e in case["profile"]]
        dated = [to_doc(case["task"], "q", e, use_date=True).text for e in case["profile"]]
        assert plain == case["retrieval_documents"], case["tag"]
        if case["retrieval_documents_use_date"]:  # not recorded for the long cases
            assert dated == case["retrieval_documents_use_date"], case["tag"]


@pytest.mark.parametrize(
    ("task", "raw", "fields"),
    [
        (1, {"title": "T", "abstract": "A"}, {"text": "T A", "title": "T", "abstract": "A"}),
        (2, {"description": "D", "tag": "G"}, {"text": "D", "tag": "G"}),
        (3, {"text": "R", "score": "4"}, {"text": "R", "rating": "4"}),
        (3, {"text": "R", "score": 4}, {"text": "R", "rating": "4"}),
        (4, {"title": "T", "text": "A"}, {"text": "T A", "title": "T", "article": "A"}),
        (5, {"title": "T", "abstract": "A"}, {"text": "T A", "title": "T", "abstract": "A"}),
        (6, {"title": "S", "text": "M"}, {"text": "M", "title": "S"}),
        (7, {"text": "W"}, {"text": "W"}),
    ],
)
def test_fields_of_each_task(task, raw, fields):
    doc = to_doc(task, "31", {"id": 210, **raw})
    assert doc._asdict() == {"doc_id": "31/210", "date": "", **fields}
    assert doc.default_text() == doc.text
    # PyTerrier's text_loader loads the fields that are annotated with the class str
    assert all(kind is str for kind in type(doc).__annotations__.values())


@pytest.mark.parametrize(
    ("task", "raw", "message"),
    [
        (4, {"id": "1", "text": "x"}, r"query '9', profile entry '1' requires the key 'title'"),
        (4, {"id": "1", "text": None, "title": "x"}, r"'text' of .* must be text, got 'None'"),
        (4, {"text": "x", "title": "x"}, r"query '9', a profile entry requires the key 'id'"),
        (7, {"id": "1", "text": ["x"]}, r"'text' of .*profile entry '1' must be text"),
    ],
)
def test_bad_profile_entries_are_named(task, raw, message):
    with pytest.raises(FormatError, match=message):
        to_doc(task, "9", raw)


def test_use_date_needs_a_date():
    with pytest.raises(FormatError, match="'1'"):
        to_doc(7, "9", {"id": "1", "text": "x"}, use_date=True)


@pytest.mark.parametrize("task", [0, 8, "9", True, None])
def test_unknown_task(task):
    with pytest.raises(NotFoundError, match="LaMP"):
        to_doc(task, "q", {})
    with pytest.raises(InputError, match="'4'.*task=4"):
        to_doc("4", "q", {})


def test_a_question_without_two_references():
    with pytest.raises(FormatError, match="got 1 quoted"):
        retrieval_query(1, 'For an author of "Only One"')
