"""`explain` of EE_R, documents that lack exposure, and the page of an explanation."""

import pandas as pd
import pytest
from click.testing import CliRunner

import fairtk
from fairtk import EE_L, EE_R
from fairtk.cli.group import cli
from fairtk.display.tables import as_texts

QRELS = pd.DataFrame({"qid": "1", "docno": list("abcf"), "label": [1, 1, 0, 1]})
RUN = pd.DataFrame({"qid": "1", "docno": list("acedb"), "score": [5.0, 4, 3, 2, 1]})
BASELINE = pd.DataFrame({"qid": "1", "docno": list("abz"), "score": [3.0, 2, 1]})


def test_the_cost_of_each_document_of_ee_r():
    # Three useful documents fill three ranks: target 1 for a, b and f, 0 for others, and the upper
    # bound is 1 + 1 + 1. The exposure of a, c and e is 1. A document costs t (t - e) / 3: 1/3 for b
    # (at rank 5) and f (not retrieved), 0 for others.
    result = fairtk.explain(QRELS, RUN, EE_R @ 3, qid="1")
    assert result.total == pytest.approx(2 / 3)
    frame = result.by_document
    assert frame["docno"].tolist() == ["b", "f", "a", "c", "e"]
    assert frame["rank"].isna().tolist() == [False, True, False, False, False]
    assert frame["rank"].dropna().tolist() == [5, 1, 2, 3]
    assert frame["target"].tolist() == [1, 1, 1, 0, 0]
    assert frame["difference"].tolist() == [-1, -1, 0, 1, 1]
    assert frame["cost"].tolist() == pytest.approx([1 / 3, 1 / 3, 0, 0, 0])
    assert result.by_group.set_index("group")["cost"].to_dict() == pytest.approx(
        {"useful": 2 / 3, "not useful": 0, "not judged": 0}
    )
    # the attention of each rank owes a third of 3 targets, and rank 1 gives a its own
    assert result.by_rank["cost"].tolist() == pytest.approx([0, 1 / 3, 1 / 3])


def test_the_cost_without_normalization_is_the_distance_from_the_upper_bound():
    # two ranks with the weights 1 and 1/2; a, b and f have the target 1.5 / 3 = 1/2; the upper
    # bound is 3 (1/2)^2 = 3/4, and only a is shown, with 1: EE_R = 1/2
    result = fairtk.explain(QRELS, RUN, EE_R(normalize=False, browsing="RBP(p=0.5)") @ 2, qid="1")
    assert result.total == pytest.approx(1 / 4)
    costs = result.by_document.set_index("docno")["cost"]
    # 1/2 (1/2 - e)
    assert costs.to_dict() == pytest.approx({"b": 1 / 4, "f": 1 / 4, "a": -1 / 4, "c": 0})
    assert "upper bound - EE_R" in result.summary[1]


MEASURES = [
    kind(browsing=browsing, bounds=bounds, n=n) @ 3
    for kind in (EE_L, EE_R)
    for browsing in ("MU", "RBP", "GERR")
    for bounds in ("paper", "exact")
    for n in ("judged+retrieved", 8)
]


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_costs_of_documents_and_of_groups_sum_to_the_cost(measure):
    result = fairtk.explain(QRELS, RUN, measure, qid="1")
    value = result.queries["value"].iloc[0]
    assert result.total == pytest.approx(1 - value if measure.NAME == "EE_R" else value)
    assert result.by_group["cost"].sum() == pytest.approx(result.total)
    assert result.by_rank["cost"].sum() == pytest.approx(result.total)
    groups = result.by_group.set_index("group")["cost"]
    rest = groups.get("(neither judged nor retrieved)", 0.0)
    assert result.by_document["cost"].sum() + rest == pytest.approx(result.total)
    assert result.by_document["difference"].is_monotonic_increasing


def test_a_query_missing_from_the_run_lists_the_documents_that_lack_exposure():
    other = RUN.assign(qid="2")
    qrels = pd.concat([QRELS, QRELS.assign(qid="2")])
    result = fairtk.explain(qrels, other, EE_R @ 3, qid="1")
    assert result.total == 1
    assert result.by_document["docno"].tolist() == ["a", "b", "f"]
    assert result.by_document["rank"].isna().all()


def test_costs_of_a_baseline():
    frame = fairtk.explain(QRELS, RUN, EE_R @ 3, qid="1", baseline=BASELINE).by_document
    rows = frame.set_index("docno")
    assert rows["baseline_cost"].dropna().to_dict() == pytest.approx(
        {"a": 0, "b": 0, "f": 1 / 3, "z": 0}
    )
    assert rows["baseline_rank"].dropna().to_dict() == {"a": 1, "b": 2, "z": 3}
    texts = as_texts(frame)
    assert texts.rows[1][:3] == ["f", "", "0.0000"]  # no rank, and not "undefined" or "<NA>"


@pytest.mark.parametrize(
    ("measure", "form"),
    [("EE_R@3", "csv"), ("EE_R@3", "json"), ("EE_L@3", "table"), ("EE_L@3", "markdown")],
)
def test_the_command_writes_the_table_by_document(measure, form, tmp_path, monkeypatch):
    assert written(tmp_path, monkeypatch, "-m", measure, "--format", form)


@pytest.mark.parametrize("measure", ["EE_R@3", "EE_L@3"])
def test_the_command_writes_the_table_by_document_to_a_page(measure, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    written(tmp_path, monkeypatch, "-m", measure, "--page", "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<svg" in text and "By document" in text and "fairtk explain" in text
    assert "&lt;NA&gt;" not in text


def written(folder, monkeypatch, *words):
    """Return what ``fairtk explain`` writes with more options."""
    monkeypatch.chdir(folder)
    fairtk.io.write_qrels(QRELS, "qrels.txt")
    fairtk.io.write_run(RUN, "run.txt")
    arguments = ["explain", "qrels.txt", "run.txt", "--qid", "1", "--by", "document", *words]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "<NA>" not in result.stdout and "5.0" not in result.stdout
    return result.stdout
