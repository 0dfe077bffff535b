"""An invented collection of biographies in the official format of TREC Fair Ranking 2022.

python -m fairtk.demo.invented_people FOLDER
"""

from __future__ import annotations

import gzip
import json
import sys
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fairtk.llm import KeywordRefiner

SUBJECTS = {
    "Sailing": ["sailor", "regatta", "harbor"],
    "Chess": ["chess", "endgame", "grandmaster"],
    "Botany": ["botanist", "herbarium", "moss"],
    "Ceramics": ["potter", "kiln", "glaze"],
    "Cycling": ["cyclist", "velodrome", "sprint"],
    "Astronomy": ["astronomer", "comet", "telescope"],
}
REGIONS = ["Northern America", "Western Europe", "Eastern Asia", "Western Africa", "South America"]
FILLER = ["quiet", "early", "third", "river", "school", "prize"]


def write_invented_folder(folder: str | PathLike[str], n: int = 360) -> None:
    """Write corpus, metadata and topics in the format of the track.

    As in real collections, groups differ in size, some labels are missing, and query terms are
    more frequent in the relevant articles of some groups than of others. The words of an article
    also indicate gender and region.
    """
    rng = np.random.default_rng(4)
    folder = Path(folder)
    folder.mkdir(parents=True)
    terms = KeywordRefiner().table
    pages: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    relevant: dict[str, list[int]] = {title: [] for title in SUBJECTS}
    for page in range(1000, 1000 + n):
        title = list(SUBJECTS)[page % len(SUBJECTS)]
        woman = rng.random() < 0.35
        region = rng.choice(len(REGIONS), p=[0.4, 0.3, 0.14, 0.08, 0.08])
        # articles with more occurrences of the terms rank higher
        often = 2 + 2 * (not woman) + 2 * (region < 2)
        words = rng.choice(SUBJECTS[title], size=1 + rng.poisson(often))
        about = [
            *rng.choice(terms["female" if woman else "male"][:4], size=3),
            *rng.choice(terms[REGIONS[region]][:5], size=2),
        ]
        text = " ".join(rng.permutation([*words, *about, *rng.choice(FILLER, size=30)]))
        pages.append({"id": page, "title": f"Person {page}", "url": "", "plain": text})
        if rng.random() < 0.75:
            relevant[title].append(page)  # the others only mention the subject
        if rng.random() < 0.03:
            continue  # an article without metadata
        gender = ["female" if woman else "male"] if rng.random() < 0.85 else []
        gender = ["non-binary"] if rng.random() < 0.03 else gender
        places = [REGIONS[region]] if rng.random() < 0.8 else []
        if rng.random() < 0.1:
            places = [*places, REGIONS[rng.integers(5)]]  # about two places
        records.append(
            {
                "page_id": page,
                "qual_cat": str(rng.choice(["Stub", "Start", "C", "B"])),
                "page_subcont_regions": sorted(set(places)),
                "source_subcont_regions": {p: int(rng.integers(1, 5)) for p in places},
                "gender": gender,
                "occupations": ["athlete" if title in ("Sailing", "Cycling") else "scientist"],
                "first_letter_category": "l-r",
                "creation_date_category": str(rng.choice(["2001-2006", "2012-2016"])),
                "relative_pageviews_category": str(rng.choice(["Low", "High"])),
                "num_sitelinks_category": str(rng.choice(["English only", "5+ languages"])),
            }
        )
    for name, rows in (
        ("trec_corpus_20220301_plain", pages),
        ("trec_2022_articles_discrete", records),
    ):
        with gzip.open(folder / f"{name}.json.gz", "wt", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
    columns = {
        "id": range(1, len(SUBJECTS) + 1),
        "title": list(SUBJECTS),
        "keywords": [str(words) for words in SUBJECTS.values()],
        "rel_docs": [str(docno) for docno in relevant.values()],
    }
    table = {k: {str(i): v for i, v in enumerate(values)} for k, values in columns.items()}
    (folder / "train_topics_meta.jsonl").write_text(json.dumps(table), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or Path(sys.argv[1]).exists():
        sys.exit("usage: python -m fairtk.demo.invented_people FOLDER (a new one)")
    write_invented_folder(sys.argv[1])
