"""Invented viewers: the themes each watches and the personal tag each gives to a theme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from demo_model.grammar import Grammar, Side


@dataclass(frozen=True)
class Item:
    """One tagged movie.

    Attributes:
        theme: index of the main theme (never written to a file: it is what has to be guessed).
        description: the text.
        tag: the viewer's tag.
        cell: the (person, place, plot) combination that the description was composed from.
    """

    theme: int
    description: str
    tag: str
    cell: tuple[int, int, int]


@dataclass(frozen=True)
class Viewer:
    """A viewer's habits.

    Attributes:
        themes: indices of the themes that the viewer watches, the favorites first.
        tags: the personal tag of every theme in ``themes``.
        slip: probability that a movie gets another tag than the personal one.
    """

    themes: tuple[int, ...]
    tags: tuple[str, ...]
    slip: float

    def tag(self, rng: np.random.Generator, position: int, grammar: Grammar) -> str:
        """The tag for a movie of the theme at ``position``, slips included."""
        if rng.random() < self.slip:
            options = grammar.themes[self.themes[position]].tags
            return options[rng.integers(len(options))]
        return self.tags[position]

    def watch(
        self,
        rng: np.random.Generator,
        position: int,
        grammar: Grammar,
        side: Side,
        cell: tuple[int, int, int] | None = None,
    ) -> Item:
        """Watch and tag one movie of the theme at ``position``.

        Half of the movies borrow a motif from another theme, more often from one that the viewer
        watches too: that is what misleads a retriever that only counts words.

        Args:
            rng: source of randomness.
            position: index into ``themes``.
            grammar: composes the description.
            side: whose names and combinations to use.
            cell: the combination to use (a remake of another movie); None draws one.
        """
        theme = self.themes[position]
        other = None
        if rng.random() < 0.5:
            pool = self.themes if rng.random() < 0.6 else tuple(range(len(grammar.themes)))
            other = int(pool[rng.integers(len(pool))])
            other = None if other == theme else other
        if cell is None:
            cells = grammar.themes[theme].cells(side)
            cell = cells[rng.integers(len(cells))]
        text = grammar.describe(rng, theme, side, cell, other=other)
        return Item(theme, text, self.tag(rng, position, grammar), cell)


def invent_viewer(
    rng: np.random.Generator,
    grammar: Grammar,
    n_themes: int,
    slip: float,
    surprise: float,
) -> Viewer:
    """Draw a viewer.

    Args:
        rng: source of randomness.
        grammar: themes and tags.
        n_themes: how many themes the viewer watches.
        slip: probability that a movie gets another tag than the personal one.
        surprise: probability that the personal tag of a theme is any tag at all instead of one of
            the plausible ones.
    """
    themes = rng.choice(len(grammar.themes), size=n_themes, replace=False)
    tags = []
    for theme in themes:
        options = grammar.tags if rng.random() < surprise else grammar.themes[theme].tags
        tags.append(options[rng.integers(len(options))])
    return Viewer(tuple(int(t) for t in themes), tuple(tags), slip)
