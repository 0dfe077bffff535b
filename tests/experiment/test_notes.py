"""What stages note of queries, beside rows: kept with them, for failed queries, too."""

import math

import pytest
from experiment_stages import Noting, Retriever

import fairtk
from fairtk import FairSampler
from fairtk.errors import InputError, NotFoundError

NOTES = ["qid", "stage", "note"]


def pipeline(lost=(), log=None, seconds=0.25):
    return Retriever(n=4) >> Noting(lost, log, seconds) >> FairSampler(n_samples=2, cutoff=2)


@pytest.mark.parametrize("executor", ["serial", "processes"])
@pytest.mark.parametrize("durable", [True, False])
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
    assert not hasattr(fairtk.identified(Retriever(), "plain, v1"), "transform_with_notes")


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
        def transform_with_notes(self, inp):
            return inp, note

    with pytest.raises(InputError, match=message):
        fairtk.Experiment({"a": Retriever(n=4) >> Odd()}, data[0])
