"""The doctor of several runs, and of cells of crossed groups."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

import fairtk
from fairtk import Groups
from fairtk.cli.group import cli

QRELS = pd.DataFrame({"qid": ["q"] * 4, "docno": [*"abcd"], "label": [1, 0, 1, 0]})


def run(*docnos):
    scores = [float(len(docnos) - i) for i in range(len(docnos))]
    return pd.DataFrame({"qid": "q", "docno": docnos, "score": scores})


def test_findings_name_their_run():
    whole, short = run(*"abcd"), run(*"xa")
    both = fairtk.doctor(QRELS, {"whole": whole, "short": short}, cutoff=4)
    each = {"whole": fairtk.doctor(QRELS, whole, cutoff=4)}
    each["short"] = fairtk.doctor(QRELS, short, cutoff=4)
    texts = [finding.text for finding in both.findings]
    for name, other in (("whole", "short"), ("short", "whole")):
        for finding in each[name].findings:
            is_common = finding in each[other].findings
            assert texts.count(finding.text if is_common else f"{name}: {finding.text}") == 1
    assert both.counts == {"runs": 2, "rankings": 2, "rows": 6, "labeled": 1, "labels": 4}
    assert both.verdict == each["short"].verdict
    assert json.loads(both.to_json())["counts"]["runs"] == 2


def test_a_single_run_in_a_list_is_that_run():
    assert (
        fairtk.doctor(QRELS, [run(*"abcd")]).findings == fairtk.doctor(QRELS, run(*"abcd")).findings
    )


def test_ties_are_listed_by_run():
    tied = run(*"abcd").assign(score=1.0)
    ties = fairtk.doctor(QRELS, {"one": tied, "two": run(*"abcd")}, cutoff=2).ties
    assert {*ties["run"]} == {"one"} and "EE_R@2" in {*ties["measure"]}


@pytest.mark.parametrize("names", [["one.run"], ["one.run", "two.run"]])
def test_command(tmp_path, names):
    QRELS.assign(zero=0)[["qid", "zero", "docno", "label"]].to_csv(
        tmp_path / "qrels.txt", sep=" ", header=False, index=False
    )
    for name in names:
        lines = [f"q Q0 {d} {i} {4 - i} x\n" for i, d in enumerate("abcd")]
        (tmp_path / name).write_text("".join(lines))
    paths = [str(tmp_path / name) for name in ("qrels.txt", *names)]
    result = CliRunner().invoke(cli, ["doctor", *paths, "--format", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["counts"]["rows"] == 4 * len(names)


def attribute(name, groups):
    return Groups.from_frame(pd.DataFrame({"docno": [*"abcd"], "group": groups}), name=name)


def small_groups(measures):
    both = [attribute("g", [*"xxyy"]), attribute("h", [*"uvuu"])]
    diagnosis = fairtk.doctor(
        QRELS, run(*"abcd"), both, target="uniform", measures=measures, cutoff=4, support=2
    )
    return [one.text for one in diagnosis.findings if one.check == "support"]


def test_cells_of_crossed_groups_are_checked_if_they_are_measured():
    # x and u: a; x and v: b; y and u: c, d; y and v: no document
    [of_cells] = [t for t in small_groups(["AWRF@4"]) if t.startswith("g*h: groups with fewer")]
    assert "('x', 'u') 1 (1 useful)" in of_cells and "('x', 'v') 1 (0 useful)" in of_cells
    assert "'y'" not in of_cells
    single = small_groups(["AWRF(groups='g')@4", "AWRF(groups='h')@4"])
    assert single and not any(text.startswith("g*h") for text in single)
