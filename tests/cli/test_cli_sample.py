"""`fairtk sample`, and the order of files on the command line."""

import pytest

from fairtk import FairSampler
from fairtk.io import read_qrels, read_run

SCORES = {"a": 0.9, "b": -0.2, "c": -0.7}
"""Cosines."""


@pytest.fixture
def dense(folder):
    lines = [f"{q} Q0 {d} {i + 1} {s} t\n" for q in ("q1", "q2") for i, (d, s) in
             enumerate(SCORES.items())]  # fmt: skip
    (folder / "dense.run").write_text("".join(lines))
    return folder


def error(result):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    [line] = result.stderr.strip().splitlines()
    return line.removeprefix("Error: ")


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["--alpha", "2", "--seed", "7"], {"alpha": 2, "seed": 7}),
        (["-a", "0", "--method", "stratified"], {"alpha": 0, "method": "stratified"}),
        (["--target-disparity", "0.8"], {"target_disparity": 0.8}),
        (["--max-relevance-loss", "0.1", "--qrels", "scores"],
         {"max_relevance_loss": 0.1, "relevance": "scores"}),
        (["--max-relevance-loss", "0.1", "--qrels", "qrels.txt"],
         {"max_relevance_loss": 0.1, "relevance": "qrels.txt"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".run.gz", ".parquet"])
def test_the_same_as_in_python(dense, fairtk, words, settings, suffix):
    result = fairtk(
        "sample", "dense.run", "-o", f"out{suffix}", "-n", "30", "-k", "2", "--strict", *words
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == f"out{suffix}: 30 rankings for each of 2 queries\n"
    if settings.get("relevance") == "qrels.txt":
        settings = settings | {"relevance": read_qrels("qrels.txt")}
    expected = FairSampler(n_samples=30, cutoff=2, **settings)(read_run("dense.run"))
    columns = ["qid", "sample", "docno", "rank", "score"]
    assert read_run(f"out{suffix}")[columns].equals(expected[columns])


def test_standard_output_is_a_run(dense, fairtk):
    drawn = fairtk("sample", "dense.run", "-o", "-", "-n", "3", "-k", "1").stdout
    assert [line.split()[1] for line in drawn.splitlines()] == ["0", "1", "2"] * 2
    result = fairtk("evaluate", "qrels.txt", "-", "-m", "EE_D@1", stdin=drawn)
    assert result.exit_code == 0, result.output


def test_a_wrong_setting_is_one_line_and_nothing_is_written(dense, fairtk):
    words = ("sample", "dense.run", "-o", "out.run", "--target-disparity", "0.5")
    assert "--cutoff 5" in error(fairtk(*words))
    assert not (dense / "out.run").exists()


def test_standard_input_is_read(dense, fairtk):
    drawn = [
        fairtk("sample", name, "-o", "-", "-n", "2", stdin=(dense / "dense.run").read_text()).stdout
        for name in ("-", "dense.run")
    ]
    assert drawn[0] == drawn[1] != ""


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "-m", "EE_D@1"],
        ["compare", "-m", "EE_D@1"],
        ["frontier"],
        ["sensitivity", "-m", "EE_D@1"],
        ["explain", "-m", "EE_L@1"],
    ],
)
def test_a_swapped_pair_is_said(folder, fairtk, words):
    more = ["fair.run"] if words[0] == "sensitivity" else []
    message = error(fairtk(words[0], "plain.run", "qrels.txt", *more, *words[1:]))
    assert message.startswith("plain.run:1: ") and message.endswith("qrels come first")


def test_the_doctor_says_a_swapped_pair(folder, fairtk):
    result = fairtk("doctor", "plain.run", "qrels.txt")
    assert result.exit_code != 0
    assert (result.stdout + result.stderr).count("qrels come first") == 2


def test_other_errors_say_nothing_of_the_order(folder, fairtk):
    (folder / "broken.run").write_text("q1 Q0 a\n")
    for files in (["qrels.txt", "broken.run"], ["none", "plain.run"]):
        assert "come first" not in fairtk("evaluate", *files, "-m", "EE_D@1").stderr


def test_a_run_without_rows_is_not_taken_for_a_sampled_one(dense, fairtk):
    (dense / "none.run").write_text("")
    result = fairtk("sample", "none.run", "-o", "out.run")
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        "warning: data: none.run: no rows\nout.run: 100 rankings for each of 0 queries\n"
    )
