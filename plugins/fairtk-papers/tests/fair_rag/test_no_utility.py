"""A study whose answers all have the utility 0 says so, and names the setting."""

from types import SimpleNamespace

import pandas as pd
import pytest
from fairtk_papers.fair_rag.labels import TaskLabels, UtilityLabels, explain_no_labels
from fairtk_papers.fair_rag.settings import RagSettings

from fairtk.plugins import registry
from fairtk.utilities import get

TASK = SimpleNamespace(name="LaMP-4", number=4)


def string_utilities():
    """Return the names of the utilities that a study can have."""
    names = registry.utilities.names()
    return [name for name in names if get(name).higher_is_better]


def labels(utility, answer, gold="Title of a Paper"):
    score = get(utility)([answer], [gold])[0]
    documents = pd.DataFrame({"qid": ["1", "1"], "docno": ["a", "b"], "qanswer": answer,
                              "utility": score, "gain": 0.0, "label": 0})  # fmt: skip
    baseline = pd.DataFrame({"qid": ["1"], "gold_answer": gold, "qanswer": answer,
                             "utility": score})  # fmt: skip
    of_task = UtilityLabels(documents, baseline, pd.DataFrame())
    return TaskLabels(of_task.qrels(), 1, {}, of_task)


@pytest.mark.parametrize("utility", string_utilities())
def test_all_utilities_are_0(utility):
    text = explain_no_labels(TASK, "t5", labels(utility, "zz"), RagSettings(utility=utility))
    assert f"{utility} is 0 for all 3 answers" in text
    assert get(utility).if_zero in text and "--utility" in text


def test_the_default_of_lamp_4_counts_case():
    # rougeL: a title in lower case has no word of the gold answer
    settings = RagSettings()
    name = settings.get_label_utility(4).name
    text = explain_no_labels(TASK, "t5", labels(name, "title"), settings)
    assert f"{name} is 0" in text and "case counts" in text


def test_a_utility_above_0_is_no_such_case():
    same = labels("rougeL", "Title of a Paper")
    text = explain_no_labels(TASK, "t5", same, RagSettings(utility="rougeL"))
    assert "--utility" not in text and "min_useful" not in text
