"""What stages note of queries, beside rows: kept with them, for failed queries, too."""

import math

import pytest
from experiment_stages import Noting, Retriever

import fairtk
from fairtk import FairSampler
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.experiment.tuning import tune
from fairtk.transformers import FairTransformer, leave_notes

NOTES = ["qid", "stage", "note"]


def pipeline(lost=(), log=None, seconds=0.25):
    return Retriever(n=4) >> Noting(lost, log, seconds) >> FairSampler(n_samples=2, cutoff=2)


@pytest.mark.parametrize(
    ("executor", "durable"),
    [("serial", True), pytest.param("processes", False, marks=pytest.mark.slow)],
)
def test_notes_are_kept_beside_the_rows(data, tmp_path, executor, durable):
    topics, _ = data
    options = {"executor": executor, "batch_size": 5, "save_dir": tmp_path if durable else None}
    if executor == "processes":
        options["workers"] = 1
    systems = {"a": pipeline(), "plain": Retriever(n=4)}
    notes = fairtk.Experiment(systems, topics, **options).notes("a")
    assert list(notes) == NOTES
    assert notes["qid"].tolist() == topics["qid"].tolist()
    assert set(notes["stage"]) == {"Noting"}
    first = notes["note"].iloc[0]
    assert first["seconds"] == 0.25
    assert first["trace"][0] | {"share": 0} == {"qid": topics["qid"].iloc[0], "size": 4, "share": 0}
    assert math.isnan(first["trace"][0]["share"])


def test_stages_without_notes_leave_none(data):
    notes = fairtk.Experiment({"a": Retriever(n=4)}, data[0]).notes("a")
    assert list(notes) == NOTES
    assert notes.empty
    with pytest.raises(NotFoundError, match="system"):
        fairtk.Experiment({"a": Retriever(n=4)}, data[0]).notes("b")


def test_a_wrapped_stage_leaves_its_own(data, tmp_path):
    wrapped = fairtk.identified(Noting(), "noting, v1")
    results = fairtk.Experiment({"a": Retriever(n=4) >> wrapped}, data[0], save_dir=tmp_path)
    assert set(results.notes("a")["stage"]) == {"noting, v1"}


def test_failed_queries_have_notes_that_give_way_with_the_failure(data, tmp_path):
    topics, _ = data
    log = tmp_path / "log"
    qid = topics["qid"].iloc[0]
    with pytest.warns(UserWarning, match="no result today"):
        results = fairtk.Experiment({"a": pipeline([qid], log)}, topics, save_dir=tmp_path)
    assert results.failures["error"].tolist() == ["no result today"]
    assert results.notes("a")["qid"].tolist() == topics["qid"].tolist()
    again = fairtk.Experiment({"a": pipeline([], log, 0.5)}, topics, save_dir=tmp_path)
    assert log.read_text().split().count(qid) == 2
    seconds = [note["seconds"] for note in again.notes("a")["note"]]
    assert seconds == [0.5] + [0.25] * (len(topics) - 1)


@pytest.mark.parametrize(
    ("note", "message"), [({"q0": {1, 2}}, "is not JSON"), ({"other": 1}, "unknown qid")]
)
def test_what_is_no_note_is_refused(data, note, message):
    class Odd(Noting):
        def transform(self, inp):
            leave_notes(self, note)
            return inp

    with pytest.raises(InputError, match=message):
        fairtk.Experiment({"a": Retriever(n=4) >> Odd()}, data[0])


class Inside(FairTransformer):
    """Runs a stage that leaves notes; leaves one itself if it says so."""

    def __init__(self, own):
        self.own = own

    def transform(self, inp):
        out = Noting().transform(inp)
        if self.own:
            leave_notes(self, {qid: "own" for qid in inp["qid"].unique()})
        return out


def test_a_stage_inside_another_leaves_no_notes(data):
    results = fairtk.Experiment({"a": Retriever(n=4) >> Inside(own=False)}, data[0])
    assert results.notes("a").empty and not len(results.failures)


def test_a_stage_says_that_it_leaves_notes(data):
    with pytest.raises(ParameterError, match="Inside.*leaves_notes = True"):
        leave_notes(Inside(own=True), {})
    leave_notes(Noting(), {"q0": 1})  # outside of an experiment nobody reads them


class Tunes(FairTransformer):
    """Tunes a stage that leaves notes, and leaves its own."""

    leaves_notes = True

    def __init__(self, topics, qrels):
        self.topics, self.qrels = topics, qrels

    def transform(self, inp):
        def build(n=2):
            return Retriever(n=n) >> Noting()

        tune(build, {"n": [2, 3]}, self.topics, self.qrels, "nDCG@2")
        leave_notes(self, {qid: "own" for qid in inp["qid"]})
        return Retriever(n=4).transform(inp)


def test_tuning_leaves_no_notes(data):
    topics, qrels = data
    notes = fairtk.Experiment({"a": Tunes(topics, qrels)}, topics[:4]).notes("a")
    assert notes["note"].tolist() == ["own"] * 4
