"""What a retriever looks up of a query, where that can be known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pyterrier as pt

from fairtk.frames.scripts import words

Tokens = Callable[[str], list[str]]
_WORD = re.compile(r"\w+")


def index_tokens(retriever: Any) -> Tokens | None:
    """Return what gives the tokens that a retriever looks up of a text; None: it is not known.

    Known are PISA's and Terrier's (its stop words; words are not stemmed here), alone or first in a
    pipeline, and those of a retriever with a method ``tokens(text)``, as
    `fairtk.studies.fair_qr.CollectionBM25` has.
    """
    if isinstance(retriever, pt.Compose):
        retriever = next(iter(retriever), None)
    own = getattr(retriever, "tokens", None)
    if callable(own):
        tokens: Tokens = own
        return tokens
    if type(retriever).__module__.partition(".")[0] == "pyterrier_pisa":
        return _pisa(retriever)
    properties = getattr(retriever, "properties", None)
    if isinstance(properties, Mapping) and "termpipelines" in properties:
        return _terrier(str(properties["termpipelines"]))
    return None


def _pisa(retriever: Any) -> Tokens | None:
    from pyterrier_pisa import PisaStopwords, tokenize

    index = getattr(retriever, "index", None)
    stemmer, stops = getattr(index, "stemmer", None), getattr(retriever, "stops", None)
    if stemmer is None:
        return None
    lists = {PisaStopwords.none: (), PisaStopwords.terrier: _stops("terrier")}
    words = lists.get(stops, _stops("lucene")) if isinstance(stops, PisaStopwords) else stops or ()
    # PISA drops what has the stem of a stop word: "hers" and "going", too
    dropped = frozenset(token for word in words for token in tokenize(word, stemmer))
    return lambda text: [t for t in tokenize(text.lower(), stemmer) if t not in dropped]


def _terrier(pipeline: str) -> Tokens | None:
    try:
        dropped = frozenset(_stops("terrier") if "Stopwords" in pipeline else ())
    except ImportError:  # the list is in pyterrier-pisa
        return None
    return lambda text: [t for t in _WORD.findall(text.lower()) if t not in dropped]


@lru_cache(maxsize=2)
def _stops(name: str) -> tuple[str, ...]:
    from pyterrier_pisa.stopwords import _STOPWORDS

    return tuple(_STOPWORDS[name])


def dropped_words(text: str, tokens: Tokens) -> list[str]:
    """Return the words of a text of which a retriever looks up nothing, in order, each once."""
    parts = [part for word in words(text.lower()) for part in word.split("-")]
    return [part for part in dict.fromkeys(parts) if part and not tokens(part)]
