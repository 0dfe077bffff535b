"""Submitting to a batch API: once, whoever dies; what the server refuses; what is fetched."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import batch_steps
import pytest
from batch_server import answer_of, answered, serving_batches
from chat_server import KEY

from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.llm import Batches, Ledger, LLMError, OpenAICompatible, questions
from fairtk.llm import batches as batches_module

pytest.importorskip("openai")
TEXTS = [f"prompt {n}" for n in range(5)]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(batches_module, "TIMEOUT", 600.0)  # the machine may be slow
    with serving_batches() as own:
        yield own


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "answers.sqlite") as own:
        yield own


@pytest.fixture
def llm(ledger, server):
    return ledger.wrap(OpenAICompatible("toy", base_url=server.url))


@pytest.fixture
def batches(ledger, llm, tmp_path):
    own = Batches(ledger)
    own.write(lambda: llm.complete(questions(TEXTS)), tmp_path / "p")
    return own


def test_from_submitting_to_answers(batches, llm, server, tmp_path):
    folder = tmp_path / "p"
    with pytest.raises(InputError, match="nothing of this batch is submitted"):
        batches.poll(folder)
    assert batches.submit(folder)["status"].tolist() == ["validating"]
    (job,) = server.jobs.values()
    assert (job["endpoint"], job["completion_window"]) == ("/v1/chat/completions", "24h")
    uploaded = server.files[job["input_file_id"]]
    assert uploaded == (folder / "batch-0001.jsonl").read_bytes()
    server.status = "in_progress"
    assert batches.fetch(folder).out == 5  # not yet
    assert batches.poll(folder)["status"].tolist() == ["in_progress"]
    server.status = "completed"
    reading = batches.fetch(folder)
    assert (reading.counts["taken"], reading.out) == (5, 0)
    assert [a.text for a in llm.complete(questions(TEXTS))] == [answer_of(t) for t in TEXTS]
    asked = len(server.requests)
    assert batches.fetch(folder).counts["there"] == 5
    assert len(server.requests) == asked  # what is there is not downloaded again


def test_a_second_submission_is_refused(batches, server, ledger, tmp_path):
    folder = tmp_path / "p"
    batches.submit(folder)
    with (
        Ledger(ledger.path) as other,  # another process, as far as the ledger knows
        pytest.raises(InputError, match="1 files are submitted, and would be paid for twice"),
    ):
        Batches(other).submit(folder)
    assert len(server.jobs) == 1
    # nor are the prompts written to another folder
    llm = ledger.wrap(OpenAICompatible("toy", base_url=server.url))
    again = batches.write(lambda: llm.complete(questions(TEXTS)), tmp_path / "q")
    assert (again.prompts, again.elsewhere) == (0, 5)


def test_what_is_answered_is_not_submitted(batches, server, tmp_path):
    folder = tmp_path / "p"
    lines = [json.loads(x) for x in (folder / "batch-0001.jsonl").read_text().splitlines()]
    (tmp_path / "a").write_text(json.dumps(answered(lines[1])) + "\n")
    batches.read(folder, [tmp_path / "a"])
    batches.submit(folder)
    assert server.paid == [x["custom_id"] for x in lines if x is not lines[1]]
    assert batches.fetch(folder).counts["taken"] == 4


def test_a_job_that_was_begun_is_looked_up(batches, server, ledger, tmp_path):
    folder = tmp_path / "p"
    batches.submit(folder)
    # as if the process had died before the server's answer came
    ledger.store.file.write(
        lambda database: database.execute(
            "UPDATE submissions SET step = 'creating', job = '', status = ''"
        )
    )
    assert batches.submit(folder)["job"].tolist() == ["job0"]
    assert len(server.jobs) == 1


def test_a_file_that_the_server_refuses_is_submitted_again(batches, server, tmp_path):
    folder = tmp_path / "p"
    batches.submit(folder)
    server.status = "failed"
    assert batches.poll(folder)["status"].tolist() == ["failed"]
    assert batches.fetch(folder).out == 5
    server.status = "completed"
    assert batches.submit(folder)["job"].tolist() == ["job1"]
    assert batches.fetch(folder).counts["taken"] == 5


def test_what_a_job_passed_over_is_written_again(batches, llm, server, tmp_path):
    folder = tmp_path / "p"
    batches.submit(folder)
    (job,) = server.jobs.values()
    lines = [json.loads(x) for x in server.files[job["input_file_id"]].splitlines()]
    server.files["some"] = "".join(json.dumps(answered(x)) + "\n" for x in lines[:2]).encode()
    late = {
        "custom_id": lines[2]["custom_id"],
        "response": None,
        "error": {"code": "batch_expired"},
    }
    server.files["late"] = json.dumps(late).encode() + b"\n"
    job |= {"output_file_id": "some", "error_file_id": "late"}
    server.status = "expired"
    reading = batches.fetch(folder)
    assert (reading.counts["taken"], reading.counts["error"], reading.out) == (2, 1, 0)
    assert batches.status(folder)["failed"].tolist() == [3]
    assert batches.write(lambda: llm.complete(questions(TEXTS)), folder).prompts == 3


def test_a_later_round_is_not_ended_by_an_earlier_one(batches, llm, server, tmp_path):
    folder = tmp_path / "p"
    batches.submit(folder)
    job = server.jobs["job0"]
    lines = [json.loads(x) for x in server.files[job["input_file_id"]].splitlines()]
    late = {"custom_id": lines[0]["custom_id"], "error": {"code": "batch_expired"}}
    server.files["late"] = json.dumps(late).encode() + b"\n"
    job |= {"error_file_id": "late"}
    server.status = "expired"
    assert batches.fetch(folder).out == 0
    write = lambda: batches.write(lambda: llm.complete(questions(TEXTS)), folder).prompts  # noqa: E731
    assert write() == 5
    batches.submit(folder)
    server.status = "in_progress"
    reading = batches.fetch(folder)  # the first round's files once more
    assert reading.out == 5 and write() == 0
    server.status = "completed"
    assert batches.fetch(folder).counts["taken"] == 5


@pytest.mark.parametrize("length", [0, 1])
def test_what_a_server_sent_in_part_is_fetched_again(batches, llm, server, tmp_path, length):
    folder = tmp_path / "p"
    batches.submit(folder)
    (job,) = server.jobs.values()
    lines = [json.loads(x) for x in server.files[job["input_file_id"]].splitlines()]
    whole = [json.dumps(answered(x)).encode() + b"\n" for x in lines]
    server.files["some"] = b"".join(whole[:length])
    counts = {"total": 5, "completed": 5, "failed": 0}
    job |= {"output_file_id": "some", "request_counts": counts}
    reading = batches.fetch(folder)
    assert (reading.counts["taken"], reading.counts["cut"], reading.out) == (length, 1, 5 - length)
    assert f"{length} of 5 answers came: fetch again" in reading.problems["cut"][0]
    assert batches.write(lambda: llm.complete(questions(TEXTS)), folder).prompts == 0
    server.files["some"] = b"".join(whole)
    reading = batches.fetch(folder)
    assert (reading.counts["taken"], reading.out) == (5 - length, 0)


def test_a_server_that_says_nothing_is_not_waited_for(batches, tmp_path, monkeypatch):
    batches.submit(tmp_path / "p")
    monkeypatch.setattr(batches_module, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with pytest.raises(LLMError, match=f"the server {url} did not do it .*timed out"):
            batches.poll(tmp_path / "p", {"base_url": url})


def test_a_redirect_is_refused(batches, server, tmp_path):
    moved = {"Location": f"{server.url}/elsewhere"}
    server.fail, server.headers = 307, moved
    with pytest.raises(LLMError, match=f"redirects calls to {server.url}/elsewhere .status 307"):
        batches.submit(tmp_path / "p")
    assert [path for _, path in server.requests] == ["/v1/files"]


def test_a_key_in_what_is_fetched_is_not_kept(batches, server, tmp_path):
    folder = tmp_path / "p"
    server.rule = lambda prompt: f"I got {KEY}"
    batches.submit(folder)
    with pytest.warns(DataWarning, match="5 answers repeat the API key"):
        batches.fetch(folder)
    for path in [*tmp_path.glob("answers.sqlite*"), *folder.rglob("*.jsonl")]:
        assert KEY.encode() not in path.read_bytes(), path


def test_errors_are_one_line_without_the_key(batches, server, tmp_path, monkeypatch):
    folder = tmp_path / "p"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-key-of-many")
    with pytest.raises(LLMError, match="the server http.* did not do it .status 401") as caught:
        batches.submit(folder)
    assert KEY not in str(caught.value) and "many" not in str(caught.value)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ParameterError, match="needs an API key in .* 'OPENAI_API_KEY'"):
        batches.submit(folder)
    monkeypatch.setenv("OTHER", KEY)
    batches.submit(folder, {"api_key_env": "OTHER", "base_url": server.url})
    assert len(server.jobs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("by", ["server", "files"])
def test_kills_pay_nothing_twice_and_lose_nothing(by, server, tmp_path):
    url = server.url if by == "server" else by
    words = [sys.executable, batch_steps.__file__, str(tmp_path), url, "20"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    states = json.loads(done.stdout)
    whole = states.pop("whole")
    assert whole.pop("steps") > (60 if by == "server" else 30) and len(states) == 20
    assert whole["answers"] == whole["paid"] == batch_steps.PROMPTS and whole["out"] == 0
    for name, state in states.items():
        assert state == whole, name
    paid = server.paid
    assert len(paid) == len(set(paid)) == (21 * batch_steps.PROMPTS if by == "server" else 0)
