"""Commands print tables or a reason for every subset of their options, never an internal error."""

from __future__ import annotations

import pytest
from command_options import option_words, pairs_of_options, single_options, unexpected

LABELS = {"1": "1100", "2": "0101", "3": "0010"}  # of a, b, c, d
FIRST = {"1": "abcd", "2": "cdab", "3": "bad"}
SECOND = {"1": "dcba", "2": "ab", "3": "cab"}
SAMPLED = {"1": ["ab", "ba"], "2": ["cd", "ac"], "3": ["bc", "ca"]}

VALUES = {
    "x": ("EE_D@2", "EU(utility='rougeL')", "AWRF@2", "nDCG@2", "unknown", ""),
    "y": ("EE_L@2", "EU(utility='rougeL')", "AWRF@2", "EE_D@5", "unknown", ""),
    "measures": ("EE_D@2", "AWRF@2", "EU(utility='rougeL')", "E(nDCG@2)", "unknown", ""),
    "alphas": ("0", "2", "-1", "nan"),
    "answers": ("answers.tsv", "plain:1=answers.tsv", "1=answers.tsv", "labels.txt", "none.tsv"),
    "gold": ("gold.tsv", "labels.txt", "none.tsv"),
    "groups": ("groups.tsv", "side=groups.tsv", "others.tsv", "none.tsv"),
    "target": ("uniform", "population", "relevance", "target.tsv", "groups.tsv", "unknown"),
    "providers": ("groups.tsv", "others.tsv", "labels.txt", "none.tsv"),
    "browsing": ("MU", "RBP(p=0.5)", "DCG", "unknown", ""),
    "n_samples": ("-1", "0", "1", "3"),
    "queries": ("-1", "0", "1", "2"),
    "resamples": ("0", "1", "20", "-1"),
    "plot": ("out.svg", "out.unknown"),
    "page": ("out.html", "none/out.html"),
    "output": ("out.csv", "none/out.csv"),
}
ARGUMENTS = {
    "one run": ["labels.txt", "plain.run"],
    "two runs": ["labels.txt", "plain.run", "other.run"],
    "a sampled run": ["labels.txt", "sampled.run"],
    "a sampled run and another": ["labels.txt", "sampled.run", "plain.run"],
    "one query": ["one.txt", "one.run"],
    "one query, two runs": ["one.txt", "one.run", "plain.run"],
    "no useful document": ["useless.txt", "plain.run", "other.run"],
    "other queries": ["labels.txt", "elsewhere.run"],
    "other queries in one run": ["labels.txt", "plain.run", "elsewhere.run"],
    "an empty run": ["labels.txt", "empty.run"],
    "no labels": ["empty.run", "plain.run"],
    "a run twice": ["labels.txt", "plain.run", "plain.run"],
}
GIVEN = {
    "frontier": ["-x", "EE_D@2", "--resamples", "20", "-a", "0", "-a", "4"],
    "sensitivity": ["-m", "EE_D@2"],
    "providers": ["--providers", "groups.tsv"],
}


def _lines(ranking, qid, sample="Q0"):
    pairs = enumerate(ranking)
    return "".join(f"{qid} {sample} {d} {rank} {9 - rank} t\n" for rank, d in pairs)


@pytest.fixture
def world(folder):
    """A folder with the files of `VALUES` and `ARGUMENTS`."""
    runs = {"plain": FIRST, "other": SECOND, "one": {"1": "abcd"}, "elsewhere": {"9": "abcd"}}
    for name, rankings in runs.items():
        text = "".join(_lines(ranking, qid) for qid, ranking in rankings.items())
        (folder / f"{name}.run").write_text(text)
    sampled = [
        _lines(ranking, qid, sample)
        for qid, rankings in SAMPLED.items()
        for sample, ranking in enumerate(rankings)
    ]
    (folder / "sampled.run").write_text("".join(sampled))
    (folder / "empty.run").write_text("")
    files = {"labels": LABELS, "one": {"1": "1100"}, "useless": dict.fromkeys("123", "0000")}
    for name, labels in files.items():
        rows = [
            f"{qid} 0 {d} {label}\n"
            for qid, digits in labels.items()
            for d, label in zip("abcd", digits, strict=True)
        ]
        (folder / f"{name}.txt").write_text("".join(rows))
    answers = [f"{qid}\t{sample}\tred {sample}\n" for qid in "123" for sample in (0, 1)]
    (folder / "answers.tsv").write_text("qid\tsample\tqanswer\n" + "".join(answers))
    (folder / "gold.tsv").write_text("qid\tgold_answer\n1\tred\n2\tblue\n3\tred 1\n")
    (folder / "groups.tsv").write_text("docno\tgroup\na\tleft\nb\tright\nc\tleft\n")
    (folder / "others.tsv").write_text("docno\tgroup\nx\tleft\ny\tright\n")
    (folder / "target.tsv").write_text("group\tweight\nleft\t1\nright\t3\n")
    return folder


def _failures(fairtk, command, cases):
    """Return the command lines of cases that end neither with a table nor with a reason."""
    failures = {}
    for words in cases:
        problem = unexpected(fairtk(command, *words), writes_file="--output" in words)
        if problem:
            failures[" ".join([command, *words])] = problem
    return failures


def _base(command, files="two runs"):
    """Return arguments and options that a command can run with, and quickly."""
    if command == "demo":
        return ["-n", "2", "--queries", "1", "--no-write"]
    words = ARGUMENTS["one run" if command == "providers" and files == "two runs" else files]
    return [*words, *GIVEN[command]]


@pytest.mark.parametrize("command", GIVEN)
def test_one_query_and_empty_files(fairtk, world, command):
    cases = [_base(command, name) for name in ("one query", "an empty run", "no labels")]
    assert _failures(fairtk, command, cases) == {}


@pytest.mark.slow
@pytest.mark.parametrize("command", GIVEN)
def test_each_kind_of_files(fairtk, world, command):
    files = [name for name, words in ARGUMENTS.items() if command != "providers" or len(words) == 2]
    assert _failures(fairtk, command, [_base(command, name) for name in files]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("command", [*GIVEN, "demo"])
def test_single_options(fairtk, world, command):
    if command == "demo":
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    options = single_options(option_words(command, VALUES))
    assert _failures(fairtk, command, [[*_base(command), *words] for words in options]) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("command", GIVEN)
def test_single_options_on_one_query(fairtk, world, command):
    options = single_options(option_words(command, VALUES))
    cases = [[*_base(command, "one query"), *words] for words in options]
    assert _failures(fairtk, command, cases) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("command", [*GIVEN, "demo"])
def test_pairs_of_options(fairtk, world, command):
    pairs = pairs_of_options(option_words(command, VALUES))
    assert _failures(fairtk, command, [[*_base(command), *words] for words in pairs]) == {}
