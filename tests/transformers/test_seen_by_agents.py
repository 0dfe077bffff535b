"""The agents of pyterrier_rag around `Seen`: their turns, cutoffs and questions."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest
from session_agents import Catalog

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports
    pytest.importorskip("pyterrier_rag", exc_type=ImportError)
    from pyterrier_rag.backend import Backend, BackendOutput
    from pyterrier_rag.frameworks.agentic import AgenticRAG, R1Searcher, SearchO1

import fairtk
from fairtk import Seen
from fairtk.errors import DataWarning, MissingWarning

TOPICS = pd.DataFrame({"qid": ["q1", "q2", "q3"], "query": ["a,b,c;b,a,c", "c,a,d", ";unsearched"]})


class Script(Backend):
    """Searches for the parts of the question, one per turn, then answers."""

    def __init__(self, begin, end, results, question="User:"):
        super().__init__("script")
        self.begin, self.end, self.results, self.question = begin, end, results, question

    def generate(self, prompts, **options):
        return [BackendOutput(text=self.next(prompt)) for prompt in prompts]

    def next(self, prompt):
        _, _, text = prompt.rpartition(self.question)
        parts = text.splitlines()[0].strip().split(";")
        turn = text.count(self.results)
        if turn < len(parts) and parts[turn]:
            return f"{self.begin}{parts[turn]}{self.end}"
        return "<answer>yes</answer>"


def base(seen, top_k):
    tags = ("<search>", "</search>", "<information>", "</information>", "<answer>", "</answer>")
    script = Script(*tags[:3])
    return AgenticRAG(seen, script, *tags, prompt_template="User: {question}\n", top_k=top_k)


def r1_searcher(seen, top_k):
    script = Script("<|begin_of_query|>", "<|end_of_query|>", "<|begin_of_documents|>")
    return R1Searcher(seen, script, top_k=top_k)


def search_o1(seen, top_k):
    marks = ("<|begin_search_query|>", "<|end_search_query|>", "<|begin_of_documents|>")
    return SearchO1(seen, Script(*marks, "Question:\n"), top_k=top_k)


@pytest.mark.parametrize("agent_of", [base, r1_searcher])
def test_the_turns_of_an_agent(agent_of):
    """q1: a, b, then b, a; q2: c, a, of which the agent shows two; q3: no search."""
    seen = Seen(Catalog())
    agent = agent_of(seen, 2)
    answers = agent(TOPICS)
    assert answers.set_index("qid")["search_iterations"].to_dict() == {"q1": 2, "q2": 1, "q3": 0}
    records = seen.records[["qid", "turn", "query", "docno"]]
    assert records.to_records(index=False).tolist() == [
        *(("q1", 1, "a,b,c", "a"), ("q1", 1, "a,b,c", "b")),
        *(("q1", 2, "b,a,c", "b"), ("q1", 2, "b,a,c", "a")),
        *(("q2", 1, "c,a,d", "c"), ("q2", 1, "c,a,d", "a")),
    ]
    with pytest.warns(DataWarning, match="'q3'"):
        frame = seen.exposure("total", cutoff=1, topics=TOPICS)
    ids = zip(frame["qid"], frame["docno"], strict=True)
    exposure = dict(zip(ids, frame["exposure"], strict=True))
    assert exposure == {("q1", "a"): 1, ("q1", "b"): 1, ("q2", "c"): 1, ("q2", "a"): 0}
    # EE_D: q1 1 + 1, q2 1, q3 the worst value
    qrels = pd.DataFrame({"qid": TOPICS["qid"], "docno": "a", "label": 1})
    with pytest.warns(MissingWarning, match="'q3'"):
        result = fairtk.evaluate(qrels, frame, ["EE_D@1"])
    assert result.per_query["value"].tolist() == [2.0, 1.0, 1.0]
