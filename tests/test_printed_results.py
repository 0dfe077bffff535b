"""Results with tables print the tables, not the fields of a dataclass."""

import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk import EU, credit

API = Path(__file__).parents[1] / "docs" / "api.txt"


def _results():
    """Return the exported dataclasses with a field for a DataFrame."""
    classes = {}
    for line in API.read_text().splitlines():
        name = line.partition(" ")[0]
        if name.startswith("fairtk."):
            module, _, attribute = name.rpartition(".")
            value = getattr(importlib.import_module(module), attribute, None)
            fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
            if any("DataFrame" in str(field.type) for field in fields):
                classes[value.__qualname__] = value
    return classes


RESULTS = _results()


def test_there_are_results():
    assert {"Results", "Providers", "Tuned", "Precision"} <= set(RESULTS)


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_results_have_a_text(name):
    # the __repr__ that @dataclass makes is compiled from a string
    text = RESULTS[name].__repr__
    text = getattr(text, "__wrapped__", text)
    assert text.__code__.co_filename != "<string>"


QRELS = pd.DataFrame({"qid": list("1122"), "docno": list("abcd"), "label": [1, 0, 1, 0]})
RUN = QRELS[["qid", "docno"]].assign(score=[2.0, 1.0, 2.0, 1.0])


def _first_line(text):
    return text.splitlines()[0].split()


def test_providers():
    owners = QRELS[["docno"]].assign(group=["Kim", "Lee", "Kim", "Lee"])
    result = credit.providers(QRELS, RUN, owners, cutoff=1)
    assert _first_line(repr(result)) == list(result.table.columns)
    assert "0.0% of exposure" in repr(result)
    assert "Kim" in result._repr_html_()


def test_query_gain():
    gold = QRELS.drop_duplicates("qid").assign(gold_answer="red")
    answers = RUN.assign(qanswer="red")
    without = gold[["qid"]].assign(qanswer=["red", "blue"])
    groups = gold[["qid"]].assign(group=["x", "x"])
    result = credit.query_gain(gold, answers, without, groups, EU(utility="accuracy"))
    assert "gain" in _first_line(repr(result))
    # the utility with documents is 1, 1; without 1, 0: the gain is 1 - 0.5
    assert result.table["gain"].item() == pytest.approx(0.5)
    assert "x" in result._repr_html_()


def test_tuned():
    runs = {"good": RUN, "bad": RUN.assign(score=-RUN["score"])}
    results = fairtk.Experiment(runs, QRELS[["qid"]].drop_duplicates(), QRELS, ["nDCG@1"])
    tuned = fairtk.cross_fit(results, "nDCG@1", folds={"1": 0, "2": 1})
    assert _first_line(repr(tuned)) == ["fold", "system", "value", "topics"]
    assert set(tuned.choices["system"]) == {"good"}
    assert "good" in tuned._repr_html_()


def test_order_audit():
    def answer(prompts):
        return [prompt.split()[0] for prompt in prompts]

    run = RUN.assign(query="q", text=RUN["docno"])
    reader = fairtk.Generator(answer, prompt="rag")
    result = credit.order_audit(reader, run, n=3)
    assert "value" in _first_line(repr(result))
    assert "equal answers" in result._repr_html_()
    assert np.isfinite(result.table["value"]).all()


def test_an_empty_column_of_notes_is_not_printed():
    from fairtk.display.tables import frames_text

    frame = pd.DataFrame({"value": [1], "note": [""]})
    assert frames_text(frame).split() == ["value", "1"]
    assert frames_text(frame.assign(note="why")).split() == ["value", "note", "1", "why"]
