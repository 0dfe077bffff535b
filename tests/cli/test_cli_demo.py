import json
import shutil

import pytest


@pytest.mark.slow
def test_the_whole_study(fairtk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    result = fairtk("demo", "--queries", "2", "--samples", "3")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("alpha ") and max(map(len, lines)) <= 80 + len("...")
    assert [line.split()[0] for line in lines[2:8]] == ["0", "1", "2", "4", "8", "deterministic"]
    assert all(0 <= float(cell) <= 1 for line in lines[2:8] for cell in line.split()[1:])
    assert lines[-1]
    assert result.stderr.count("\n  fairtk ") == 3  # commands to try next
    first = " ".join(result.stderr.splitlines()[:2])
    assert "3 rankings for each of at most 2 queries" in first and "about half a minute" in first
    assert "<svg" in (tmp_path / "fairtk-demo" / "demo.svg").read_text()
    page = (tmp_path / "fairtk-demo" / "demo.html").read_text()
    assert "at random (uniform)" in page and "MIT" in page
    assert "Figure: fairtk-demo/demo.svg\nPage: fairtk-demo/demo.html\n" in result.stderr
    shutil.rmtree(tmp_path / "fairtk-demo")

    words = ["demo", "--queries", "2", "--samples", "3", "--no-write", "--format", "json"]
    rows = json.loads(fairtk(*words).stdout)
    assert not list(tmp_path.iterdir())
    assert [row["alpha"] for row in rows] == [0, 1, 2, 4, 8, "deterministic"]


def test_settings_out_of_range(fairtk):
    for words in (["--samples", "0"], ["--queries", "0"], ["--queries", "many"]):
        result = fairtk("demo", *words)
        assert result.exit_code == 2
        assert words[0] in result.stderr
