"""Built-in utilities, prompts and data sets pass the contracts; broken ones do not."""

from collections import namedtuple

import ir_datasets
import pytest
from failing import failing
from ir_datasets.formats import BaseDocs, BaseQueries, BaseScoredDocs, GenericScoredDoc

from fairtk import demo, hookimpl, plugins
from fairtk.datasets import lamp
from fairtk.plugins.registry import PromptSpec, UtilitySpec
from fairtk.testing import DatasetContract, PromptContract, UtilityContract
from fairtk.utilities import Utility

NUMBERS = [("3", "3"), ("4", "3"), ("1", "5"), ("2.5", ["1", "3"]), ("", "2")]


@pytest.mark.parametrize("name", plugins.loaded()[0].gave["fairtk_utilities"])
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
    for name in plugins.loaded()[0].gave["fairtk_prompts"]
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


class Turned(Exact):
    """The other way round than it says."""

    def score(self, prediction, gold):
        return float(prediction != gold)


class Misnamed(Exact):
    name = "another"


class Misdirected(Exact):
    higher_is_better = False


class Integers(Exact):
    def __call__(self, predictions, golds):
        return [int(p == g) for p, g in zip(predictions, golds, strict=True)]


class Shortening(Exact):
    def __call__(self, predictions, golds):
        return super().__call__(*zip(*zip(predictions, golds, strict=False), strict=True))


class Relative(Exact):
    def __call__(self, predictions, golds):
        values = super().__call__(predictions, golds)
        return [v / (len(values) or 1) for v in values]


class FirstGold(Exact):
    def __call__(self, predictions, golds):
        return super().__call__(predictions, [g if isinstance(g, str) else g[0] for g in golds])


def utility_failures(cls, only="test_"):
    class Plugin:
        @hookimpl
        def fairtk_utilities(self):
            return [UtilitySpec("toy-exact", f"{__name__}:{cls.__name__}", "exact")]

    class Contract(UtilityContract):
        name = "toy-exact"

    plugin = Plugin()
    plugins.register(plugin, "toy")
    try:
        return failing(Contract, only)
    finally:
        plugins.unregister(plugin)


UTILITY_FLAWS = [
    (Turned, "test_right_answer_is_best"),
    (Misnamed, "test_declarations"),
    (Misdirected, "test_declarations"),
    (Integers, "test_one_finite_float_for_each_answer"),
    (Shortening, "test_unequal_lengths_are_an_error"),
    (Relative, "test_other_answers_do_not_matter"),
    (FirstGold, "test_best_of_several_gold_answers_counts"),
]


@pytest.mark.parametrize(("cls", "test"), UTILITY_FLAWS, ids=lambda v: getattr(v, "__name__", v))
def test_a_flaw_of_a_utility_is_found(cls, test):
    assert test in utility_failures(cls, test)


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


class NoWindow(Plain):
    def __call__(self, question, documents, tokenizer):
        return super().__call__(question, documents, None)


class CutsTheEnd(Plain):
    def __call__(self, question, documents, tokenizer):
        text = super().__call__(question, documents, None)
        return text if tokenizer is None else " ".join(text.split()[:100])


class Sorting(Plain):
    def __call__(self, question, documents, tokenizer):
        return super().__call__(question, sorted(documents, key=str), tokenizer)


class Emptying(Plain):
    def __call__(self, question, documents, tokenizer):
        prompt = super().__call__(question, documents, tokenizer)
        documents.clear()
        return prompt


class OneDocument(Plain):
    def __call__(self, question, documents, tokenizer):
        return super().__call__(question, documents[:1], tokenizer)


class ListOfFields(Plain):
    fields = ["text"]


def prompt_failures(cls, only="test_"):
    class Plugin:
        @hookimpl
        def fairtk_prompts(self):
            return [PromptSpec("toy-plain", f"{__name__}:{cls.__name__}", "plain")]

    class Contract(PromptContract):
        name = "toy-plain"

    plugin = Plugin()
    plugins.register(plugin, "toy")
    try:
        return failing(Contract, only)
    finally:
        plugins.unregister(plugin)


PROMPT_FLAWS = [
    (NoWindow, "test_long_documents_leave_the_question_whole"),
    (CutsTheEnd, "test_long_documents_leave_the_question_whole"),
    (Sorting, "test_order_of_documents_matters"),
    (Emptying, "test_documents_stay_as_they_are"),
    (OneDocument, "test_has_the_question_and_the_documents"),
    (ListOfFields, "test_declarations"),
]


@pytest.mark.parametrize(("cls", "test"), PROMPT_FLAWS, ids=lambda v: getattr(v, "__name__", v))
def test_a_flaw_of_a_prompt_is_found(cls, test):
    assert test in prompt_failures(cls, test)


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
