"""Words of all scripts, and `contains`."""

import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairtk import utilities
from fairtk.errors import ParameterError
from fairtk.utilities import normalized, split_words

# the quotation marks of Unicode: initial, final, and those that are brackets or other punctuation
QUOTES = "\"'«»‘’‚‛“”„‟‹›「」『』〝〞〟﹁﹂﹃﹄＂＇｢｣⹂❛❜❝❞"
ORNAMENTS = "❛❜❝❞"  # symbols, which no language uses as punctuation


def value(name, answer, gold, **options):
    return utilities.get(name, **options)([answer], [gold])[0]


class TestContains:
    @pytest.mark.parametrize(
        ("answer", "gold", "expected"),
        [
            ("The capital of France is Paris.", "Paris", 1),
            ("The capital of France is PARIS!", "the paris", 1),
            ("It is Parisian.", "Paris", 0),  # whole words
            ("New big York", "New York", 0),  # in a row
            ("He went to New York in 1994.", "new york", 1),
            ("Lyon", ["Paris", "Lyon"], 1),  # any of several
            ("Nice", ["Paris", "Lyon"], 0),
            ("Paris", "Paris is the capital", 0),
            ("日本の首都は東京です。", "東京", 1),  # noqa: RUF001
            ("日本の首都は京東です。", "東京", 0),  # noqa: RUF001
            ("東京タワー is in 東京", "タワー", 1),
            ("เมืองหลวงคือกรุงเทพ", "กรุงเทพ", 1),
            ("서울은 수도이다", "서울", 0),  # Korean has spaces
            ("Er sagte: „Paris“.", "Paris", 1),
            ("an answer", "the", 0),  # nothing is left of the gold answer
            ("The", "a", 1),
            ("", "", 1),
            ("empty", "", 0),
            ("", "empty", 0),
        ],
    )
    def test_values(self, answer, gold, expected):
        assert value("contains", answer, gold) == expected

    @given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
    def test_an_answer_around_the_gold_answer(self, before, gold, after):
        if utilities.get("contains").words(gold):
            assert value("contains", f"{before} {gold} {after}", gold) == 1

    @given(st.text(max_size=20), st.text(max_size=20))
    def test_equal_answers_contain_each_other(self, answer, gold):
        both = value("contains", answer, gold) and value("contains", gold, answer)
        assert both >= value("em", answer, gold)


class TestScripts:
    @pytest.mark.parametrize("mark", sorted(set(QUOTES) - set(ORNAMENTS)))
    @pytest.mark.parametrize("name", ["em", "f1", "contains"])
    def test_quotation_marks_are_punctuation(self, name, mark):
        assert value(name, f"{mark}Paris{mark}.", "Paris") == 1

    def test_punctuation_of_all_scripts(self):
        assert normalized("¿Qué? 東京、大阪。 नमस्ते।") == "qué 東京大阪 नमस्ते"

    def test_squad_deletes_ascii_punctuation_only(self):
        assert value("em", "«Paris».", "Paris") == 1
        assert value("em", "«Paris».", "Paris", normalization="squad") == 0
        assert value("f1", "東京", "東", normalization="squad") == 0

    @given(st.text(alphabet=st.characters(max_codepoint=127)))
    def test_ascii_texts_are_normalized_as_in_squad(self, text):
        assert normalized(text) == normalized(text, "squad")

    @pytest.mark.parametrize("form", ["NFC", "NFD"])
    def test_composed_and_decomposed_letters(self, form):
        assert value("em", unicodedata.normalize(form, "Café"), "Café") == 1

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("東京は首都", ["東", "京", "は", "首", "都"]),
            ("GDP는 3.1", ["GDP는", "3.1"]),
            ("กรุงเทพ", ["ก", "รุ", "ง", "เ", "ท", "พ"]),  # a vowel sign belongs to its letter
            ("မြန်", ["မြ", "န်"]),
            ("か\u3099 x", ["か\u3099", "x"]),
            ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
            ("a\u00a0b", ["a", "b"]),
        ],
    )
    def test_words(self, text, words):
        assert split_words(text) == words

    def test_f1_counts_characters_where_words_have_no_spaces(self):
        # 東京 and 東京都: 2 shared characters of 2 and 3
        assert value("f1", "東京", "東京都") == pytest.approx(2 * 2 / 5)


class TestRougeScore:
    TEXT = "東京は日本の首都です"

    def test_words_of_all_scripts(self):
        pytest.importorskip("rouge_score")
        for variant in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
            name = f"rouge_score_{variant}"
            assert value(name, self.TEXT, self.TEXT, tokenizer="unicode") == 1
            assert value(name, self.TEXT, self.TEXT) == 0  # the package's definition
        # 東京 and 東京都: precision 1, recall 2/3
        assert value("rouge_score_rougeL", "東京", "東京都", tokenizer="unicode") == pytest.approx(
            0.8
        )

    @given(*[st.text(alphabet=st.characters(max_codepoint=127), max_size=30)] * 2)
    def test_ascii_texts_have_the_same_words(self, answer, gold):
        pytest.importorskip("rouge_score")
        pair = answer, gold
        assert value("rouge_score_rougeL", *pair) == value(
            "rouge_score_rougeL", *pair, tokenizer="unicode"
        )

    def test_no_stemmer_for_all_scripts(self):
        pytest.importorskip("rouge_score")
        with pytest.raises(ParameterError, match="use_stemmer"):
            utilities.get("rouge_score_rouge1", use_stemmer=True, tokenizer="unicode")


@pytest.mark.parametrize("name", ["em", "f1", "contains"])
def test_unknown_normalization(name):
    with pytest.raises(ParameterError, match="normalization.*'squad'.*'nfc'"):
        utilities.get(name, normalization="nfc")
