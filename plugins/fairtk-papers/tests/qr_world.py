"""An invented collection in the files of TREC Fair Ranking 2022, and what studies of it need.

Words are made of syllables; only the terms of groups (`group_terms.tsv`) are English. Each of eight
topics has ten documents: six about men come first under BM25, because they repeat the topic's words
more often; four about women. Regions take turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import re
import sqlite3

import pandas as pd
import trec_fair_files as files
from fairtk_papers.fair_qr import QrSettings, QrStudy, from_trec_fair
from fairtk_papers.fair_qr.systems import BUILT_IN

from fairtk import hookimpl, plugins
from fairtk.experiment.packing import from_bytes, unpack
from fairtk.plugins.registry import StudySystemSpec

REGIONS = {
    "Northern Europe": "Sweden Norway Denmark",
    "Eastern Asia": "China Japan Korea",
    "Southern Asia": "India Pakistan Bangladesh",
    "Northern America": "United States American Canada",
}
PEOPLE = {"male": "man male men", "female": "woman women female"}
TOPICS, PER_TOPIC, OTHERS = 8, 10, 10
SMALL = {"cutoff": 5, "candidates": 10, "tuning": {}}
"""Settings of small, quick studies."""


def words(count, rng):
    syllables = [
        "ba",
        "du",
        "fe",
        "gim",
        "jor",
        "ka",
        "lu",
        "mep",
        "nix",
        "po",
        "rul",
        "sev",
        "zot",
    ]
    made = {}
    while len(made) < count:
        made["".join(rng.choices(syllables, k=3))] = None
    return list(made)


def collection():
    """Return topics as the files have them, documents and metadata records."""
    rng = random.Random(7)
    vocabulary = words(TOPICS * 3 + 60, rng)
    about, filler = vocabulary[: TOPICS * 3], vocabulary[TOPICS * 3 :]
    topics, documents, records = {}, [], []
    for topic in range(TOPICS):
        own = about[3 * topic : 3 * topic + 3]
        relevant = []
        for place in range(PER_TOPIC):
            page = 1000 + 37 * len(documents) % 997  # ids are not in order
            gender = "male" if place < 6 else "female"
            region = list(REGIONS)[(place + topic) % 3 if place < 6 else (place + topic) % 4]
            text = own * (8 - place // 2) + PEOPLE[gender].split() + REGIONS[region].split()
            documents.append(article(page, text + rng.choices(filler, k=20), rng))
            records.append(files.record(page, gender=[gender], page_subcont_regions=[region]))
            if rng.random() < 0.75:
                relevant.append(page)
        topics[topic + 1] = (own[0].title(), own, relevant)
    for place in range(OTHERS):
        page = 1000 + 37 * len(documents) % 997
        documents.append(article(page, rng.choices(filler, k=30) + ["woman"] * (place % 2), rng))
        records.append(files.record(page))
    return topics, documents, records


def article(page, text, rng):
    rng.shuffle(text)
    return {"id": page, "title": text[0], "url": f"https://pages.invalid/{page}",
            "plain": " ".join(text[1:])}  # fmt: skip


def write_world(folder):
    """Write the files of the collection."""
    topics, documents, records = collection()
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / "trec_corpus_20220301_plain.json.gz", files.lines(documents))
    files.write(folder / "trec_2022_articles_discrete.json.gz", files.lines(records))
    files.write(folder / "train_topics_meta.jsonl", files.columns(topics))
    files.write(folder / "trec_2022_eval_reldocs.jsonl.gz", files.reldocs(topics, keywords=True))
    return folder


def settings(**changed):
    """Return settings of a small study: without variations, and of installed plugins the toys."""
    return QrSettings(**{**SMALL, "variations": {}, "systems": (*BUILT_IN, *_TOYS), **changed})


def study(data, folder, llm, **changed):
    """Return a small study; `ledger` and `retriever` go to the study, all else to its settings."""
    given = {name: changed.pop(name) for name in ("ledger", "retriever") if name in changed}
    return QrStudy(data, folder, llm, settings(**changed), **given)


def finished_systems(study):
    """Return the systems with stored results."""
    return study.status().query("done > 0")["system"].tolist()


def read(folder, **options):
    return from_trec_fair(folder, **options)


# Models ------------------------------------------------------------------------------------------

TERMS = {
    "women": "woman",
    "men": "man",
    **{name: text.split()[0] for name, text in REGIONS.items()},
}


def adds_a_term(prompt, count=1):
    """Answer a prompt: its keywords and one word of the group."""
    group = re.search(r"shown too little: (.*?) \((?:gender|sub-geo|geography)\)", prompt)[1]
    return ", ".join([*keywords(prompt), TERMS.get(group, group.split()[0])])


def paid(path):
    """Return the user's prompts of all answers in a ledger."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT prompt FROM answers").fetchall()
    return [json.loads(prompt)[-1][1] for (prompt,) in rows]


def keywords(prompt):
    return re.search("Current keywords: (.*)", prompt)[1].split()


# Systems of a plugin -----------------------------------------------------------------------------


class Toys:
    """A plugin with systems, for `plugins.register`."""

    def __init__(self, *specs):
        self.specs = specs

    @hookimpl
    def fairtk_study_systems(self):
        return [
            StudySystemSpec(name, f"qr_toys:{build}", "a toy", trained, grid=dict(*grid))
            for name, build, trained, *grid in self.specs
        ]


_TOYS = []  # the names of those that are known now


@contextlib.contextmanager
def installed(*specs, version="1.0"):
    """Make systems known: (name, function of `qr_toys`, whether it is trained, grid)."""
    plugin = Toys(*specs)
    plugins.register(plugin, "fairtk-toys", version)
    _TOYS[:] = [name for name, *_ in specs]
    try:
        yield
    finally:
        _TOYS.clear()
        plugins.unregister(plugin)


# Comparing studies -------------------------------------------------------------------------------


STORE = "experiment.sqlite"


def kept(folder):
    """Return how many results the store of a study has."""
    return len(rows_of(folder, "SELECT 1 FROM cells WHERE error IS NULL"))


def rows_of(folder, query, *values):
    """Return what the store of a study says; nothing if there is none yet."""
    if not (folder / STORE).exists():
        return []
    with contextlib.closing(sqlite3.connect(folder / STORE, timeout=60)) as database:
        try:
            found = database.execute(query, values).fetchall()
        except sqlite3.OperationalError:  # a process is making it
            return []
        database.commit()
    return found


def forget(folder, system, qid=None):
    """Remove a system's results, or that of one query."""
    where = "" if qid is None else f" AND qid = '{qid}'"
    chains = "SELECT chain FROM systems WHERE name = ?"
    delete = f"DELETE FROM cells WHERE chain IN ({chains}){where} RETURNING 1"
    assert rows_of(folder, delete, system)


def sums(folder):
    """Return each query's rankings and note by chain and qid, but for times."""
    found = {}
    query = (
        "SELECT key, qid, first, size, error, notes, data FROM cells JOIN chains USING (chain) "
        "LEFT JOIN frames USING (frame)"
    )
    for key, qid, first, size, error, notes, data in rows_of(folder, query):
        note = json.loads(notes)
        trace = [{k: v for k, v in row.items() if k != "seconds"} for row in note["trace"]]
        rows = unpack(from_bytes(data)).iloc[first : first + size] if size else pd.DataFrame()
        found[key, qid] = repr([rows.to_numpy().tolist(), trace, error])
    return found


def differences(one, two):
    """Return where two results of `sums` differ."""
    return sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))


def first_topics(data, count):
    """Return the data of the first topics only."""
    return dataclasses.replace(data, topics=data.topics.head(count))
