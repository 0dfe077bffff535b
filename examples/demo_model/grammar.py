"""The grammar that composes the demo's invented movie descriptions.

A description names one main theme by a person, a place and a turn of the plot, often with a motif
that belongs to another theme, so that shared words are informative about the theme but do not
settle it. The word lists live in ``grammar.json``.

Two sides never share a description: the packaged collection and the training data of the tiny
model. First, each side has its own names of people and towns, and every description holds at least
one name. Second, each combination (person, place, plot) of a theme belongs to exactly one side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from fairtk.errors import FormatError

Side = Literal["collection", "training"]

QUESTION_START = (
    "Which tag does this movie relate to among the following tags? Just answer with the tag name "
    "without further explanation."
)
"""How a question of LaMP-2 begins (Salemi et al. 2023)."""

_AN = ("a", "e", "i", "o", "u", "honest")
"""Word beginnings that take "an" ("union" never comes first: an adjective does)."""


@dataclass(frozen=True)
class Theme:
    """A subject of movies.

    Attributes:
        name: short name, unique.
        tags: the tags that viewers plausibly give to it.
        people: nouns without an article ("starship pilot").
        places: phrases with a preposition ("at an empty launch base").
        plots: verb phrases in the third person.
        motifs: noun phrases with an article, which other themes may borrow.
    """

    name: str
    tags: tuple[str, ...]
    people: tuple[str, ...]
    places: tuple[str, ...]
    plots: tuple[str, ...]
    motifs: tuple[str, ...]

    def cells(self, side: Side) -> list[tuple[int, int, int]]:
        """The (person, place, plot) combinations that belong to one side.

        A third of them (index sum divisible by 3) is kept for the packaged collection.
        """
        return [
            (person, place, plot)
            for person in range(len(self.people))
            for place in range(len(self.places))
            for plot in range(len(self.plots))
            if ((person + place + plot) % 3 == 0) == (side == "collection")
        ]


@dataclass(frozen=True)
class Grammar:
    """Themes and the generic word lists around them."""

    tags: tuple[str, ...]
    themes: tuple[Theme, ...]
    adjectives: tuple[str, ...]
    names: dict[str, tuple[str, ...]]
    towns: dict[str, tuple[str, ...]]
    openings: tuple[str, ...]
    endings: tuple[str, ...]
    motif_clauses: tuple[str, ...]
    moods: tuple[str, ...]

    def describe(
        self,
        rng: np.random.Generator,
        theme: int,
        side: Side,
        cell: tuple[int, int, int],
        other: int | None = None,
    ) -> str:
        """Compose one description.

        Args:
            rng: source of randomness.
            theme: index of the main theme.
            side: whose names to use.
            cell: the (person, place, plot) combination, one of `Theme.cells` of the side.
            other: index of a second theme that lends a motif; None for none.

        Returns:
            One to three English sentences, about 15 to 40 words.
        """
        main = self.themes[theme]
        person = f"{_pick(rng, self.adjectives)} {main.people[cell[0]]}"
        person = f"{'an' if person.startswith(_AN) else 'a'} {person}"
        place = main.places[cell[1]]
        name = _pick(rng, self.names[side])
        tail = _pick(rng, self.endings) if rng.random() < 0.4 else ""
        motif_of = main if other is None else self.themes[other]
        if other is not None or rng.random() < 0.3:
            clause = _pick(rng, self.motif_clauses)
            tail += clause.format(motif=_pick(rng, motif_of.motifs))
        text = _pick(rng, self.openings).format(
            name=name,
            Name=name,
            town=_pick(rng, self.towns[side]),
            a_person=person,
            A_person=_capital(person),
            plot=main.plots[cell[2]],
            place=place,
            Place=_capital(place),
            tail=tail,
        )
        if rng.random() < 0.35:
            text += " " + _pick(rng, self.moods)
        return text

    def question(self, description: str) -> str:
        """LaMP-2's task input for a movie."""
        return f"{QUESTION_START} tags: [{', '.join(self.tags)}] description: {description}"


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[rng.integers(len(options))]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


@lru_cache(maxsize=1)
def load_grammar() -> Grammar:
    """Read the packaged word lists.

    Raises:
        FormatError: the file is not JSON or a list is missing.
    """
    source = Path(__file__).with_name("grammar.json")
    try:
        raw = json.loads(source.read_text(encoding="utf-8"))
        themes = tuple(
            Theme(
                name=theme["name"],
                tags=tuple(theme["tags"]),
                people=tuple(theme["people"]),
                places=tuple(theme["places"]),
                plots=tuple(theme["plots"]),
                motifs=tuple(theme["motifs"]),
            )
            for theme in raw["themes"]
        )
        lists = {
            key: tuple(raw[key])
            for key in ("tags", "adjectives", "openings", "endings", "motif_clauses", "moods")
        }
        sides = {key: {s: tuple(v) for s, v in raw[key].items()} for key in ("names", "towns")}
    except (json.JSONDecodeError, KeyError, TypeError) as err:
        raise FormatError(
            f"the demo's word lists cannot be read ({err!r})", path=str(source)
        ) from err
    return Grammar(themes=themes, names=sides["names"], towns=sides["towns"], **lists)
