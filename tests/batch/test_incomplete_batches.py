"""Batches that are completed with errors, in part, or twice: what is missing is written again."""

from __future__ import annotations

import json

import pytest
from batch_answers import answered

from fairtk.batch import Batches
from fairtk.llm import Ledger, OpenAICompatible
from fairtk.llm.chat import questions

pytest.importorskip("openai")
PROMPTS = [f"prompt {number}" for number in range(6)]


def failed(line):
    """Return the line of an error file."""
    body = {"error": {"message": "no", "type": "server_error", "code": None}}
    response = {"status_code": 500, "request_id": "r", "body": body}
    return {"id": "b", "custom_id": line["custom_id"], "response": response, "error": None}


def expired(line):
    error = {"code": "batch_expired", "message": "This request could not be executed in time."}
    return {"id": "b", "custom_id": line["custom_id"], "response": None, "error": error}


ROUNDS = {  # the files of the first round, from its lines
    "only an error file": lambda lines: [[failed(line) for line in lines]],
    "only expired": lambda lines: [[expired(line) for line in lines]],
    "half of the lines": lambda lines: [[answered(line) for line in lines[::2]]],
    "half, and an error file": lambda lines: [
        [answered(line) for line in lines[::2]],
        [failed(line) for line in lines[1::2]],
    ],
    "another order": lambda lines: [[answered(line) for line in lines[::-1]]],
    "twice": lambda lines: [[answered(line) for line in [*lines, *lines[::-1]]]],
    "twice, in two files": lambda lines: [[answered(line) for line in lines]] * 2,
}


@pytest.mark.parametrize("name", ROUNDS)
@pytest.mark.parametrize("times", [1, 2])  # the files are read once, or again
def test_what_is_missing_is_written_in_the_next_round(tmp_path, name, times):
    def write():
        return batches.write(lambda: llm.complete(questions(PROMPTS)), tmp_path / "prompts")

    def lines(written):
        return [json.loads(line) for f in written.files for line in f.read_text().splitlines()]

    def read(number, contents):
        files = []
        for index, records in enumerate(contents):
            files.append(tmp_path / f"answers-{number}-{index}.jsonl")
            files[-1].write_text("".join(json.dumps(record) + "\n" for record in records))
        for _ in range(times):
            batches.read(tmp_path / "prompts", files)

    with Ledger(tmp_path / "l") as ledger:
        llm = ledger.wrap(OpenAICompatible("toy", "http://127.0.0.1:9/v1"))
        batches = Batches(ledger)
        first = lines(write())
        assert len(first) == len(PROMPTS)
        contents = ROUNDS[name](first)
        read(1, contents)
        ids = {r["custom_id"] for records in contents for r in records if r in map(answered, first)}
        assert len(ledger) == len(ids)
        missing = [line for line in first if line["custom_id"] not in ids]
        if any(line["custom_id"] not in {r["custom_id"] for f in contents for r in f}
               for line in first):  # fmt: skip
            batches.drop(tmp_path / "prompts")  # the server has no more answers
        written = write()
        if missing:
            second = lines(written)
            prompts = [line["body"]["messages"] for line in second]
            assert sorted(prompts, key=str) == sorted(
                (line["body"]["messages"] for line in missing), key=str
            )
            read(2, [[answered(line) for line in second]])
            written = write()
        assert [one.text for one in written.results] == [
            answered(line)["response"]["body"]["choices"][0]["message"]["content"]
            for line in sorted(first, key=lambda line: line["body"]["messages"][-1]["content"])
        ]
        payments = ledger.store.file.read("SELECT count(*) FROM payments")[0][0]
        assert payments == len(ledger) == len(PROMPTS)  # nothing is paid twice
