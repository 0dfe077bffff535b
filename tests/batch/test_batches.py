"""Prompts in files: what is written, what is read, what is refused, and what it costs."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys

import batch_steps
import pytest
from batch_answers import answer_of, answered, completion
from chat_server import serving

from fairtk.batch import Batches, files
from fairtk.errors import FormatError, InputError, ParameterError
from fairtk.llm import (
    Chat,
    Completion,
    DeferredError,
    KeywordRefiner,
    Ledger,
    LLMError,
    Message,
    OpenAICompatible,
)
from fairtk.llm.budget import Most
from fairtk.llm.chat import questions

pytest.importorskip("openai")


class World:
    """A ledger, a model that nobody answers for, and a folder for its prompts."""

    def __init__(self, place, **settings):
        self.place, self.folder = place, place / "prompts"
        self.ledger = Ledger(place / "answers.sqlite", **settings)
        self.batches = Batches(self.ledger)
        self.llm = self.model()

    def model(self, name="toy", **settings):
        address = {"base_url": "http://127.0.0.1:1/v1", **settings}
        return self.ledger.wrap(OpenAICompatible(name, **address))

    def write(self, texts, llm=None):
        return self.batches.write(lambda: (llm or self.llm).complete(questions(texts)), self.folder)

    def lines(self, name="batch-0001.jsonl"):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def file(self, records, name="answers.jsonl", end="\n"):
        path = self.place / name
        texts = [one if isinstance(one, str) else json.dumps(one) for one in records]
        path.write_text("\n".join(texts) + end, encoding="utf-8")
        return path

    def read(self, records, **settings):
        return self.batches.read(self.folder, [self.file(records)], **settings)

    @property
    def payments(self):
        return self.ledger.store.file.read("SELECT price FROM payments")

    @property
    def claims(self):
        return self.ledger.store.file.read("SELECT key, owner, price FROM claims ORDER BY key")

    @property
    def totals(self):
        query = "SELECT name, claims, price FROM owners WHERE expires IS NULL"
        return self.ledger.store.file.read(query)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.ledger.close()


def counted(reading):
    return {kind: count for kind, count in reading.counts.items() if count}


# Writing -----------------------------------------------------------------------------------------


def test_a_line_is_the_call_that_would_be_made(world):
    chat = Chat((Message("system", "Be short\x00."), Message("user", "Où ? \ud800")))
    settings = {"seed": 3, "max_completion_tokens": 9, "extra_body": {"top_p": 0.5}}
    with serving(lambda *_: "x") as server:
        llm = world.model(base_url=server.url, **settings)
        written = world.batches.write(lambda: llm.complete([chat]), world.folder)
        assert (written.round, written.prompts, server.requests) == (1, 1, [])
        world.batches.drop(world.folder)
        llm.complete([chat])
        ((_, body, _),) = server.requests
    (line,) = world.lines()
    assert list(line) == ["custom_id", "method", "url", "body"]
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["custom_id"] == llm.key(chat)
    assert line["body"] == body and body["top_p"] == 0.5 and body["max_completion_tokens"] == 9


def test_only_what_is_missing_is_written_and_once(world):
    with serving(lambda prompt, _: answer_of(prompt)) as server:
        world.model(base_url=server.url).complete(questions(["a", "b"]))
    assert world.write(["a", "b", "c", "c"]).prompts == 1
    again = world.write(["a", "c", "d"])
    assert (again.round, again.prompts, again.elsewhere) == (2, 1, 1)
    assert [f.name for f in again.files] == ["batch-0002.jsonl"]
    frame = world.batches.status(world.folder)
    assert frame["prompts"].tolist() == [1, 1] and frame["out"].tolist() == [1, 1]
    world.read([answered(line) for line in [*world.lines(), *world.lines("batch-0002.jsonl")]])
    done = world.write(["a", "b", "c", "d"])
    assert done.prompts == 0 and done.round == 0
    assert [one.text for one in done.results] == [answer_of(x) for x in "abcd"]


def test_files_are_cut_at_lines_and_bytes(world, monkeypatch):
    assert (files.MOST_LINES, files.MOST_BYTES) == (50_000, 200_000_000)
    monkeypatch.setattr(files, "MOST_LINES", 3)
    written = world.write([f"prompt {n}" for n in range(7)])
    assert world.batches.status(world.folder)["prompts"].tolist() == [3, 3, 1]
    monkeypatch.setattr(files, "MOST_BYTES", 2 * written.files[2].stat().st_size + 9)
    world.write([f"beside {n}" for n in range(5)])
    sizes = [path.stat().st_size for path in sorted(world.folder.glob("*.jsonl"))]
    assert len(sizes) == 6 and max(sizes[3:]) <= 2 * sizes[2] + 9
    assert len(world.lines("batch-0006.jsonl")) == 1  # 5 lines, 2 a file


def test_a_file_has_prompts_of_one_model(world):
    def work():
        for llm in (world.llm, world.model("other")):
            try:
                llm.complete(questions(["a", "b"]))
            except DeferredError:
                continue

    written = world.batches.write(work, world.folder)
    assert written.prompts == 4 and len(written.files) == 2
    assert world.batches.status(world.folder)["model"].tolist() == ["toy", "other"]


def test_models_of_this_machine_are_asked(world):
    rules = world.ledger.wrap(KeywordRefiner({"g": ["t"]}, terms=1))
    chat = Chat((Message("user", "x"),), {"keywords": "a", "group": ("g",)})
    written = world.batches.write(lambda: rules.complete([chat]), world.folder)
    assert written.results[0].text == '["a", "t"]' and not list(world.folder.glob("batch*"))


def test_what_is_out_is_not_asked_online(world):
    world.write(["a", "b"])
    with serving(lambda prompt, _: answer_of(prompt)) as server:
        llm = world.model(base_url=server.url)
        with pytest.raises(DeferredError, match="'toy'"):
            llm.complete(questions(["a", "b", "c"]))
        assert list(server.counts) == ["c"]  # all else is asked first
        assert world.batches.drop(world.folder) == 2
        assert len(llm.complete(questions(["a", "b", "c"]))) == 3 == len(server.requests)
    # the batch answers nevertheless: the first answers stay
    reading = world.read([answered(line) for line in world.lines()])
    assert counted(reading) == {"known": 2} and len(world.ledger) == 3


def test_answers_to_dropped_prompts_are_paid_for(world):
    world.write(["a", "b"])
    lines = world.lines()
    assert world.batches.drop(world.folder) == 2
    assert world.batches.status(world.folder)["failed"].tolist() == [2]
    assert counted(world.read([answered(lines[0])])) == {"taken": 1} and len(world.payments) == 1
    again = world.write(["a", "b"])
    assert (again.prompts, again.round) == (1, 2)
    (line,) = world.lines("batch-0002.jsonl")
    assert line["custom_id"] == f"{lines[1]['custom_id']}-2" and line["body"] == lines[1]["body"]
    # both are answered: both are paid for, and the first answer stays
    other = answered(line, lambda prompt: "another text")
    assert counted(world.read([answered(lines[1]), other])) == {"taken": 2}
    assert len(world.payments) == 3 and world.claims == []
    assert world.llm.complete(questions(["b"]))[0].text == answer_of("b")


def test_a_work_that_fails_leaves_nothing(world):
    def work():
        try:
            world.llm.complete(questions(["a"]))
        finally:
            raise InputError("broken")

    with pytest.raises(InputError, match="broken"):
        world.batches.write(work, world.folder)
    assert list(world.folder.iterdir()) == [] and world.claims == []
    assert world.write(["a"]).prompts == 1


def test_a_round_counts_once_the_manifest_lists_it(world):
    world.write(["a"])
    first, second = (world.folder / f"batch-000{number}.jsonl" for number in (1, 2))
    parts = [path.with_name(f".{path.name}.part") for path in (first, second)]
    manifest = world.folder / "manifest.json"
    text = manifest.read_text()
    world.write(["b"])
    assert [count for _, count, _ in world.totals] == [1, 1]
    # as if writers had been killed: before the manifest had the second file, and right after it
    # had the first
    manifest.write_text(text)
    first.rename(parts[0])
    second.rename(parts[1])
    assert world.batches.status(world.folder)["out"].tolist() == [1]
    assert [count for _, count, _ in world.totals] == [1] == [len(world.claims)]
    assert set(world.folder.iterdir()) == {manifest, first}
    assert world.write(["b"]).round == 2 and second.exists()


def test_a_batch_belongs_to_one_ledger(world, tmp_path):
    with Ledger(tmp_path / "other.sqlite") as ledger:
        llm = ledger.wrap(OpenAICompatible("toy"))
        with pytest.raises(InputError, match="other.sqlite"):
            world.write(["a"], llm)
        world.write(["a"])
        with pytest.raises(InputError, match="answers.sqlite"):
            Batches(ledger).write(lambda: llm.complete(questions(["b"])), world.folder)
    with pytest.raises(ParameterError, match="offline=True"):
        Batches(Ledger(world.ledger.path, offline=True))
    with pytest.raises(ParameterError, match="rate"):
        Batches(world.ledger, rate=-1)


# Money -------------------------------------------------------------------------------------------


def test_a_budget_of_tokens(tmp_path):
    # 5 tokens of a prompt, and 10 of its answer
    world = World(tmp_path, max_tokens=50)
    written = world.write(list("abcde"), world.model(max_tokens=10))
    assert (written.prompts, written.left_out) == (3, 2)
    assert written.reason.startswith("max_tokens=50")
    query = "SELECT tokens FROM owners WHERE expires IS NULL"
    assert world.ledger.store.file.read(query) == [(45,)]
    world.read([answered(world.lines()[0])])
    assert world.ledger.store.file.read(query) == [(30,)]
    assert world.ledger.store.file.read("SELECT tokens FROM payments") == [(15,)]


def test_a_budget_is_claimed_at_writing_and_settled_at_reading(tmp_path):
    # most of a call: ceil(1 / 4) + 4 = 5 tokens at 2, 10 at 4 a million, at half the price
    most = 0.5 * (5 * 2 + 10 * 4) / 1e6
    prices = {"toy": (2.0, 4.0)}
    world = World(tmp_path, max_cost=3.5 * most, prices=prices)
    llm = world.model(max_tokens=10)
    written = world.write(list("abcde"), llm)
    assert (written.prompts, written.left_out) == (3, 2)
    assert written.price == pytest.approx(3 * most)
    assert world.totals == [(str(world.folder), 3, pytest.approx(3 * most))]
    assert "max_cost=" in written.reason and "could be exceeded" in written.reason
    with (
        Ledger(world.ledger.path, max_calls=3) as other,  # whose calls count with what is out
        pytest.raises(LLMError, match="max_calls=3"),
    ):
        other.wrap(llm.llm).complete(questions(["f"]))
    lines = [answered(line) for line in world.lines()]
    readings = [world.read(lines[:2]), world.read(lines)]
    assert [counted(one) for one in readings] == [{"taken": 2}, {"taken": 1, "known": 2}]
    assert world.totals == []
    # 10 and 5 tokens each, as the server says
    cost = 0.5 * (10 * 2 + 5 * 4) / 1e6
    assert [one.price for one in readings] == pytest.approx([2 * cost, cost])
    assert world.ledger.spent.price == pytest.approx(3 * cost)
    assert [price for (price,) in world.payments] == pytest.approx([cost] * 3)
    again = world.write(list("abcde"), llm)  # one more fits: 3 * cost + most < 3.5 * most
    assert (again.prompts, again.left_out) == (1, 1)
    world.ledger.close()


def test_a_limit_of_calls_counts_what_is_out(tmp_path):
    world = World(tmp_path, max_calls=3)
    assert world.write(list("abcde")).left_out == 2
    assert world.write(list("abcde")).left_out == 2
    world.read([answered(line) for line in world.lines()])
    assert world.write(list("abcde")).left_out == 2  # 3 are paid
    assert math.isnan(world.ledger.spent.price)
    with Ledger(world.ledger.path, max_calls=3) as ledger:  # from now on
        llm = ledger.wrap(world.llm.llm)
        work = Batches(ledger).write(lambda: llm.complete(questions("abcde")), world.folder)
    assert (work.prompts, work.left_out) == (2, 0)
    world.ledger.close()


# Reading -----------------------------------------------------------------------------------------


def test_answers_in_any_order_once(world):
    world.write([f"prompt {n}" for n in range(1200)])
    good = [answered(line) for line in world.lines()]
    reading = world.read([*good[:400:-1], good[700]])
    assert counted(reading) == {"taken": 799, "duplicate": 1} and reading.out == 401
    assert [count for _, count, _ in world.totals] == [401] == [len(world.claims)]
    reading = world.read(good)
    assert counted(reading) == {"taken": 401, "known": 799} and reading.out == 0
    assert len(world.payments) == 1200
    answers = world.llm.complete(questions([f"prompt {n}" for n in range(1200)]))
    assert [a.text for a in answers] == [answer_of(f"prompt {n}") for n in range(1200)]
    assert answers[0] == Completion(answer_of("prompt 0"), 10, 5, 0.0, "stop")


def vllm_error(line, message):
    # as vllm run-batch writes a prompt that it cannot take
    error = {"object": "error", "message": message, "type": "BadRequestError", "code": 400}
    response = {"status_code": 400, "request_id": "vllm-batch-1", "body": None}
    return {"id": "v", "custom_id": line["custom_id"], "response": response, "error": error}


def openai_error(line, code):
    error = {"code": code, "message": "not run in time"}
    return {"id": "b", "custom_id": line["custom_id"], "response": None, "error": error}


def test_what_cannot_be_taken_is_counted_and_named(world):
    world.write([f"p{n}" for n in range(9)])
    lines = world.lines()
    other = answered(lines[4])
    other["response"]["body"]["model"] = "toy-mini"
    cut = answered(lines[5])
    cut["response"]["body"] = completion(lines[5]["body"], "half an", "length")
    refused = answered(lines[6])
    refused["response"]["body"]["choices"][0]["message"] = {"content": None, "refusal": "I cannot"}
    odd = answered(lines[7])
    odd["response"]["body"] = completion(lines[7]["body"], "a\x00b\ud800")
    version = answered(lines[8])
    version["response"]["body"]["model"] = "toy-2024-08-06"
    records = [
        answered(lines[0]),
        answered(lines[0]),
        vllm_error(lines[1], "too long"),
        openai_error(lines[2], "batch_expired"),
        {**answered(lines[3]), "custom_id": "of-another-study"},
        other,
        cut,
        refused,
        odd,
        version,
        "[1]",
        '{"custom_id": 3}',
        lines[3],
        "\x00\x00",
        json.dumps(answered(lines[3]))[:60],
    ]
    path, empty = world.file(records, end=""), world.place / "empty.jsonl"
    empty.write_bytes(b"")
    reading = world.batches.read(world.folder, [path, empty])
    assert counted(reading) == {
        **{"taken": 5, "unusable": 2, "duplicate": 1, "error": 2, "unknown": 1, "other model": 1},
        **{"broken": 4, "cut": 1, "empty": 1},
    }
    problems = {kind: [text.replace(str(path), "F") for text in texts]
                for kind, texts in reading.problems.items()}  # fmt: skip
    keys = [line["custom_id"] for line in lines]
    assert problems["error"] == [
        f"F:3: {keys[1]}: 400: too long",
        f"F:4: {keys[2]}: batch_expired: not run in time",
    ]
    assert problems["unknown"] == ["F:5: of-another-study: no prompt in the batch has this id"]
    assert problems["other model"] == [f"F:6: {keys[4]}: expected 'toy', got 'toy-mini'"]
    assert problems["unusable"] == [
        f"F:7: {keys[5]}: unusable answer: length",
        f"F:8: {keys[6]}: unusable answer: refusal",
    ]
    assert problems["broken"][2] == f"F:13: {keys[3]}: expected an answer, got a prompt"
    assert problems["cut"] == ["F:15: the last line is incomplete"]
    assert problems["empty"] == [f"{empty}: the file is empty"]
    texts = {key: answer.text for key, answer in world.ledger.recorded(keys).items()}
    assert texts[keys[7]] == "a\\x00b\\ud800" and texts[keys[5]] == "half an"
    # errors are free to be written again; what another model said stands out until it is taken
    assert reading.out == 2 and world.write([f"p{n}" for n in range(9)]).prompts == 2
    assert counted(world.read([other], models=["toy-mini"])) == {"taken": 1}


def test_prompts_that_were_edited(world):
    world.write(["a", "b", "c"])
    path = world.folder / "batch-0001.jsonl"
    good = [answered(line) for line in world.lines()]
    path.write_text(path.read_text().replace('"content": "b"', '"content": "B"'))
    reading = world.read(good)
    assert counted(reading) == {"taken": 2, "edited": 1}
    assert "batch-0001.jsonl" in reading.problems["edited"][0]


def test_any_characters_and_joined_messages_are_not_taken_for_edited(world):
    chats = [
        *questions(["a\x00b", "c\ud800"]),
        Chat((Message("system", "Be short."), Message("user", "d"))),
    ]
    joined = world.model(endpoint="completions")

    def work():
        for llm in (world.llm, joined):
            try:
                llm.complete(chats)
            except DeferredError:
                continue

    assert world.batches.write(work, world.folder).prompts == 6
    texts = [answered(line) for line in world.lines()]
    for line in world.lines("batch-0002.jsonl"):
        line["body"]["messages"] = [{"content": line["body"]["prompt"]}]
        texts.append(answered(line))
    assert counted(world.read(texts)) == {"taken": 6}
    assert [one.text for one in joined.complete(chats)][2] == answer_of("Be short.\n\nd")


def test_an_id_that_no_file_can_hold_stops_no_other(world):
    world.write(["a", "b"])
    first, second = (answered(line) for line in world.lines())
    reading = world.read([first, {**second, "custom_id": "\ud800"}, second])
    assert counted(reading) == {"taken": 2, "unknown": 1}


def test_files_of_an_earlier_round_say_nothing_of_a_later_one(tmp_path):
    world = World(tmp_path, retry_unusable=True)
    world.write(["a", "b"])
    first, second = world.lines()
    half = answered(second)
    half["response"]["body"] = completion(second["body"], "half", "length")
    old = [openai_error(first, "batch_expired"), half]
    assert counted(world.read(old)) == {"taken": 1, "unusable": 1, "error": 1}
    world.ledger.close()
    world = World(tmp_path, retry_unusable=True)
    assert world.write(["a", "b"]).prompts == 2
    again = world.read(old)
    assert counted(again) == {"known": 2} and again.out == 2
    assert world.write(["a", "b"]).prompts == 0  # both are out, and paid for once more
    new = [answered(line) for line in world.lines("batch-0002.jsonl")]
    assert counted(world.read([*old, *new])) == {"known": 2, "taken": 2}
    assert [one.text for one in world.llm.complete(questions(["a", "b"]))] == [
        answer_of("a"),
        answer_of("b"),
    ]
    assert len(world.payments) == 3
    world.ledger.close()


def test_an_answer_of_no_use_is_not_requested_again_by_default(tmp_path):
    world = World(tmp_path)
    world.write(["a"])
    [line] = world.lines()
    record = answered(line)
    record["response"]["body"] = completion(line["body"], "half", "length")
    world.read([record])
    world.ledger.close()
    world = World(tmp_path)  # nor by a later process
    assert world.write(["a"]).prompts == 0
    world.ledger.close()


def test_a_ledger_without_the_claims(tmp_path):
    world = World(tmp_path)
    world.write(["a", "b", "c"])
    good = [answered(line) for line in world.lines()]
    world.ledger.close()
    world.ledger.path.unlink()
    world = World(tmp_path)
    assert counted(world.read(good[:1])) == {"taken": 1}
    row = world.batches.status(world.folder).iloc[0]
    assert (row["answered"], row["failed"], row["out"]) == (1, 2, 0)
    assert world.write(["a", "b", "c"]).prompts == 2
    assert counted(world.read(good)) == {"taken": 2, "known": 1} and len(world.payments) == 3
    world.ledger.close()


def test_a_folder_that_was_moved(world, tmp_path):
    world.write(["a", "b"])
    old, world.folder = world.folder, world.folder.rename(tmp_path / "moved")
    # a new batch in its place, with other prompts
    elsewhere = world.batches.write(lambda: world.llm.complete(questions("ac")), old)
    assert (elsewhere.prompts, elsewhere.elsewhere) == (1, 1)
    assert world.batches.status(world.folder)["out"].tolist() == [2]
    with pytest.raises(DeferredError, match=str(world.folder)):
        world.llm.complete(questions(["a"]))
    with pytest.raises(DeferredError, match=str(old)):
        world.llm.complete(questions(["c"]))
    assert counted(world.read([answered(line) for line in world.lines()])) == {"taken": 2}
    assert world.totals == [(str(old), 1, 0.0)]


def test_claims_of_folders_do_not_slow_down_calls(world):
    def steps(key):
        """Return how many instructions SQLite executes to claim a call."""
        count = [0]

        def step():
            count[0] += 1

        budget = Ledger(world.ledger.path, max_calls=10_000).budget
        with world.ledger.store.file._use() as connection:  # no renewal meanwhile
            connection.set_progress_handler(step, 1)
            (claim,) = world.ledger.claims.claim({key: Most()}, "", budget)
            connection.set_progress_handler(None, 1)
        assert claim.state == "mine"
        return count[0]

    world.write([f"prompt {n}" for n in range(10)])
    few = steps("a")
    world.write([f"prompt {n}" for n in range(2010)])
    assert [count for _, count, _ in world.totals] == [10, 2000]
    assert steps("b") < 2 * few < 1000


def test_wrong_folders_and_files(world, tmp_path):
    world.write(["a"])
    with pytest.raises(InputError, match="lost.jsonl"):
        world.batches.read(world.folder, [tmp_path / "lost.jsonl"])
    manifest = world.folder / "manifest.json"
    manifest.write_text('{"batch": 1, "models": [], "files": [], "format": 9}')
    with pytest.raises(FormatError, match="got 9"):
        world.batches.status(world.folder)
    manifest.write_text("[]")
    with pytest.raises(FormatError):
        world.batches.status(world.folder)
    shutil.rmtree(world.folder)
    assert world.batches.drop(world.folder) == 1  # the folder is gone, what was claimed is not


@pytest.mark.slow
def test_kills_pay_nothing_twice_and_lose_nothing(tmp_path):
    words = [sys.executable, batch_steps.__file__, str(tmp_path), "20"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    states = json.loads(done.stdout)
    whole = states.pop("whole")
    assert whole.pop("steps") > 30 and len(states) == 20
    counts = {
        **dict.fromkeys(("answers", "payments"), batch_steps.PROMPTS),
        "claims": 0,
        "owners": 0,
    }
    assert counts.items() <= whole.items()
    for name, state in states.items():
        assert state == whole, name
