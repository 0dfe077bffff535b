"""TREC Fair Ranking 2021 in small files of the track's form, as ir_datasets reads them."""

import contextlib
import json

import ir_datasets
import pytest
from ir_datasets.datasets.trec_fair import (
    FairTrecDocs,
    FairTrecEvalQuery,
    FairTrecQrels,
    FairTrecQueries,
)

PLACES = {
    1: ["Europe"],
    2: ["Europe", "Asia"],
    3: [],
    4: ["Africa"],
    5: ["Oceania", "Oceania"],
}
TOPICS = [
    {
        "id": 101,
        "title": "Bridges",
        "keywords": ["bridge", "tunnel"],
        "scope": "s",
        "rel_docs": [1, 2, 3, 2],
    },
    {"id": 102, "title": "Chess", "keywords": ["chess"], "scope": "s", "rel_docs": [4]},
]


class Local:
    """A file as ir_datasets' downloads are read."""

    def __init__(self, path):
        self._path = path

    @contextlib.contextmanager
    def stream(self):
        with self._path.open("rb") as stream:
            yield stream

    def path(self, force=True):
        return self._path


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return Local(path)


@pytest.fixture(name="dataset")
def dataset_fixture(tmp_path, monkeypatch):
    """Return a dataset of two topics and five articles."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    docs = [
        {"id": n, "title": f"Page {n}", "text": f"the '''bridge''' [[tunnel]] {n}", "url": "u"}
        for n in PLACES
    ]
    pages = [
        {"page_id": n, "quality_score": 0.5, "quality_score_disc": "C", "geographic_locations": g}
        for n, g in PLACES.items()
    ]
    pages.append({**pages[0], "geographic_locations": ["Asia"]})  # a second record does not count
    topics = write(tmp_path / "topics.jsonl", TOPICS)
    made = ir_datasets.Dataset(
        FairTrecDocs(
            write(tmp_path / "docs.jsonl", docs), write(tmp_path / "metadata.jsonl", pages)
        ),
        FairTrecQueries(topics, FairTrecEvalQuery),
        FairTrecQrels(topics),
    )
    made._dataset_id = "trec-fair/2021/eval"
    monkeypatch.setattr(made, "dataset_id", lambda: "trec-fair/2021/eval", raising=False)
    return made
