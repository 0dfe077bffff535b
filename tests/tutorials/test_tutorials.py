"""The tutorials run from start to end, draw their figures, and print what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import fairtk

ROOT = Path(__file__).parents[2]
DEMO = fairtk.demo.collection_folder()

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a tutorial and returns its output."""

    def run(name, *arguments, fails=False):
        environment = os.environ | {
            "FAIRTK_TUTORIAL_FAST": "1",
            "FAIRTK_TUTORIAL_OUT": str(tmp_path),
            "MPLBACKEND": "Agg",
            "TMPDIR": str(tmp_path),
        }
        script = ROOT / ("tutorials" if name[0].isdigit() else "examples") / name
        result = subprocess.run(
            [sys.executable, str(script), *map(str, arguments)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert (result.returncode != 0) == fails, result.stdout + result.stderr
        return result.stderr if fails else result.stdout

    return run


def is_figure(path):
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 10_000


def row(output, name):
    """Return the numbers in the line that starts with a name."""
    line = re.search(rf"^{re.escape(name)} .*$", output, flags=re.MULTILINE).group()
    return [float(x) for x in re.findall(r"-?\d+\.\d+", line[len(name) :])]


def test_evaluate_a_run(run, tmp_path):
    output = run("01_evaluate_a_run.py")
    for figure in ("01_exposure.png", "01_disparity.png"):
        assert is_figure(tmp_path / figure)
    # the command line: a fixed ranking is as uneven as can be, and alpha orders the others
    disparity = [row(output, name)[0] for name in ("bm25", "alpha8", "alpha2", "alpha0")]
    assert disparity[0] == 1
    assert disparity == sorted(disparity, reverse=True)
    # by hand and by fairtk
    for by_hand, measured in re.findall(r"by hand ([\d.]+), fairtk ([\d.]+)", output):
        assert by_hand == measured
    # exact bounds: uniform sampling is close to 0, the fixed ranking is at 1
    assert row(output, "0 ")[1] < 0.02
    assert row(output, "BM25") == [1, 1]
    # the bias of EE_D
    for measured, expected in re.findall(r"N = +\d+: ([\d.]+); expected ([\d.]+)", output):
        assert float(measured) == pytest.approx(float(expected), abs=0.01)
    assert "write E(nDCG@5) for the mean over samples" in " ".join(output.split())
    expectation, mean = re.search(r"E\(nDCG@5\): ([\d.]+); mean of .*: ([\d.]+)", output).groups()
    assert expectation == mean


def test_fair_rag_pipeline(run, tmp_path):
    output = run("02_fair_rag_pipeline.py")
    for figure in ("02_relevance.png", "02_utility.png"):
        assert is_figure(tmp_path / figure)
    assert "FairSampler" in (tmp_path / "02_pipeline.html").read_text(encoding="utf-8")
    means = pd.read_csv(tmp_path / "02_means.csv", index_col="system")
    assert means.notna().all(axis=None)
    disparity = means.loc[
        ["alpha 0", "alpha 2", "alpha 8", "deterministic"], "EE_D(estimator='unbiased')@5"
    ]
    assert disparity.is_monotonic_increasing
    answers = "EU(utility='accuracy')"
    assert means.loc["oracle", "E(nDCG@5)"] == pytest.approx(1)
    assert means.loc["oracle", answers] > means.loc["alpha 0", answers]
    # three ways to run the same experiment
    rows = [row(output, name) for name in ("all at once", "batch_size=3", "plan='tree'")]
    assert rows[0] == rows[1] == rows[2]
    assert "WHO IS SEEN?" in output


def test_fair_qr(run, tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    output = run("05_fair_qr.py")
    assert is_figure(tmp_path / "05_trace.png")
    assert "replayed offline, the same ranking: True" in output and "paid: 0 calls" in output
    # columns: nDCG, (p), AWRF, (p), product, (p); the baseline and the no-op have no p-value
    base, last = row(output, "bm25"), row(output, "pool=last")
    assert row(output, "pool=union") == base
    assert last[2] > base[1]  # nearer to the target
    unevenness = "EE_D(estimator='unbiased')@5"
    chain = {name: row(output, name) for name in ("AWRF by origin @5", unevenness)}
    assert chain["AWRF by origin @5"][1] > chain["AWRF by origin @5"][0]
    assert all(0 < value < 1 for value in chain[unevenness])  # sampled, and not uniform
    assert len(row(output, "EU(utility='accuracy')")) == 2
    [study] = tmp_path.glob("fairtk-fair-qr-*/study")
    table = pd.read_csv(study / "table.csv").set_index(["attribute", "system"])
    assert table.loc[("gender", "bm25"), "AWRF"] == pytest.approx(base[1], abs=5e-5)
    assert table.loc[("gender", "fair-qr"), "AWRF"] == pytest.approx(last[2], abs=5e-5)
    assert (study / "report.md").exists()


def test_lamp_folder(run, tmp_path):
    out = tmp_path / "study"
    output = run("lamp_folder.py", DEMO, "--task", 2, "--queries", 6, "--samples", 20, "--out", out)
    assert is_figure(out / "lamp_folder.png")
    means = pd.read_csv(out / "means.csv", index_col="name")
    disparity = means.loc[["alpha 1", "alpha 2", "alpha 4", "alpha 8", "deterministic"], "EE_D@5"]
    assert disparity.is_monotonic_increasing
    assert "rises with alpha: yes" in output
    falls = re.findall(r"^alpha \d -> alpha \d: .*, (\d+), (\d+)$", output, flags=re.MULTILINE)
    assert [clear for _, clear in falls] == ["0", "0", "0"]
    assert means.loc["oracle", "EE_R@5"] == pytest.approx(1)
    assert all(stage in output for stage in ("retrieve", "sample", "generate", "measure"))


def test_lamp_folder_says_what_is_wrong(run, tmp_path):
    assert "--samples must be at least 2" in run(
        "lamp_folder.py", DEMO, "--task", 2, "--samples", 1, fails=True
    )
    assert "dev_questions.json" in run("lamp_folder.py", tmp_path, "--task", 2, fails=True)


def test_headline_on_the_demo(run):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    output = run("headline_pisa.py", "--queries", 4, "--samples", 5)
    assert "index of 2866 documents" in output
    fixed, sampled = row(output, "EE_D(n=2866)@5")
    assert fixed == 1
    assert sampled < 0.8


def test_headline_on_files_like_trec_fairs(run, tmp_path):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    corpus, topics = write_trec_fair(tmp_path)
    output = run("headline_pisa.py", corpus, topics, "--samples", 5)
    assert "read 9 documents, 2 topics" in output
    assert row(output, "EE_D(n=9)@5")[0] == 1
    assert "give both CORPUS and TOPICS" in run("headline_pisa.py", corpus, fails=True)


def write_trec_fair(folder):
    """Write an invented collection in the form of TREC Fair Ranking 2022."""
    import gzip
    import json

    subjects = ("juggler of lamps", "painter of lamps", "juggler of plates")
    pages = [
        {"id": 100 + i, "title": f"Person {i}", "url": "", "plain": f"a {subjects[i % 3]} no {i}"}
        for i in range(9)
    ]
    corpus = folder / "corpus.json.gz"
    with gzip.open(corpus, "wt", encoding="utf-8") as stream:
        # the second record of an id does not count
        stream.writelines(json.dumps(page) + "\n" for page in [*pages, pages[0]])
    columns = {
        "id": [1, 2],
        "title": ["Jugglers", "Lamps"],
        "keywords": ["['juggler', 'plates']", "['lamps', 'painter']"],
        "rel_docs": ["[100, 102, 103, 105]", "[101, 104]"],
    }
    topics = folder / "topics.jsonl"
    by_row = {name: {str(i): v for i, v in enumerate(values)} for name, values in columns.items()}
    topics.write_text(json.dumps(by_row), encoding="utf-8")
    return corpus, topics


def test_towards_fair_rag(run, tmp_path):
    output = run("06_towards_fair_rag.py")
    for figure in ("06_disparity_and_utility.png", "06_spread.png"):
        assert is_figure(tmp_path / figure)
    fixed, uniform = re.search(r"uniform sampling: ([\d.]+) -> ([\d.]+)", output).groups()
    assert float(uniform) < float(fixed)
    assert "2_relevance_mapping.tsv" in output
    (page,) = re.findall(r"fairtk report (.*)", output)
    assert list(tmp_path.rglob(f"{page}/sections.json"))


def test_production(run, tmp_path):
    output = run("07_production.py")
    assert is_figure(tmp_path / "07_requests.png")
    for said in ("the same ranking", "another draw", "as uneven as can be"):
        assert re.search(rf"{said}: True", output)
    disparity = [float(v) for v in re.findall(r"requests: EE_D ([\d.]+)", output)]
    assert disparity[-1] < disparity[1] < disparity[0] == 1


def test_how_sure_are_we(run, tmp_path):
    output = run("08_how_sure_are_we.py")
    for figure in ("08_frontier.png", "08_utility.png", "08_sensitivity.png"):
        assert is_figure(tmp_path / figure)
    assert "10 rows cannot be used" in output
    assert "3 of them agree if a '.0' at the end is dropped" in output
    assert output.count("not usable as it is") == 1  # the run as it should be is usable
    # the plain estimate comes down to the exact value, the unbiased one is near it from the start
    exact = row(output, "      exact")[0]
    plain = [row(output, f"{n} samples")[0] for n in ("  5", " 20", "100")]
    assert plain == sorted(plain, reverse=True) and plain[-1] > exact
    assert row(output, "  5 samples")[2] == pytest.approx(exact, abs=0.06)
    areas = dict(re.findall(r"^(\w+): area ([\d.]+)", output, flags=re.MULTILINE))
    assert float(areas["bm25"]) > float(areas["newest"])
    assert "EE_R@5: bm25 wins" in output


def test_credit(run, tmp_path):
    output = run("09_credit.py")
    assert is_figure(tmp_path / "09_credit.png")
    assert "the maximum game: [0.4, 0.4, 0.1]" in output
    asked, distinct = map(int, re.search(r"(\d+) lists, (\d+) distinct", output).groups())
    assert asked == 3 * 3 * 32 and 0 < distinct < asked
    credit = re.search(r"docno +rank +credit\n((?:.*\n){5})", output).group(1).split()[2::3]
    assert credit == ["0.5", "1.0", "0.0", "0.0", "0.5"]  # [1], [1, 2] and [2], [5]: halves
    assert "BM25, credit" in output and "credit sum" in output
    # five documents, one ranking: exposure as even as it can be
    assert re.search(r"deterministic +AE_D +0\.200 ", output)


def test_multihop_credit(run, tmp_path):
    """Invented questions whose supporting document alone shares words with question and answer."""
    import json

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
    output = run("multihop_credit.py", tmp_path)
    assert "2 questions, 6 documents, 2 of them supporting" in output
    for maker in ("shapley", "one-out", "citations", "max-shapley"):
        assert row(output, maker)[0] == 1
