"""FairQR with a model behind a real server that fails, dies and comes back."""

from __future__ import annotations

import re

import pandas as pd
import pyterrier as pt
import pytest
from chat_clients import client
from chat_server import error, serving

pytest.importorskip("openai")

from fairtk import Groups, Target
from fairtk.errors import DataWarning, ParameterError
from fairtk.llm import BudgetError, Ledger, OfflineError, OpenAICompatible
from fairtk.transformers.fair_qr.transformer import FairQR

TOPICS = ("ships", "chess", "rivers", "bread")
DOCS = {f"{t}{i}": (t, "woman" if i > 3 else "man") for t in TOPICS for i in range(6)}
GROUPS = Groups.from_frame(
    pd.DataFrame({"docno": list(DOCS), "group": [g for _, g in DOCS.values()]}), name="gender"
)


def search(inp):
    rows = [
        (topic.qid, docno, 10.0 * words.count("woman") + 5.0 * (first in words) - i / 100)
        for topic in inp.itertuples()
        for words in [topic.query.split()]
        for i, (docno, (first, second)) in enumerate(DOCS.items())
        if first in words and (second == "man" or "woman" in words)
    ]
    # women first when asked for
    rows = [(q, d, s + 20.0 * (DOCS[d][1] == "woman")) for q, d, s in rows]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def topics():
    return pd.DataFrame({"qid": list("1234"), "query": TOPICS})


def system(llm, **options):
    retriever = pt.apply.generic(search, transform_outputs=lambda _: ["qid", "docno", "score"])
    settings = {"depth": 4, "threshold": 0.01, "max_iterations": 1} | options
    return FairQR(retriever, GROUPS, Target.uniform(GROUPS), llm, **settings)


def keywords(prompt):
    return re.search("Current keywords: (.*)", prompt)[1].split()


def adds_woman(prompt, count):
    return ", ".join([*keywords(prompt), "woman"])


def women(out):
    return out[out["docno"].map(lambda d: DOCS[d][1] == "woman")].groupby("qid").size().to_dict()


def test_a_run_with_tokens_seconds_and_the_temperature():
    with serving(adds_woman) as server:
        qr = system(client(server, temperature=1.0))
        out = qr(topics())
        assert women(out) == dict.fromkeys("1234", 2)
        assert {body["temperature"] for _, body, _ in server.requests} == {0.3}
        assert len(server.requests) == 4
    calls = qr.trace[qr.trace["iteration"] == 1]
    assert calls["prompt_tokens"].tolist() == [10] * 4
    assert calls["completion_tokens"].tolist() == [5] * 4 and (calls["seconds"] > 0).all()


def test_a_refusal_and_a_fault_of_the_server(tmp_path):
    def rule(prompt, count):
        first = keywords(prompt)[0]
        if first == "bread":
            return {"refusal": "I won't do that."}
        return error(500) if first == "ships" and count == 1 else adds_woman(prompt, count)

    with serving(rule) as server, Ledger(tmp_path / "l") as ledger:
        qr = system(ledger.wrap(client(server)))
        with pytest.warns(DataWarning, match="1 of 4"):
            out = qr(topics())
        assert women(out) == dict.fromkeys("123", 2)
        assert qr.missing["qid"].tolist() == ["4"]
        assert len(server.requests) == 5
        with pytest.warns(DataWarning):
            qr(topics())  # the refusal was paid for, too
        assert len(server.requests) == 5


def test_a_server_that_dies_halfway(tmp_path):
    state = {"dead": True}

    def rule(prompt, count):
        if state["dead"] and keywords(prompt)[0] in ("rivers", "bread"):
            return {"drop": True}
        return adds_woman(prompt, count)

    with serving(rule) as server, Ledger(tmp_path / "l") as ledger:
        qr = system(ledger.wrap(client(server)))
        with pytest.warns(DataWarning, match="2 of 4"):
            out = qr(topics())
        assert women(out) == {"1": 2, "2": 2} and set(qr.missing["qid"]) == {"3", "4"}
        state["dead"] = False
        before = len(server.requests)
        whole = qr(topics())
        assert women(whole) == dict.fromkeys("1234", 2) and qr.missing.empty
        assert len(server.requests) == before + 2  # what was paid for is not asked again
    with Ledger(tmp_path / "l", offline=True) as ledger:
        replayed = system(ledger.wrap(client(server)))
        assert replayed(topics()).equals(whole) and replayed.trace.equals(qr.trace)
        with pytest.raises(OfflineError):
            system(ledger.wrap(client(server)), prompt="refine-few-shot")(topics())


def test_budgets_and_keys(tmp_path, monkeypatch):
    with serving(adds_woman) as server, Ledger(tmp_path / "l", max_calls=3) as ledger:
        with pytest.raises(BudgetError, match="max_calls=3"):
            system(ledger.wrap(client(server)))(topics())
        assert len(server.requests) == 3
        with Ledger(tmp_path / "l", max_calls=3) as more:
            assert len(system(more.wrap(client(server)))(topics())) == 16
        assert len(server.requests) == 4
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ParameterError, match="`api_key_env`"):
        system(OpenAICompatible("toy"))(topics())
