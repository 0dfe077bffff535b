"""Random damage to files: the reference reads what is left, or refuses it."""

from __future__ import annotations

from campaign_case import MEANINGFUL, Mutated
from campaign_mutation import MUTATIONS, TEXT, Draft, of_lines
from campaign_writer import pack

add = MUTATIONS.add
SIGNS = "0123456789abdqQx.,;:-+_\"'{}[]()<>|/\\#@%&*=~!? \t\n"


@add(MEANINGFUL, TEXT)
def signs_replaced(draft: Draft) -> Mutated:
    text = list(draft.raw().decode())
    for _ in range(draft.rng.randint(1, 3)):
        text[draft.rng.randrange(len(text))] = draft.rng.choice(SIGNS)
    return Mutated("".join(text).encode())


@add(MEANINGFUL, TEXT)
def signs_removed(draft: Draft) -> Mutated:
    text = draft.raw().decode()
    start = draft.rng.randrange(len(text))
    return Mutated((text[:start] + text[start + draft.rng.choice([1, 1, 1, 3, 20]) :]).encode())


@add(MEANINGFUL, TEXT)
def signs_inserted(draft: Draft) -> Mutated:
    text = draft.raw().decode()
    at = draft.rng.randrange(len(text))
    more = "".join(draft.rng.choices(SIGNS, k=draft.rng.choice([1, 1, 2, 9])))
    return Mutated((text[:at] + more + text[at:]).encode())


@add(MEANINGFUL, TEXT)
def odd_signs_inserted(draft: Draft) -> Mutated:
    text = draft.raw().decode()
    at = draft.rng.randrange(len(text))
    odd = draft.rng.choice(
        "\x01\x07\x0b\x0c\x1b\x1c\x7f\x85\xa0\u200b\u2028\u202e\u3000\u0660\uff11é😀"
    )
    return Mutated((text[:at] + odd + text[at:]).encode())


@add(MEANINGFUL, TEXT)
def bytes_changed(draft: Draft) -> Mutated:
    raw = bytearray(draft.raw())
    for _ in range(draft.rng.randint(1, 2)):
        raw[draft.rng.randrange(len(raw))] ^= 1 << draft.rng.randrange(8)
    return Mutated(bytes(raw))


@add(MEANINGFUL, TEXT)
def a_line_twice(draft: Draft) -> Mutated:
    lines = draft.lines()
    lines.insert(draft.rng.randint(0, len(lines)), draft.rng.choice(lines))
    return of_lines(lines)


@add(MEANINGFUL, TEXT)
def cut_off(draft: Draft) -> Mutated:
    raw = draft.raw()
    return Mutated(raw[: draft.rng.randrange(1, len(raw))])


@add(MEANINGFUL, TEXT)
def joined_with_itself(draft: Draft) -> Mutated:
    return Mutated(draft.raw() * 2)


@add(MEANINGFUL, TEXT)
def fields_change_places(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    fields = lines[at].split(draft.separator())
    one, two = draft.rng.randrange(len(fields)), draft.rng.randrange(len(fields))
    fields[one], fields[two] = fields[two], fields[one]
    lines[at] = draft.separator().join(fields)
    return of_lines(lines)


@add(MEANINGFUL, TEXT, packs=True)
def bytes_of_the_packed_file_changed(draft: Draft) -> Mutated:
    raw = bytearray(pack(draft.raw()))
    raw[draft.rng.randrange(10, len(raw))] ^= 1 << draft.rng.randrange(8)
    return Mutated(bytes(raw))


@add(MEANINGFUL, ("parquet",))
def bytes_of_parquet_changed(draft: Draft) -> Mutated:
    raw = bytearray(draft.raw())
    for _ in range(draft.rng.choice([1, 1, 2, 5])):
        raw[draft.rng.randrange(len(raw))] ^= 1 << draft.rng.randrange(8)
    return Mutated(bytes(raw))


@add(MEANINGFUL, ("tsv", "csv", "jsonl"), ("run", "qrels", "groups", "answers"))
def a_long_field(draft: Draft) -> Mutated:
    name = "docno" if "docno" in draft.table.columns else "qanswer"
    row = draft.rng.choice(draft.table.rows)
    row[draft.table.columns.index(name)] = "x" * draft.rng.choice([140_000, 500_000])
    return Mutated(draft.raw())
