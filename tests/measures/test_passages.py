"""Labels of documents with runs of passages: the column ``parent``, or a separator in docnos."""

import base64
import json
import zlib
from contextlib import suppress
from functools import cache

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, Judged, P, R, Success, nDCG

import fairtk
from fairtk import Groups, PlackettLuceExposure, Target
from fairtk.cli.group import cli
from fairtk.credit import providers
from fairtk.errors import DuplicateError, FairtkError, InputError, ParameterError
from fairtk.frames import Run
from fairtk.measures import LabeledRun, parse
from fairtk.measures.evaluation import evaluate
from fairtk.plugins import registry
from fairtk.report.queries import drill_down
from fairtk.testing import toy_answers, toy_groups, toy_qrels, toy_run, toy_samples

pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")

# two passages of d1 at ranks 1 and 2, and one of d2 at rank 3
PASSAGES = pd.DataFrame(
    {"qid": "q", "docno": ["d1%p1", "d1%p2", "d2%p1"], "score": [3.0, 2.0, 1.0]}
)
LABELS = pd.DataFrame({"qid": "q", "docno": ["d1", "d2"], "label": [0, 1]})
GROUPS = Groups.from_frame(pd.DataFrame({"docno": ["d1", "d2"], "group": ["x", "y"]}), name="g")
UNIFORM = Target.uniform(GROUPS)
MODEL = "browsing='RBP(p=0.5)'"


def means(measures, run=PASSAGES, qrels=LABELS, parent="%p", **options):
    """Return the means of measures."""
    return fairtk.evaluate(qrels, run, measures, parent=parent, **options).means.loc["run 1"]


def test_exposure_by_hand():
    # attention 1, 1/2, 1/4: e(d1) = 1 + 1/2 = 3/2, e(d2) = 1/4
    # EE-D = 9/4 + 1/16 = 37/16; n = 2, so the upper bound is 1 + 1/4 = 5/4 and the share 37/20
    # the ideal ranking has d2 (useful) at rank 1, d1 at rank 2: t = (1/2, 1)
    # EE-R = 3/2 * 1/2 + 1/4 * 1 = 1; |t|^2 = 5/4, so the share is 4/5
    # EE-L = 37/16 - 2 * 1 + 5/4 = 25/16
    names = [
        f"EE_D({MODEL})@3",
        f"EE_D({MODEL},normalize=False)@3",
        f"EE_R({MODEL})@3",
        f"EE_R({MODEL},normalize=False)@3",
        f"EE_L({MODEL},normalize=False)@3",
    ]
    assert means(names).tolist() == pytest.approx([37 / 20, 37 / 16, 4 / 5, 1, 25 / 16])


def test_awrf_by_hand():
    # x has (1 + 1/2) / (7/4) = 6/7 of the attention, y 1/7; with the target (1/2, 1/2),
    # m = (19/28, 9/28)
    p, q = np.array([6, 1]) / 7, np.array([1, 1]) / 2
    m = (p + q) / 2
    divergence = ((p * np.log(p / m)).sum() + (q * np.log(q / m)).sum()) / 2
    actual = means([f"AWRF({MODEL})@3"], groups=[GROUPS], target=UNIFORM)
    assert actual.tolist() == pytest.approx([1 - divergence])


def test_relevance_by_hand():
    # ranks closed up: d1 at 1, d2 at 2; DCG = 1 / log2(3), ideal 1
    # P@2 = 1/2, RR = 1/2; TREC's discount is 1, 1 at the first two ranks
    gain = 1 / np.log2(3)
    actual = means(["nDCG@3", "E(nDCG@3)", "P@2", "RR", "nDCG_TREC@3"])
    assert actual.tolist() == pytest.approx([gain, gain, 1 / 2, 1 / 2, 1])


def test_samples_by_hand():
    # sample 0: d1, d1, d2; sample 1: d2, d1, d1. Attention within a sample:
    # (3/2, 1/4) and (1/2 + 1/4, 1), so e = (9/8, 5/8) and EE-D = 81/64 + 25/64 = 53/32
    # squares of samples: 37/16 and 9/16 + 1 = 25/16, their mean is 31/16
    # the unbiased estimate subtracts (31/16 - 53/32) / (2 - 1) = 9/32: 11/8
    # E(nDCG): (1 / log2(3) + 1) / 2
    samples = pd.concat([PASSAGES.assign(sample=0), PASSAGES.iloc[::-1].assign(sample=1)])
    samples["score"] = [3.0, 2, 1] * 2
    names = [f"EE_D({MODEL},normalize=False{e})@3" for e in ("", ",estimator='unbiased'")]
    # E(EE-D) is the mean over samples: 31/16
    actual = means([*names, f"E({names[0]})", "E(nDCG@3)"], samples)
    assert actual.tolist() == pytest.approx([53 / 32, 11 / 8, 31 / 16, (1 / np.log2(3) + 1) / 2])


def test_exact_exposure_by_hand():
    # the exposure of a document is the sum over its passages: (3/2, 1/4), as above
    frame = PASSAGES.assign(
        exposure=[1, 1 / 2, 1 / 4], browsing="RBP(p=0.5)", cutoff=3, parent=["d1", "d1", "d2"]
    )
    actual = means([f"EE_D({MODEL},normalize=False)@3"], frame, parent=None)
    assert actual.tolist() == pytest.approx([37 / 16])
    # expected first ranks do not follow from exposure
    with pytest.raises(InputError, match="FairSampler"):
        means(["E(nDCG@3)"], frame.assign(browsing="DCG"), parent=None)


def test_credit_by_hand():
    # credit 1, 2, 1: shares (3/4, 1/4); AE-D = 9/16 + 1/16 = 5/8
    # cited: d1 (not useful) and d2 (useful), so precision is 1/2 and recall 1
    # exposure under RBP at 3 ranks: (6/7, 1/7), so the gap is 2 (6/7 - 3/4)^2 = 9/392
    credit = PASSAGES.assign(credit=[1.0, 2, 1], rank=[0, 1, 2])
    names = ["AE_D(normalize=False)@3", "CitationPrecision", "CitationRecall"]
    actual = means([*names, f"CreditGap({MODEL})@3"], credit)
    assert actual.tolist() == pytest.approx([5 / 8, 1 / 2, 1, 9 / 392])


def test_providers_by_hand():
    # x has 6/7 of the exposure, y 1/7; merit is (1/2, 1) / (3/2)
    actual = providers(
        LABELS, PASSAGES, GROUPS, cutoff=3, browsing="RBP(p=0.5)", resamples=2, parent="%p"
    )
    table = actual.table.set_index("provider")
    assert table["exposure"].to_dict() == pytest.approx({"x": 6 / 7, "y": 1 / 7})
    assert table["merit"].to_dict() == pytest.approx({"x": 1 / 3, "y": 2 / 3})
    assert table["documents"].to_dict() == {"x": 1, "y": 1}


def test_explain_by_hand():
    actual = fairtk.explain(
        LABELS, PASSAGES, f"EE_L({MODEL},normalize=False)@3", qid="q", parent="%p"
    )
    assert actual.by_query["value"].tolist() == pytest.approx([25 / 16])
    documents = actual.by_document.set_index("docno")
    assert documents["exposure"].to_dict() == pytest.approx({"d1": 3 / 2, "d2": 1 / 4})
    assert documents["rank"].to_dict() == {"d1": 1, "d2": 3}


# One passage per document -----------------------------------------------------------------------

SETTINGS = {
    "groups": Groups.from_frame(toy_groups().drop_duplicates("docno"), name="toy"),
    "protected": "land",
    "group": "land",
    "measure": "nDCG@3",
    "left": "nDCG@3",
    "right": "EE_R@3",
    "utility": "rougeL",
    "cutoff": 3,
    "max_label": 2,
}
SETTINGS["target"] = Target.uniform(SETTINGS["groups"])


@cache
def registered():
    """Return each registered measure, with groups and a target if it accepts them."""
    measures = []
    for name in registry.measures.names():
        measure = registry.measures.get(name)
        given_values = {k: v for k, v in SETTINGS.items() if k in measure.SUPPORTED_PARAMS}
        if "measure" in given_values:
            given_values["measure"] = parse("nDCG@3")
        if "left" in given_values:
            given_values |= {"left": parse("E(nDCG@3)"), "right": parse("EE_R@3")}
        measures.append(measure(**given_values))
    return measures


def exact(run):
    return PlackettLuceExposure(alpha=1, browsing="MU", cutoff=3)(run)


RUNS = {
    "run": toy_run().assign(qanswer="bread"),
    "samples": toy_answers(),
    "exact": exact(toy_run()),
    "credit": toy_samples().assign(credit=lambda frame: frame["rank"] % 3),
}


def values(measures, run):
    """Return the values of measures for each query."""
    scores = evaluate(measures, LabeledRun.of(toy_qrels(), run, "run"))
    return {measure: of_measure.values for measure, of_measure in scores.items()}


@cache
def accepting(kind):
    """Return the registered measures that accept a kind of run."""
    measures = []
    for measure in registered():
        with suppress(FairtkError):
            values([measure], RUNS[kind])
            measures.append(measure)
    return measures


def test_each_registered_measure_accepts_a_kind_of_run():
    assert {m for kind in RUNS for m in accepting(kind)} == {*registered()}


@pytest.mark.parametrize("kind", RUNS)
@settings(max_examples=2)
@given(st.integers(0, 2**16))
def test_one_passage_per_document_changes_no_value(kind, seed):
    run = RUNS[kind].sample(frac=0.9, random_state=seed)  # queries without some documents
    passages = run.assign(docno=run["docno"] + "%p7", parent=run["docno"])
    before = values(accepting(kind), run)
    after = values(accepting(kind), passages.sample(frac=1, random_state=seed))
    for measure, value in before.items():
        np.testing.assert_allclose(after[measure], value, rtol=1e-12, err_msg=repr(measure))


@pytest.mark.parametrize("kind", ["run", "samples", "credit"])
def test_names_of_passages_do_not_matter(kind):
    run = RUNS[kind].assign(parent=RUNS[kind]["docno"])
    second = run.assign(score=run["score"] - 100, rank=run["rank"] + 100)
    actual = []
    for names in (("%p0", "%p1"), ("-z", "-a")):
        both = zip(names, (run, second), strict=True)
        passages = pd.concat([one.assign(docno=one["docno"] + name) for name, one in both])
        actual.append(values(accepting(kind), passages))
    for measure, value in actual[0].items():
        np.testing.assert_allclose(actual[1][measure], value, rtol=1e-12, err_msg=repr(measure))


# Several passages ------------------------------------------------------------------------------

RELEVANCE = [nDCG @ 3, nDCG, P @ 2, R @ 2, AP, RR, Success @ 1, Judged @ 3]


@settings(max_examples=8)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.booleans())
def test_relevance_measures_get_each_document_once(documents, is_sampled):
    documents = [f"d{d}" for d in documents]
    run = pd.DataFrame(
        {
            "qid": "q",
            "docno": [f"{d}%p{i}" for i, d in enumerate(documents)],
            "parent": documents,
            "score": -np.arange(len(documents), dtype=float),
        }
    )
    once = run.assign(docno=run["parent"]).drop(columns="parent").drop_duplicates("docno")
    qrels = pd.DataFrame({"qid": "q", "docno": ["d0", "d1", "d2"], "label": [2, 0, 1]})
    measures = RELEVANCE
    if is_sampled:
        measures = [parse(f"E({measure})") for measure in [*RELEVANCE, "RBP(rel=1)"]]
        turned = run.assign(score=-run["score"], sample=1)
        of_turned = once_of(turned)
        run, once = (
            pd.concat([run.assign(sample=0), turned]),
            pd.concat([once.assign(sample=0), of_turned]),
        )
    before, after = (means(measures, frame, qrels, parent=None) for frame in (once, run))
    assert after.tolist() == pytest.approx(before.tolist(), nan_ok=True)
    if not is_sampled:  # ir_measures gets the documents, too
        names = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
        qrels, run = qrels.rename(columns=names), run.rename(columns=names)
        actual = ir_measures.calc_aggregate(RELEVANCE, qrels, run)
        assert [actual[m] for m in RELEVANCE] == pytest.approx(before.tolist(), nan_ok=True)


def once_of(run):
    """Return each document once, at its first rank."""
    run = run.sort_values("score", ascending=False)
    return run.assign(docno=run["parent"]).drop(columns="parent").drop_duplicates("docno")


def test_the_column_and_the_separator_agree(tmp_path):
    names = [f"EE_D({MODEL})@3", "nDCG@3"]
    column = PASSAGES.assign(parent=["d1", "d1", "d2"])
    want = means(names).tolist()
    assert means(names, column, parent=None).tolist() == want
    assert (
        means(names, column.assign(parent=[1, 1, 2]), LABELS.assign(docno=[1, 2]), None).tolist()
        == want
    )
    for frame, parent in ((PASSAGES, "%p"), (column, None)):
        result = fairtk.Experiment({"a": frame}, qrels=LABELS, measures=names, parent=parent)
        assert result.means.loc["a"].tolist() == want
        both = fairtk.compare(LABELS, {"a": frame, "b": frame}, names, parent=parent)
        assert both.means.loc["b"].tolist() == want
    fairtk.io.write_run(PASSAGES, tmp_path / "p.run")
    fairtk.io.write_run(column, tmp_path / "p.parquet")
    column.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    LABELS.to_csv(tmp_path / "qrels.tsv", sep="\t", index=False)
    for file, options in (("p.run", ["--parent", "%p"]), ("p.parquet", []), ("p.tsv", [])):
        arguments = ["evaluate", str(tmp_path / "qrels.tsv"), str(tmp_path / file), *options]
        arguments += ["--format", "json", "-m", names[0], "-m", names[1]]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        assert [row["mean"] for row in json.loads(result.stdout)] == pytest.approx(want)


def test_separators():
    def parents(docnos, separator):
        frame = pd.DataFrame({"qid": "q", "docno": docnos, "score": 1.0})
        return Run(frame, "run").with_parents(separator).frame["parent"].tolist()

    # up to the last separator; a docno without it is its own parent
    assert parents(["d1%p3", "a%pb%p0", "d2", 7], "%p") == ["d1", "a%pb", "d2", "7"]
    assert parents(["a.b", "a*b"], ".") == ["a", "a*b"]
    assert parents([], "%p") == []
    for invalid in ("", 1):
        with pytest.raises(ParameterError, match="parent"):
            means(["EE_D@3"], parent=invalid)
    with pytest.raises(InputError, match="'%p1'"):  # its parent is empty
        means(["EE_D@3"], PASSAGES.replace("d1%p1", "%p1"))
    with pytest.raises(InputError, match="column 'parent' already"):
        means(["EE_D@3"], PASSAGES.assign(parent="d1"))


def test_invalid_parents():
    column = PASSAGES.assign(parent=["d1", "d1", "d2"])
    two = pd.concat([column, column.assign(qid="q2", parent=["d1", "d3", "d2"])])
    with pytest.raises(
        InputError, match=r"'d1%p2'.*'d1' in row 1 \(qid 'q'\).*'d3' in row 4.*'q2'"
    ):
        means(["EE_D@3"], two, parent=None)
    with pytest.raises(InputError, match="parent is missing.*docno 'd1%p2'"):
        means(["EE_D@3"], column.assign(parent=["d1", None, "d2"]), parent=None)
    # duplicates are those of passages
    with pytest.raises(DuplicateError, match="docno 'd1%p1'"):
        means(["EE_D@3"], pd.concat([PASSAGES, PASSAGES.iloc[:1]]))


def test_documents_without_labels_are_not_useful():
    unlabeled = pd.concat([PASSAGES, PASSAGES.iloc[:1].assign(docno="d9%p1", score=0.5)])
    # n is 3: d1, d2 and d9, with attention 3/2, 1/4 and 1/8
    actual = means([f"EE_D({MODEL},normalize=False)@4", "P@3"], unlabeled)
    assert actual.tolist() == pytest.approx([37 / 16 + 1 / 64, 1 / 3])


# Doctor ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", ["%p", "#", "_", "::"])
def test_doctor_proposes_the_separator(separator):
    run = PASSAGES.assign(docno=PASSAGES["docno"].str.replace("%p", separator))
    [actual] = [f for f in fairtk.doctor(LABELS, run).findings if f.level == "error"]
    assert (actual.check, actual.count) == ("passages", 3)
    assert f"parent={separator!r}" in actual.remedy
    after = fairtk.doctor(LABELS, run, parent=separator, groups=[GROUPS], target="uniform")
    assert {"passages", "ids", "judged"}.isdisjoint(f.check for f in after.findings)


def test_doctor_proposes_nothing_if_documents_are_judged():
    labels = LABELS.assign(docno=["d1%p1", "d2%p1"])
    assert "passages" not in {f.check for f in fairtk.doctor(labels, PASSAGES).findings}


def test_doctor_reports_invalid_parents():
    actual = fairtk.doctor(LABELS, PASSAGES.assign(parent=["d1", None, "d2"])).findings
    assert ("parents", "error") in {(f.check, f.level) for f in actual}


def test_doctor_breaks_ties_by_the_labels_of_documents():
    # useful documents first: d2 at rank 1; last: d1 at ranks 1 and 2, closed up to rank 1
    ties = fairtk.doctor(
        LABELS, PASSAGES.assign(score=1.0), measures=["E(nDCG@3)"], cutoff=3, parent="%p"
    ).ties
    assert ties["highest"].tolist() == pytest.approx([1])
    assert ties["lowest"].tolist() == pytest.approx([1 / np.log2(3)])


# Stages ----------------------------------------------------------------------------------------


def test_stages_keep_parents():
    run = toy_run().assign(parent=lambda frame: "doc " + frame["docno"], qanswer="bread [1].")
    stages = [
        fairtk.FairSampler(alpha=1, n_samples=2, seed=1),
        PlackettLuceExposure(alpha=1, cutoff=3),
        fairtk.credit.Citations(),
    ]
    for stage in stages:
        out = stage(run)
        assert (out["parent"] == "doc " + out["docno"]).all(), stage
        assert len(out)


def test_the_page_shows_the_labels_of_documents():
    results = fairtk.evaluate(LABELS, PASSAGES, ["EE_D@3"], parent="%p")
    [packed] = drill_down(results, 3).packed
    data = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert dict(zip(data["d"], data["l"], strict=True)) == {"d1%p1": 0, "d1%p2": 0, "d2%p1": 1}


def test_stored_values_depend_on_the_separator(tmp_path):
    topics = pd.DataFrame({"qid": ["q"], "query": ["bread"]})
    # without parents no passage is judged; with them d2 is useful
    for parent, want in ((None, 0), ("%p", 1 / 3), (None, 0), ("%p", 1 / 3)):
        actual = fairtk.Experiment(
            {"a": pt.Transformer.from_df(PASSAGES)},
            topics,
            LABELS,
            ["P@3"],
            save_dir=tmp_path,
            parent=parent,
        )
        assert actual.means.loc["a"].tolist() == pytest.approx([want])
