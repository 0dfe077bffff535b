"""Broken, mismatched and thin data: everything is said at once."""

import gzip
import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.spatial.distance import jensenshannon

import fairtk
from fairtk.cli.group import cli
from fairtk.errors import InputError, ParameterError
from fairtk.experiment.findings import divergence_at_best
from fairtk.measures import EE_D

QIDS = ["q1", "q2", "q3"]


def run_lines(n=6, qids=QIDS):
    return [f"{q} Q0 d{i} {i + 1} {n - i} t" for q in qids for i in range(n)]


def qrel_lines(qids=QIDS):
    return [f"{q} 0 d{i} {int(i in (0, 3))}" for q in qids for i in range(6)]


def written(folder, name, lines, end="\n"):
    path = folder / name
    path.write_text("\n".join(lines) + end)
    return path


@pytest.fixture
def qrels(tmp_path):
    return written(tmp_path, "qrels.txt", qrel_lines())


def checks(diagnosis, level=None):
    return {f.check for f in diagnosis.findings if level in (None, f.level)}


def finding(diagnosis, check):
    (only,) = [f for f in diagnosis.findings if f.check == check]
    return only


def test_good_data_are_sound(tmp_path, qrels):
    diagnosis = fairtk.doctor(qrels, written(tmp_path, "a.run", run_lines()))
    assert (diagnosis.findings, diagnosis.verdict) == ([], "sound")
    assert diagnosis.counts == {"queries": 3, "rankings": 3, "rows": 18, "labeled": 3, "labels": 18}


def test_all_that_is_wrong_is_said_at_once(tmp_path, qrels):
    lines = run_lines()
    lines[3:3] = ["q1 Q0", "q1 Q0 d0 9 0.5 t", "q1 Q0 d8 9 nan t", "q1 Q0 d9 x 0.1 t"]
    lines += ["q3 Q0 d"]
    diagnosis = fairtk.doctor(qrels, written(tmp_path, "a.run", lines, end=""))
    assert checks(diagnosis, "error") == {"truncated", "duplicates", "bad-values"}
    assert diagnosis.verdict == "not usable as it is"
    cut = finding(diagnosis, "truncated")
    assert cut.count == 2 and "a.run:4:" in cut.text and "incomplete" in cut.text
    assert "a.run:5:" in finding(diagnosis, "duplicates").text
    # two kinds of bad values, each with its own line
    bad = [f.text for f in diagnosis.findings if f.check == "bad-values"]
    assert len(bad) == 2 and any(":6:" in t for t in bad) and any(":7:" in t for t in bad)
    assert diagnosis.counts["rows"] == 18  # what is good is kept


def test_many_rows_of_one_kind_are_one_finding(tmp_path, qrels):
    lines = run_lines() * 3
    diagnosis = fairtk.doctor(qrels, written(tmp_path, "a.run", lines))
    twice = finding(diagnosis, "duplicates")
    assert twice.count == 36 and "sample" in twice.remedy


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl"])
def test_broken_files_with_named_columns(tmp_path, qrels, form):
    rows = [line.split() for line in run_lines()]
    if form == "jsonl":
        lines = [f'{{"qid": "{r[0]}", "docno": "{r[2]}", "score": {r[4]}}}' for r in rows]
        lines[4:4] = ['{"qid": "q1", "docno"', '{"qid": "q1"}']
    else:
        comma = "\t" if form == "tsv" else ","
        lines = [comma.join(["qid", "docno", "score"])]
        lines += [comma.join([r[0], r[2], r[4]]) for r in rows]
        lines[5:5] = [comma.join(["q1", "d7"]), comma.join(["q1", "d7", "1", "2"])]
    diagnosis = fairtk.doctor(qrels, written(tmp_path, f"a.{form}", lines))
    assert checks(diagnosis, "error") == {"broken-lines"}
    assert finding(diagnosis, "broken-lines").count == 2
    assert diagnosis.counts["rows"] == 18


def test_a_packed_file_that_was_cut_off(tmp_path, qrels):
    path = tmp_path / "a.run.gz"
    whole = gzip.compress("\n".join(run_lines(400)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    diagnosis = fairtk.doctor(qrels, path)
    assert "truncated" in checks(diagnosis, "error") or "unreadable" in checks(diagnosis, "error")


def test_the_last_query_of_a_run_that_was_cut_at_a_line(tmp_path, qrels):
    diagnosis = fairtk.doctor(qrels, written(tmp_path, "a.run", run_lines()[:-2]))
    assert "4 documents, all others have 6" in finding(diagnosis, "truncated").text
    one = fairtk.doctor(qrels, written(tmp_path, "b.run", run_lines()[:-5]))
    assert "1 document, all others have 6" in finding(one, "truncated").text
    assert diagnosis.verdict == "usable with care"


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda q: q.replace("q", "Q"), "lower case"),
        (lambda q: f"topic/{q}", "'/'"),
        (lambda q: q.removeprefix("q"), "in front of a number"),
        (lambda q: "00" + q.removeprefix("q"), "at the end counts"),
        (lambda q: q + ".0", "'.0'"),
    ],
)
def test_ids_written_in_two_ways(tmp_path, qrels, change, words):
    run = written(tmp_path, "a.run", run_lines(qids=[change(q) for q in QIDS]))
    diagnosis = fairtk.doctor(qrels, run)
    ids = finding(diagnosis, "ids")
    assert (ids.level, ids.count) == ("error", 3)
    assert "3 ids match if" in ids.text and words in ids.text


def test_documents_written_in_two_ways(tmp_path, qrels):
    lines = [line.replace(" d", " doc-00") for line in run_lines()]
    diagnosis = fairtk.doctor(qrels, written(tmp_path, "a.run", lines))
    ids = finding(diagnosis, "ids")
    assert (
        ids.level == "error" and "docno 'doc-000'" in ids.text and "'d0' in the qrels" in ids.text
    )
    assert "6 ids match if only the number at the end counts" in ids.text


def test_queries_missing_on_either_side(tmp_path, qrels):
    run = written(tmp_path, "a.run", run_lines(qids=["q1", "q2", "x9"]))
    diagnosis = fairtk.doctor(qrels, run)
    assert finding(diagnosis, "queries-missing").text.endswith("missing from the run: 'q3'")
    extra = finding(diagnosis, "queries-extra")
    assert (extra.level, extra.count) == ("note", 1) and "'x9'" in extra.text


def test_labels_of_few_documents_and_of_none_useful(tmp_path):
    lines = [f"{q} 0 d0 {int(q != 'q3')}" for q in QIDS]
    qrels = written(tmp_path, "qrels.txt", lines)
    diagnosis = fairtk.doctor(qrels, written(tmp_path, "a.run", run_lines()))
    assert (
        "3 of 15 documents in the first 5 ranks are judged (20%)"
        in finding(diagnosis, "judged").text
    )
    assert finding(diagnosis, "useless").text == "1 of 3 queries have no useful document: 'q3'"


def test_ties_move_measures_between_their_ends():
    # d0 (useful) and d1 share the first place: nDCG@1 is 1 with d0 first, 0 with d1 first
    run = pd.DataFrame({"qid": "q", "docno": ["d0", "d1", "d2"], "score": [2.0, 2.0, 1.0]})
    qrels = pd.DataFrame({"qid": "q", "docno": ["d0", "d1", "d2"], "label": [1, 0, 0]})
    diagnosis = fairtk.doctor(qrels, run, measures=["E(nDCG@1)", "EE_D@1"], cutoff=1)
    ndcg, disparity = diagnosis.ties.to_dict("records")
    # now: ties by docno, descending, so d1 is first
    assert ndcg == {"measure": "E(nDCG@1)", "now": 0.0, "lowest": 0.0, "highest": 1.0}
    assert (disparity["lowest"], disparity["highest"]) == (1.0, 1.0)
    ties = finding(diagnosis, "ties")
    assert ties.level == "warning" and "2 of 3 rows" in ties.text
    assert "is 0.0000 to 1.0000 (now 0.0000)" in ties.text
    for one in ("EE_D@1", EE_D @ 1):
        assert fairtk.doctor(qrels, run, measures=one, cutoff=1).ties["now"].tolist() == [1.0]


def test_ties_below_the_cutoff_are_a_note():
    run = pd.DataFrame({"qid": "q", "docno": ["d0", "d1", "d2"], "score": [2.0, 1.0, 1.0]})
    qrels = pd.DataFrame({"qid": "q", "docno": ["d0", "d1", "d2"], "label": [1, 0, 0]})
    diagnosis = fairtk.doctor(qrels, run, cutoff=1)
    assert finding(diagnosis, "ties").level == "note"
    assert diagnosis.verdict == "sound"


def test_samples_of_unequal_number_and_length():
    samples = {
        "q1": ["abc", "acb"],
        "q2": ["abc"],
        "q3": ["abc", "ab"],
        "q4": ["abc", "abc"],
    }
    run = pd.DataFrame(
        [
            (qid, sample, docno, -float(rank), rank)
            for qid, rankings in samples.items()
            for sample, ranking in enumerate(rankings)
            for rank, docno in enumerate(ranking)
        ],
        columns=["qid", "sample", "docno", "score", "rank"],
    )
    qrels = pd.DataFrame({"qid": list(samples), "docno": "a", "label": 1})
    diagnosis = fairtk.doctor(qrels, run, cutoff=3)
    numbers, fixed = [f for f in diagnosis.findings if f.check == "samples"]
    assert "1 to 2 samples; 1 of 4 have fewer than 2: 'q2'" in numbers.text
    assert "in all samples: 'q3', 'q4'" in fixed.text or "'q4'" in fixed.text
    assert finding(diagnosis, "lengths").text.endswith("different length: 'q3'")
    assert (
        finding(diagnosis, "short").level == "warning"
        and "'q3'" in finding(diagnosis, "short").text
    )


def groups_frame(names):
    return pd.DataFrame({"docno": [f"d{i}" for i in range(len(names))], "group": list(names)})


def test_groups_with_few_documents_and_labels(tmp_path, qrels):
    run = written(tmp_path, "a.run", run_lines())
    groups = fairtk.Groups.from_frame(groups_frame("ab"), name="g")
    diagnosis = fairtk.doctor(qrels, run, groups, support=3)
    assert "2 of 5" not in finding(diagnosis, "coverage").text  # of all queries: 6 of 15
    assert "6 of 15 documents" in finding(diagnosis, "coverage").text
    assert finding(diagnosis, "coverage").level == "warning"
    assert "a 1 (1 useful), b 1 (0 useful)" in finding(diagnosis, "support").text


def test_a_target_out_of_reach(tmp_path, qrels):
    run = written(tmp_path, "a.run", run_lines())
    groups = fairtk.Groups.from_frame(
        pd.concat([groups_frame("aaabbb"), pd.DataFrame({"docno": ["z"], "group": ["c"]})]),
        name="g",
        levels=["a", "b", "c", "d"],
    )
    diagnosis = fairtk.doctor(qrels, run, groups, target="uniform", support=1)
    of_none, of_run = [f for f in diagnosis.findings if f.check == "target"]
    assert "is on groups without documents: 'd'" in of_none.text
    # half of a uniform target over a, b, c, d cannot be filled by documents of a and b
    best = 1 - jensenshannon([0.5, 0.5, 0, 0], [0.25] * 4) ** 2
    assert f"at most {best:.4f}" in of_run.text and "50% is unreachable" in of_run.text


def test_the_least_divergence_from_what_can_be_filled():
    shares_missing = np.array([0.0, 0.3, 1.0])
    expected = [0.0, jensenshannon([1.0, 0.0], [0.7, 0.3]) ** 2, math.log(2)]
    assert divergence_at_best(shares_missing) == pytest.approx(expected, abs=1e-12)
    generator = np.random.default_rng(1)
    target = np.array([0.2, 0.5, 0.3])
    for shares in generator.dirichlet([1, 1], 200):
        assert jensenshannon([*shares, 0.0], target) ** 2 >= expected[1] - 1e-12


def test_broken_groups_are_said_beside_the_rest(tmp_path, qrels):
    run = written(tmp_path, "a.run", [*run_lines(), "q3 Q0"])
    lines = ["docno\tgroup\tweight", "d0\ta\t1", "d1\tb\t-1", "d0\ta\t1", "d2\tb\tx", "d3\tb"]
    groups = written(tmp_path, "g.tsv", lines)
    diagnosis = fairtk.doctor(qrels, run, groups)
    about = [(f.about, f.check) for f in diagnosis.findings if f.level == "error"]
    assert about.count(("groups", "bad-values")) == 1
    assert {("run", "broken-lines"), ("groups", "duplicates"), ("groups", "broken-lines")} < {
        *about
    }


def test_nothing_is_left():
    nothing = pd.DataFrame({"qid": [], "docno": [], "score": []})
    qrels = pd.DataFrame({"qid": ["q"], "docno": ["a"], "label": [1]})
    diagnosis = fairtk.doctor(qrels, nothing)
    assert finding(diagnosis, "empty").about == "run"
    diagnosis = fairtk.doctor(qrels, nothing.drop(columns="score"))
    assert "missing column 'score'" in finding(diagnosis, "unreadable").text


def test_wrong_arguments_are_refused(tmp_path, qrels):
    with pytest.raises(ParameterError, match="got 0"):
        fairtk.doctor(qrels, qrels, cutoff=0)
    with pytest.raises(InputError):
        fairtk.doctor(qrels, tmp_path / "none")
    run = written(tmp_path, "a.run", run_lines())
    with pytest.raises(InputError, match="EE_X"):
        fairtk.doctor(qrels, run, measures=["EE_X@5"])


def test_strict_lets_sound_data_pass(tmp_path, qrels):
    run = written(tmp_path, "good.run", run_lines())
    result = CliRunner().invoke(cli, ["doctor", str(qrels), str(run), "--strict"])
    assert result.exit_code == 0


def test_labels_that_a_measure_does_not_take_are_said(tmp_path):
    lines = [line.replace(" 1", " 0.5") for line in qrel_lines()]
    diagnosis = fairtk.doctor(
        written(tmp_path, "q.txt", lines), written(tmp_path, "a.run", run_lines())
    )
    measure = finding(diagnosis, "measure")
    assert measure.level == "error" and measure.text.startswith("E(nDCG@5) cannot be computed")
    lines[3] = "q1 0 d3 1e22"
    diagnosis = fairtk.doctor(
        written(tmp_path, "q.txt", lines), written(tmp_path, "a.run", run_lines())
    )
    assert (
        "q.txt:4: label must be a finite number below 2^53" in finding(diagnosis, "bad-values").text
    )


BROKEN = [
    b"\0",
    b"\xff",
    b'"',
    b"\t",
    b"\r",
    b"\xef\xbb\xbf",
    b"nan",
    b"1e999",
    b"{",
    b"\n",
    b"\xe2\x80\xa8",
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_what_a_strict_reader_refuses_is_an_error_here(tmp_path, seed):
    """Whatever happened to the bytes of a run, nothing is raised and nothing refused is sound."""
    generator = np.random.default_rng(seed)
    whole = "\n".join(run_lines()).encode() + b"\n"
    qrels = written(tmp_path, "qrels.txt", qrel_lines())
    for _ in range(10):
        data = whole
        for _ in range(generator.integers(1, 4)):
            at, length = generator.integers(0, len(data)), generator.integers(0, 4)
            data = data[:at] + BROKEN[generator.integers(len(BROKEN))] + data[at + length :]
        if generator.random() < 0.2:
            data = data[: generator.integers(len(data))]
        path = tmp_path / "a.run"
        path.write_bytes(data)
        diagnosis = fairtk.doctor(qrels, path)
        try:
            fairtk.io.read_run(path)
        except InputError:
            assert any(f.level == "error" and "run" in f.about for f in diagnosis.findings), data
