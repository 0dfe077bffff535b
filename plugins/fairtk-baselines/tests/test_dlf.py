"""DLF as a transformer: ranking, training, and what must not matter."""

import copy
from collections import OrderedDict

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
import torch
from dlf_collection import make_collection
from fairtk_baselines import DLF
from fairtk_baselines.dlf import training
from fairtk_baselines.dlf.models import pairs_of
from scipy import stats

from fairtk import AWRF, Groups, Target
from fairtk.errors import ColumnError, DataWarning, DuplicateError, InputError, ParameterError
from fairtk.testing import TransformerContract

QUICK = {"epochs": 8, "batch_size": 4}


@pytest.fixture(scope="module")
def small():
    return make_collection(n_queries=6, n_docs=20, dimension=8)


@pytest.fixture(scope="module")
def trained(small):
    return DLF(small.groups, small.target, **QUICK).fit(small.run, small.qrels)


def order(run, qid="q00"):
    return run[run["qid"] == qid].sort_values("rank")["docno"].tolist()


class TestContract(TransformerContract):
    @pytest.fixture(autouse=True)
    def _collection(self, small, trained):
        self.small, self.trained = small, trained

    def make(self):
        return copy.copy(self.trained)

    def others(self):
        more = make_collection(n_queries=4, n_docs=10, dimension=8, seed=3)
        quick = {"epochs": 1}
        return [
            self.trained.at_weight(0.25),
            self.trained.relevance_model(),
            DLF(self.small.groups, self.small.target, **QUICK),  # not trained
            DLF(self.small.groups, self.small.target, **quick).fit(more.run, more.qrels),
            DLF(more.groups, more.target, **QUICK),
            DLF(self.small.groups, Target.uniform(self.small.groups), **QUICK),
            DLF(self.small.groups, self.small.target, browsing="RBP(p=0.8)"),
        ]

    def other_values(self):
        more = make_collection(n_queries=4, n_docs=10, dimension=8, seed=3)
        refused = {"groups": [more.groups] * 2}
        return {
            **{
                "target": Target.uniform(self.small.groups),
                "hidden": (3,),
                "fairness_hidden": (3,),
            },
            **{"inputs": ("document",), "fairness_inputs": ("product",), "relevance_loss": "bce"},
            **{"exposure": "top-one", "browsing": "DCG", "train_on": "blend", "divergence": "js"},
            **{"unlabeled": "unknown", "unknown": "drop", "normalize": "z-score"},
            **{"drop": ("query_vec",), **refused},
        }

    def new(self, **settings):
        """The models do not depend on the settings of ranking, so they stay."""
        made = super().new(**settings)
        if settings.keys() <= {"weight", "fuse_bm25", "normalize", "components", "drop"}:
            made.fit(self.small.run, self.small.qrels)
        return made

    def inp(self):
        return self.small.run[self.small.run["qid"].isin(["q00", "q01", "q02"])].copy()


class TestContractWithComponents(TestContract):
    def make(self):
        made = self.trained.at_weight(0.3)
        made.components, made.drop = True, ("query_vec", "doc_vec")
        return made

    def others(self):
        return []


class TestRanking:
    def test_blend_by_hand(self, small, trained):
        # score = 0.7 relevance + 0.3 fairness, minus 1e-9 times the rank
        model = trained.at_weight(0.3)
        model.components = True
        found = model(small.run)
        blend = 0.7 * found["dlf_relevance"] + 0.3 * found["dlf_fairness"]
        assert found["score"].to_numpy() == pytest.approx(blend - 1e-9 * found["rank"], abs=1e-11)
        for _, query in found.groupby("qid"):
            assert query["rank"].tolist() == list(range(len(query)))
            assert (query["score"].diff().dropna() < 0).all()
            for name in ("dlf_relevance", "dlf_fairness"):
                assert query[name].min() == 0 and query[name].max() == 1

    def test_weights_zero_and_one_are_the_two_models(self, small, trained):
        pairs = pairs_of(small.run, "test")
        relevance, fairness = trained._models.scores(pairs)
        names = pairs.rankings.docnos[pairs.rankings.doc]
        first = pairs.rankings.query == 0
        for scores, model in (
            (relevance, trained.relevance_model()),
            (fairness, trained.at_weight(1)),
            (pairs.score, trained.at_weight(0, fuse_bm25=1)),
        ):
            wanted = names[first][np.argsort(-scores[first], kind="stable")]
            assert order(model(small.run)) == wanted.tolist()

    def test_documents_never_seen_need_no_groups(self, small, trained):
        """No docno of the groups is asked for: other names, the same ranking."""
        fresh = small.run.assign(docno="new-" + small.run["docno"], qid="n" + small.run["qid"])
        wanted = trained(small.run)
        found = trained(fresh)
        assert order(found, "nq03") == ["new-" + d for d in order(wanted, "q03")]
        assert found["score"].to_numpy() == pytest.approx(wanted["score"].to_numpy())

    def test_length_and_type_of_vectors_do_not_matter(self, small, trained):
        vectors = [v.astype(np.float64) for v in small.run["doc_vec"]]
        far = [(v * (1e200 if i % 2 else 1e-200)).tolist() for i, v in enumerate(vectors)]
        scaled = small.run.assign(doc_vec=far)
        assert order(trained(scaled)) == order(trained(small.run))

    @pytest.mark.parametrize("vector", [np.ones(8), np.zeros(8)], ids=["ones", "zeros"])
    def test_nothing_to_tell_documents_apart_keeps_their_order(self, small, trained, vector):
        same = small.run.assign(doc_vec=[vector] * len(small.run), score=1.0)
        same["query_vec"] = same["doc_vec"]
        found = trained(same)
        assert np.isfinite(found["score"]).all() and order(found) == order(small.run)

    def test_one_document_per_query(self, small, trained):
        one = small.run[small.run["rank"] == 0]
        found = trained(one)
        assert found["rank"].tolist() == [0] * 6 and found["score"].tolist() == [0.0] * 6

    def test_columns_are_kept_or_dropped(self, small):
        model = DLF(small.groups, small.target, epochs=1, drop=("doc_vec", "query_vec", "none"))
        model.fit(small.run, small.qrels)
        found = model(small.run.assign(text="t", query="q"))
        assert list(found.columns) == ["qid", "docno", "score", "rank", "text", "query"]
        assert list(model(small.run[:0]).columns) == ["qid", "docno", "score", "rank"]


class TestTraining:
    def test_the_same_whatever_the_order_of_rows(self, small, trained):
        shuffled = small.run.sample(frac=1, random_state=1)
        labels = small.qrels.sample(frac=1, random_state=2)
        again = DLF(small.groups, small.target, **QUICK).fit(shuffled, labels)
        assert again.fitted == trained.fitted

    def test_deterministic_and_fit_starts_anew(self, small, trained):
        torch.manual_seed(11)
        before = torch.get_rng_state()
        again = DLF(small.groups, small.target, **QUICK, seed=1).fit(small.run, small.qrels)
        assert again.fitted != trained.fitted
        again = DLF(small.groups, small.target, **QUICK)
        other = make_collection(4, 10, 8, seed=9)
        assert again.fit(other.run, other.qrels).fitted != trained.fitted
        assert again.fit(small.run, small.qrels) is again
        assert again == trained and again.fitted == trained.fitted
        assert torch.equal(torch.get_rng_state(), before)  # torch's global random state

    def test_no_epochs_is_the_encoder(self, small):
        """The relevance model starts as the cosine of query and document."""
        model = DLF(small.groups, small.target, epochs=0).fit(small.run, small.qrels)
        run = small.run[small.run["qid"] == "q00"]
        unit = [v / np.linalg.norm(v) for v in run["doc_vec"]]
        cosine = np.array([float(d @ q) for d, q in zip(unit, run["query_vec"], strict=True)])
        wanted = run["docno"].to_numpy()[np.argsort(-cosine, kind="stable")].tolist()
        assert order(model.relevance_model()(run)) == wanted

    def test_validation_stops_early_with_the_best_epoch(self, small):
        qids = ["q00", "q01", "q02"]
        data = small.part(qids), small.qrels, small.part(["q03", "q04", "q05"]), small.qrels
        options = {"epochs": 200, "learning_rate": 0.05, "patience": 3, "hidden": (16,)}
        model = DLF(small.groups, small.target, **options).fit(*data)
        for name, steps in model.history.groupby("model"):
            best = int(steps["validation_loss"].argmin())
            assert len(steps) == best + 1 + 3, name  # three more without a lower loss
        short = int(model.history.query("model == 'relevance'")["validation_loss"].argmin()) + 1
        same = DLF(small.groups, small.target, **{**options, "epochs": short}).fit(*data[:2])
        wanted = same._models.to_arrays()["relevance.weights.0"]
        assert model._models.to_arrays()["relevance.weights.0"] == pytest.approx(wanted)

    @pytest.mark.parametrize(
        "options",
        [
            {"relevance_loss": "bce"},
            {"exposure": "top-one"},
            {"divergence": "kl"},
            {"divergence": "js"},
            {"hidden": (8, 4), "fairness_hidden": [8]},
            {"train_on": "blend", "weight": 0.3},
            {"train_on": "blend", "normalize": "z-score"},
            {"inputs": "product", "fairness_inputs": ("document", "query")},
            {"cosine": 0},
            {"cutoff": None, "browsing": "DCG"},
            {"unknown": "drop", "unlabeled": "unknown"},
        ],
        ids=str,
    )
    def test_every_option_trains_and_ranks(self, small, options):
        frame = small.groups.to_frame()[20:]  # the first query's documents have no row
        groups = Groups.from_frame(frame, name="side", levels=["@UNKNOWN", "a", "b"])
        target = Target.population({"a": 1, "b": 1}, groups)
        model = DLF(groups, target, epochs=5, **options)
        if options.get("unlabeled") == "unknown":
            with pytest.warns(DataWarning):
                model.fit(small.run, small.qrels)
        else:
            with pytest.warns(DataWarning, match="'q00'"):
                model.fit(small.run, small.qrels)
        for name, steps in model.history.groupby("model"):
            assert steps["loss"].iloc[-1] < steps["loss"].iloc[0], name
        assert model.history["validation_loss"].isna().all()
        assert np.isfinite(model(small.run)["score"]).all()

    def test_a_blend_of_nothing_fair_is_refused(self, small):
        model = DLF(small.groups, small.target, weight=0, train_on="blend")
        with pytest.raises(ParameterError):
            model.fit(small.run, small.qrels)


class TestGroups:
    def test_soft_memberships_and_several_attributes(self):
        c = make_collection(n_queries=8, n_docs=20, dimension=8, levels=("a", "b", "c"))
        docnos = c.run["docno"].tolist()
        rows = [(d, g, w) for i, d in enumerate(docnos)
                for g, w in (("x", 1 + i % 3), ("y", 1))]  # fmt: skip
        soft = Groups.from_frame(pd.DataFrame(rows, columns=["docno", "group", "weight"]), "soft")
        targets = [c.target, Target.uniform(soft)]
        both = DLF([c.groups, soft], targets, **QUICK).fit(c.run, c.qrels)
        single = [
            DLF(g, t, **QUICK, learning_rate=1e-12).fit(c.run, c.qrels).history
            for g, t in zip([c.groups, soft], targets, strict=True)
        ]
        slow = DLF([c.groups, soft], targets, **QUICK, learning_rate=1e-12).fit(c.run, c.qrels)
        # without a step to speak of, the loss of both is the sum of the two
        fair = [h[h["model"] == "fairness"]["loss"].iloc[0] for h in (*single, slow.history)]
        assert fair[0] + fair[1] == pytest.approx(fair[2], rel=1e-5)
        assert both.groups == (c.groups.key, soft.key)

    def test_queries_without_a_target_are_named(self, small):
        frame = small.target.to_frame()
        target = Target.from_frame(frame[~frame["qid"].isin(["q01", "q04"])], small.groups)
        with pytest.warns(DataWarning, match="'side'.*'q01'.*'q04'"):
            DLF(small.groups, target, epochs=1).fit(small.run, small.qrels)

    def test_unknown_is_a_group_or_left_out(self, small):
        """Unknown left out, a target of nothing else is no target."""
        frame = small.groups.to_frame()
        frame.loc[:50, "group"] = "@UNKNOWN"
        groups = Groups.from_frame(frame, name="side")
        target = Target.population({"@UNKNOWN": 1}, groups)
        DLF(groups, target, epochs=1).fit(small.run, small.qrels)
        with (
            pytest.raises(InputError),
            pytest.warns(DataWarning),
        ):
            DLF(groups, target, epochs=1, unknown="drop").fit(small.run, small.qrels)

    def test_level_of_the_target_that_no_candidate_has(self, small):
        groups = Groups.from_frame(small.groups.to_frame(), "side", levels=["a", "b", "never"])
        model = DLF(groups, Target.uniform(groups), **QUICK).fit(small.run, small.qrels)
        assert np.isfinite(model.history["loss"]).all()

    def test_documents_without_a_row_do_not_count(self, small):
        """They add nothing to exposure, unless unknown is a group with a share of the target."""
        frame = small.groups.to_frame()
        groups = Groups.from_frame(frame[frame["group"] == "a"], "side", levels=["@UNKNOWN", "a"])

        def loss(missing, shares):
            target = Target.population(shares, groups)
            model = DLF(groups, target, epochs=1, smoothing=1e-6, unlabeled=missing)
            history = model.fit(small.run, small.qrels).history
            return history[history["model"] == "fairness"]["loss"].iloc[0]

        for missing in ("drop", "unknown"):  # all exposure that counts is a's
            assert loss(missing, {"a": 1}) == pytest.approx(0, abs=1e-5)
        assert loss("unknown", {"a": 0.9, "@UNKNOWN": 0.1}) > 0.1

    def test_groups_without_an_unknown_level(self, small):
        groups = Groups.from_frame(small.groups.to_frame()[:9], "side", unknown=None)
        model = DLF(groups, Target.uniform(groups), unlabeled="unknown")
        with pytest.raises(InputError, match="DLF.fit.*'unknown'"):
            model.fit(small.run, small.qrels)


class TestHeldOut:
    def test_labels_and_targets_of_other_queries_change_nothing(self, small):
        qids = ["q00", "q01", "q02", "q03"]
        train, ours = small.part(qids), small.qrels["qid"].isin(qids)
        even = {"a": 0.5, "b": 0.5}
        models = []
        for seed in (1, 2):  # which documents of q04 and q05 are relevant
            theirs = small.qrels[~ours].sample(frac=0.4, random_state=seed)
            qrels = pd.concat([small.qrels[ours], theirs])
            target = Target.from_qrels(qrels, small.groups, background=even)
            models.append(DLF(small.groups, target, **QUICK).fit(train, qrels))
        assert models[0].target != models[1].target
        assert models[0].fitted == models[1].fitted

    def test_awrf_rises_on_other_queries(self):
        """Against its own relevance model, by a paired test over 24 queries never trained on."""
        c = make_collection(n_queries=48, n_docs=60, levels=("a", "b", "c"))
        qids = sorted(c.run["qid"].unique())
        test = c.part(qids[24:])
        measure = AWRF(groups=c.groups, target=c.target) @ 20
        model = DLF(c.groups, c.target).fit(c.part(qids[:24]), c.qrels)
        before = per_query(measure, model.relevance_model()(test), c.qrels)
        after = per_query(measure, model.at_weight(0.5, fuse_bm25=0)(test), c.qrels)
        assert len(after) == 24
        assert stats.ttest_rel(after, before, alternative="greater").pvalue < 0.01
        assert (after - before).mean() > 0.01


def per_query(measure, run, qrels):
    judged = qrels[qrels["qid"].isin(run["qid"])]
    values = measure.iter_calc(
        judged.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"}),
        run.rename(columns={"qid": "query_id", "docno": "doc_id"}),
    )
    return pd.Series({v.query_id: v.value for v in values}).sort_index()


class TestBadInput:
    def test_not_trained(self, small):
        model = DLF(small.groups, small.target)
        assert model(small.run[:0]).columns.tolist() == small.run.columns.tolist()
        with pytest.raises(InputError, match="DLF"):
            model(small.run)
        with pytest.raises(InputError):
            model.save("nowhere")
        with pytest.raises(InputError):
            model.history  # noqa: B018

    def test_vectors(self, small, trained):
        run = small.run.copy()
        run.at[3, "doc_vec"] = np.ones(7)
        docno = run["docno"].iloc[3]
        with pytest.raises(InputError, match=f"doc_vec.*8 finite.*got 7 numbers.*{docno}"):
            trained(run)
        with pytest.raises(InputError, match="query_vec.*got 5"):  # another encoder
            trained(small.run.assign(query_vec=[np.ones(5)] * len(run)))

    def test_runs(self, small, trained):
        with pytest.raises(ColumnError, match="sample"):
            trained(small.run.assign(sample=0))
        with pytest.raises(InputError, match="nan"):
            trained(small.run.assign(score=np.nan))

    def test_labels(self, small):
        model = DLF(small.groups, small.target)
        with pytest.raises(InputError):
            model.fit(small.run, small.qrels.assign(label=0))
        with pytest.raises(InputError):
            model.fit(small.run, small.qrels.assign(qid="other"))
        with pytest.raises(DuplicateError):
            model.fit(small.run, pd.concat([small.qrels] * 2))
        with pytest.raises(InputError, match="'yes'"):
            model.fit(small.run, small.qrels.assign(label="yes"))
        with pytest.raises(ColumnError, match="label"):
            model.fit(small.run, small.qrels.drop(columns="label"))
        with pytest.raises(InputError):
            model.fit(small.run[:0], small.qrels)
        with pytest.raises(InputError, match="qrels_va"):
            model.fit(small.run, small.qrels, small.run)

    def test_training_that_diverges(self, small):
        model = DLF(small.groups, small.target, cosine=3e38)
        with pytest.raises(
            ParameterError, match="relevance model's loss is (nan|inf) in epoch 1; lower learning"
        ):
            model.fit(small.run, small.qrels)

    @pytest.mark.parametrize(
        "options",
        [
            {"weight": 1.5},
            {"weight": True},
            {"fuse_bm25": -1},
            {"hidden": 32},
            {"hidden": (0,)},
            {"fairness_inputs": ()},
            {"inputs": ("docs",)},
            {"exposure": "softrank"},
            {"temperature": 0},
            {"browsing": "GERR"},
            {"browsing": "DGC"},
            {"browsing": "MU", "cutoff": None},
            {"cutoff": 0},
            {"smoothing": 0},
            {"divergence": "tv"},
            {"train_on": "both"},
            {"unlabeled": "bounds"},
            {"normalize": "sum"},
            {"learning_rate": float("nan")},
            {"drop": ("docno",)},
            {"seed": 0.5},
        ],
        ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
    )
    def test_settings(self, small, options):
        with pytest.raises(InputError, match=rf"\b{[*options][-1]}\b"):
            DLF(small.groups, small.target, **options)

    def test_groups_and_targets(self, small):
        other = Groups.from_frame(pd.DataFrame({"docno": ["d"], "group": ["z"]}), name="other")
        with pytest.raises(ParameterError, match="got 2"):
            DLF([small.groups, other], small.target)
        with pytest.raises(ParameterError, match="'side'"):
            DLF([small.groups] * 2, [small.target] * 2)
        with pytest.raises(ParameterError, match="target"):
            DLF(small.groups, "uniform")
        with pytest.raises(InputError, match="'other'"):
            DLF(other, small.target)
        many = Groups.from_frame(
            pd.DataFrame({"docno": map(str, range(1025)), "group": map(str, range(1025))})
        )
        with pytest.raises(ParameterError, match="1024"):
            DLF(many, Target.uniform(many))
        nobody = Groups.from_frame(pd.DataFrame({"docno": ["d"], "group": ["@UNKNOWN"]}))
        with pytest.raises(ParameterError):
            DLF(nobody, Target.population({"@UNKNOWN": 1}, nobody), unknown="drop")


def test_schematic(trained):
    for drop in ((), ("query_vec", "doc_vec")):
        model = copy.copy(trained)
        model.drop = drop
        assert "DLF" in pt.schematic.draw(model)


def test_models_that_differ_in_the_blend_alone_are_trained_once(small, monkeypatch):
    lessons = []
    train = training.fitted_models
    monkeypatch.setattr(training, "_RECENT", OrderedDict())
    monkeypatch.setattr(
        training, "fitted_models", lambda lesson: lessons.append(lesson) or train(lesson)
    )
    made = {}
    for weight, epochs in ((0.0, 2), (1.0, 2), (0.0, 3), (1.0, 2)):
        system = DLF(small.groups, small.target, weight, epochs=epochs)
        made[weight, epochs] = system.fit(small.run, small.qrels)
    assert len(lessons) == 2
    ranked = [order(made[weight, 2].transform(small.run)) for weight in (0.0, 1.0)]
    assert ranked[0] != ranked[1]  # the weight counts when ranking
    made[0.0, 2].fit(small.part(["q00", "q01"]), small.qrels)
    assert len(lessons) == 3
