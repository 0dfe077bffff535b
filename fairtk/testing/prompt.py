"""What every prompt builder must keep to."""

from __future__ import annotations

import copy
from typing import Any

from fairtk.testing.agreement import check


class ToyTokenizer:
    """A tokenizer whose tokens are words, with the part of Hugging Face's interface in use.

    Args:
        model_max_length: the window in tokens; one of them is for an end token.
    """

    def __init__(self, model_max_length: int = 1_000) -> None:
        self.model_max_length = model_max_length

    def num_special_tokens_to_add(self) -> int:
        """Return 1: an end token."""
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
        name: the name it is registered under.
        options: its options.
        question: a question that it takes.
        keeps_question: whether the question stands whole in the prompt, however long the documents
            are.
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
        """Return documents with the fields that the builder reads, each of so many words."""
        return [
            {field: " ".join([f"{field}-of-{i}"] * words) for field in self.make().fields}
            for i in range(count)
        ]

    def build(self, documents: list[dict[str, Any]], tokenizer: Any) -> str:
        """Return the prompt, checked to be a string."""
        prompt = self.make()(self.question, documents, tokenizer)
        check(isinstance(prompt, str), f"prompt {self.name}: {type(prompt).__name__}, not a string")
        return str(prompt)

    def test_declarations(self) -> None:
        """A builder says its name and the document columns that it reads."""
        builder = self.make()
        fields = builder.fields
        strings = isinstance(fields, tuple) and all(isinstance(f, str) for f in fields)
        check(strings, f"prompt {builder!r}: fields must be a tuple of columns; found {fields!r}")
        check(builder.name == self.name, f"prompt {builder!r} is registered as {self.name!r}")
        check(
            repr(builder) == repr(self.make()), f"prompt {self.name} prints differently each time"
        )
        check(" at 0x" not in repr(builder), f"prompt {self.name} prints an address: {builder!r}")
        check(builder == self.make(), f"prompt {self.name}: equal settings are not equal builders")

    def test_has_the_question_and_the_documents(self) -> None:
        """All that fits stands in the prompt, with and without a tokenizer, each time alike."""
        if self.keeps_question:
            check(
                self.build([], ToyTokenizer()) != "",
                f"prompt {self.name} is empty without documents",
            )
        for tokenizer in (ToyTokenizer(), None):
            prompt = self.build(self.documents(), tokenizer)
            check(prompt == self.build(self.documents(), tokenizer), f"prompt {self.name} varies")
            for document in self.documents():
                for text in document.values():
                    check(text in prompt, f"prompt {self.name} lacks the text {text!r}: {prompt!r}")

    def test_documents_stay_as_they_are(self) -> None:
        """The documents are not changed."""
        documents = self.documents()
        before = copy.deepcopy(documents)
        self.build(documents, ToyTokenizer())
        check(documents == before, f"prompt {self.name} changes the documents")

    def test_order_of_documents_matters(self) -> None:
        """Another ranking is another prompt."""
        documents = self.documents(2)
        if self.make().fields:
            check(
                self.build(documents, None) != self.build(documents[::-1], None),
                f"prompt {self.name} is the same for another order of documents",
            )

    def test_long_documents_leave_the_question_whole(self) -> None:
        """A prompt fits the window, and what does not fit is cut from the documents."""
        if not self.keeps_question:
            return
        tokenizer = ToyTokenizer(120)
        prompt = self.build(self.documents(3, words=500), tokenizer)
        count = len(tokenizer.tokenize(prompt))
        check(count < 120, f"prompt {self.name}: {count} tokens and an end token, but 120 fit")
        bare = self.build([], None)
        words = set(self.question.split()) & set(bare.split())
        lost = words - set(prompt.split())
        check(not lost, f"prompt {self.name} cuts these words of the question: {sorted(lost)}")
