"""A study with a server that fails: how often it is asked, what is missing, what is never told."""

from __future__ import annotations

import math
import os
import threading
import time

import pytest
import qr_world
from chat_server import KEY, error, nobody, serving

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("openai")

from fairtk_papers.fair_qr import QrConfiguration
from fairtk_papers.fair_qr.report import comparison
from fairtk_papers.fair_qr.systems import make_model, with_model

from fairtk.errors import DataWarning, NotFoundError, ParameterError
from fairtk.llm import Ledger, LLMError, OpenAICompatible


def topic(prompt):
    """Return which topic a prompt is about, from 1."""
    words = [" ".join(own) for _, own, _ in qr_world.collection()[0].values()]
    return words.index(prompt.partition("Original query: ")[2].partition("\n")[0]) + 1


def small(data, folder, llm, **changed):
    settings = {"systems": ("fair-qr",), "fair_qr": {"max_iterations": 1}} | changed
    return qr_world.study(data, folder, llm, **settings)


def test_faults_are_tried_again_or_named(gender, tmp_path, client):
    faults = {
        1: error(429, "slow down", **{"Retry-After": "0.4"}),
        2: error(500),
        3: {"body": b'{"choices": [{"mess'},
        5: {"drop": True},
    }

    def rule(prompt, count):
        number = topic(prompt)
        if number in faults and count == 1:
            return faults[number]
        if number == 6:
            return {"refusal": "I won't do that."}
        return error(503, "down") if number == 7 else qr_world.adds_a_term(prompt)

    with serving(rule) as server:
        begin = time.monotonic()
        with pytest.warns(DataWarning, match="2 of 8"):
            results = small(gender, tmp_path, client(server)).run()
        assert time.monotonic() - begin >= 0.4  # Retry-After is met
        counts = {topic(prompt): count for prompt, count in server.counts.items()}
        assert counts == {1: 2, 2: 2, 3: 2, 4: 1, 5: 2, 6: 1, 7: 2, 8: 1}
        missing = results.missing.set_index("qid")["reason"].to_dict()
        assert set(missing) == {"6", "7"}
        assert "refused" in missing["6"] and "status 503: down (2 attempts)" in missing["7"]
        # again: the refusal was paid for and stands; the call that failed is made again
        with pytest.warns(DataWarning, match="2 of 8"):
            small(gender, tmp_path, client(server)).run()
        assert {topic(p): c for p, c in server.counts.items()} == counts | {7: 4}
        # asked once more, nothing else is
        faults.clear()
    assert len(qr_world.paid(tmp_path / "experiment.sqlite")) == 7  # all but the one that failed


@pytest.fixture
def address():
    """Where nobody listens."""
    with nobody() as address:
        yield address


def test_a_server_that_is_not_there(gender, tmp_path, address):
    study = small(gender, tmp_path, OpenAICompatible("toy", address, retries=0))
    with pytest.raises(LLMError, match=f"'toy': no connection to {address}"):
        study.run()  # said before the first query is worked on
    assert qr_world.finished_systems(study) == []


@pytest.mark.parametrize("lost", [6, 8])
def test_missing_queries_have_both_means_and_no_mark(gender, tmp_path, client, lost):
    def rule(prompt, _):
        return error(400, "no") if topic(prompt) <= lost else qr_world.adds_a_term(prompt)

    with serving(rule) as server, pytest.warns(DataWarning, match=f"{lost} of 8"):
        results = small(gender, tmp_path, client(server)).run()
    row = results.table.set_index("system").loc["fair-qr"]
    values = results.per_query
    values = values[(values["system"] == "fair-qr") & (values["measure"] == "AWRF")]["value"]
    # a zero for each that is missing
    assert row["missing"] == lost and (values == 0).sum() == lost
    assert row["AWRF"] == pytest.approx(values.sum() / 8)
    answered = values.sum() / 2 if lost < 8 else math.nan
    assert row["AWRF answered"] == pytest.approx(answered, nan_ok=True)
    assert row["AWRF p"] < 0.05  # by failed calls alone
    table = comparison(results)
    name, _, awrf, _ = table.rows[1]
    assert name == f"fair-qr (gender: {lost} of 8 missing)"
    assert awrf == f"{row['AWRF']:.4f} ({f'{answered:.4f}' if lost < 8 else 'none'})"
    assert "there is no mark" in table.caption
    # a mean of 0 is no place on the curve of equal products, and numpy has nothing to warn of
    page = results.save(tmp_path / "report").read_text(encoding="utf-8")
    assert name in page and "there is no mark" in page


def test_what_was_refused_cut_off_or_unreadable_is_asked_for_again_on_demand(
    gender, tmp_path, client
):
    odd = {
        1: {"refusal": "I won't."},
        2: {"text": "and so", "finish": "length"},
        3: "I am sorry, but as an AI I would rather talk about something else entirely today.",
        4: {"body": b'{"choices": [{"message": {"content": {"a": [1]}}}]}'},
        5: {"body": b"[" * 100_000 + b"]" * 100_000},
        6: "",
    }

    def rule(prompt, _):
        return odd.get(topic(prompt), qr_world.adds_a_term(prompt))

    with serving(rule) as server:
        for _ in range(2):  # what was answered oddly was paid for, and is not paid for again
            with pytest.warns(DataWarning):
                results = small(gender, tmp_path, client(server)).run()
        assert set(server.counts.values()) == {1} and len(results.missing) == 6
        odd.clear()
        with Ledger(tmp_path / "experiment.sqlite", retry_unusable=True) as ledger:
            results = small(gender, tmp_path, client(server), ledger=ledger).run()
            assert ledger.spent.calls == 6
        assert results.missing.empty
        assert sorted(server.counts.values()) == [1, 1, 2, 2, 2, 2, 2, 2]


def test_calls_overlap(gender, tmp_path, client):
    """No call is answered before all eight are there."""
    together = threading.Barrier(8, timeout=300)

    def rule(prompt, _):
        together.wait()
        return qr_world.adds_a_term(prompt)

    with serving(rule) as server:
        results = small(gender, tmp_path, client(server, concurrency=8, timeout=600.0)).run()
        assert len(server.requests) == 8 and server.most_running == 8
    assert results.missing.empty


def test_an_unknown_model_ends_everything(gender, tmp_path, client):
    with serving(lambda *_: error(404, f"no such thing; you sent {KEY}")) as server:
        study = small(gender, tmp_path, client(server, concurrency=1))
        with pytest.raises(LLMError, match="'toy'") as found:
            study.run()
        assert len(server.requests) == 1 and KEY not in str(found.value)
    # BM25 is done, and there to be looked at
    assert qr_world.finished_systems(study) == ["bm25"]
    with serving(qr_world.adds_a_term) as server:
        results = small(gender, tmp_path, client(server)).run()
        assert len(server.requests) == 8 and results.missing.empty


def test_the_key_stands_nowhere(gender, tmp_path, client, capfd):
    def rule(prompt, count):
        if topic(prompt) < 4:  # a server that repeats what it got
            return error(400, f"bad request: Bearer {KEY}")
        return qr_world.adds_a_term(prompt)

    with serving(rule) as server:
        study = small(gender, tmp_path, client(server))
        with pytest.warns(DataWarning) as records:
            results = study.run(print)
        results.save(tmp_path)
        assert server.requests[0][2]["Authorization"] == f"Bearer {KEY}"
        with Ledger(tmp_path / "experiment.sqlite") as ledger:
            text = repr([ledger, ledger.wrap(study.llm), study.llm, results.settings])
    out, err = capfd.readouterr()
    assert KEY not in out + err + text + "".join(str(w.message) for w in records)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".sqlite", ".json", ".parquet", ".md", ".png"}
    for path in files:
        raw = path.read_bytes()
        assert KEY.encode() not in raw and KEY[8:].encode() not in raw, path
    page = (tmp_path / "report.md").read_text()
    assert "## Missing" in page
    assert "gender, fair-qr: topic 1: 'toy': status 400: bad request: Bearer \\<hidden\\>" in page
    assert KEY in os.environ.values()


def test_a_key_that_is_not_there(gender, tmp_path, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with serving(qr_world.adds_a_term) as server:
        llm = OpenAICompatible("toy", server.url, api_key_env="MY_KEY")
        study = small(gender, tmp_path, llm)
        with pytest.raises(ParameterError, match="'MY_KEY'"):
            study.run()
        assert server.requests == []
        assert qr_world.kept(tmp_path) == 0  # said before anything is done
        monkeypatch.setenv("MY_KEY", KEY)
        study.run()
        assert len(server.requests) == 8
        monkeypatch.delenv("MY_KEY")
        qr_world.rows_of(tmp_path, "DELETE FROM cells RETURNING 1")
        study.run()  # what is recorded needs no key
        assert len(server.requests) == 8


# Models from settings ----------------------------------------------------------------------------


def test_models_are_made_from_settings():
    llm = make_model({"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1",
                      "api_key_env": "", "retries": 2})  # fmt: skip
    assert (llm.model, llm.api_key_env, llm.retries) == ("m", None, 2)
    assert make_model({}).name == "keyword-refiner"
    assert make_model({"terms": 2}).parameters()["terms"] == 2
    for text, expected in (
        ("openai:gpt-4o", {"backend": "openai", "model": "gpt-4o"}),
        ("causal:a/b:c", {"backend": "causal", "model": "a/b:c"}),
        ("keyword", {"backend": "keyword"}),
        ("keyword:my.tsv", {"backend": "keyword", "table": "my.tsv"}),
    ):
        assert with_model(QrConfiguration({}), text, {}).models == [expected]
    # a server's settings stay with another model of it, and go with one of another kind
    own = QrConfiguration({}, models=[{"backend": "openai", "model": "a", "timeout": 3}])
    other = with_model(own, "openai:b", {"base_url": "http://h/v1"})
    assert other.models == [
        {"backend": "openai", "model": "b", "timeout": 3, "base_url": "http://h/v1"}
    ]
    assert with_model(own, "keyword", {}).models == [{"backend": "keyword"}]
    assert with_model(own, None, {}).models == list(own.models)


@pytest.mark.parametrize("name", ["api_key", "api_key_env"])
def test_the_key_itself_is_no_setting(name):
    with pytest.raises((NotFoundError, ParameterError), match=name) as found:
        make_model({"backend": "openai", "model": "m", name: KEY})
    assert KEY not in str(found.value) and "\n" not in str(found.value)
