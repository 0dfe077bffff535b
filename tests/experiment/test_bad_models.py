"""Wrong models: an error with the query or the prompt, and nothing is lost."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from chat_server import KEY, error, serving
from experiment_stages import Retriever, world

import fairtk
from fairtk import Generator, PerSample
from fairtk.errors import DataWarning, InputError, ParameterError, StageError
from fairtk.experiment.store import FILE
from fairtk.llm import FunctionModel, Ledger, OpenAICompatible, as_chat_model
from fairtk.llm.chat import questions

TOPICS, _ = world(n_queries=6)
EXECUTORS = ["serial", pytest.param("processes", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def options(executor, **more):
    return {"executor": executor, **({} if executor == "serial" else {"workers": 1}), **more}


def is_bad(prompt):
    return "words of q3 " in prompt


def too_few(prompts):
    return [prompt[-9:] for prompt in prompts if not is_bad(prompt)]


def too_many(prompts):
    return [part for p in prompts for part in ([p, p] if is_bad(p) else [p])]


def no_text(prompts):
    return [None if is_bad(prompt) else "yes" for prompt in prompts]


def one_text(prompts):
    return "yes" if any(map(is_bad, prompts)) else ["yes"] * len(prompts)


def raises(prompts):
    if any(map(is_bad, prompts)):
        raise KeyError("no such prompt")
    return ["yes"] * len(prompts)


def no_list(prompts):
    return None if any(map(is_bad, prompts)) else ["yes"] * len(prompts)


WRONG = [too_few, too_many, no_text, one_text, raises, no_list]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("function", WRONG)
def test_a_wrong_answer_costs_its_query_and_names_the_model(tmp_path, function, executor):
    generator = Generator(FunctionModel(function, "toy"), cutoff=2)
    system = {"a": Retriever() % 2 >> fairtk.identified(generator, "a, v1")}
    with pytest.warns(DataWarning, match="1 of 6"):
        results = fairtk.Experiment(system, TOPICS, save_dir=tmp_path, **options(executor))
    assert results.failures["qid"].tolist() == ["q3"]
    assert "'toy'" in results.failures["error"].iloc[0]
    assert len(results.answers("a")) == 5
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == 5


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("function", WRONG)
def test_fail_fast_names_stage_model_and_query_and_keeps_the_other_answers(
    tmp_path, function, executor
):
    generator = Generator(FunctionModel(function, "toy"), cutoff=2)
    system = {"a": Retriever() % 2 >> fairtk.identified(generator, "my stage, v1")}
    run = options(executor, save_dir=tmp_path, fail_fast=True)
    with pytest.raises(StageError) as caught:
        fairtk.Experiment(system, TOPICS, **run)
    for part in ("my stage", "'toy'", "'q3'"):
        assert part in str(caught.value)
    with Ledger(tmp_path / FILE) as ledger:
        assert 0 < len(ledger) <= 5


@pytest.mark.parametrize("saved", [False, True])
def test_fail_fast_names_the_query_that_a_server_refuses_also_in_the_next_run(tmp_path, saved):
    with serving(lambda prompt, count: error(400) if is_bad(prompt) else "yes") as server:
        llm = OpenAICompatible("toy", server.url, timeout=600)
        system = {"a": Retriever() % 2 >> Generator(llm, cutoff=2)}
        run = {"fail_fast": True, **({"save_dir": tmp_path} if saved else {})}
        for _ in range(2):
            with pytest.raises(StageError) as caught:
                fairtk.Experiment(system, TOPICS, **run)
            for part in ("Generator", "'toy'", "'q3'", "status 400"):
                assert part in str(caught.value)
        assert set(server.counts.values()) == {1 if saved else 2}


@pytest.mark.parametrize("function", [f for f in WRONG if f is not raises])
def test_without_an_experiment_the_error_names_model_and_prompt(tmp_path, function):
    prompts = [f"words of q{i} x" for i in range(520)]  # two calls, the first is wrong
    with pytest.raises(InputError) as caught:
        as_chat_model(function).complete(questions(prompts))
    for part in (function.__name__, "prompt"):
        assert part in str(caught.value)


def test_earlier_answers_of_a_function_are_recorded(tmp_path):
    prompts = [f"words of q{100 + i} x" for i in range(600)]
    calls = []

    def later_too_few(texts):
        calls.append(len(texts))
        return texts if len(calls) == 1 else texts[:-1]

    with Ledger(tmp_path / "l") as ledger:
        with pytest.raises(InputError, match="88"):  # 600 - 512
            ledger.wrap(later_too_few).complete(questions(prompts))
        assert len(ledger) == 512 and calls == [512, 88]
        assert ledger.store.file.read("SELECT * FROM claims") == []


class Silent:
    """An object that cannot generate."""

    generate = "not a method"


NO_MODELS = {
    "attribute": Silent(),
    "class": Silent,
    "number": 5,
    "none": None,
    "name": "gpt-4o",
    "object": object(),
}


@pytest.mark.parametrize("name", NO_MODELS)
def test_what_cannot_generate_is_refused_wherever_a_model_is_expected(tmp_path, name):
    with Ledger(tmp_path / "l") as ledger:
        for accept in (as_chat_model, ledger.wrap, Generator, fairtk.QueryRefiner):
            with pytest.raises(ParameterError, match="llm"):
                accept(NO_MODELS[name])


NONSENSE = {
    "no JSON": b"<html>",
    "a number": b"5",
    "an empty object": b"{}",
    "no message": b'{"choices": [5]}',
    "other content": b'{"choices": [{"message": {"content": {"a": 1}}}]}',
    "an error": b'{"error": "overloaded"}',
}


@pytest.mark.parametrize("name", NONSENSE)
def test_a_server_that_answers_nonsense_costs_the_query(tmp_path, name):
    def rule(prompt, count):
        return {"body": NONSENSE[name]} if is_bad(prompt) else "yes"

    with serving(rule) as server:
        llm = OpenAICompatible("toy", server.url, timeout=600, retries=1, backoff=0.01)
        system = {"a": Retriever() % 2 >> Generator(llm, cutoff=2)}
        is_paid = name not in ("no JSON", "an error")  # an answer that nobody can read, or none
        with nullcontext() if is_paid else pytest.warns(DataWarning, match="1 of 6"):
            results = fairtk.Experiment(system, TOPICS, save_dir=tmp_path)
    assert results.failures["qid"].tolist() == ["q3"] * (not is_paid)
    status = results.answers("a").set_index("qid")["answer_status"]
    assert len(status) == 5 + is_paid and status.get("q3") == ("unreadable" if is_paid else None)
    assert results.answer_status.at["a", "unreadable"] == is_paid
    with Ledger(tmp_path / FILE) as ledger:
        rows = ledger.store.file.read("SELECT answer FROM answers WHERE finish = 'unreadable'")
        assert rows == [(NONSENSE[name].decode(),)] * is_paid  # as it was sent
        assert len(ledger) == 5 + is_paid


def test_a_generator_in_another_stage_requests_refused_prompts_on_request(tmp_path):
    broken = [True]

    def rule(prompt, count):
        return error(400) if is_bad(prompt) and broken else "yes"

    with serving(rule) as server:
        llm = OpenAICompatible("toy", server.url, timeout=600)
        inner = PerSample(Generator(llm, cutoff=2) >> Retriever() % 9)
        system = {"a": Retriever() % 2 >> inner}  # the same objects in all runs
        for settings, calls in (({}, 6), ({}, 6), ({"retry_failed": True}, 7)):
            with pytest.warns(DataWarning, match="1 of 6"):
                fairtk.Experiment(system, TOPICS, save_dir=tmp_path, **settings)
            assert len(server.requests) == calls
        broken.clear()
        results = fairtk.Experiment(system, TOPICS, save_dir=tmp_path, retry_failed=True)
        assert len(server.requests) == 8 and results.failures.empty
