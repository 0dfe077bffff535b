"""Writes small invented folders in the official file formats of TREC Fair Ranking 2022."""

from __future__ import annotations

import gzip
import json

# page id -> title; ids are not sorted
PAGES = {30: "Tide mill", 7: "Ada Reed", 12: "Bo Lind", 101: "Cy Oke", 55: "Salt road"}
# topic id -> title, keywords, relevant pages (one of them twice, one without metadata)
TOPICS = {
    4: ("Harbors", ["sea wall", "tide"], [30, 55, 30]),
    9: ("Poets", ["verse"], [7, 12, 101, 999]),
}


def record(page, **changed):
    """Return a metadata record: a Start-class page of which nothing else is known."""
    return {
        "page_id": page,
        "qual_cat": "Start",
        "pred_qual": 0.5,
        "page_countries": [],
        "page_subcont_regions": [],
        "source_countries": {},
        "source_subcont_regions": {},
        "gender": [],
        "occupations": [],
        "years": [],
        "first_letter_category": "s-",
        "creation_date_category": "2001-2006",
        "relative_pageviews_category": "Low",
        "num_sitelinks_category": "English only",
        **changed,
    }


RECORDS = [
    record(30, page_subcont_regions=["Polynesia", "Melanesia", "Caribbean"], qual_cat="Stub"),
    record(
        7,
        gender=["cisgender female", "female"],
        occupations=["writer", "artist"],
        source_subcont_regions={"Northern Europe": 3, "UNK": 1},
        page_subcont_regions=["Northern Europe"],
    ),
    record(12, gender=["transgender male", "agender"], qual_cat="FA", occupations=["writer"]),
    record(
        101,
        gender=["genderfluid", "agender"],
        qual_cat=None,
        source_subcont_regions={"Micronesia": 2, "Australia and New Zealand": 2, "UNK": 0},
        relative_pageviews_category="Medium-High",
    ),
    record(55, num_sitelinks_category=None),
    record(55, num_sitelinks_category=None),  # once more, and the same
]


def lines(records):
    return "".join(json.dumps(r) + "\n" for r in records)


def columns(topics):
    """Return topics in the column-wise form, with lists as strings."""
    rows = {str(i): topic for i, topic in enumerate(topics.items())}
    table = {
        "id": {i: qid for i, (qid, _) in rows.items()},
        "title": {i: topic[0] for i, (_, topic) in rows.items()},
        "keywords": {i: str(topic[1]) for i, (_, topic) in rows.items()},
        "rel_docs": {i: json.dumps(topic[2]) for i, (_, topic) in rows.items()},
    }
    return json.dumps(table) + "\n"


def reldocs(topics, keywords=False):
    """Return topics in the form with a line for each."""
    records = []
    for qid, (title, words, pages) in topics.items():
        entry = {"id": qid, "title": title, "url": "https://pages.invalid", "rel_docs": pages}
        records.append({**entry, "keywords": words} if keywords else entry)
    return lines(records)


def article(page, title):
    return {
        "id": page,
        "title": title,
        "url": f"https://pages.invalid/{page}",
        "plain": f"on {page}",
    }


CORPUS = [article(p, t) for p, t in PAGES.items()]


def write(path, text):
    """Write a file, gzipped if its name says so."""
    raw = text.encode("utf-8")
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)


def write_folder(folder):
    """Write all five files."""
    folder.mkdir(exist_ok=True)
    write(folder / "trec_corpus_20220301_plain.json.gz", lines(CORPUS))
    write(folder / "trec_2022_articles_discrete.json.gz", lines(RECORDS))
    write(folder / "train_topics_meta.jsonl", columns(TOPICS))
    write(folder / "trec_2022_eval_reldocs.jsonl.gz", reldocs(TOPICS))
    return folder
