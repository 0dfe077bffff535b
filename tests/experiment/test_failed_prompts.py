"""A query whose prompt cannot be made leaves the answers of the others where they belong."""

import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk import Generator, prompts
from fairtk.errors import DataWarning


class Broken(pt.Transformer):
    def transform(self, inp):
        if len(inp):
            raise RuntimeError("broken")
        return pd.DataFrame(columns=["qid", "query", "docno", "score", "rank", "text"])


class Texts(pt.Transformer):
    """Two documents per query; one of q2's has no text."""

    def transform(self, inp):
        rows = [
            (qid, query, f"{qid}-d{i}", 2.0 - i, i, None if (qid, i) == ("q2", 1) else f"{qid} {i}")
            for qid, query in zip(inp["qid"], inp["query"], strict=True)
            for i in range(2)
        ]
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank", "text"])


def test_a_query_without_a_prompt_shifts_no_answer():
    topics = pd.DataFrame({"qid": ["q1", "q2", "q3", "q4"], "query": ["a", "b", "c", "d"]})
    template = prompts.get("template", template="{question}: {documents}", joiner=" ")
    system = Texts() >> Generator(lambda asked: [f"<{p}>" for p in asked], template, cutoff=2)
    with pytest.warns(DataWarning, match="1 of 4"):
        results = fairtk.Experiment({"echo": system}, topics, batch_size=4)
    found = results.answers("echo").set_index("qid")["qanswer"].to_dict()
    assert found == {"q1": "<a: q1 0 q1 1>", "q3": "<c: q3 0 q3 1>", "q4": "<d: q4 0 q4 1>"}
    assert results.failures["qid"].tolist() == ["q2"]


def test_a_retriever_that_fails_for_all_queries_leaves_the_other_systems_their_answers():
    topics = pd.DataFrame({"qid": ["q1", "q3"], "query": ["a", "c"]})
    template = prompts.get("template", template="{question}: {documents}", joiner=" ")
    reader = Generator(lambda asked: [f"<{p}>" for p in asked], template, cutoff=2)
    systems = {"broken": Broken() >> reader, "echo": Texts() >> reader}
    with pytest.warns(DataWarning, match="2 of 2 queries of broken"):
        results = fairtk.Experiment(systems, topics)
    assert len(results.answers("echo")) == 2
    assert results.failures[["system", "qid"]].to_numpy().tolist() == [
        ["broken", "q1"],
        ["broken", "q3"],
    ]
