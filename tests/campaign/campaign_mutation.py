"""What a mutation of a file is, and the list that the modules of mutations fill."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from campaign_case import Mutated
from campaign_world import Table, World
from campaign_writer import write

TEXT = ("trec", "task", "tsv", "csv", "jsonl", "wide")
SPACED = ("trec", "task")
DELIMITED = ("tsv", "csv", "wide")
NAMED = ("tsv", "csv", "jsonl", "parquet", "wide")
EVERY = (*TEXT, "parquet")
KINDS = ("run", "qrels", "groups", "target", "answers", "gold")


@dataclass
class Draft:
    """A file before it is written.

    Attributes:
        kind: what it is of.
        form: its format.
        table: its rows.
        world: what it belongs to.
        rng: the case's random numbers.
    """

    kind: str
    form: str
    table: Table
    world: World
    rng: random.Random
    header: bool = True

    def raw(self) -> bytes:
        """Return the file's bytes, not packed."""
        return write(self.kind, self.form, self.table, self.header)

    def lines(self) -> list[str]:
        """Return the lines of a text file, without their ends."""
        return self.raw().decode("utf-8").split("\n")[:-1]

    @property
    def first(self) -> int:
        """The index of the first line with a row."""
        named = self.form in DELIMITED or (self.form == "task" and self.header)
        return 1 if named else 0

    def a_line(self, lines: list[str]) -> int:
        """Return the index of a random line with a row."""
        return self.rng.randrange(self.first, len(lines))

    def separator(self) -> str:
        """Return what separates fields."""
        return {"csv": ",", "trec": " "}.get(self.form, "\t")


Change = Callable[[Draft], Mutated | None]


@dataclass(frozen=True)
class Mutation:
    """A mutation.

    Attributes:
        name: its class, as the table shows it.
        kind: neutral, fatal or meaningful.
        change: makes the mutated bytes; None: this file gives no occasion.
        forms: formats that it is for.
        kinds: files that it is for.
        packs: whether the bytes are final; otherwise they are packed where the case says so.
    """

    name: str
    kind: str
    change: Change
    forms: tuple[str, ...]
    kinds: tuple[str, ...]
    packs: bool = False


@dataclass
class Mutations:
    """The mutations, in the order in which modules give them."""

    all: list[Mutation] = field(default_factory=list)

    def add(
        self,
        kind: str,
        forms: tuple[str, ...] = EVERY,
        kinds: tuple[str, ...] = KINDS,
        packs: bool = False,
    ) -> Callable[[Change], Change]:
        """Return a decorator that adds a mutation named after the function."""

        def added(change: Change) -> Change:
            name = change.__name__.replace("_", " ")
            self.all.append(Mutation(name, kind, change, forms, kinds, packs))
            return change

        return added

    def of(self, kind: str, form: str) -> Iterator[Mutation]:
        """Yield what can be done to a file."""
        for mutation in self.all:
            if kind in mutation.kinds and form in mutation.forms:
                yield mutation


MUTATIONS = Mutations()


def joined(lines: list[str], end: str = "\n") -> bytes:
    """Return lines as bytes."""
    return "".join(line + end for line in lines).encode("utf-8", "surrogatepass")


def of_lines(lines: list[str], line: int | None = None) -> Mutated:
    """Return a mutated text file; `line` is the index of the only wrong line."""
    return Mutated(joined(lines), None if line is None else line + 1)
