"""Contracts of data sets, prompt builders and utilities."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

from fairtk.measures import EU, parse
from fairtk.plugins import registry
from fairtk.testing.toys import check_refused, is_one_of, same_number

Gold = str | Sequence[str]


class UtilityContract:
    """Tests of a string utility; subclass it and set `name`.

    Attributes:
        name: its registered name.
        options: its options.
        pairs: answers with their gold answers, with different values.
    """

    name: str
    options: dict[str, Any] = {}
    pairs: Sequence[tuple[str, Gold]] = (
        ("a red fox", "a red fox"),
        ("a fox", "a red fox"),
        ("the sea", "a red fox"),
        ("ships cross the sea", ["a lighthouse", "ships cross the sea"]),
        ("", "a red fox"),
        ("...", "a red fox"),
    )

    def make(self) -> Any:
        """Return the utility under test."""
        from fairtk import utilities

        return utilities.get(self.name, **self.options)

    def values(self, pairs: Sequence[tuple[str, Gold]]) -> list[float]:
        """Return the utility's values for pairs of answer and gold answer."""
        values: list[float] = self.make()([p for p, _ in pairs], [g for _, g in pairs])
        return values

    def test_declarations(self) -> None:
        """Name and direction agree with the registered spec."""
        utility, spec = self.make(), registry.utilities.get(self.name)
        assert utility.name == self.name, f"{utility!r} is registered as {self.name!r}"
        assert utility.higher_is_better is spec.higher_is_better, (
            f"{self.name}: higher_is_better is {spec.higher_is_better} in its spec, but "
            f"{utility.higher_is_better} in the utility"
        )
        assert spec.summary, f"{self.name}: its spec has no summary"

    def test_options_refuse_invalid_values(self) -> None:
        """None, NaN, infinity and an empty string are errors that name the option.

        Values that the option's default or annotation allows are valid.
        """
        from fairtk import utilities

        factory = registry.utilities.load(self.name)
        for option, parameter in inspect.signature(factory).parameters.items():
            for value in (None, math.nan, math.inf, ""):
                may_be_none = value is None and "None" in str(parameter.annotation)
                may_be_text = value == "" and isinstance(parameter.default, str)
                is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
                if is_open or may_be_none or may_be_text or is_one_of(value, [parameter.default]):
                    continue
                call = partial(utilities.get, self.name, **{**self.options, option: value})
                check_refused(call, option, f"{self.name}({option}={value!r})")

    def test_one_finite_float_for_each_answer(self) -> None:
        """There is one finite float per answer, and none without answers."""
        values = self.values(self.pairs)
        assert isinstance(values, list), f"{self.name} must return a list, got {type(values)}"
        assert len(values) == len(self.pairs), f"{self.name}: {len(values)} values"
        for (answer, gold), value in zip(self.pairs, values, strict=True):
            assert isinstance(value, float) and math.isfinite(value), (
                f"{self.name}: the value of {answer!r} against {gold!r} is {value!r}"
            )
        assert self.make()([], []) == [], f"{self.name} must return an empty list for no answers"

    def test_other_answers_do_not_matter(self) -> None:
        """The values are the same one by one and in reverse order."""
        expected = self.values(self.pairs)
        alone = [self.values([pair])[0] for pair in self.pairs]
        back = self.values(self.pairs[::-1])[::-1]
        for actual in (alone, back):
            agree = all(same_number(a, b) for a, b in zip(actual, expected, strict=True))
            assert agree, f"{self.name} depends on the other answers: {actual} and {expected}"

    def test_right_answer_is_best(self) -> None:
        """No answer is better than the gold answer itself."""
        for _, gold in self.pairs:
            gold_texts = [gold] if isinstance(gold, str) else list(gold)
            best = self.values([(gold_texts[0], gold)])[0]
            for answer, _ in self.pairs:
                value = self.values([(answer, gold)])[0]
                gain = value - best if self.make().higher_is_better else best - value
                assert not gain > 1e-9, (
                    f"{self.name}: {answer!r} has {value!r} against {gold!r}, better than the gold "
                    f"answer's {best!r}"
                )

    def test_best_of_several_gold_answers_counts(self) -> None:
        """A list of gold answers has the value of the best match, in any order."""
        better = max if self.make().higher_is_better else min
        every = [[gold] if isinstance(gold, str) else gold for _, gold in self.pairs]
        golds = list(dict.fromkeys(text for texts in every for text in texts))
        for answer, _ in self.pairs:
            single = [self.values([(answer, gold)])[0] for gold in golds]
            for listed in (golds, golds[::-1], tuple(golds)):
                value = self.values([(answer, listed)])[0]
                assert same_number(value, better(single)), (
                    f"{self.name}: {answer!r} against {listed!r} has {value!r}; the best single "
                    f"value is {better(single)!r}"
                )

    def test_unequal_lengths_are_an_error(self) -> None:
        """Lists of different lengths are a ValueError."""
        answer, gold = self.pairs[0]
        for answers, golds in (([answer], [gold, gold]), ([answer, answer], [gold])):
            try:
                self.make()(answers, golds)
            except ValueError:
                continue
            raise AssertionError(
                f"{self.name} accepts {len(answers)} answers and {len(golds)} gold answers"
            )

    def test_works_in_the_measure(self) -> None:
        """The `repr` of ``EU(utility=...)`` is read back."""
        measure = EU(utility=self.make())
        read = parse(repr(measure))
        assert read.utility == self.make(), (
            f"{measure!r} is read back with the utility {read.utility!r}, not {self.make()!r}"
        )
        one, other = self.make(), self.make()  # both exist, so their addresses differ
        assert repr(one) == repr(other), f"{self.name}: the repr changes"


class ToyTokenizer:
    """A tokenizer whose tokens are words, with the part of Hugging Face's interface in use.

    Args:
        model_max_length: the window in tokens, including one end token.
    """

    def __init__(self, model_max_length: int = 1_000) -> None:
        self.model_max_length = model_max_length

    def num_special_tokens_to_add(self) -> int:
        """Return 1, for the end token."""
        return 1

    def tokenize(self, text: str) -> list[str]:
        """Return the words."""
        return text.split()

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the words with spaces between them."""
        return " ".join(tokens)


class PromptContract:
    """Tests of a prompt builder; subclass it and set `name`, or define `make`.

    Attributes:
        name: its registered name.
        options: its options.
        question: a valid question.
        keeps_question: whether the prompt has the complete question, even with long documents.
    """

    name: str
    options: dict[str, Any] = {}
    question: str = "Which title fits the article about foxes in winter?"
    keeps_question: bool = True

    def make(self) -> Any:
        """Return the builder under test."""
        from fairtk import prompts

        return prompts.get(self.name, **self.options)

    def documents(self, count: int = 3, words: int = 4) -> list[dict[str, Any]]:
        """Return documents with the builder's fields, of `words` words each."""
        return [
            {field: " ".join([f"{field}-of-{i}"] * words) for field in self.make().fields}
            for i in range(count)
        ]

    def build(self, documents: list[dict[str, Any]], tokenizer: Any) -> str:
        """Return the prompt, which must be a string."""
        prompt = self.make()(self.question, documents, tokenizer)
        assert isinstance(prompt, str), f"prompt {self.name}: {type(prompt).__name__}, not a string"
        return str(prompt)

    def test_declarations(self) -> None:
        """A builder declares its name and the document columns that it reads."""
        builder = self.make()
        fields = builder.fields
        strings = isinstance(fields, tuple) and all(isinstance(f, str) for f in fields)
        assert strings, f"prompt {builder!r}: fields must be a tuple of columns, got {fields!r}"
        assert builder.name == self.name, f"prompt {builder!r} is registered as {self.name!r}"
        assert repr(builder) == repr(self.make()), f"prompt {self.name}: the repr changes"
        assert " at 0x" not in repr(builder), f"prompt {self.name}: address in the repr {builder!r}"
        assert builder == self.make(), f"prompt {self.name}: equal settings are not equal builders"

    def test_has_the_question_and_the_documents(self) -> None:
        """The prompt has all texts that fit, with and without a tokenizer, and is deterministic."""
        if self.keeps_question:
            assert self.build([], ToyTokenizer()) != "", (
                f"prompt {self.name} is empty without documents"
            )
        for tokenizer in (ToyTokenizer(), None):
            prompt = self.build(self.documents(), tokenizer)
            assert prompt == self.build(self.documents(), tokenizer), f"prompt {self.name} varies"
            for document in self.documents():
                for text in document.values():
                    assert text in prompt, f"prompt {self.name}: missing text {text!r}: {prompt!r}"

    def test_documents_stay_as_they_are(self) -> None:
        """The documents are not changed."""
        documents = self.documents()
        before = copy.deepcopy(documents)
        self.build(documents, ToyTokenizer())
        assert documents == before, f"prompt {self.name} changes the documents"

    def test_order_of_documents_matters(self) -> None:
        """Another order of documents gives another prompt."""
        documents = self.documents(2)
        if self.make().fields:
            assert self.build(documents, None) != self.build(documents[::-1], None), (
                f"prompt {self.name} is the same for another order of documents"
            )

    def test_long_documents_leave_the_question_whole(self) -> None:
        """A prompt fits the window, and only documents are cut."""
        if not self.keeps_question:
            return
        tokenizer = ToyTokenizer(120)
        prompt = self.build(self.documents(3, words=500), tokenizer)
        count = len(tokenizer.tokenize(prompt))
        assert count < 120, f"prompt {self.name}: {count} tokens and an end token, but 120 fit"
        bare = self.build([], None)
        words = set(self.question.split()) & set(bare.split())
        missing = words - set(prompt.split())
        assert not missing, (
            f"prompt {self.name} cuts these words of the question: {sorted(missing)}"
        )


class DatasetContract:
    """Tests of a data set of ir_datasets; subclass it, and set `id` or define `dataset`.

    Attributes:
        id: the ir_datasets id.
        limit: the maximum number of documents, queries, candidates and labels to read.
    """

    id: str
    limit: int = 2_000

    def dataset(self) -> Any:
        """Return the ``ir_datasets.Dataset`` under test."""
        import ir_datasets

        return ir_datasets.load(self.id)

    def _read(self, part: str) -> list[Any]:
        dataset = self.dataset()
        if not dataset.has(part):
            return []
        records = list(islice(getattr(dataset, f"{part}_iter")(), self.limit))
        again = list(islice(getattr(dataset, f"{part}_iter")(), self.limit))
        assert records, f"{part}_iter is empty"
        assert records == again, f"{part}_iter differs the second time"
        return records

    def test_something_is_there(self) -> None:
        """There are documents, queries or both."""
        dataset = self.dataset()
        assert dataset.has("docs") or dataset.has("queries"), "neither documents nor queries"

    def test_documents(self) -> None:
        """Ids are distinct strings, texts are strings, and the store has what the iterator has."""
        documents = self._read("docs")
        _check_records(documents, "doc_id")
        if documents:
            store = self.dataset().docs_store()
            for document in (documents[0], documents[-1]):
                stored = store.get(document.doc_id)
                assert stored == document, f"docs_store has {stored!r}, docs_iter {document!r}"

    def test_queries(self) -> None:
        """Ids are distinct strings, and texts are strings."""
        _check_records(self._read("queries"), "query_id")

    def test_candidates_and_labels_refer_to_what_is_there(self) -> None:
        """Each candidate and label occurs once, and its document and query exist."""
        queries = {q.query_id for q in self._read("queries")}
        is_complete = len(queries) < self.limit
        for part in ("scoreddocs", "qrels"):
            records = self._read(part)
            pairs = [(r.query_id, r.doc_id) for r in records]
            assert len(set(pairs)) == len(pairs), f"{part}: duplicate document of a query"
            strange = sorted({q for q, _ in pairs} - queries)
            assert not (is_complete and queries and strange), (
                f"{part}: unknown queries {strange[:5]}"
            )
            if records and self.dataset().has("docs"):
                docnos = {d for _, d in pairs[:50]}
                stored = set(self.dataset().docs_store().get_many(sorted(docnos)))
                assert stored == docnos, f"{part}: unknown documents {sorted(docnos - stored)[:5]}"

    def test_says_what_it_is(self) -> None:
        """The PyTerrier form has the same queries."""
        import pyterrier as pt

        queries = self._read("queries")
        if queries and hasattr(self, "id"):
            topics = pt.get_dataset(f"irds:{self.id}").get_topics()
            assert list(topics["qid"][: self.limit]) == [q.query_id for q in queries], (
                f"pt.get_dataset('irds:{self.id}') has other topics"
            )


def _check_records(records: list[Any], field: str) -> None:
    ids = [getattr(record, field) for record in records]
    assert all(isinstance(i, str) and i for i in ids), f"a {field} must be a string, not empty"
    assert len(set(ids)) == len(ids), f"duplicate {field}"
    for name, record in zip(ids, records, strict=True):
        text = record.default_text()
        assert isinstance(text, str), f"default_text of {field} {name!r} is {text!r}"
