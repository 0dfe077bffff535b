"""Language models in experiments: paid for once, kept in the store's ledger."""

import json
import warnings

import pytest
from batch_answers import answered
from chat_server import KEY, error, serving
from experiment_stages import Retriever, world

import fairtk
from fairtk import FairSampler, Generator, PerSample, QueryRefiner
from fairtk.batch import Batches
from fairtk.errors import DataWarning
from fairtk.experiment.engine import PromptSet
from fairtk.experiment.store import FILE
from fairtk.llm import DeferredError, Ledger, OpenAICompatible

TOPICS, _ = world(n_queries=5)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def model(server):
    # requests are counted: a call that takes long is not made again
    return OpenAICompatible("m", base_url=server.url, timeout=600)


def systems(llm):
    sampled = Retriever() >> FairSampler(n_samples=3, cutoff=2)
    generator = Generator(llm, prompt="rag", cutoff=2)
    return {"sampled": sampled >> generator, "fixed": Retriever() % 2 >> generator}


@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_each_prompt_is_paid_for_once_and_kept_in_the_stores_ledger(tmp_path, executor):
    with serving(lambda prompt, count: f" an answer of {len(prompt)} ") as server:
        run = {"executor": executor, "batch_size": 2}
        results = fairtk.Experiment(systems(model(server)), TOPICS, save_dir=tmp_path, **run)
        prompts = [prompt for prompt, *_ in server.requests]
        assert len(prompts) == len(set(prompts)) > 5
        again = fairtk.Experiment(systems(model(server)), TOPICS, save_dir=tmp_path, **run)
        assert len(server.requests) == len(prompts)
        with Ledger(tmp_path / FILE) as ledger:
            assert len(ledger) == len(prompts)
            # whoever asks: the same call through the ledger is not paid for
            Generator(ledger.wrap(model(server)), prompt="rag", cutoff=2).transform(
                Retriever().transform(TOPICS)
            )
        assert len(server.requests) == len(prompts)
    for name in results.systems:
        assert results.answers(name).equals(again.answers(name))
        assert results.answers(name)["qanswer"].str.startswith("an answer of").all()


def test_a_generator_that_is_a_function_is_stored_under_its_users_name(tmp_path):
    calls = []

    def answer(prompts):
        calls.extend(prompts)
        return ["yes"] * len(prompts)

    generator = Generator(answer, prompt="rag", cutoff=2)
    systems = {"mine": Retriever() % 2 >> fairtk.identified(generator, "mine, v1")}
    for _ in range(2):
        results = fairtk.Experiment(systems, TOPICS, save_dir=tmp_path)
        assert results.answers("mine")["qanswer"].tolist() == ["yes"] * len(TOPICS)
    assert len(calls) == len(set(calls)) == len(TOPICS)


def test_a_users_ledger_keeps_its_answers_and_nothing_is_stored_twice(tmp_path):
    with serving(lambda prompt, count: "yes") as server, Ledger(tmp_path / "mine") as ledger:
        llm = ledger.wrap(model(server))
        fairtk.Experiment(systems(llm), TOPICS, save_dir=tmp_path / "store")
        calls = len(server.requests)
        assert len(ledger) == calls > 0
        with Ledger(tmp_path / "store" / FILE) as own:
            assert len(own) == 0
        fairtk.Experiment(systems(llm), TOPICS, save_dir=tmp_path / "store")
        assert len(server.requests) == calls
        # a ledger does not change results, so they are those of the model alone
        alone = systems(model(server))
        assert fairtk.plan(alone, TOPICS, save_dir=tmp_path / "store").pending.empty
        fairtk.Experiment(alone, TOPICS, save_dir=tmp_path / "store")
        assert len(server.requests) == calls


@pytest.mark.parametrize("own", [False, True])  # the store's ledger, or the user's
@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_refused_prompt_costs_its_query_and_is_asked_again_only_on_request(
    tmp_path, executor, own
):
    broken = ["q3"]

    def rule(prompt, count):
        return error(400) if any(f"words of {qid} " in prompt for qid in broken) else "yes"

    with serving(rule) as server, Ledger(tmp_path / "mine") as ledger:
        llm = ledger.wrap(model(server)) if own else model(server)
        run = {"save_dir": tmp_path / "store", "executor": executor, "batch_size": 2}
        for _ in range(2):
            with pytest.warns(DataWarning, match="1 of 5"):
                results = fairtk.Experiment(systems(llm), TOPICS, **run)
            assert set(results.failures["qid"]) == {"q3"}
            assert results.answers("fixed")["qid"].nunique() == 4
        assert set(server.counts.values()) == {1}
        before = len(server.requests)
        with pytest.warns(DataWarning, match="1 of 5"):
            fairtk.Experiment(systems(llm), TOPICS, **run, retry_failed=True)
        n_retried = len(server.requests) - before
        assert n_retried > 0 and set(server.counts.values()) == {1, 2}
        broken.clear()
        before = len(server.requests)
        results = fairtk.Experiment(systems(llm), TOPICS, **run, retry_failed=True)
        assert len(server.requests) == before + n_retried
        assert results.failures.empty
        new = [prompt for prompt, *_ in server.requests[before:]]
        assert all("words of q3 " in prompt for prompt in new)


def test_refinements_are_kept_in_the_store_too(tmp_path):
    refiner = QueryRefiner
    with serving(lambda prompt, count: "some, new, keywords") as server:
        pipeline = {"a": refiner(model(server), group="x", attribute="g") >> Retriever()}
        fairtk.Experiment(pipeline, TOPICS, save_dir=tmp_path)
        assert len(server.requests) == len(TOPICS)
        with Ledger(tmp_path / FILE) as ledger:
            assert len(ledger) == len(TOPICS)
        # a new chain asks the same questions
        other = {"b": refiner(model(server), group="x", attribute="g") >> Retriever(seed=2)}
        fairtk.Experiment(other, TOPICS, save_dir=tmp_path)
        assert len(server.requests) == len(TOPICS)


@pytest.mark.parametrize("status", [400, 503])
def test_a_query_that_a_stage_gives_up_failed_and_is_asked_again(tmp_path, status):
    """QueryRefiner leaves out what it cannot refine: that is no empty result."""
    broken = ["q1", "q3"]

    def rule(prompt, count):
        return error(status) if any(f"words of {q}\n" in prompt for q in broken) else "some, new"

    with serving(rule) as server:
        llm = OpenAICompatible("m", base_url=server.url, timeout=600, retries=0)
        system = {"a": QueryRefiner(llm, group="x") >> Retriever()}
        with pytest.warns(DataWarning):
            results = fairtk.Experiment(system, TOPICS, save_dir=tmp_path)
        assert results.failures["qid"].tolist() == broken
        assert results.failures["error"].str.contains(f"status {status}").all()
        assert fairtk.experiment.stored_results(tmp_path)[
            ["queries", "failed"]
        ].values.tolist() == [
            [3, 2],
            [3, 2],
        ]
        broken.clear()
        before = len(server.requests)
        if status == 400:  # it cannot pass
            with pytest.warns(DataWarning):
                results = fairtk.Experiment(system, TOPICS, save_dir=tmp_path)
            assert len(server.requests) == before and len(results.failures) == 2
        results = fairtk.Experiment(system, TOPICS, save_dir=tmp_path, retry_failed=status == 400)
        assert len(server.requests) == before + 2
        assert results.failures.empty and results.rankings("a")["qid"].nunique() == 5


def test_models_within_other_stages_are_paid_for_once_too(tmp_path):
    with serving(lambda prompt, count: f"answer {len(prompt)}") as server:

        def system(cutoff):
            reader = PerSample(Generator(model(server), prompt="rag", cutoff=2) >> Retriever() % 9)
            return {f"first {cutoff}": Retriever() % cutoff >> reader}

        fairtk.Experiment(system(3), TOPICS, save_dir=tmp_path)
        assert len(server.requests) == 5
        fairtk.Experiment(system(4), TOPICS, save_dir=tmp_path)  # other rows, the same prompts
        assert len(server.requests) == 5


def refined(llm):
    """Return a pipeline that asks twice: what it retrieves, and so its prompts, wait for words."""
    words = QueryRefiner(llm, group="g", temperature=None)
    asks = Generator(llm, prompt="rag", cutoff=2)
    return {"both": words >> Retriever() >> asks, "one": Retriever() >> asks}


def by_prompt(prompt, *_):
    return f'["{len(prompt)}", "words"]'


@pytest.mark.parametrize("own", [True, False])  # a ledger of the user's, or the store's
@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_prompts_are_answered_from_files_round_after_round(tmp_path, own, executor):
    path = tmp_path / "answers.sqlite" if own else tmp_path / "files" / FILE
    (tmp_path / "files").mkdir()
    run = {"executor": executor, "batch_size": 2, "save_dir": tmp_path / "files"}
    with serving(by_prompt) as server, Ledger(path) as ledger:
        llm = ledger.wrap(model(server)) if own else model(server)
        batches, asked = Batches(ledger), []
        while True:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "system .* is not what is stored")
                done = batches.write(
                    lambda: fairtk.Experiment(refined(llm), TOPICS, **run), tmp_path / "prompts"
                )
            if done.results is not None:
                break
            asked.append(done.prompts)
            with pytest.raises(DeferredError, match="10"):
                fairtk.Experiment(refined(llm), TOPICS, **run)  # nobody asks for it meanwhile
            lines = [json.loads(x) for x in done.files[0].read_text().splitlines()]
            answers = tmp_path / "answers.jsonl"
            answers.write_text("".join(json.dumps(answered(x, by_prompt)) + "\n" for x in lines))
            assert batches.read(tmp_path / "prompts", [answers]).counts["taken"] == len(lines)
        assert server.requests == [] and len(asked) == 2 and asked[0] == 10
        online = fairtk.Experiment(refined(model(server)), TOPICS, save_dir=tmp_path / "online")
        assert len(server.requests) == sum(asked)
    for name in online.systems:
        assert done.results.answers(name).equals(online.answers(name))
        assert done.results.rankings(name).equals(online.rankings(name))


def test_what_needs_no_answer_is_kept_at_once(tmp_path):
    with Ledger(tmp_path / "a") as ledger:
        llm = ledger.wrap(OpenAICompatible("m", base_url="http://127.0.0.1:1/v1"))
        pipelines = {**systems(llm), "ranks": Retriever() % 2}
        work = {"save_dir": tmp_path / "store", "batch_size": 2}
        written = Batches(ledger).write(
            lambda: fairtk.Experiment(pipelines, TOPICS, **work), tmp_path / "prompts"
        )
        assert written.prompts > 5 and "10 of 15 results wait" in written.reason
    plan = fairtk.plan(pipelines, TOPICS, **work)
    counts = plan.cells.set_index("system")[["stored", "failed", "missing"]]
    assert counts.loc["ranks"].tolist() == [5, 0, 0]
    assert counts.loc["sampled"].tolist() == [0, 0, 5]  # nothing failed


def test_a_server_is_given_as_many_prompts_as_keep_it_busy():
    prompts = dict.fromkeys(f"prompt {number}" for number in range(900))

    def sizes(concurrency):
        llm = OpenAICompatible("m", concurrency=concurrency)
        return [len(one) for one in PromptSet(None, llm, prompts).batches]

    assert sizes(8) == [4, *[32] * 28]  # 900 = 28 * 32 + 4; as for functions
    assert sizes(100) == [100, 400, 400]
