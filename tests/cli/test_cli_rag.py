"""fairtk rag on the packaged collection and model."""

import pytest

from fairtk import demo

FOLDER, MODEL = str(demo.collection_folder()), f"t5:{demo.model_folder()}"


@pytest.mark.slow
def test_from_files_to_tables(tmp_path, fairtk):
    asked = [FOLDER, "-t", 2, "-g", MODEL, "-n", 2, "-a", 0, "-a", 8, "--limit", 4]
    asked += ["-o", tmp_path / "out"]
    plan = fairtk("rag", *map(str, asked), "--dry-run", "--speed", 100)
    assert plan.exit_code == 0 and "Hours: about" in plan.stdout
    assert not (tmp_path / "out").exists()
    found = fairtk("rag", *map(str, asked))
    assert found.exit_code == 0, found.output
    assert "deterministic" in found.stdout and "Tables and figures: " in found.stdout
    (model,) = (tmp_path / "out").glob("settings/*/models/*")
    page = tmp_path / "page.html"
    shown = fairtk("report", str(model), "-o", str(page))
    assert shown.exit_code == 0, shown.output
    assert "Utility by level of exposure" in page.read_text(encoding="utf-8")
    assert len(list((tmp_path / "out").glob("settings/*/figures/*.pdf"))) == 4
    status = fairtk("rag", *map(str, asked), "--status", "--format", "csv")
    missing = [line.rsplit(",", 1)[1] for line in status.stdout.splitlines()[1:]]
    assert set(missing) == {"0"}
    again = fairtk("rag", *map(str, asked), "--format", "json")
    assert again.stdout.startswith("[")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([FOLDER], "which of LaMP's tasks is it"),
        ([FOLDER, "-t", 4], "(LaMP-4 questions): query"),
        (["lamp/4/deev"], "lamp/4/dev"),
        ([FOLDER, "-t", 2, "-r", "bm52"], "did you mean 'bm25'"),
        ([FOLDER, "-t", 2, "-g", "gpt"], "generator"),
        ([FOLDER, "-t", 2, "-a", 1, "-a", 1], "alpha 1 is given twice"),
        ([FOLDER, "-t", 2, "-n", 0], "n_samples"),
    ],
)
def test_bad_input_is_one_line(fairtk, arguments, said):
    found = fairtk("rag", *map(str, arguments), "--dry-run")
    assert found.exit_code == 2
    assert said in found.stderr and "Traceback" not in found.stderr
