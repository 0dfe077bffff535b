"""Built-in utilities, prompts and data sets pass the contracts; broken ones do not."""

from collections import namedtuple

import ir_datasets
import pytest
from failing import assert_found, failing, flawed, given
from ir_datasets.formats import BaseDocs, BaseQueries, BaseScoredDocs, GenericScoredDoc

from fairtk import demo, plugins
from fairtk.datasets import lamp
from fairtk.plugins.registry import PromptSpec, UtilitySpec
from fairtk.testing import DatasetContract, PromptContract, UtilityContract
from fairtk.utilities import Utility

NUMBERS = [("3", "3"), ("4", "3"), ("1", "5"), ("2.5", ["1", "3"]), ("", "2")]


@pytest.mark.parametrize("name", plugins.loaded_plugins()[0].gave["fairtk_utilities"])
class TestUtilities(UtilityContract):
    @pytest.fixture(autouse=True)
    def _set(self, name):
        self.name = name
        if name == "mae":
            self.pairs = NUMBERS
        if name.startswith("rouge_score"):
            pytest.importorskip("rouge_score")


class TestAccuracyWithLabels(UtilityContract):
    name = "accuracy"
    options = {"labels": ["comedy", "action"]}
    pairs = [("comedy", "comedy"), ("action", "comedy"), ("", ["action", "comedy"])]


OF_DOCUMENTS = [
    name
    for name in plugins.loaded_plugins()[0].gave["fairtk_prompts"]
    if name != "template" and not name.startswith("refine")  # those have tests of their own
]


@pytest.mark.parametrize("name", OF_DOCUMENTS)
class TestPrompts(PromptContract):
    question = (
        "For the author of a paper about foxes, which reference is related? Answer [1] or [2]"
    )

    @pytest.fixture(autouse=True)
    def _set(self, name):
        self.name = name


class TestTemplate(PromptContract):
    name = "template"
    options = {"template": "Read {documents} and answer: {question}"}


class TestDemoCollection(DatasetContract):
    limit = 50

    def dataset(self):
        return lamp.from_folder(demo.collection_folder(), task=2)


# One flaw each -----------------------------------------------------------------------------------


class Exact(Utility):
    """1 for the gold answer, else 0."""

    name = "toy-exact"

    def score(self, prediction, gold):
        return float(prediction == gold)


def utility_failures(cls, only="test_"):
    class Contract(UtilityContract):
        name = "toy-exact"

    spec = UtilitySpec("toy-exact", f"{cls.__module__}:{cls.__name__}", "exact")
    with given(utilities=[spec]):
        return failing(Contract, only)


UTILITY_FLAWS = {
    "prefers wrong answers": (
        "test_right_answer_is_best",
        {"score": lambda self, prediction, gold: float(prediction != gold)},
    ),
    "has another name": ("test_declarations", {"name": "another"}),
    "has another direction": ("test_declarations", {"higher_is_better": False}),
    "gives integers": (
        "test_one_finite_float_for_each_answer",
        {"__call__": lambda self, *texts: [int(p == g) for p, g in zip(*texts, strict=True)]},
    ),
    "shortens the longer list": (
        "test_unequal_lengths_are_an_error",
        {
            "__call__": lambda self, *texts: Exact.__call__(
                self, *zip(*zip(*texts, strict=False), strict=True)
            )
        },
    ),
    "divides by the number of answers": (
        "test_other_answers_do_not_matter",
        {
            "__call__": lambda self, *texts: [
                value / len(texts[0]) for value in Exact.__call__(self, *texts)
            ]
        },
    ),
    "compares with the first gold answer alone": (
        "test_best_of_several_gold_answers_counts",
        {
            "__call__": lambda self, predictions, golds: Exact.__call__(
                self, predictions, [g if isinstance(g, str) else g[0] for g in golds]
            )
        },
    ),
}


@pytest.mark.parametrize("flaw", UTILITY_FLAWS)
def test_a_flaw_of_a_utility_is_found(flaw):
    cls = flawed(Exact, UTILITY_FLAWS[flaw][1])
    assert_found(UTILITY_FLAWS[flaw], lambda test: utility_failures(cls, test))


class Plain:
    """Question last, documents before it."""

    name = "toy-plain"
    fields = ("text",)

    def __call__(self, question, documents, tokenizer):
        text = " | ".join(d["text"] for d in documents)
        if tokenizer is not None:
            room = tokenizer.model_max_length - 2 - len(tokenizer.tokenize(question))
            text = " ".join(tokenizer.tokenize(text)[:room])
        return f"{text} {question}"

    def __repr__(self):
        return "toy-plain"

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = None


def prompt_failures(cls, only="test_"):
    class Contract(PromptContract):
        name = "toy-plain"

    spec = PromptSpec("toy-plain", f"{cls.__module__}:{cls.__name__}", "plain")
    with given(prompts=[spec]):
        return failing(Contract, only)


def empty_list(self, question, documents, tokenizer):
    prompt = Plain.__call__(self, question, documents, tokenizer)
    documents.clear()
    return prompt


LONG = "test_long_documents_leave_the_question_whole"
# the call of a prompt takes question, documents and tokenizer
PROMPT_FLAWS = {
    "ignores the window": (
        LONG,
        {"__call__": lambda self, *given: Plain.__call__(self, *given[:2], None)},
    ),
    "cuts the end": (
        LONG,
        {
            "__call__": lambda self, *given: " ".join(
                Plain.__call__(self, *given[:2], None).split()[: given[2] and 100]
            )
        },
    ),
    "sorts the documents": (
        "test_order_of_documents_matters",
        {"__call__": lambda self, q, docs, t: Plain.__call__(self, q, sorted(docs, key=str), t)},
    ),
    "empties the list": ("test_documents_stay_as_they_are", {"__call__": empty_list}),
    "reads one document": (
        "test_has_the_question_and_the_documents",
        {"__call__": lambda self, q, docs, t: Plain.__call__(self, q, docs[:1], t)},
    ),
    "has a list of fields": ("test_declarations", {"fields": ["text"]}),
}


@pytest.mark.parametrize("flaw", PROMPT_FLAWS)
def test_a_flaw_of_a_prompt_is_found(flaw):
    cls = flawed(Plain, PROMPT_FLAWS[flaw][1])
    assert_found(PROMPT_FLAWS[flaw], lambda test: prompt_failures(cls, test))


def test_good_ones_pass():
    assert utility_failures(Exact) == {}
    assert prompt_failures(Plain) == {}
    assert dataset_failures(["a", "b"], ["1"], [("1", "a")]) == {}


class Doc(namedtuple("Doc", ["doc_id", "text"])):
    def default_text(self):
        return self.text


class Query(namedtuple("Query", ["query_id", "text"])):
    def default_text(self):
        return self.text


class Store:
    def __init__(self, docs):
        self.docs = {doc.doc_id: doc for doc in docs}

    def get(self, doc_id):
        return self.docs[doc_id]

    def get_many(self, doc_ids):
        return {i: self.docs[i] for i in doc_ids if i in self.docs}


class Docs(BaseDocs):
    def __init__(self, ids):
        self.docs = [Doc(i, f"text of {i}") for i in ids]

    def docs_iter(self):
        return iter(self.docs)

    def docs_cls(self):
        return Doc

    def docs_store(self):
        return Store(self.docs)


class Queries(BaseQueries):
    def __init__(self, ids):
        self.ids = ids

    def queries_iter(self):
        return iter(Query(i, f"query {i}") for i in self.ids)

    def queries_cls(self):
        return Query


class Scored(BaseScoredDocs):
    def __init__(self, pairs):
        self.pairs = pairs

    def scoreddocs_iter(self):
        return iter(GenericScoredDoc(q, d, 0.0) for q, d in self.pairs)


def dataset_failures(docs, queries, pairs, only="test_"):
    class Contract(DatasetContract):
        def dataset(self):
            return ir_datasets.Dataset(Docs(docs), Queries(queries), Scored(pairs))

    return failing(Contract, only)


@pytest.mark.parametrize(
    ("docs", "queries", "pairs", "test"),
    [
        (["a", "a"], ["1"], [("1", "a")], "test_documents"),
        ([1, 2], ["1"], [("1", 1)], "test_documents"),
        (["a"], ["1", "1"], [("1", "a")], "test_queries"),
        (["a"], ["1"], [("2", "a")], "test_candidates"),
        (["a"], ["1"], [("1", "b")], "test_candidates"),
        (["a"], ["1"], [("1", "a"), ("1", "a")], "test_candidates"),
    ],
)
def test_a_flaw_of_a_dataset_is_found(docs, queries, pairs, test):
    assert dataset_failures(docs, queries, pairs, test)
