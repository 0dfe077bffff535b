"""Shares of providers and groups in several systems, next to each other."""

import pandas as pd
import pytest
from click.testing import CliRunner

import fairtk
from fairtk import credit
from fairtk.cli.group import cli
from fairtk.errors import ParameterError

pytest.importorskip("matplotlib")

QRELS = pd.DataFrame({"qid": ["1", "1", "2", "2"], "docno": list("abcd"), "label": [1, 1, 1, 0]})
OWNERS = {"a": "Kim", "b": "Lee", "c": "Kim", "d": "Roy"}


def run(*order):
    rows = [
        (q, d, 9.0 - i) for q, docs in zip("12", order, strict=True) for i, d in enumerate(docs)
    ]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


RUNS = {"first": run("ab", "cd"), "second": run("ba", "dc")}


def results(cutoff=1):
    return {
        n: credit.providers(QRELS, r, OWNERS, cutoff=cutoff, resamples=20) for n, r in RUNS.items()
    }


def widths(figure):
    """Return the lengths of the bars by system, from the top, and the places of the marks."""
    [axes] = figure.axes
    bars = {box.get_label(): [bar.get_width() for bar in box] for box in axes.containers}
    marks = [line[0][0] for one in axes.collections for line in one.get_segments()]
    return [label.get_text() for label in axes.get_yticklabels()], bars, marks


def test_bars_are_shares_and_marks_are_merit():
    """At rank 1, first shows a and c, both of Kim; second shows b of Lee and d of Roy.

    The ideal policy shows a and b half of the time each, and c: Kim has (1/2 + 1) / 2 = 3/4.
    """
    names, bars, marks = widths(credit.plot_shares(results()))
    assert names == ["Kim", "Lee", "Roy"]
    assert bars == {"first": [1.0, 0.0, 0.0], "second": [0.0, 0.5, 0.5]}
    assert marks == pytest.approx([0.75, 0.25, 0.0])


def test_the_largest_shares_are_drawn_and_files_written(tmp_path):
    names, bars, _ = widths(credit.plot_shares(results(), tmp_path / "shares.svg", most=1))
    assert names == ["Kim"] and bars["first"] == [1.0]
    assert (tmp_path / "shares.svg").read_text().count("<svg") == 1


def test_results_that_cannot_be_drawn():
    with pytest.raises(ParameterError, match="none"):
        credit.plot_shares({})
    with pytest.raises(ParameterError, match="most"):
        credit.plot_shares(results(), most=0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fairtk.io.write_qrels(QRELS, "qrels.txt")
    for name, frame in RUNS.items():
        fairtk.io.write_run(frame, f"{name}.run")
    pd.DataFrame(OWNERS.items(), columns=["docno", "group"]).to_csv(
        "who.tsv", sep="\t", index=False
    )
    return tmp_path


def test_the_command_compares_several_runs(folder):
    files = ["qrels.txt", "first.run", "second.run", "--providers", "who.tsv", "-k", "1"]
    done = CliRunner().invoke(cli, ["providers", *files, "--plot", "shares.svg"])
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert ["provider", "merit", "first", "second"] in lines
    assert ["Kim", "0.7500", "1.0000", "0.0000"] in lines
    assert (folder / "shares.svg").exists()
    done = CliRunner().invoke(cli, ["providers", *files, "--format", "csv"])
    assert done.output.splitlines()[0] == "provider,documents,exposure,merit,gap,run"


def test_groups_in_several_runs(folder):
    """The first ranks of both queries: Kim and Kim in first, Lee and Roy in second."""
    from fairtk.experiment.inputs import GivenGroups
    from fairtk.io.runs import as_run
    from fairtk.report.group_tables import plot_shares

    evidence = GivenGroups.read(["who.tsv"], ("uniform",))
    [groups] = evidence.attributes.values()
    runs = {name: as_run(frame, name) for name, frame in RUNS.items()}
    names, bars, marks = widths(plot_shares(groups, evidence, runs, 1))
    assert names == ["Kim", "Lee", "Roy"]
    assert bars == {"first": [1.0, 0.0, 0.0], "second": [0.0, 0.5, 0.5]}
    assert marks == pytest.approx([1 / 3] * 3)
    names, bars, marks = widths(plot_shares(groups, GivenGroups.read(["who.tsv"]), {}, None))
    assert bars == {"documents": [0.5, 0.25, 0.25]} and marks == []


def test_the_command_draws_groups(folder):
    runs = ["--coverage", "first.run", "--coverage", "second.run", "-k", "1"]
    options = ["groups", "who.tsv", *runs, "--target", "uniform"]
    done = CliRunner().invoke(cli, [*options, "--plot", "groups.svg"])
    assert done.exit_code == 0 and (folder / "groups.svg").exists(), done.output
    assert done.output.splitlines()[0].split()[:2] == ["run", "attribute"]
    assert CliRunner().invoke(cli, options).exit_code == 2  # without a figure
    done = CliRunner().invoke(cli, ["groups", "who.tsv", "other=who.tsv", "--plot", "x.svg"])
    assert done.exit_code == 2 and "--cross" in done.output
    done = CliRunner().invoke(cli, ["groups", "who.tsv", "--plot", "groups.pdf"])
    assert done.exit_code == 0 and (folder / "groups.pdf").exists()
