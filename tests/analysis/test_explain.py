"""The parts of AWRF and EE_L: by hand, and that they add up in every direction."""

import math
import warnings
from types import SimpleNamespace

import ir_measures
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_frames import small_groups

import fairtk
from fairtk import AWRF, EE_D, EE_L, EE_R, GroupEE_L, Target
from fairtk.errors import (
    DataWarning,
    InputError,
    ParameterError,
    UndefinedWarning,
    UnmatchedWarning,
)
from fairtk.measures import nDCG_AWRF


def run_of(rankings):
    """Return a run: for each qid the documents in order, or a list of such for samples."""
    rows = []
    for qid, ranking in rankings.items():
        for sample, docnos in enumerate(ranking if isinstance(ranking[0], list) else [ranking]):
            rows += [(qid, d, -float(i), sample) for i, d in enumerate(docnos)]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score", "sample"])
    sampled = any(isinstance(r[0], list) for r in rankings.values())
    return frame if sampled else frame.drop(columns="sample")


def qrels_of(labels):
    rows = [(q, d, v) for q, of in labels.items() for d, v in of.items()]
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


GENDER = small_groups("abcde", ["f", "f", "m", "m", "@UNKNOWN"], "gender")
GEO = small_groups("abcde", "xyxyy", "geo")
HALF = Target.population({"f": 1, "m": 1}, GENDER)


def mean_of(measure, run, qrels):
    return ir_measures.calc_aggregate([measure], qrels, run)[measure]


def check_sums(explanation):
    """Every direction gives the same total, with its rows numbered from 0."""
    for frame in (explanation.by_group, explanation.by_rank, explanation.by_query):
        assert frame.index.tolist() == list(range(len(frame)))
    total = explanation.total
    if math.isnan(total):  # defined for no query: nothing has a known cost
        for frame in (explanation.by_group, explanation.by_rank, explanation.by_query):
            assert frame["cost"].isna().all()
        return
    for frame in (explanation.by_group, explanation.by_rank):
        assert frame["cost"].sum() == pytest.approx(total, abs=1e-12)
    for _, frame in explanation.by_attribute.groupby("attribute"):
        assert frame["cost"].sum() == pytest.approx(total, abs=1e-12)
    by_query = explanation.by_query.dropna(subset="cost").set_index("qid")["cost"]
    assert by_query.mean() == pytest.approx(total, abs=1e-12)
    parts = explanation.to_frame().groupby("qid")["cost"].sum()
    assert parts.reindex(by_query.index).fillna(0).to_numpy() == pytest.approx(
        by_query.to_numpy(), abs=1e-12
    )


class TestByHand:
    def test_awrf(self):
        run, qrels = run_of({"q": ["a", "b"]}), qrels_of({"q": {"a": 1}})
        result = fairtk.explain(qrels, run, AWRF(groups=GENDER, target=HALF) @ 2)
        # exposure (f, m) = (1, 0), target (1/2, 1/2), mean (3/4, 1/4)
        f = 0.5 * (math.log(1 / 0.75) + 0.5 * math.log(0.5 / 0.75))
        m = 0.5 * 0.5 * math.log(0.5 / 0.25)
        rows = result.by_group.set_index("group")
        assert rows.loc["f", "cost"] == pytest.approx(f, abs=1e-15)
        assert rows.loc["m", "cost"] == pytest.approx(m, abs=1e-15)
        assert rows["exposure"].to_dict() == {"m": 0, "f": 1}
        assert rows["target"].to_dict() == {"m": 0.5, "f": 0.5}
        assert rows["difference"].to_dict() == {"m": -0.5, "f": 0.5}
        assert rows["queries"].to_dict() == {"m": 0, "f": 1}
        assert rows.index.tolist() == ["m", "f"]  # 0.173 and 0.042
        # both ranks show the same with the same attention
        assert result.by_rank["ranks"].tolist() == ["1", "2"]
        assert result.by_rank["cost"].tolist() == pytest.approx([(f + m) / 2] * 2)
        assert result.by_query["costliest"].tolist() == ["m"]
        assert result.by_query["costliest_share"].tolist() == pytest.approx([m / (f + m)])
        assert result.by_query["value"].tolist() == pytest.approx([1 - f - m])

    def test_loss_by_group(self):
        run, qrels = run_of({"q": ["a", "b"]}), qrels_of({"q": {"a": 1, "b": 1, "c": 1}})
        result = fairtk.explain(qrels, run, GroupEE_L(groups=GENDER, target=HALF) @ 2)
        # attention 1 + 1: exposure (2, 0), target 2 (1/2, 1/2): each group costs 1
        rows = result.by_group.set_index("group")
        assert rows["cost"].to_dict() == {"f": 1, "m": 1}
        assert rows["target"].to_dict() == {"f": 1, "m": 1}
        assert result.by_rank["cost"].tolist() == [1, 1]
        assert result.total == 2
        long = result.to_frame().set_index(["group", "ranks"])
        # f: 1 (1 - 1/2), m: -1 (0 - 1/2)
        assert long["cost"].tolist() == [0.5] * 4
        assert long.loc[("f", "1"), "exposure"] == 1

    def test_loss_by_document(self):
        run = run_of({"q": ["a", "c", "b"]})
        qrels = qrels_of({"q": {"a": 1, "b": 1, "d": 0}})
        result = fairtk.explain(qrels, run, EE_L(normalize=False) @ 2)
        # two useful documents, two ranks: target 1 for a and b; exposure 1 for a and c
        rows = result.by_group.set_index("group")
        assert rows["cost"].to_dict() == {"useful": 1, "not judged": 1, "not useful": 0}
        assert rows["difference"].to_dict() == {"useful": -1, "not judged": 1, "not useful": 0}
        check_sums(result)
        by_gender = fairtk.explain(qrels, run, EE_L(normalize=False) @ 2, groups=GENDER).by_group
        assert by_gender.set_index("group")["cost"].to_dict() == {"f": 1, "m": 1}

    @pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
    def test_documents_that_only_n_knows(self):
        run, qrels = run_of({"q": ["c"]}), qrels_of({"q": {"a": 1, "c": 0}})
        result = fairtk.explain(qrels, run, EE_L(normalize=False, n=6) @ 3)
        # target: a 1, the five others 2/5; exposure: c 1
        rows = result.by_group.set_index("group")["cost"]
        assert rows["useful"] == pytest.approx(1)
        assert rows["not useful"] == pytest.approx(0.36)
        assert rows["(neither judged nor retrieved)"] == pytest.approx(4 * 0.16)
        check_sums(result)

    def test_a_document_without_a_group(self):
        run, qrels = run_of({"q": ["z"]}), qrels_of({"q": {"a": 1}})
        with pytest.warns(UnmatchedWarning):
            result = fairtk.explain(qrels, run, EE_L(normalize=False) @ 1, groups=GENDER)
        assert result.by_group.set_index("group")["cost"].to_dict() == {"(no group)": 1, "f": 1}


LISTS = st.lists(st.sampled_from("abcdez"), min_size=1, max_size=6, unique=True)


@settings(max_examples=12)
@given(st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), LISTS, min_size=1), st.data())
def test_parts_add_up_to_what_the_measure_says(rankings, data):
    run = run_of(rankings)
    labels = {q: {"a": 1, "c": 1, "d": 0} for q in ("q1", "q2", "q3")}
    qrels = qrels_of(labels)
    groups = data.draw(st.sampled_from([GENDER, GEO, GENDER * GEO]))
    target = data.draw(st.sampled_from([Target.uniform(groups), Target.from_qrels(qrels, groups)]))
    options = {"groups": groups, "target": target}
    measure = data.draw(
        st.sampled_from(
            [
                AWRF(**options),
                AWRF(**options, base=2) @ 3,
                AWRF(**options, unlabeled="uniform", browsing="GERR"),
                GroupEE_L(**options) @ 3,
                GroupEE_L(**options, useful_only=False),
                EE_L @ 2,
                EE_L(bounds="exact", browsing="RBP(p=0.7)"),
                EE_R @ 2,
                EE_R(bounds="exact", browsing="GERR", n=9) @ 3,
            ]
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fairtk.explain(qrels, run, measure)
        mean = mean_of(measure, run, qrels)
        check_sums(result)
        if result.n_defined == len(labels):
            value = 1 - result.total if measure.BETTER == "higher" else result.total
            assert value == pytest.approx(mean, abs=1e-12)
        shuffled = fairtk.explain(qrels, run.sample(frac=1, random_state=1), measure)
    pd.testing.assert_frame_equal(shuffled.by_rank, result.by_rank)


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
@pytest.mark.parametrize("amortize", [True, False])
def test_sampled_runs(amortize):
    run = run_of({"q": [["a", "b"], ["c", "d"], ["a", "e"]], "r": [["c"], ["b"], ["d"]]})
    qrels = qrels_of({"q": {"a": 1}, "r": {"b": 1}})
    measure = AWRF(groups=GENDER, target=HALF, amortize=amortize) @ 2
    result = fairtk.explain(qrels, run, measure)
    check_sums(result)
    assert 1 - result.total == pytest.approx(mean_of(measure, run, qrels))
    check_sums(fairtk.explain(qrels, run, EE_L @ 1))


class TestWhatIsMissing:
    qrels = qrels_of({"q": {"a": 1}, "r": {"b": 1}, "s": {"c": 0}})

    def test_queries_that_the_run_lacks_cost_what_the_measure_says(self):
        result = fairtk.explain(
            self.qrels, run_of({"q": ["a", "c"]}), AWRF(groups=GENDER, target=HALF)
        )
        rows = result.by_group.set_index("group")["cost"]
        assert rows["(query not in the run)"] == pytest.approx(2 / 3)
        assert result.by_rank.set_index("ranks")["cost"]["(not in the run)"] == pytest.approx(2 / 3)
        check_sums(result)

    def test_undefined_queries_are_last_and_no_part_of_the_mean(self):
        target = Target.from_qrels(self.qrels, GENDER)  # none for s
        run = run_of({"q": ["a", "c"], "r": ["c"], "s": ["a"]})
        with pytest.warns(UndefinedWarning, match="'s'"):
            result = fairtk.explain(self.qrels, run, AWRF(groups=GENDER, target=target))
        assert result.by_query["qid"].tolist()[-1] == "s"
        assert math.isnan(result.by_query["cost"].iloc[-1])
        assert result.by_query["costliest"].iloc[-1] == ""
        assert "mean of 2 of 3 queries" in str(result)
        assert str(result).splitlines()[0] == "AWRF(groups='gender',target='relevance')"
        check_sums(result)

    def test_nothing_defined(self):
        with pytest.warns(UndefinedWarning), pytest.warns(DataWarning):
            result = fairtk.explain(
                self.qrels.iloc[:1], run_of({"q": ["z"]}), AWRF(groups=GENDER, target=HALF)
            )
        check_sums(result)
        assert math.isnan(result.total) and result.by_rank["attention"].isna().all()
        assert result.by_group.empty
        assert result.to_frame().empty
        assert result.summary[1].startswith("cost (1 - AWRF): undefined")


class TestBaseline:
    qrels = qrels_of({"q": {"a": 1}, "r": {"b": 1}})
    before = run_of({"q": ["a", "b"], "r": ["a", "b"]})
    after = run_of({"q": ["a", "c"], "r": ["a", "b", "d"]})
    measure = AWRF(groups=GENDER, target=HALF) @ 2

    def test_both_and_the_change(self):
        result = fairtk.explain(self.qrels, self.after, self.measure, baseline=self.before)
        alone = fairtk.explain(self.qrels, self.before, self.measure)
        assert result.before.total == alone.total
        rows = result.by_group.set_index("group")
        assert (
            rows["baseline_cost"].to_dict() == alone.by_group.set_index("group")["cost"].to_dict()
        )
        assert rows["change"].sum() == pytest.approx(result.total - alone.total)
        for frame in (result.by_rank, result.by_query, result.to_frame()):
            assert (frame["change"] == frame["cost"] - frame["baseline_cost"]).all()
        assert result.by_query.set_index("qid").loc["q", "cost"] == pytest.approx(0)
        assert f"change {result.total - alone.total:+.4f}" in str(result)
        assert f"baseline: {alone.total:.4f}" in repr(result)

    def test_a_change_of_nothing_has_no_sign(self):
        result = fairtk.explain(self.qrels, self.before, self.measure, baseline=self.before)
        object.__setattr__(result, "before", SimpleNamespace(total=result.total + 1e-9))
        assert "change +0.0000" in result.summary[2]

    def test_a_group_that_only_the_baseline_shows(self):
        target = Target.population({"m": 1}, GENDER)
        measure = AWRF(groups=GENDER, target=target) @ 1
        result = fairtk.explain(
            self.qrels, run_of({"q": ["c"], "r": ["d"]}), measure, baseline=self.before
        )
        rows = result.by_group.set_index("group")
        assert rows.loc["f", "cost"] == 0
        assert rows.loc["f", "baseline_exposure"] == 1
        assert rows.loc["f", "change"] == -rows.loc["f", "baseline_cost"]

    def test_means_are_over_queries_that_both_define(self):
        # the baseline shows nobody whose group is known for r
        before = run_of({"q": ["a", "b"], "r": ["z"]})
        with pytest.warns(UndefinedWarning), pytest.warns(DataWarning):
            result = fairtk.explain(self.qrels, self.after, self.measure, baseline=before)
        assert result.by_query["cost"].notna().tolist() == [True, False]
        check_sums(result)


class TestOneQuery:
    qrels = qrels_of({"q": {"a": 1, "e": 0}, "r": {"b": 1}, "s": {"c": 1}})
    run = run_of({"q": ["a", "c", "z"], "r": ["b"]})
    measure = AWRF(groups=GENDER * GEO, target=Target.uniform(GENDER * GEO)) @ 2

    def test_only_its_rows_are_read(self):
        result = fairtk.explain(self.qrels, self.run, self.measure, qid="q")
        all_queries = fairtk.explain(self.qrels, self.run, self.measure).by_query
        assert result.by_query["qid"].tolist() == ["q"]
        assert result.total == all_queries.set_index("qid").loc["q", "cost"]
        check_sums(result)
        # what is wrong with other queries is not seen
        wrong = pd.concat([self.qrels, qrels_of({"r": {"b": 0}})])
        assert fairtk.explain(wrong, self.run, self.measure, qid="q").total == result.total

    def test_documents(self):
        result = fairtk.explain(self.qrels, self.run, self.measure, qid="q")
        expected = {
            "docno": ["a", "c"],
            "rank": [1, 2],
            "groups": ["f x x", "m x x"],
            "exposure": [1.0, 1.0],
            "label": [1.0, math.nan],
        }
        pd.testing.assert_frame_equal(result.by_document, pd.DataFrame(expected), check_dtype=False)
        assert "f x x" in str(result) and "f x x" in result._repr_html_()
        no_groups = fairtk.explain(self.qrels, self.run, EE_L @ 1, qid="q").by_document
        names = ["docno", "rank", "exposure", "target", "difference", "cost", "label"]
        assert no_groups.columns.tolist() == names
        assert no_groups["docno"].tolist() == ["a"]

    def test_documents_of_samples_and_of_a_baseline(self):
        sampled = run_of({"q": [["a", "b"], ["c", "a"]]})
        result = fairtk.explain(
            self.qrels, sampled, self.measure @ 1, qid="q", baseline=run_of({"q": ["a", "d"]})
        ).by_document.set_index("docno")
        assert result["exposure"].to_dict() == {"a": 0.5, "c": 0.5}
        assert result["baseline_exposure"].dropna().to_dict() == {"a": 1}
        assert result["baseline_rank"].dropna().to_dict() == {"a": 1}

    def test_ids_that_are_numbers(self):
        run, qrels = (
            frame.replace({"qid": {"q": 7, "r": 8, "s": 9}}) for frame in (self.run, self.qrels)
        )
        assert len(fairtk.explain(qrels, run, self.measure, qid=7).by_document) == 2

    def test_a_query_that_is_missing(self):
        result = fairtk.explain(self.qrels, self.run, self.measure, qid="s")
        assert result.total == 1 and result.by_document.empty
        assert "missing from the run: 1 of 1" in str(result)
        with pytest.raises(InputError, match="'x' is missing from qrels and run"):
            fairtk.explain(self.qrels, self.run, self.measure, qid="x")
        with pytest.raises(InputError, match="'r' is missing from the qrels;"):
            fairtk.explain(self.qrels[:2], self.run, self.measure, qid="r")

    def test_all_queries_have_no_table_of_documents(self):
        result = fairtk.explain(self.qrels, self.run, self.measure)
        assert "missing from the run: 1 of 3 queries; pass `qid`" in str(result)
        with pytest.raises(ParameterError, match="qid"):
            _ = result.by_document


def test_exact_exposure():
    run, qrels = run_of({"q": ["a", "b", "c"]}), qrels_of({"q": {"a": 1, "c": 1, "d": 0}})
    exact = fairtk.PlackettLuceExposure(alpha=1, cutoff=2)(run)
    for measure in (EE_L @ 2, GroupEE_L(groups=GENDER, target=HALF, browsing="MU") @ 2):
        result = fairtk.explain(qrels, exact, measure)
        check_sums(result)
        assert result.total == pytest.approx(mean_of(measure, exact, qrels))


class TestCrossed:
    qrels = qrels_of({"q": {"a": 1, "d": 1}})
    groups = GENDER * GEO

    def test_groups_are_named_by_their_levels(self):
        target = Target.from_qrels(self.qrels, self.groups)
        result = fairtk.explain(
            self.qrels, run_of({"q": ["a", "b"]}), AWRF(groups=self.groups, target=target) @ 2
        )
        assert result.by_group.columns[:2].tolist() == ["gender", "geo"]
        assert result.by_query["costliest"].tolist() == ["f x y"]
        assert result.by_attribute["attribute"].unique().tolist() == ["gender", "geo"]

    def test_groups_that_are_too_many_to_list_are_one(self):
        # 80 levels squared are more than are listed
        levels = [str(i) for i in range(80)]
        few, again = (small_groups("ab", "12", name, levels=levels) for name in "nm")
        many = few * again
        target = Target.uniform(many)
        run = run_of({"q": ["a", "b"]})
        for measure in (
            AWRF(groups=many, target=target),
            GroupEE_L(groups=many, target=target) @ 2,
        ):
            result = fairtk.explain(self.qrels, run, measure)
            rest = result.by_group.set_index("n").loc["(groups not shown)"]
            n_listed = 2 if measure.NAME == "AWRF" else 1  # b is not relevant
            assert len(result.by_group) == n_listed + 1
            scale = 1 if measure.NAME == "AWRF" else 2
            assert rest["target"] == pytest.approx(scale * (1 - n_listed / 6400))
            check_sums(result)


def test_bands_of_ranks():
    docs = [f"d{i:02}" for i in range(30)]
    groups = small_groups(docs, "fm" * 15)
    run, qrels = run_of({"q": docs}), qrels_of({"q": {"d01": 1}})
    measure = AWRF(groups=groups, target=Target.uniform(groups))
    ranks = lambda result: result.by_rank["ranks"].tolist()  # noqa: E731
    assert ranks(fairtk.explain(qrels, run, measure)) == ["1-5", "6-10", "11-20", "21-30"]
    assert ranks(fairtk.explain(qrels, run, measure @ 3)) == ["1", "2", "3"]
    assert ranks(fairtk.explain(qrels, run, measure, bands=[1, 20])) == ["1", "2-20", "21-30"]
    check_sums(fairtk.explain(qrels, run, measure, bands=[1, 20]))
    for wrong in ([], [0], [5, 5], ["a"], [True]):
        with pytest.raises(ParameterError):
            fairtk.explain(qrels, run, measure, bands=wrong)


class TestWrongUse:
    run, qrels = run_of({"q": ["a"]}), qrels_of({"q": {"a": 1}})

    @pytest.mark.parametrize(
        ("measure", "message"),
        [
            (EE_D @ 5, "explain: expected AWRF, GroupEE_L, EE_L or EE_R"),
            ("nDCG@5", "explain: expected AWRF, GroupEE_L, EE_L or EE_R"),
            (nDCG_AWRF(groups=GENDER, target=HALF) @ 2, "explain its factor AWRF"),
            (AWRF @ 5, "AWRF requires groups"),
            (AWRF(groups=GENDER), "AWRF requires a target"),
            (GroupEE_L(groups=GENDER), "GroupEE_L requires a target"),
            (AWRF(groups=GENDER, target=HALF, unlabeled="best"), "unlabeled='drop'"),
            (GroupEE_L(groups=GENDER, target=HALF, estimator="unbiased"), "estimator='plain'"),
            (EE_L(estimator="unbiased") @ 5, "estimator='plain'"),
        ],
    )
    def test_measures(self, measure, message):
        with pytest.raises(ParameterError, match=message):
            fairtk.explain(self.qrels, self.run, measure)

    def test_groups_twice(self):
        for measure in (AWRF, GroupEE_L):
            with pytest.raises(ParameterError):
                fairtk.explain(
                    self.qrels, self.run, measure(groups=GENDER, target=HALF), groups=GENDER
                )


class TestPlot:
    run, qrels = run_of({"q": ["a", "b", "c"]}), qrels_of({"q": {"a": 1}, "r": {"b": 1}})

    @pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
    def test_is_written_and_returned(self, tmp_path):
        pytest.importorskip("matplotlib")
        measure = AWRF(groups=GENDER * GEO, target=Target.uniform(GENDER * GEO)) @ 3
        result = fairtk.explain(self.qrels, self.run, measure, baseline=run_of({"q": ["c"]}))
        figure = result.plot(tmp_path / "explain.png")
        assert (tmp_path / "explain.png").read_bytes()[:4] == b"\x89PNG"
        assert figure.get_suptitle().startswith("AWRF(groups='gender*geo',")
        bars = {bar.get_y() + bar.get_height() / 2 for bar in figure.axes[1].containers[0]}
        words = [text for text in figure.axes[1].texts if text.get_text()]
        assert words and {text.get_position()[1] for text in words} <= bars

    def test_many_groups_and_queries(self):
        pytest.importorskip("matplotlib")
        docs = [f"d{i}" for i in range(20)]
        groups = small_groups(docs, docs)
        run = run_of({f"q{i}": docs for i in range(40)})
        qrels = qrels_of({f"q{i}": {"d0": 1} for i in range(40)})
        result = fairtk.explain(qrels, run, AWRF(groups=groups, target=Target.uniform(groups)))
        axes = result.plot().axes
        assert len(axes) == 4
        assert axes[0].get_yticklabels()[0].get_text() == "(9 other groups)"
