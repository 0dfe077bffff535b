"""The invented articles about people: what they are about, and what their metadata say."""

import gzip
import json

from fairtk.demo.invented_people import SUBJECTS, write_invented_folder


def test_sailors_and_cyclists_are_athletes(tmp_path):
    folder = tmp_path / "people"
    write_invented_folder(folder, n=60)
    subjects = list(SUBJECTS)
    found = set()
    for path in folder.glob("*.json.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            for row in map(json.loads, stream):
                if "occupations" in row:  # pages are about the subjects in turn
                    found.add((subjects[row["page_id"] % len(subjects)], *row["occupations"]))
    assert found == {
        (subject, "athlete" if subject in ("Sailing", "Cycling") else "scientist")
        for subject in subjects
    }
