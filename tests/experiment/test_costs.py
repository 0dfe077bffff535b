"""Costs of systems beside their quality: what counts, what is unknown and why, what comes back."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import settings_calls
from experiment_stages import Noting, Retriever, world
from metered import Metered

import fairtk
from fairtk import FairSampler, Generator, PerSample, QueryRefiner
from fairtk.errors import ColumnError, InputError
from fairtk.plugins import registry
from fairtk.transformers import FairTransformer, leave_notes

COSTS = ["seconds", "calls", "tokens"]
TOPICS, QRELS = world(n_queries=4)
pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")


def generator(llm, **options):
    return Generator(llm, prompt="rag", cutoff=2, **options)


def experiment(systems, *measures, **options):
    return fairtk.Experiment(systems, TOPICS, QRELS, [*measures, *COSTS], **options)


def values(results, system):
    table = results.per_query[results.per_query["system"] == system]
    return table.pivot(index="qid", columns="measure", values="value")[COSTS]


def test_values_by_hand():
    """Each call takes .5 s, and has 10 + 2 tokens.

    A query of "one" has 1 prompt: .5, 1, 12. One of "several" has 3 answers: 1.5, 3, 36. "refined"
    refines the query first: 1, 2, 24. "sampled" has as many prompts as distinct rankings.
    """
    ranked = Retriever() % 3
    sampled = ranked >> FairSampler(n_samples=5, cutoff=2)
    systems = {
        "ranked": ranked,
        "one": ranked >> generator(Metered()),
        "several": ranked >> generator(Metered(), answers=3),
        "refined": QueryRefiner(Metered(), group="women") >> ranked >> generator(Metered()),
        "sampled": sampled >> generator(Metered()),
    }
    results = experiment(systems, "EE_D@2")
    means = results.means[COSTS]
    assert means.loc["ranked"].tolist() == [0, 0, 0]
    assert means.loc["one"].tolist() == [0.5, 1, 12]
    assert means.loc["several"].tolist() == [1.5, 3, 36]
    assert means.loc["refined"].tolist() == [1, 2, 24]
    rankings = sampled(TOPICS).groupby(["qid", "sample"])["docno"].agg(tuple)
    n_prompts = rankings.groupby("qid").nunique()
    assert n_prompts.nunique() > 1
    assert values(results, "sampled")["calls"].tolist() == n_prompts.tolist()
    assert values(results, "sampled")["tokens"].tolist() == (12 * n_prompts).tolist()
    for name in COSTS:
        assert results.better(name) == "lower"
    table = results.compare(baseline="one")
    row = table[(table["system"] == "refined") & (table["measure"] == "calls")].iloc[0]
    assert row["difference"] == 1


def test_unknown_costs_have_a_reason():
    systems = {
        "no tokens": Retriever() % 3 >> generator(Metered(counts=None)),
        "nested": Retriever() >> FairSampler(n_samples=2) >> PerSample(generator(Metered())),
        "frame": Retriever()(TOPICS),
        "noted": Retriever() % 3 >> Noting(),
    }
    results = experiment(systems)
    means = results.means
    assert means.loc["no tokens", ["seconds", "calls"]].tolist() == [0.5, 1]
    assert math.isnan(means.loc["no tokens", "tokens"])
    assert means.loc[["nested", "frame"]].isna().all(axis=None)
    assert means.loc["noted"].tolist() == [0.25, 0, 0]  # its notes have seconds
    reasons = results.undefined.groupby(["system", "measure"])["reason"].unique().map(list)
    assert reasons["no tokens", "tokens"] == ["the stage Generator reports no tokens"]
    assert reasons["nested", "calls"] == ["the stage PerSample reports no calls"]
    assert reasons["frame", "calls"] == ["a frame of results reports no calls"]
    assert len(results.undefined) == 4 * (1 + 3 + 3)


def test_a_failed_query_has_no_cost():
    systems = {"a": Retriever() % 3 >> generator(Metered(fails="q1"))}
    with pytest.warns(UserWarning, match="failed"):
        results = experiment(systems)
    assert results.means.loc["a", COSTS].tolist() == [0.5, 1, 12]
    assert set(results.undefined["qid"]) == {"q1"}
    assert set(results.undefined["reason"]) == {"the query has no result"}


def with_model():
    """Return the registered transformers that take a model, by name."""
    calls = settings_calls.calls()
    names = [n for n in registry.transformers.names() if "llm" in calls.get(n, ("", {}))[1]]
    return {name: calls[name] for name in names}


@pytest.mark.parametrize("name", sorted(with_model()))
def test_each_transformer_with_a_model_notes_its_costs(name):
    """Each call of the model has 12 tokens and takes .5 s; without counts, tokens are unknown."""
    kind, settings = with_model()[name]
    for counts in ((10, 2), None):
        llm = Metered(counts=counts)
        stage = kind(**{**settings, "llm": llm})
        if name == "QueryRefiner":
            stage = kind(llm, group="women")
        topics = pd.DataFrame({"qid": ["q1", "q2"], "query": ["words", "more words"]})
        qrels = topics[["qid"]].assign(docno="d", label=1)
        results = fairtk.Experiment({"a": stage}, topics, qrels, COSTS)
        table = values(results, "a")
        assert table["calls"].sum() == len(llm.log) > 0
        assert (table["seconds"] == 0.5 * table["calls"]).all()
        if counts is None:
            assert (table["tokens"].isna() == (table["calls"] > 0)).all()
        else:
            assert (table["tokens"] == 12 * table["calls"]).all()


def test_a_stage_of_a_plugin_notes_its_own(tmp_path):
    class Paid(FairTransformer):
        identity_name, output_version, leaves_notes = "tests.Paid", 1, True

        def transform(self, inp):
            note = {"calls": 2, "seconds": 1.5, "tokens": None}
            leave_notes(self, dict.fromkeys(inp["qid"], note))
            return inp

    for _ in range(2):
        results = experiment({"a": Retriever() % 3 >> Paid()}, save_dir=tmp_path)
        assert results.means.loc["a", ["seconds", "calls"]].tolist() == [1.5, 2]
        assert set(results.undefined["reason"]) == {"the stage Paid reports no tokens"}


def test_a_frame_may_have_costs():
    frame = Retriever()(TOPICS).assign(calls=3, tokens=[float("nan")] * 32)
    results = fairtk.Experiment({"a": frame}, TOPICS, QRELS, COSTS)
    assert results.means.loc["a", "calls"] == 3
    assert fairtk.evaluate(QRELS, frame, ["calls"]).means.iloc[0, 0] == 3
    with pytest.raises(ColumnError, match="'seconds'.*Experiment|Experiment.*'seconds'"):
        fairtk.evaluate(QRELS, frame, ["seconds"])
    with pytest.raises(InputError, match="calls.*'q0'"):
        fairtk.evaluate(QRELS, frame.assign(calls=range(32)), ["calls"])


@pytest.mark.parametrize("model", [Metered(), Metered(counts=None)], ids=["counts", "no counts"])
def test_a_resumed_run_shows_the_same(tmp_path, model):
    """The second run answers nothing; `open_results` reads the store alone."""
    systems = {
        "ranked": Retriever() % 3,
        "refined": QueryRefiner(model, group="women") >> Retriever() % 3 >> generator(model),
        "nested": Retriever() >> FairSampler(n_samples=2) >> PerSample(generator(model)),
    }
    first = experiment(systems, save_dir=tmp_path)
    n_calls = len(model.log)
    again = experiment(systems, save_dir=tmp_path)
    assert len(model.log) == n_calls
    opened = fairtk.experiment.open_results(tmp_path, QRELS, COSTS)
    first.save(tmp_path / "saved")
    for results in (again, opened, fairtk.Results.load(tmp_path / "saved")):
        pd.testing.assert_frame_equal(results.means.loc[first.systems], first.means)
        key = ["system", "qid", "measure"]
        reasons = [r.undefined.sort_values(key, ignore_index=True) for r in (results, first)]
        pd.testing.assert_frame_equal(*reasons)
        assert results.better("calls") == "lower"


PROGRAM = """
import os, sys
import fairtk
from experiment_stages import Retriever, world
from fairtk import Generator
from metered import Metered
topics, qrels = world(n_queries=80)
model = Metered(seconds=float(sys.argv[2]), kills=int(sys.argv[3]))
system = Retriever() % 3 >> Generator(model, prompt="rag", cutoff=2)
results = fairtk.Experiment({"a": system}, topics, qrels, ["calls", "tokens", "seconds"],
                            save_dir=sys.argv[1])
print(results.per_query.to_json(), len(model.log))
"""


@pytest.mark.nightly
def test_a_killed_run_keeps_its_costs(tmp_path):
    """Calls of the first run take 1 s, those of the second 3 s; answers are stored in batches."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(*arguments):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert run("1", "50").returncode == -signal.SIGKILL
    resumed = run("3", "1000")
    assert resumed.returncode == 0, resumed.stderr
    table = pd.DataFrame(json.loads(resumed.stdout.rpartition(" ")[0]))
    seconds = table.loc[table["measure"] == "seconds", "value"]
    assert set(seconds) == {1.0, 3.0}
    assert set(table.loc[table["measure"] == "calls", "value"]) == {1.0}
