"""Training examples for the tiny model: LaMP-2 prompts of invented viewers, with the answer.

Prompts come from the same builder that the generator uses (`fairtk.prompts`, ``"lamp-2"``); names,
towns and combinations of the training side never occur in the packaged collection (see
`demo_model.grammar`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from demo_model.grammar import Grammar
from demo_model.viewers import Item, invent_viewer
from fairtk import prompts

MAX_ENTRIES = 6
"""The most profile entries in a prompt."""


@dataclass(frozen=True)
class Example:
    """One prompt with its answer.

    Attributes:
        prompt: what the model reads.
        answer: the viewer's personal tag of the question's movie.
        entry_themes: index of the theme of each profile entry, in prompt order.
        theme: index of the theme of the question's movie.
    """

    prompt: str
    answer: str
    entry_themes: tuple[int, ...]
    theme: int


def draw_example(
    rng: np.random.Generator, grammar: Grammar, n_entries: int, phrases: bool = False
) -> Example:
    """Draw a viewer, a question and profile entries.

    The share of entries with the question's theme differs from prompt to prompt (0.1 to 0.7), and
    may be none. Two of five personal tags are arbitrary, so that the context has to be read.

    Args:
        rng: source of randomness.
        grammar: themes and words.
        n_entries: profile entries in the prompt, at least 0.
        phrases: whether one or two phrases of a theme stand for each description: short prompts
            to begin with.
    """
    viewer = invent_viewer(rng, grammar, int(rng.integers(3, 10)), slip=0.03, surprise=0.4)
    movie = viewer.watch(rng, 0, grammar, "training")
    share = rng.uniform(0.1, 0.7)
    entries = [
        viewer.watch(
            rng,
            0 if rng.random() < share else int(rng.integers(1, len(viewer.themes))),
            grammar,
            "training",
        )
        for _ in range(n_entries)
    ]
    text = _phrases if phrases else _description
    documents = [{"text": text(rng, e, grammar), "tag": e.tag} for e in entries]
    question = grammar.question(text(rng, movie, grammar))
    prompt = prompts.get("lamp-2")(question, documents, None)
    return Example(prompt, viewer.tags[0], tuple(e.theme for e in entries), movie.theme)


def _description(rng: np.random.Generator, item: Item, grammar: Grammar) -> str:
    return item.description


def _phrases(rng: np.random.Generator, item: Item, grammar: Grammar) -> str:
    theme = grammar.themes[item.theme]
    person, place, plot = item.cell
    parts = (theme.people[person], theme.places[place], theme.plots[plot])
    chosen = rng.permutation(len(parts))[: int(rng.integers(1, 3))]
    return " ".join(parts[i] for i in chosen)
