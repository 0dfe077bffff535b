"""What a word is, for all of this plugin: two or more letters or digits, lower case, no accents.

There is no stemming and no list of stop words: weights by document frequency do what such a list
would do, in any language.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

_WORDS = {"strip_accents": "unicode", "token_pattern": r"(?u)\b\w\w+\b"}


def count_vectorizer(**settings: Any) -> CountVectorizer:
    """Return scikit-learn's vectorizer that counts words, as whole numbers of 64 bits."""
    return CountVectorizer(**_WORDS, dtype=np.int64, **settings)


def tfidf_vectorizer(**settings: Any) -> TfidfVectorizer:
    """Return scikit-learn's vectorizer that weighs words: (1 + ln tf) * idf, to length 1."""
    return TfidfVectorizer(**_WORDS, sublinear_tf=True, dtype=np.float32, **settings)
