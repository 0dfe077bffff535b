"""Write the demo's invented collection: ``python -m demo_model.collection [--out DIR]``.

The files have LaMP-2's form (Salemi et al. 2023): ``dev_questions.json`` holds one query per
viewer with the viewer's profile of tagged movies, ``dev_outputs.json`` the viewer's own tag of the
query's movie. ``groups.tsv`` annotates the profile entries with two attributes. Everything comes
from one seeded generator, so that the same files result byte for byte. The utility labels
(``qrels.tsv``) depend on the packaged model and have a command of their own, `demo_model.label`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from demo_model.grammar import Grammar, load_grammar
from demo_model.groups import annotate
from demo_model.viewers import Item, Viewer, invent_viewer
from fairtk.demo import collection_folder

SEED = 20261121
N_QUERIES = 84
PROFILE_SIZES = (10, 60)
N_THEMES = (7, 13)
REMAKES = 0.12
"""How often an entry retells an earlier entry of its theme, under another name."""
INCONSISTENT = 0.15
"""Share of viewers who often leave their own habits."""


@dataclass(frozen=True)
class TaggedProfile:
    """One query with its profile.

    Attributes:
        qid: the query's id.
        query: the movie to tag, with the gold tag.
        items: the profile; the entry at index i has the id ``pid(i)``.
        dates: one day per entry, ascending, as YYYY-MM-DD.
    """

    qid: str
    query: Item
    items: tuple[Item, ...]
    dates: tuple[str, ...]

    def pid(self, index: int) -> str:
        """The profile entry's id: as in LaMP, unique only within its query."""
        return str(100 + index)


def build_collection(n_queries: int = N_QUERIES, seed: int = SEED) -> list[TaggedProfile]:
    """Invent the viewers, their profiles and one query each.

    Args:
        n_queries: how many viewers.
        seed: the same seed gives the same collection.
    """
    rng = np.random.default_rng(seed)
    grammar = load_grammar()
    return [_invent_profile(rng, grammar, str(1001 + i)) for i in range(n_queries)]


def _invent_profile(rng: np.random.Generator, grammar: Grammar, qid: str) -> TaggedProfile:
    slip = 0.25 if rng.random() < INCONSISTENT else 0.04
    n_themes = int(rng.integers(N_THEMES[0], N_THEMES[1] + 1))
    viewer = invent_viewer(rng, grammar, n_themes, slip=slip, surprise=0.2)
    size = int(rng.integers(PROFILE_SIZES[0], PROFILE_SIZES[1] + 1))
    # Favorites are watched more: weights fall from 2 to 1 over the viewer's themes.
    weights = np.linspace(2.0, 1.0, n_themes)
    positions = rng.choice(n_themes, size=size, p=weights / weights.sum())
    # What a query asks about is in the profile, at least twice.
    asked = int(rng.choice(positions))
    if (positions == asked).sum() < 2:
        positions[int(rng.choice(np.flatnonzero(positions != asked)))] = asked
    items: list[Item] = []
    for position in positions:
        items.append(_watch(rng, viewer, int(position), grammar, items))
    query = viewer.watch(rng, asked, grammar, "collection")
    days = np.sort(rng.integers(0, 3650, size=size))
    dates = (np.datetime64("2008-01-01") + days).astype(str)
    return TaggedProfile(qid, query, tuple(items), tuple(dates.tolist()))


def _watch(
    rng: np.random.Generator, viewer: Viewer, position: int, grammar: Grammar, seen: list[Item]
) -> Item:
    same = [item for item in seen if item.theme == viewer.themes[position]]
    cell = None
    if same and rng.random() < REMAKES:
        cell = same[rng.integers(len(same))].cell
    return viewer.watch(rng, position, grammar, "collection", cell)


def write_collection(folder: Path, profiles: Sequence[TaggedProfile]) -> None:
    """Write ``dev_questions.json``, ``dev_outputs.json`` and ``groups.tsv``.

    Args:
        folder: made if absent; existing files are replaced.
        profiles: from `build_collection`.
    """
    grammar = load_grammar()
    folder.mkdir(parents=True, exist_ok=True)
    questions = [
        {
            "id": p.qid,
            "input": grammar.question(p.query.description),
            "profile": [
                {
                    "id": p.pid(i),
                    "tag": item.tag,
                    "description": item.description,
                    "date": p.dates[i],
                }
                for i, item in enumerate(p.items)
            ],
        }
        for p in profiles
    ]
    golds = [{"id": p.qid, "output": p.query.tag} for p in profiles]
    _write(folder / "dev_questions.json", f"[\n{_lines(questions)}\n]\n")
    _write(folder / "dev_outputs.json", f'{{"task": "LaMP_2", "golds": [\n{_lines(golds)}\n]}}\n')
    docnos = [f"{p.qid}/{p.pid(i)}" for p in profiles for i in range(len(p.items))]
    themes = [item.theme for p in profiles for item in p.items]
    rows = annotate(docnos, themes, seed=SEED)
    text = "".join(f"{r.docno}\t{r.group}\t{r.weight:g}\t{r.attribute}\n" for r in rows)
    _write(folder / "groups.tsv", "docno\tgroup\tweight\tattribute\n" + text)


def _lines(records: Sequence[object]) -> str:
    """JSON records, one per line, so that a change shows in a diff."""
    return ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m demo_model.collection", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=collection_folder(), help="folder (default: the packaged one)"
    )
    folder: Path = parser.parse_args(argv).out
    profiles = build_collection()
    write_collection(folder, profiles)
    n_items = sum(len(p.items) for p in profiles)
    print(f"{len(profiles)} queries with {n_items} profile entries in {folder}")


if __name__ == "__main__":
    main()
