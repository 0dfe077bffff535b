"""The error of `fairtk doctor` names the files that cannot be used."""

import pytest

NAMES = {"qrels": "labels.txt", "first": "a.run", "second": "b.run", "groups": "side.tsv"}


@pytest.mark.parametrize("broken", NAMES)
def test_the_error_names_the_files_with_errors(broken, fairtk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {
        "qrels": "q1 0 d1 1\nq1 0 d2 0\n",
        "first": "q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n",
        "second": "q1 Q0 d2 1 2.0 t\nq1 Q0 d1 2 1.0 t\n",
        "groups": "docno\tgroup\nd1\tx\nd2\ty\n",
    }
    texts[broken] = ""
    for what, name in NAMES.items():
        (tmp_path / name).write_text(texts[what])
    result = fairtk("doctor", *list(NAMES.values())[:3], "--groups", NAMES["groups"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"Error: {NAMES[broken]}: ")
