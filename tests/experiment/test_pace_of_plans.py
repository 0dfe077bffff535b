"""A plan has the mean time of a stored answer of each model, as a study's estimates need it."""

import math
import time

import pyterrier as pt
import pytest

import fairtk
from fairtk import Generator
from fairtk.testing import toy_run, toy_topics


class Slow:
    """A model that needs at least 20 ms for a prompt."""

    name, tokenizer = "slow", None

    def generate(self, prompts):
        time.sleep(0.02 * len(prompts))
        return ["bread" for _ in prompts]

    def digest(self):
        return self.name


def test_seconds_per_answer(tmp_path):
    source = pt.Transformer.from_df(toy_run())
    systems = {"answers": source >> Generator(Slow(), prompt="rag"), "rankings": source}
    before = fairtk.plan(systems, toy_topics(), save_dir=tmp_path)
    assert list(before.seconds) == ["slow"] and math.isnan(before.seconds["slow"])
    assert not any(tmp_path.iterdir())
    fairtk.Experiment(systems, toy_topics(), save_dir=tmp_path)
    after = fairtk.plan(systems, toy_topics(), save_dir=tmp_path)
    assert 0.02 <= after.seconds["slow"] < 60
    assert fairtk.plan({"rankings": source}, toy_topics()).seconds == {}


def test_an_experiment_without_warnings_returns_them(tmp_path):
    """A folder may have several systems of a name."""
    source = pt.Transformer.from_df(toy_run())
    for cutoff in (1, 2):
        system = source >> fairtk.FairSampler(alpha=0, n_samples=2, cutoff=cutoff)
        run = {"systems": {"a": system}, "topics": toy_topics(), "save_dir": tmp_path}
        assert fairtk.Experiment(**run, warn=False).warnings == []
    with pytest.warns(fairtk.errors.ChangedWarning, match="'a'"):
        fairtk.Experiment({"a": source >> fairtk.FairSampler(alpha=9)}, toy_topics(),
                          save_dir=tmp_path)  # fmt: skip
