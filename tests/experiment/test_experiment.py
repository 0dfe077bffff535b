"""fairtk.Experiment: what it gives, and that it gives the same wherever and however it runs."""

import pickle
import warnings
from concurrent.futures import Future

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from dask_cluster import settings_of
from experiment_stages import DiesOnce, Echo, FailsFor, Retriever
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, EU, E, FairSampler, Generator
from fairtk.errors import (
    ColumnError,
    DataWarning,
    FairtkError,
    InputError,
    NotFoundError,
    ParameterError,
    StageError,
    WorkerError,
)
from fairtk.experiment.executors import RemoteSession, answer
from fairtk.experiment.identity import FrameLookup

MEASURES = [EE_D @ 3, EE_R @ 3, E(nDCG @ 3)]


def systems(log=None, model_log=None):
    retriever = Retriever(log=log)
    generator = Generator(Echo(model_log), prompt="rag", cutoff=2)
    sampled = {
        f"alpha {a}": retriever >> FairSampler(alpha=a, n_samples=4, cutoff=3) >> generator
        for a in (0, 2)
    }
    return {**sampled, "fixed": retriever % 3 >> generator}


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_agrees_with_pt_experiment(data):
    topics, qrels = data
    outcome = fairtk.Experiment(systems(), topics, qrels, MEASURES)
    named = systems()
    expected = pt.Experiment(
        list(named.values()), topics, qrels, MEASURES, names=list(named), perquery=True, plan="tree"
    )
    for measure in MEASURES:
        theirs = expected[expected["measure"] == str(measure)].set_index(["name", "qid"])["value"]
        mine = outcome.per_query[
            outcome.per_query["measure"] == fairtk.measures.format_measure(measure)
        ]
        mine = mine.set_index(["system", "qid"])["value"]
        np.testing.assert_allclose(mine.to_numpy(), theirs.loc[mine.index].to_numpy(), atol=1e-12)
    assert list(outcome.per_query.columns) == ["system", "qid", "measure", "value"]
    assert list(outcome.means.index) == ["alpha 0", "alpha 2", "fixed"]
    assert list(outcome.means.columns) == ["EE_D@3", "EE_R@3", "E(nDCG@3)"]


def test_prefixes_run_once_and_prompts_are_generated_once(data, tmp_path):
    topics, qrels = data
    log, model_log = tmp_path / "log", tmp_path / "model"
    outcome = fairtk.Experiment(systems(log, model_log), topics, qrels, MEASURES)
    assert sorted(lines(log)) == sorted(topics["qid"])  # three systems, one retrieval
    prompts = lines(model_log)
    assert len(prompts) == len(set(prompts))
    # the answer of each ranking is that of its prompt: all systems in one frame
    answers = pd.concat([outcome.answers(name) for name in outcome.systems])
    assert answers["qanswer"].str.startswith("answer ").all()
    assert list(outcome.answers("fixed").columns) == ["qid", "qanswer", "answer_status"]
    assert len(outcome.answers("alpha 0")) == 4 * len(topics)


def everything(results):
    """Return all tables as bytes, for comparisons digit for digit."""
    parts = [results.per_query, results.counts, results.per_sample]
    parts += [results.rankings(name) for name in results.systems]
    return [part.to_csv(index=False) for part in parts]


@pytest.mark.parametrize(
    ("executor", "durable"),
    [
        ("processes", True),
        pytest.param("dask", True, marks=pytest.mark.slow),
        pytest.param("dask", False, marks=pytest.mark.nightly),
    ],
)
def test_every_executor_gives_the_same(data, tmp_path, executor, durable):
    topics, qrels = data
    expected = fairtk.Experiment(systems(), topics, qrels, MEASURES, threads=1)
    with settings_of(executor, tmp_path) as settings:
        results = fairtk.Experiment(
            systems(),
            topics,
            qrels,
            MEASURES,
            **settings,
            threads=1,
            batch_size=5,
            save_dir=tmp_path / "store" if durable else None,
        )
    assert everything(results) == everything(expected)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(data, tmp_path):
    topics, qrels = data
    (tmp_path / "life1").touch()
    pipeline = {"a": Retriever() >> DiesOnce(tmp_path)}
    outcome = fairtk.Experiment(
        pipeline, topics, qrels, [nDCG @ 3], executor="processes", workers=1, batch_size=4
    )
    assert not list(tmp_path.glob("life*"))
    expected = fairtk.Experiment({"a": Retriever()}, topics, qrels, [nDCG @ 3])
    assert everything(outcome) == everything(expected)


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_an_error(data, tmp_path):
    topics, qrels = data
    for life in range(5):
        (tmp_path / f"life{life}").touch()
    with pytest.raises(WorkerError):
        fairtk.Experiment(
            [Retriever() >> DiesOnce(tmp_path)], topics, executor="processes", workers=1
        )


class Mute(Exception):
    """Its message fails to be made, as those of some generated clients do."""

    def __str__(self):
        raise AttributeError("no attribute 'body'")

    __repr__ = __str__


def mute(rows):
    if "q3" in set(rows["qid"]):
        raise Mute
    return rows


def unloadable():
    raise OSError("no such index here")


class OnlyHere(Retriever):
    def __reduce__(self):
        return unloadable, ()


def leaves(rows):
    raise SystemExit(3)


def script_class():
    """Return a class that cannot be imported by a worker: as one of a notebook or of stdin."""
    space = {"__name__": "__main__"}
    exec(
        "import pyterrier as pt\n"
        "class Upper(pt.Transformer):\n"
        "    def transform(self, inp):\n"
        "        return inp.assign(query=inp['query'].str.upper())\n",
        space,
    )
    return space["Upper"]


def test_a_stage_of_a_script_an_error_without_a_message_and_a_plugin_that_prints(
    data, tmp_path, monkeypatch
):
    """In one worker: it is slow to start."""
    info = tmp_path / "fairtk_chatty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fairtk-chatty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fairtk]\nchatty = fairtk_chatty\n")
    code = f"import os, pathlib; os.write(1, b'hi'); pathlib.Path({str(tmp_path)!r}, 'ran').touch()"
    (tmp_path / "fairtk_chatty.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)  # the worker's path, too
    topics, qrels = data
    systems = {
        "script": script_class()() >> Retriever(n=1),
        "mute": Retriever() >> pt.apply.generic(mute),
    }
    run = {"measures": ["nDCG@3"], "batch_size": 4}
    with pytest.warns(DataWarning):
        outcome = fairtk.Experiment(systems, topics, qrels, **run, executor="processes", workers=1)
    assert (tmp_path / "ran").exists()
    assert outcome.rankings("script")["query"].tolist() == topics["query"].str.upper().tolist()
    with pytest.warns(DataWarning):
        here = fairtk.Experiment(systems, topics, qrels, **run)
    for results in (outcome, here):
        assert results.failures["qid"].tolist() == ["q3"]
        [error] = results.failures["error"]
        assert error.endswith(": Mute: no message (AttributeError in str())")
        assert everything(results) == everything(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_a_stage_that_no_worker_can_load_is_named(data, tmp_path, executor):
    pipelines = {"plain": Retriever(), "odd": OnlyHere() % 3, "other": OnlyHere() % 3}
    pattern = (
        r"^the stage OnlyHere of 'odd', 'other' cannot be loaded in a worker: OSError: no such"
    )
    with (
        settings_of(executor, tmp_path, workers=1) as settings,
        pytest.raises(WorkerError, match=pattern),
    ):
        fairtk.Experiment(pipelines, *data, ["nDCG@3"], **settings)


@pytest.mark.slow
def test_a_stage_that_leaves_is_said_in_workers(data):
    pipeline = {"a": Retriever() >> pt.apply.generic(leaves)}
    with pytest.raises(StageError, match="'a'"):
        fairtk.Experiment(pipeline, *data, ["nDCG@3"], executor="processes", workers=1)
    with pytest.raises(SystemExit):
        fairtk.Experiment(pipeline, *data, ["nDCG@3"])


def test_an_error_in_a_worker_tells_where_and_what_was_warned_of():
    def work(stages, task):
        warnings.warn("mind the labels", DataWarning, stacklevel=2)
        try:
            raise KeyError("the cause")
        except KeyError as error:
            raise Unpicklable(task, "two arguments") from error

    def submit(function, task):
        future = Future()
        future.set_result(pickle.loads(pickle.dumps(answer(function, {}, task))))
        return future

    with (
        pytest.warns(DataWarning),
        pytest.raises(FairtkError, match="^Unpicklable: task 1 two arguments$") as caught,
    ):
        next(RemoteSession(submit, lambda: 1).map(work, [Named("task 1")]))
    cause = str(caught.value.__cause__)
    assert "KeyError: 'the cause'" in cause and "in work" in cause


class Named(str):
    needs = ()  # the models that a task calls


class Unpicklable(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} {other}")

    def __reduce__(self):  # once Dask is loaded, errors travel that did not before
        raise TypeError("cannot travel")


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5))),
    st.permutations("abcx"),
    st.booleans(),
)
def test_a_frame_that_queries_are_looked_up_in_is_that_of_pyterrier(rows, asked, own):
    frame = pd.DataFrame(rows, columns=["qid", "docno"]).astype({"qid": "str"})
    topics = pd.DataFrame({"qid": [*asked, "a"], "docno" if own else "query": "words"})
    expected = pt.Transformer.from_df(frame).transform(topics)
    pd.testing.assert_frame_equal(FrameLookup(frame).transform(topics), expected)


# Failures ---------------------------------------------------------------------------------------


def test_a_failed_query_is_counted_and_the_rest_goes_on(data, tmp_path):
    topics, qrels = data
    (tmp_path / "bad").write_text("q3 q7")
    pipeline = {"good": Retriever(), "bad": Retriever() >> FailsFor(tmp_path / "bad")}
    with pytest.warns(DataWarning, match="2 of 12 queries of bad"):
        outcome = fairtk.Experiment(pipeline, topics, qrels, [nDCG @ 3], batch_size=5)
    assert outcome.failures[["system", "qid"]].to_numpy().tolist() == [["bad", "q3"], ["bad", "q7"]]
    assert "FailsFor: RuntimeError: no luck with q3" in outcome.failures["error"][0]
    assert outcome.means["failed"].to_dict() == {"good": 0, "bad": 2}
    values = outcome.per_query[outcome.per_query["system"] == "bad"].set_index("qid")["value"]
    assert values["q3"] == values["q7"] == 0
    good = outcome.per_query[outcome.per_query["system"] == "good"].set_index("qid")["value"]
    qids = [q for q in good.index if q not in ("q3", "q7")]
    assert values[qids].tolist() == good[qids].tolist()
    for table in (
        outcome.to_markdown(),
        outcome.to_latex(),
        outcome.to_csv(),
        outcome._repr_html_(),
    ):
        assert "failed" in table
    assert outcome.compare("good")["failed"].tolist() == [0, 2]


def test_a_failed_answer_costs_its_queries_alone(data):
    topics, qrels = data
    generator = Generator(Echo(bad="words of q4"), prompt="rag", cutoff=2)
    with pytest.warns(DataWarning, match="1 of 12"):
        outcome = fairtk.Experiment({"a": Retriever() % 3 >> generator}, topics, qrels, [nDCG @ 3])
    assert outcome.failures["qid"].tolist() == ["q4"]
    assert "the model choked" in outcome.failures["error"][0]
    assert len(outcome.answers("a")) == 11


def test_fail_fast_raises(data, tmp_path):
    topics, qrels = data
    (tmp_path / "bad").write_text("q3")
    with pytest.raises(StageError, match="FailsFor"):
        fairtk.Experiment(
            [Retriever() >> FailsFor(tmp_path / "bad")], topics, qrels, [nDCG @ 3], fail_fast=True
        )


def test_when_everything_fails_there_is_no_result(data, tmp_path):
    topics, qrels = data
    (tmp_path / "bad").write_text(" ".join(topics["qid"]))
    with pytest.raises(StageError, match="12 of 12"):
        fairtk.Experiment([Retriever() >> FailsFor(tmp_path / "bad")], topics, qrels, [nDCG @ 3])


def test_plain_measures_on_samples_are_refused_before_anything_is_generated(data, tmp_path):
    topics, qrels = data
    log, model_log = tmp_path / "log", tmp_path / "model"
    run = {"batch_size": 5, "save_dir": tmp_path / "store"}
    wanted = systems(log, model_log)
    with pytest.raises(InputError, match="'alpha 0'.*nDCG@3.*nDCG@3"):
        fairtk.Experiment(wanted, topics, qrels, [nDCG @ 3], **run)
    assert len(lines(log)) == 5  # the first batch, and no answer
    assert not lines(model_log)
    fairtk.Experiment(wanted, topics, qrels, [E(nDCG @ 3)], **run)
    calls = len(lines(model_log))
    sampled = (Retriever() >> FairSampler(n_samples=2, cutoff=3)).transform(topics)
    for system in (wanted["alpha 0"], sampled):
        with pytest.raises(InputError, match="'a'.*nDCG@3"):
            fairtk.Experiment({"a": system}, topics, qrels, [nDCG @ 3], **run)
    assert len(lines(log)) == len(topics)
    assert len(lines(model_log)) == calls


# Input ------------------------------------------------------------------------------------------


def test_frames_are_systems_too(data):
    topics, qrels = data
    run = Retriever().transform(topics)
    outcome = fairtk.Experiment({"frame": run, "pipeline": Retriever()}, topics, qrels, [nDCG @ 3])
    means = outcome.means["nDCG@3"]
    assert means["frame"] == means["pipeline"]
    assert outcome.systems == ["frame", "pipeline"]
    listed = fairtk.Experiment([run, Retriever()], topics, qrels, [nDCG @ 3], baseline=0)
    assert listed.baseline == listed.systems[0] == "frame of 96 rows"
    alone = fairtk.Experiment([run], qrels=qrels, measures=["nDCG@3"])
    assert alone.means.iloc[0, 0] == means["frame"]


def test_names_are_the_same_in_each_process(data):
    topics, qrels = data
    runs = [pt.Transformer.from_df(Retriever().transform(topics).head(n)) for n in (96, 95)]
    systems = [*runs, runs[0] % 2, runs[1] % 2]
    names = fairtk.Experiment(systems, topics, qrels, [nDCG @ 3], warn=False).systems
    plain, cut = "SourceTransformer", "(SourceTransformer >> RankCutoff(2))"
    assert names == [plain, f"{plain} (2)", cut, f"{cut} (2)"]


def test_candidates_may_be_the_topics(data):
    topics, qrels = data
    run = Retriever().transform(topics).sample(frac=1, random_state=1)
    outcome = fairtk.Experiment([FairSampler(n_samples=3, cutoff=3)], run, qrels, MEASURES)
    expected = fairtk.Experiment(
        [Retriever() >> FairSampler(n_samples=3, cutoff=3)], topics, qrels, MEASURES
    )
    np.testing.assert_array_equal(outcome.means.to_numpy(), expected.means.to_numpy())


def test_topics_without_labels_are_said_or_left_out(data):
    topics, qrels = data
    some = qrels[qrels["qid"] != "q5"]
    with pytest.warns(DataWarning, match="1 of 12"):
        outcome = fairtk.Experiment([Retriever()], topics, some, [nDCG @ 3])
    assert "q5" not in set(outcome.per_query["qid"])
    assert "q5" in set(outcome.rankings(outcome.systems[0])["qid"])
    less = fairtk.Experiment([Retriever()], topics, some, [nDCG @ 3], filter_by_qrels=True)
    assert "q5" not in set(less.rankings(less.systems[0])["qid"])


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"systems": []}, ParameterError, "at least one system is required"),
        ({"systems": [len]}, ParameterError, "must be a PyTerrier pipeline or a frame"),
        ({"systems": [Retriever(), Retriever()]}, ParameterError, "duplicate system"),
        ({"baseline": 3}, ParameterError, "is out of range"),
        ({"workers": 2}, ParameterError, "has one worker"),
        ({"threads": 0}, ParameterError, "threads"),
        ({"batch_size": 1.5}, ParameterError, "batch_size"),
        ({"measures": ["nDCG@5"], "qrels": None}, InputError, "`qrels`"),
        ({"topics": None}, InputError, "required for pipelines"),
        ({"topics": pd.DataFrame({"qid": ["a", "a"]})}, InputError, "duplicate qid 'a'"),
        (
            {"topics": pd.DataFrame({"qid": ["zz"]})},
            InputError,
            "no query in common with the qrels",
        ),
        ({"topics": pd.DataFrame({"qid": []})}, InputError, "no rows"),
    ],
)
def test_wrong_settings_are_named(data, change, error, said):
    topics, qrels = data
    given = {"systems": [Retriever()], "topics": topics, "qrels": qrels, "measures": ["nDCG@3"]}
    with pytest.raises(error, match=said):
        fairtk.Experiment(**{**given, **change})


def test_a_dataset_gives_topics_labels_and_gold_answers(data):
    from fairtk import demo

    loaded = demo.load()
    pipeline = {"a": fairtk.Candidates(loaded.dataset) >> fairtk.BM25Scorer()}
    # the demo's dataset has no qrels of its own
    outcome = fairtk.Experiment(
        pipeline, qrels=loaded.qrels, measures=[nDCG @ 5], dataset=loaded.dataset
    )
    assert outcome.per_query["qid"].nunique() == loaded.qrels["qid"].nunique()
    assert np.isfinite(outcome.means.to_numpy()).all()
    assert outcome.config["dataset"] == "lamp/2/dev"  # no path of this machine
    assert outcome.config["license"] == "CC BY-NC-SA 4.0 (LaMP), if these are LaMP's files"


def test_undefined_queries_are_left_out_and_counted(data):
    topics, qrels = data
    without = qrels.assign(label=qrels["label"].where(qrels["qid"] != "q2", 0))
    with pytest.warns(fairtk.errors.UndefinedWarning, match="q2"):
        outcome = fairtk.Experiment({"a": Retriever()}, topics, without, [EE_R @ 3])
    counts = outcome.counts.iloc[0]
    assert (counts["n"], counts["undefined"], counts["failed"]) == (11, 1, 0)
    values = outcome.per_query["value"]
    assert counts["mean"] == pytest.approx(values.dropna().mean(), abs=1e-15)
    assert "undefined" in outcome.to_markdown()


def test_answers_are_asked_from_systems_that_have_none(data):
    topics, qrels = data
    outcome = fairtk.Experiment({"a": Retriever()}, topics, qrels, [nDCG @ 3])
    with pytest.raises(ColumnError):
        outcome.answers("a")
    with pytest.raises(NotFoundError, match="'b'"):
        outcome.rankings("b")


def test_utility_per_sample(data):
    topics, qrels = data
    gold = qrels.assign(gold_answer="answer 70")
    generator = Generator(Echo(), prompt="rag", cutoff=2)
    sampler = FairSampler(n_samples=3, cutoff=2)
    outcome = fairtk.Experiment(
        {"a": Retriever() >> sampler >> generator, "b": Retriever() >> generator},
        topics,
        gold,
        [EU(utility="rougeL"), E(nDCG @ 2), EE_D @ 2],
    )
    table = outcome.per_sample
    sampled = table[table["system"] == "a"]
    assert set(sampled["measure"]) == {"EU(utility='rougeL')", "E(nDCG@2)"}
    assert len(sampled) == 2 * 3 * len(topics)
    assert set(table.loc[table["system"] == "b", "sample"]) == {0}  # its only rankings
    index = ["system", "measure", "qid"]
    means = table.groupby(index)["value"].mean()
    values = outcome.per_query.set_index(index)["value"].loc[means.index]
    np.testing.assert_allclose(means.to_numpy(), values.to_numpy(), atol=1e-12)
