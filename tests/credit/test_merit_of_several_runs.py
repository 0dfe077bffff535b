"""Merit depends on the number of documents of a query, so runs can differ in it."""

import re
import warnings

import pandas as pd
import pytest
from click.testing import CliRunner

import fairtk
from fairtk import credit
from fairtk.cli.group import cli
from fairtk.credit.amortized import compared_shares
from fairtk.errors import ParameterError, TruncationWarning
from fairtk.experiment.compare_runs import evaluate_runs
from fairtk.remarks import emit

QRELS = pd.DataFrame({"qid": ["1", "1", "2"], "docno": ["d1", "d2", "d1"], "label": [1, 0, 1]})
OWNERS = {f"d{i}": "odd" if i % 2 else "even" for i in range(1, 21)}
FEW, MANY = ["d1", "d2"], [f"d{i}" for i in range(2, 21, 2)]
# MU reads 5 documents equally. few: n = 2, so both documents are read: odd 1/2, even 1/2.
# many: n = 11, so d1 is read, and the 10 others share 4 of 5 ranks: odd 1/5, even 4/5.


def frame(docnos):
    rows = [(qid, docno, -float(i)) for qid in "12" for i, docno in enumerate(docnos)]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def measured(runs, owners=OWNERS, qrels=QRELS):
    return {
        name: credit.providers(qrels, frame(docnos), owners, resamples=2)
        for name, docnos in runs.items()
    }


def merits(result):
    return result.table.set_index("provider")["merit"].to_dict()


def marks(figure):
    """Return places and values of the marks, and of the bars of each system, from the top."""
    [axes] = figure.axes
    lines = [line for one in axes.collections for line in one.get_segments()]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    bars = {
        box.get_label(): [bar.get_y() + bar.get_height() / 2 for bar in box]
        for box in axes.containers
    }
    return {tuple(line.mean(axis=0).tolist()) for line in lines}, bars, labels


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
def test_each_run_has_its_merit():
    pytest.importorskip("matplotlib")
    results = measured({"few": FEW, "many": MANY})
    with pytest.warns(TruncationWarning, match="few"):
        figure = credit.plot_shares(results)
    drawn, bars, labels = marks(figure)
    assert labels.count("merit") == 1
    expected = {
        (merits(results[name])[provider], place)
        for name in results
        for provider, place in zip(("even", "odd"), bars[name], strict=True)
    }
    assert len(expected) == 4
    near = zip(sorted(drawn), sorted(expected), strict=True)
    assert all(value == pytest.approx(wanted) for value, wanted in near)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fairtk.io.write_qrels(QRELS, "qrels.txt")
    for name, docnos in {"few": FEW, "back": FEW[::-1], "many": MANY, "provider": FEW}.items():
        fairtk.io.write_run(frame(docnos), f"{name}.run")
    owners = pd.DataFrame(OWNERS.items(), columns=["docno", "group"])
    owners.to_csv("who.tsv", sep="\t", index=False)


def printed(*runs):
    files = [f"{run}.run" for run in runs]
    done = CliRunner().invoke(cli, ["providers", "qrels.txt", *files, "--providers", "who.tsv"])
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.stdout.splitlines()], done.stderr


def test_the_command_has_a_column_per_run_only_if_merit_differs(folder):
    lines, stderr = printed("few", "many")
    assert stderr.count("'1': 2 to 11") == 1
    assert ["provider", "merit", "in", "few", "few", "merit", "in", "many", "many"] in lines
    assert ["even", "0.5000", "0.5000", "0.8000", "1.0000"] in lines
    assert ["odd", "0.5000", "0.5000", "0.2000", "0.0000"] in lines
    for runs in (("few", "back"), ("few", "provider")):
        lines, stderr = printed(*runs)
        assert ["provider", "merit", *runs] in lines and not stderr


def warned(call):
    """Return the class of each warning, and the queries and numbers in it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return {(one.category, *re.findall(r"'\w+'|\d+ to \d+", str(one.message))) for one in caught}


@pytest.mark.parametrize("runs", [("few", "many"), ("few", "back"), ("back", "many")])
def test_providers_warn_of_what_evaluate_warns_of(runs):
    docnos = {"few": FEW, "back": FEW[::-1], "many": MANY}
    frames = {run: frame(docnos[run]) for run in runs}
    expected = warned(lambda: emit(evaluate_runs(QRELS, frames, ["EE_R@5"]).remarks))
    results = measured({run: docnos[run] for run in runs})
    texts = warned(lambda: compared_shares(results))
    assert {key[:3] for key in texts} == {key[:3] for key in expected}
    assert bool(texts) == ("many" in runs)


def test_other_labels_are_refused():
    other = measured({"b": FEW}, qrels=QRELS[:2])
    with pytest.raises(ParameterError, match="'b'"):
        credit.plot_shares(measured({"a": FEW}) | other)
