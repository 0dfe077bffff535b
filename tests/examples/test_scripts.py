"""The scripts in `examples` run from start to end, on the demo and on small invented files."""

import gzip
import importlib
import json
import re
import sys

import pandas as pd
import pytest

import fairtk

pytestmark = pytest.mark.slow
DEMO = fairtk.demo.collection_folder()


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs a script and returns its output."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        importlib.import_module(name).main()
        return capsys.readouterr().out

    return run


def row(output, name):
    """Return the numbers in the line that starts with a name."""
    line = re.search(rf"^{re.escape(name)} .*$", output, flags=re.MULTILINE).group()
    return [float(x) for x in re.findall(r"-?\d+\.\d+", line[len(name) :])]


def test_lamp_folder(run, tmp_path):
    output = run(
        "lamp_folder", DEMO, "--task", 2, "--queries", 6, "--samples", 20, "--out", tmp_path
    )
    assert (tmp_path / "lamp_folder.png").stat().st_size > 10_000
    means = pd.read_csv(tmp_path / "means.csv", index_col="name")
    disparity = means.loc[["alpha 1", "alpha 2", "alpha 4", "alpha 8", "deterministic"], "EE_D@5"]
    assert disparity.is_monotonic_increasing
    falls = re.findall(r"^alpha \d -> alpha \d: .*, (\d+), (\d+)$", output, flags=re.MULTILINE)
    assert [clear for _, clear in falls] == ["0", "0", "0"]
    assert means.loc["oracle", "EE_R@5"] == pytest.approx(1)


def test_lamp_folder_refuses_one_sample_and_an_empty_folder(run, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run("lamp_folder", DEMO, "--task", 2, "--samples", 1)
    assert "--samples" in capsys.readouterr().err
    with pytest.raises(fairtk.errors.InputError, match="dev_questions.json"):
        run("lamp_folder", tmp_path, "--task", 2)


def test_headline_on_the_demo(run):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    output = run("headline_pisa", "--queries", 4, "--samples", 5)
    fixed, sampled = row(output, "EE_D(n=2866)@5")  # n is the size of the index
    assert fixed == 1
    assert sampled < 0.8


def test_headline_on_files_of_trec_fair(run, tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    subjects = ("juggler of lamps", "painter of lamps", "juggler of plates")
    pages = [
        {"id": 100 + i, "title": f"Person {i}", "url": "", "plain": f"a {subjects[i % 3]} no {i}"}
        for i in range(9)
    ]
    with gzip.open(tmp_path / "corpus.json.gz", "wt", encoding="utf-8") as stream:
        # the second record of an id does not count
        stream.writelines(json.dumps(page) + "\n" for page in [*pages, pages[0]])
    topics = {
        "id": [1, 2],
        "title": ["Jugglers", "Lamps"],
        "keywords": ["['juggler', 'plates']", "['lamps', 'painter']"],
        "rel_docs": ["[100, 102, 103, 105]", "[101, 104]"],
    }
    pd.DataFrame(topics).to_json(tmp_path / "topics.jsonl")
    files = [tmp_path / "corpus.json.gz", tmp_path / "topics.jsonl"]
    assert row(run("headline_pisa", *files, "--samples", 5), "EE_D(n=9)@5")[0] == 1
    with pytest.raises(SystemExit):
        run("headline_pisa", files[0])


@pytest.mark.filterwarnings("ignore:BM25Scorer. all scores:fairtk.errors.DataWarning")
def test_multihop_credit(run, tmp_path):
    """Invented questions whose supporting document alone shares words with question and answer."""
    texts = ["Lamps are made in Ulm. The lamps of Ulm are red.", "A cook. He is old.", "It rains."]
    lines = [
        {
            "qid": f"q{i}",
            "question": "Which color have the lamps of Ulm?",
            "answer": "red",
            "documents": [
                {"docno": f"q{i}/{j}", "title": f"T{j}", "text": text, "supporting": j == 0}
                for j, text in enumerate(texts)
            ],
        }
        for i in range(2)
    ]
    lines[1]["documents"].reverse()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "questions.jsonl").write_text(text, encoding="utf-8")
    output = run("multihop_credit", tmp_path)
    for maker in ("shapley", "one-out", "citations", "max-shapley"):
        assert row(output, maker)[0] == 1
