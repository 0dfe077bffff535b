"""The grammar's two sides never share a description."""

import numpy as np
import pytest
from demo_model.examples import draw_example
from demo_model.grammar import load_grammar
from demo_model.viewers import invent_viewer

GRAMMAR = load_grammar()


def test_tags_are_lamp_2s():
    assert len(GRAMMAR.tags) == 15
    assert {tag for theme in GRAMMAR.themes for tag in theme.tags} <= set(GRAMMAR.tags)


def test_combinations_are_divided():
    for theme in GRAMMAR.themes:
        collection, training = set(theme.cells("collection")), set(theme.cells("training"))
        assert not collection & training
        # 4 people x 4 places x 6 plots = 96 combinations, a third of them for the collection
        assert len(collection) == 32
        assert len(training) == 64


def test_names_are_divided():
    for lists in (GRAMMAR.names, GRAMMAR.towns):
        assert not set(lists["collection"]) & set(lists["training"])
    # no name of one side hides in a phrase, or in a name of the other side
    training = set(GRAMMAR.names["training"]) | set(GRAMMAR.towns["training"])
    collection = set(GRAMMAR.names["collection"]) | set(GRAMMAR.towns["collection"])
    assert not any(a in b or b in a for a in training for b in collection)


@pytest.mark.parametrize("side", ["collection", "training"])
def test_every_description_names_someone_or_somewhere_of_its_side(side):
    rng = np.random.default_rng(1)
    names = GRAMMAR.names[side] + GRAMMAR.towns[side]
    for number in range(500):
        theme = number % len(GRAMMAR.themes)
        cells = GRAMMAR.themes[theme].cells(side)
        cell = cells[rng.integers(len(cells))]
        text = GRAMMAR.describe(rng, theme, side, cell, other=number % 7)
        assert any(name in text for name in names)
        assert 8 <= len(text.split()) <= 70


def test_a_viewer_without_slips_keeps_the_habit():
    rng = np.random.default_rng(2)
    viewer = invent_viewer(rng, GRAMMAR, 5, slip=0.0, surprise=0.5)
    for position, tag in enumerate(viewer.tags):
        items = [viewer.watch(rng, position, GRAMMAR, "training") for _ in range(5)]
        assert {item.tag for item in items} == {tag}
        assert {item.theme for item in items} == {viewer.themes[position]}


@pytest.mark.parametrize("n_entries", [0, 1, 5])
def test_training_prompts_are_lamp_2s(n_entries):
    example = draw_example(np.random.default_rng(3), GRAMMAR, n_entries)
    assert example.prompt.count("the tag for the movie: ") == n_entries
    assert example.prompt.count("Which tag does this movie relate to") == 1
    assert example.answer in GRAMMAR.tags
    assert len(example.entry_themes) == n_entries
