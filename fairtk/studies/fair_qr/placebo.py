"""The placebo of FAIR-QR: as many words as the model added, drawn by chance from the collection."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.fair_qr.tokens import index_tokens
from fairtk.frames.columns import QID, QUERY
from fairtk.frames.content import digest
from fairtk.frames.scripts import words
from fairtk.llm import Chat, ChatModel, Completion
from fairtk.studies.fair_qr.cells import FAIR_QR, Cell

if TYPE_CHECKING:
    from fairtk.llm.chat import Outcome
    from fairtk.studies.fair_qr.data import StudyData

READ = 20_000
"""Documents that are read for words."""
_FEW, _MANY = 0.01, 0.1  # shares of the documents that a word of middle frequency is in
_USUAL = 3  # words, where the model was not asked


class RandomTerms(ChatModel):
    """Adds words by chance in place of a model: what of a gain is there without any sense.

    Args:
        vocabulary: the words.
        counts: how many words each step adds, by original query; 3 in later steps, or without.
        seed: with the query, of the draws.
    """

    free: ClassVar[bool] = True
    reads_facts: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: Sequence[str],
        counts: Mapping[str, Sequence[int]] | None = None,
        seed: int = 42,
    ) -> None:
        self.vocabulary = tuple(vocabulary)
        self.counts = dict(counts or {})
        self.seed = seed

    @property
    def name(self) -> str:
        """``"random-terms"``."""
        return "random-terms"

    def parameters(self) -> dict[str, Any]:
        """Return digests of words and counts, and the seed."""
        return {**self._digests, "seed": self.seed}

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {"words": digest(self.vocabulary), "counts": digest(self.counts)}

    def __repr__(self) -> str:
        return f"RandomTerms({len(self.vocabulary)} words #{self._digests['words'][:8]})"

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the keywords of each chat with words by chance, as a JSON list."""
        for place, chat in enumerate(chats):
            query = str(chat.facts["query"])
            keywords = words(str(chat.facts["keywords"]))
            known = {word.lower() for word in keywords}
            before = len(known) - len({word.lower() for word in words(query)})
            own = [max(1, count) for count in self.counts.get(query, ())]
            step = int(np.searchsorted(np.cumsum(own), before, side="right"))
            count = own[step] if step < len(own) else _USUAL
            random = np.random.default_rng(int(digest([self.seed, query, before]), 16))
            left = [word for word in self.vocabulary if word not in known]
            added = random.choice(left, min(count, len(left)), replace=False).tolist()
            yield place, Completion(json.dumps([*keywords, *added]), 0, 0, 0.0)


def middle_words(documents: Iterable[Mapping[str, str]], retriever: Any) -> list[str]:
    """Return words that are neither rare nor frequent in the first documents, sorted.

    In 1 to 10 % of these (where that is no word, in two at least), of three letters or more, and
    none that the retriever drops.
    """
    found: Counter[str] = Counter()
    number = 0
    for document in itertools.islice(documents, READ):
        number += 1
        found.update({word for word in words(document["text"].lower()) if len(word) > 2})
    tokens = index_tokens(retriever)
    good = [w for w in found if w.isalpha() and (tokens is None or tokens(w))]
    middle = [w for w in good if max(2.0, _FEW * number) <= found[w] <= _MANY * number]
    return sorted(middle or [w for w in good if found[w] > 1] or good)


def random_terms(
    data: StudyData, retriever: Any, traces: Mapping[Cell, pd.DataFrame], cell: Cell, seed: int
) -> RandomTerms:
    """Return what adds as many words as the model added in FAIR-QR's own loop.

    Args:
        data: the study's.
        retriever: the study's.
        traces: what FAIR-QR did, by cell.
        cell: the placebo's cell.
        seed: of the draws.
    """
    texts = dict(zip(data.topics[QID], data.topics[QUERY], strict=True))
    counts: dict[str, list[int]] = {}
    for own, trace in traces.items():
        if own.system == FAIR_QR and own.attribute == cell.attribute and not own.variation:
            for row in trace[trace["iteration"] > 0].itertuples() if len(trace) else ():
                counts.setdefault(texts[row.qid], []).append(len(row.added.split()))
    return RandomTerms(middle_words(data.documents(), retriever), counts, seed)
