"""String utilities: how good a generated answer is, given the gold answers.

`rouge1` and `rougeL` have the semantics of the PyPI package ``rouge`` 1.0.1, which differs from
Google's ``rouge_score``: case and punctuation count, every "." ends a sentence, words are counted
once (sets), and ROUGE-L is the summary-level form, the union over sentence pairs of one longest
common subsequence each. They are implemented here, because the package is unmaintained, recursive,
and slow on long answers.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any, ClassVar

from fairtk import checks
from fairtk.errors import InputError, MissingExtraError, ParameterError, PluginError
from fairtk.frames import EqualByContent, digest
from fairtk.plugins import registry
from fairtk.plugins.registry import refuse_missing_options, refuse_unknown_options

__all__ = ["Utility", "get"]

EMPTY = "<empty>"
"""What stands for an answer without content (Fair-RAG's rule, see `answer_text`)."""


def answer_text(text: str) -> str:
    """Return the text as it is scored: stripped, and ``"<empty>"`` if nothing is left.

    Nothing is left of a text that has only dots and spaces: generators that refuse to answer
    write those, and a ROUGE that splits sentences at dots has nothing to count in them. Fair-RAG
    applies the rule to predictions; here it applies to gold answers too, so that an empty gold
    answer is matched by an empty prediction alone.
    """
    stripped = text.strip()
    return stripped if stripped.strip(". ") else EMPTY


_SENTENCES = "for models that answer in sentences, use utility='contains'"
_CASE = "case counts, so for models without upper case, use utility='f1'"


class Utility(EqualByContent, ABC):
    """How good one answer is, given one or more gold answers.

    Subclasses set the class attributes and write `score`; the base checks the input, takes the
    best of several gold answers, and scores each distinct pair once per call. Two utilities are
    equal exactly when class, name and settings are.

    Attributes:
        name: what users write in ``EU(utility=...)``.
        higher_is_better: the direction of the value.
        bounds: smallest and largest value; an end that has no bound is infinite.
        SETTINGS: names of the attributes that are options, in the order in which they print.
        if_zero: what to do if all answers have the value 0.
    """

    name: str
    higher_is_better: bool = True
    bounds: tuple[float, float] = (0.0, 1.0)
    SETTINGS: ClassVar[tuple[str, ...]] = ()
    if_zero: ClassVar[str] = "compare the answers with the gold answers"

    @abstractmethod
    def score(self, prediction: str, gold: str) -> float:
        """Return the value of one answer against one gold answer, both as `answer_text`."""

    def __call__(
        self, predictions: Sequence[str], golds: Sequence[str | Sequence[str]]
    ) -> list[float]:
        """Return one value per prediction.

        Args:
            predictions: the answers.
            golds: the gold answer of each prediction; a list of strings means that any of them is
                right, and the best match counts.

        Raises:
            InputError: the two differ in length, a prediction is not a string, or a gold answer is
                missing or not a string. The message names the position.
        """
        for role, given in (("predictions", predictions), ("golds", golds)):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise InputError(
                    f"utility {self.name}: {role} must be a list of strings, got a "
                    f"{type(given).__name__}"
                )
        predictions, golds = list(predictions), list(golds)
        if len(predictions) != len(golds):
            raise InputError(
                f"utility {self.name}: expected one gold answer (or a list) per prediction, "
                f"got {len(golds)} for {len(predictions)} predictions"
            )
        scores: dict[tuple[str, ...], float] = {}
        values = []
        for position, (prediction, gold) in enumerate(zip(predictions, golds, strict=True)):
            try:
                texts = _texts(prediction, gold)
                if texts not in scores:
                    scores[texts] = self._best(*map(answer_text, texts))
            except InputError as error:
                raise InputError(f"utility {self.name}, position {position}: {error}") from None
            values.append(scores[texts])
        return values

    def _best(self, prediction: str, *golds: str) -> float:
        values = [float(self.score(prediction, gold)) for gold in golds]
        return max(values) if self.higher_is_better else min(values)

    def digest(self) -> str:
        """Return the content digest of name and settings."""
        settings = [getattr(self, setting) for setting in self.SETTINGS]
        return digest([type(self).__qualname__, self.name, *settings])

    def __repr__(self) -> str:
        options = ", ".join(f"{s}={getattr(self, s)!r}" for s in self.SETTINGS)
        return f"{self.name}({options})" if options else self.name


def _texts(prediction: Any, gold: Any) -> tuple[str, ...]:
    """Return a prediction and its gold answers, each a string."""
    if isinstance(prediction, str) and isinstance(gold, str):  # most are
        return prediction, gold
    is_list = isinstance(gold, Iterable) and not isinstance(gold, str | bytes | dict)
    texts = (prediction, *gold) if is_list else (prediction, gold)
    if len(texts) == 1:
        raise InputError("the list of gold answers must not be empty; add one, or omit the query")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            role = "gold answer" if i else "prediction"
            raise InputError(f"the {role} must be a string, got {text!r} ({type(text).__name__})")
    return texts


class Accuracy(Utility):
    """1 if the answer is the gold label, else 0; higher is better.

    Without labels, texts are compared as they are (stripped). With labels, as LaMP's evaluation
    does, the positions in the list are compared, and every text outside the list has the same
    position: two different outsiders count as equal. Case and punctuation count in both.

    Source: Salemi et al. 2024 (LaMP), evaluation script.

    Args:
        labels: the label list; ``None`` compares texts.
    """

    identity_name = "fairtk.Accuracy"
    output_version = 1
    name = "accuracy"
    if_zero = _SENTENCES
    SETTINGS = ("labels",)

    def __init__(self, labels: Iterable[str] | None = None) -> None:
        if labels is not None:
            is_list = isinstance(labels, Iterable) and not isinstance(labels, str)
            texts = list(labels) if is_list else []
            if not texts or not all(isinstance(text, str) for text in texts):
                raise ParameterError(f"accuracy: labels must be a list of strings, got {labels!r}")
            labels = texts
        self.labels = labels
        # the first of equal labels counts, as list.index would find it
        self._index = {label: i for i, label in reversed(list(enumerate(self.labels or [])))}

    def score(self, prediction: str, gold: str) -> float:
        """Return 1.0 or 0.0."""
        if self.labels is None:
            return float(prediction == gold)
        return float(self._index.get(prediction, -1) == self._index.get(gold, -1))

    def __repr__(self) -> str:
        return self.name if self.labels is None else super().__repr__()


class AbsoluteError(Utility):
    """The distance between predicted and gold number; lower is better, without an upper bound.

    A prediction is read by `float`, so ``"1e1"`` and ``"inf"`` are numbers, and not clipped. One
    that is no number counts as the end of the scale that is farther from the gold number, the
    upper one if both are equally far. A prediction ``"nan"`` is a number to `float`: its error is
    NaN, as in LaMP's evaluation. The mean over answers is the mean absolute error.

    Source: Salemi et al. 2024 (LaMP), evaluation script.

    Args:
        low: lower end of the rating scale.
        high: upper end of the rating scale.
    """

    identity_name = "fairtk.AbsoluteError"
    output_version = 1
    name = "mae"
    higher_is_better = False
    bounds = (0.0, math.inf)
    SETTINGS = ("low", "high")

    def __init__(self, low: float = 1.0, high: float = 5.0) -> None:
        self.low = checks.number("low", low, "mae", -math.inf, rule="be a finite number")
        self.high = checks.number("high", high, "mae", -math.inf, rule="be a finite number")
        if low >= high:
            raise ParameterError(f"mae: low must be below high, got low={low!r} and high={high!r}")

    def score(self, prediction: str, gold: str) -> float:
        """Return the absolute error."""
        right = _number(gold)
        if right is None or not math.isfinite(right):
            raise InputError(f"the gold answer must be a number, got {gold!r}")
        guess = _number(prediction)
        if guess is None:
            guess = self.low if abs(self.low - right) > abs(self.high - right) else self.high
        return abs(guess - right)

    def __repr__(self) -> str:
        usual = (self.low, self.high) == (1.0, 5.0)
        return self.name if usual else super().__repr__()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


EPSILON = 1e-8
"""Added to precision + recall; a perfect match is therefore 0.999999995."""


class Rouge1(Utility):
    """F-value of the distinct words that answer and gold answer share; higher is better.

    Range [0, 0.999999995]. Source: Lin 2004, ROUGE-1, with the semantics of ``rouge`` 1.0.1.
    """

    identity_name = "fairtk.Rouge1"
    output_version = 1
    name = "rouge1"
    if_zero = _CASE

    def score(self, prediction: str, gold: str) -> float:
        """Return the F-value."""
        guessed, right = _words(_sentences(prediction)), _words(_sentences(gold))
        return f_value(len(guessed & right), len(guessed), len(right))


class RougeL(Utility):
    """F-value of the words on common subsequences of sentences; higher is better.

    For each pair of sentences the distinct words of one longest common subsequence are taken (see
    `common_words` for which one); the size of the union over all pairs is divided by the number
    of distinct words of the answer (precision) and of the gold answer (recall). Range
    [0, 0.999999995]. Source: Lin 2004, summary-level ROUGE-L, semantics of ``rouge`` 1.0.1.
    """

    identity_name = "fairtk.RougeL"
    output_version = 1
    name = "rougeL"
    if_zero = _CASE

    def score(self, prediction: str, gold: str) -> float:
        """Return the F-value."""
        guessed, right = _sentences(prediction), _sentences(gold)
        union: set[str] = set()
        for reference in right:
            for hypothesis in guessed:
                union |= common_words(reference, hypothesis)
        return f_value(len(union), len(_words(guessed)), len(_words(right)))


def f_value(common: int, predicted: int, gold: int) -> float:
    """Return 2pr / (p + r + 1e-8) with p = common / predicted and r = common / gold."""
    precision, recall = common / predicted, common / gold
    return 2.0 * (precision * recall / (precision + recall + EPSILON))


def common_words(reference: Sequence[str], hypothesis: Sequence[str]) -> set[str]:
    """Return the distinct words of one longest common subsequence.

    Words that repeat allow several longest subsequences with different words. The one taken
    starts from the ends: equal words are used; else the last word of the reference is dropped if
    that keeps more than dropping the last word of the hypothesis; else the latter is dropped.

    The lengths of the prefixes' subsequences are kept as bit vectors (Hyyrö 2004): after i words
    of the reference, bit j is 0 exactly where the length grows from j to j + 1 words of the
    hypothesis. That is all the backtracking needs: at two different words, dropping the
    reference's keeps more exactly where the length grows with the last word of the hypothesis.
    """
    places: dict[str, int] = {}
    for j, word in enumerate(hypothesis):
        places[word] = places.get(word, 0) | (1 << j)
    full = (1 << len(hypothesis)) - 1
    row, rows = full, []
    for word in reference:
        hits = row & places.get(word, 0)
        row = ((row + hits) | (row - hits)) & full
        rows.append(row)

    common: set[str] = set()
    i, j = len(reference) - 1, len(hypothesis) - 1
    while i >= 0 and j >= 0:
        if reference[i] == hypothesis[j]:
            common.add(reference[i])
            i, j = i - 1, j - 1
        elif rows[i] >> j & 1:
            j -= 1
        else:
            i -= 1
    return common


def _sentences(text: str) -> list[list[str]]:
    # a piece of only spaces between two dots counts as one empty word, as in the package
    return [piece.split() or [""] for piece in text.split(".") if piece]


def _words(sentences: Sequence[Sequence[str]]) -> set[str]:
    return {word for sentence in sentences for word in sentence}


class RougeScore(Utility):
    """The F-measure of one variant of the package ``rouge_score``; higher is better.

    Lower case, counts of repeated words, no sentence splitting (``rougeLsum`` splits at line
    breaks): not comparable with `rouge1` and `rougeL`. Range [0, 1]. An answer without content
    scores 0 against every gold answer that has some.

    Args:
        variant: ``"rouge1"``, ``"rouge2"``, ``"rougeL"`` or ``"rougeLsum"``.
        use_stemmer: whether words are reduced to their stems first (Porter, for English).
        tokenizer: ``"ascii"`` for the package's words of a-z and 0-9, so that all other letters
            separate words and Japanese texts have none; ``"unicode"`` for the words of all scripts
            (`split_words`). Both are equal for ASCII texts.
    """

    SETTINGS = ("use_stemmer", "tokenizer")
    if_zero = "use tokenizer='unicode' for texts in other letters than a to z"

    def __init__(self, variant: str, use_stemmer: bool = False, tokenizer: str = "ascii") -> None:
        from rouge_score.rouge_scorer import RougeScorer

        self.name = f"rouge_score_{variant}"
        self.use_stemmer = checks.boolean("use_stemmer", use_stemmer, self.name)
        checks.choice("tokenizer", tokenizer, ("ascii", "unicode"), self.name)
        if self.use_stemmer and tokenizer == "unicode":
            raise ParameterError(f"{self.name}: use_stemmer is only valid with tokenizer='ascii'")
        self.tokenizer = tokenizer
        self._variant = variant
        words = None if tokenizer == "ascii" else _UnicodeTokenizer()
        self._scorer = RougeScorer([variant], use_stemmer=self.use_stemmer, tokenizer=words)

    def score(self, prediction: str, gold: str) -> float:
        """Return the F-measure."""
        if EMPTY in (prediction, gold):
            # the package would read the word "empty" out of the mark
            return float(prediction == gold)
        return float(self._scorer.score(gold, prediction)[self._variant].fmeasure)


class _UnicodeTokenizer:
    """A tokenizer of ``rouge_score`` for all scripts."""

    def tokenize(self, text: str) -> list[str]:
        text = unicodedata.normalize("NFC", text).lower()
        return split_words(text.translate(_SEPARATORS))


rouge_score_rouge1 = partial(RougeScore, "rouge1")
"""Single words."""
rouge_score_rouge2 = partial(RougeScore, "rouge2")
"""Pairs of words."""
rouge_score_rougeL = partial(RougeScore, "rougeL")
"""The longest common subsequence of the whole texts."""
rouge_score_rougeLsum = partial(RougeScore, "rougeLsum")
"""A union of common subsequences; each line is a sentence."""


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
NORMALIZATIONS = ("unicode", "squad")


class _Punctuation(dict[int, int | None]):
    """A table of `str.translate` that deletes the punctuation of all scripts."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        is_punctuation = unicodedata.category(character)[0] == "P"
        self[code] = None if is_punctuation or character in string.punctuation else code
        return self[code]


class _Separators(dict[int, int]):
    """A table of `str.translate` that replaces all but letters, marks and numbers by spaces."""

    def __missing__(self, code: int) -> int:
        self[code] = code if unicodedata.category(chr(code))[0] in "LMN" else ord(" ")
        return self[code]


_PUNCTUATION = _Punctuation()
_SEPARATORS = _Separators()

_SYLLABIC = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
)
"""Blocks of Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le, New Tai Lue, Tai Tham and Tai Viet."""
_EAST_ASIAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00016fe0-\U00018dff\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
"""Blocks of Chinese characters, kana, Tangut, Khitan and Nushu."""


@cache
def _characters_without_spaces() -> re.Pattern[str]:
    """Return the pattern of a character, with its marks, of a script without spaces."""
    ends = re.findall("(.)-(.)", _SYLLABIC)
    codes = (code for first, last in ends for code in range(ord(first), ord(last) + 1))
    marks = "".join(chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M")
    return re.compile(
        f"[{_EAST_ASIAN}{_SYLLABIC}][{marks}\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef]*"
    )


def split_words(text: str) -> list[str]:
    """Split a text at spaces, and scripts that have no spaces between words at characters.

    These are Chinese, Japanese, Thai, Lao, Khmer, Myanmar, Tibetan, and their neighbors. The marks
    of a character, e.g. Thai vowel signs, belong to it.
    """
    if not text.isascii():
        text = _characters_without_spaces().sub(r" \g<0> ", text)
    return text.split()


def normalized(text: str, normalization: str = "unicode") -> str:
    """Return the text in lower case without punctuation, articles and superfluous spaces.

    An answer without content (``"<empty>"``) becomes the empty string rather than the word "empty".

    Args:
        text: an `answer_text`.
        normalization: ``"unicode"`` deletes the punctuation of all scripts, which includes all
            quotation marks, and composes letters and accents (NFC), as Lewis et al. 2020 (MLQA)
            do; ``"squad"`` deletes that of ASCII only, as the evaluation script of Rajpurkar et
            al. 2016 (SQuAD) does. Both are equal for ASCII texts.
    """
    if text == EMPTY:
        return ""
    if normalization == "squad":
        text = text.lower().translate(_ASCII_PUNCTUATION)
    else:
        text = unicodedata.normalize("NFC", text).lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


class WordUtility(Utility):
    """A utility that compares normalized words.

    Args:
        normalization: see `normalized`. With ``"squad"``, words are separated by spaces in all
            scripts.
    """

    SETTINGS = ("normalization",)

    def __init__(self, normalization: str = "unicode") -> None:
        checks.choice("normalization", normalization, NORMALIZATIONS, self.name)
        self.normalization = normalization

    def words(self, text: str) -> list[str]:
        """Return the normalized words of an `answer_text`."""
        text = normalized(text, self.normalization)
        return text.split() if self.normalization == "squad" else split_words(text)

    def __repr__(self) -> str:
        return self.name if self.normalization == "unicode" else super().__repr__()


class ExactMatch(WordUtility):
    """1 if answer and gold answer are the same after `normalized`, else 0; higher is better."""

    identity_name = "fairtk.ExactMatch"
    output_version = 2
    name = "em"
    if_zero = _SENTENCES

    def score(self, prediction: str, gold: str) -> float:
        """Return 1.0 or 0.0."""
        pair = (normalized(text, self.normalization) for text in (prediction, gold))
        return float(next(pair) == next(pair))


class Contains(WordUtility):
    """1 if the answer contains the words of the gold answer in a row, else 0; higher is better.

    For models that answer in sentences, which never match exactly. A long answer contains more gold
    answers by chance, and a sentence that denies the gold answer contains it, too. Of two texts of
    which nothing is left after `normalized`, one contains the other; no other text contains such a
    gold answer.
    """

    identity_name = "fairtk.Contains"
    output_version = 1
    name = "contains"

    def score(self, prediction: str, gold: str) -> float:
        """Return 1.0 or 0.0."""
        guessed, right = self.words(prediction), self.words(gold)
        if not right:
            return float(not guessed)
        return float(f" {' '.join(right)} " in f" {' '.join(guessed)} ")


class TokenF1(WordUtility):
    """F1 of the words (with their counts) that answer and gold answer share; higher is better.

    Range [0, 1]. Two texts of which nothing is left after `normalized` score 1, one such text
    against another scores 0 (SQuAD 2.0's rule).
    """

    identity_name = "fairtk.TokenF1"
    output_version = 2
    name = "f1"

    def score(self, prediction: str, gold: str) -> float:
        """Return the F1."""
        guessed, right = self.words(prediction), self.words(gold)
        if not guessed or not right:
            return float(guessed == right)
        common = (Counter(guessed) & Counter(right)).total()
        return 2.0 * common / (len(guessed) + len(right))


def get(name: str, **options: Any) -> Any:
    """Return the utility that is registered under a name.

    Args:
        name: e.g. ``"rougeL"``; ``fairtk.plugins.registry.utilities.names()`` lists them.
        **options: the options of that utility, e.g. ``labels=[...]`` of ``accuracy``.

    Returns:
        An object with ``f(predictions, golds) -> list[float]``, ``name`` and ``higher_is_better``
        (see `fairtk.utilities.Utility`).

    Raises:
        NotFoundError: no utility has the name.
        ParameterError: the utility has no such option, or the option a value that cannot be.
        MissingExtraError: the utility needs a package that is not installed.
    """
    spec = registry.utilities.get(name)
    try:
        factory = spec.load()
        what = f"the utility {name!r}"
        refuse_missing_options(what, refuse_unknown_options(what, factory, options), options)
        utility = factory(**options)
    except ModuleNotFoundError as error:
        if spec.extra is None or error.name is None or isinstance(error, MissingExtraError):
            raise
        raise MissingExtraError(error.name, spec.extra, f"the utility {name!r}") from None
    for attribute in ("name", "higher_is_better"):
        if not hasattr(utility, attribute):
            raise PluginError(
                f"the utility {name!r} ({spec.target}) must have the attribute {attribute!r}; "
                "subclass fairtk.utilities.Utility"
            )
    return utility
