"""An invented collection in the files of TREC Fair Ranking 2022, for whole studies.

Words of topics are made of syllables; only the terms of groups are English. Each of eight topics
has 24 documents that name its words; those about men, and about the first two regions, name them
more often. Every eighth document has no label of gender, every tenth two regions, some no record.
"""

import gzip
import json

import numpy as np

REGIONS = {
    "Northern Europe": ["Sweden", "Norway"],
    "Eastern Asia": ["China", "Japan"],
    "Western Africa": ["Ghana", "Nigeria"],
    "South America": ["Brazil", "Peru"],
}
PEOPLE = {"male": ["man", "male"], "female": ["woman", "female"]}
TOPICS, PER_TOPIC = 8, 24
SYLLABLES = ["ba", "du", "fe", "gim", "jor", "ka", "lu", "mep", "nix", "po", "rul", "zot"]
DISCRETE = {
    "qual_cat": "Stub",
    "source_subcont_regions": {},
    "occupations": [],
    "first_letter_category": "l-r",
    "creation_date_category": "2001-2006",
    "relative_pageviews_category": "Low",
    "num_sitelinks_category": "English only",
}


def write_collection(folder, seed=3):
    """Write corpus, metadata and topics; return the folder."""
    rng = np.random.default_rng(seed)
    made = ["".join(rng.choice(SYLLABLES, size=3)) for _ in range(400)]
    words = list(dict.fromkeys(made))
    own, filler = words[: 3 * TOPICS], words[3 * TOPICS :]
    folder.mkdir(parents=True)
    pages, records, relevant = [], [], [[] for _ in range(TOPICS)]
    for i in range(TOPICS * PER_TOPIC):
        topic, page = i % TOPICS, 1000 + 53 * i % 997
        gender = "male" if rng.random() < 0.6 else "female"
        region = int(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1]))
        often = 1 + rng.poisson(1 + 2 * (gender == "male") + 2 * (region < 2))
        text = [
            *rng.choice(own[3 * topic : 3 * topic + 3], size=often),
            *rng.choice(PEOPLE[gender], size=2),
            *rng.choice(list(REGIONS.values())[region], size=2),
            *rng.choice(filler, size=20),
        ]
        rng.shuffle(text)
        pages.append({"id": page, "title": f"Person {page}", "url": "", "plain": " ".join(text)})
        if rng.random() < 0.7:
            relevant[topic].append(page)
        if i % 23 == 5:
            continue
        places = {list(REGIONS)[region], *([list(REGIONS)[i // 10 % 4]] if i % 10 == 0 else [])}
        labels = {"gender": [gender] if i % 8 else [], "page_subcont_regions": sorted(places)}
        records.append({"page_id": page, **DISCRETE, **labels})
    for name, rows in (
        ("trec_corpus_20220301_plain", pages),
        ("trec_2022_articles_discrete", records),
    ):
        with gzip.open(folder / f"{name}.json.gz", "wt", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
    columns = {
        "id": list(range(1, TOPICS + 1)),
        "title": [own[3 * t].title() for t in range(TOPICS)],
        "keywords": [str(own[3 * t : 3 * t + 3]) for t in range(TOPICS)],
        "rel_docs": [str(found) for found in relevant],
    }
    table = {k: {str(i): v for i, v in enumerate(values)} for k, values in columns.items()}
    (folder / "train_topics_meta.jsonl").write_text(json.dumps(table), encoding="utf-8")
    return folder
