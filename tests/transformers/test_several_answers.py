"""`Generator(answers=n)`: several answers per prompt, with real servers and models."""

from __future__ import annotations

import json

import pandas as pd
import pyterrier as pt
import pytest
import tiny_models
from batch_answers import answered
from chat_server import KEY, serving
from dask_cluster import settings_of

import fairtk
from fairtk import EU, Experiment, Generator, Results, io
from fairtk.batch import Batches
from fairtk.credit import Citations, Subsets, from_answers
from fairtk.errors import DataWarning, DuplicateError, FormatError, InputError, ParameterError
from fairtk.experiment.store import FILE
from fairtk.llm import (
    BudgetError,
    HuggingFaceCausal,
    KeywordRefiner,
    Ledger,
    OpenAICompatible,
    UnansweredError,
)
from fairtk.llm.chat import call_keys, questions

EM = EU(utility="em")


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def by_turns(prompt, count, body):
    """Answer Paris and Lyon by turns."""
    return ["Paris", "Lyon"][count % 2 == 0]


@pytest.fixture(name="server")
def server_fixture():
    with serving(by_turns) as server:
        yield server


def model(server, temperature=0.7, **settings):
    return OpenAICompatible("toy", server.url, temperature=temperature, **settings)


def rankings(n_queries=1, n_samples=20):
    rows = [
        {"qid": f"q{q}", "query": f"capital {q}?", "docno": "d", "score": 1.0, "sample": s}
        for q in range(n_queries)
        for s in range(n_samples)
    ]
    return pd.DataFrame(rows).assign(text="It is Paris.")


def labels(n_queries=1, gold="Paris"):
    qids = [f"q{q}" for q in range(n_queries)]
    return pd.DataFrame({"qid": qids, "docno": "d", "label": 1, "gold_answer": gold})


def experiment(server, generator, n_queries=3, **options):
    run = rankings(n_queries, 4)
    topics = run[["qid", "query"]].drop_duplicates(ignore_index=True)
    systems = {"a": pt.Transformer.from_df(run.drop(columns="query")) >> generator}
    return Experiment(systems, topics, labels(n_queries), [EM], **options)


class TestAnswers:
    def test_equal_prompts_have_five_answers(self, server):
        generator = Generator(model(server), answers=5)
        out = generator(rankings())
        # the first, third and fifth call are answered Paris
        assert out["qanswer"].iloc[0] == ["Paris", "Lyon", "Paris", "Lyon", "Paris"]
        assert all(cell == out["qanswer"].iloc[0] for cell in out["qanswer"])
        assert out["answer_status"].iloc[0] == ["ok"] * 5
        assert out["prompt_id"].nunique() == 1
        assert len(server.requests) == 5
        assert EM.calc_aggregate(labels(), out) == pytest.approx(3 / 5)

    def test_each_answer_has_its_own_seed_and_the_first_has_that_of_one(self, server, tmp_path):
        with Ledger(tmp_path / "l") as ledger:
            llm = ledger.wrap(model(server))
            Generator(llm, answers=3)(rankings())
            seeds = [body.get("seed") for _, body, _ in server.requests]
            assert seeds[0] is None and len(set(seeds)) == 3
            assert all(0 <= seed < 1 << 31 for seed in seeds[1:])
            with pytest.warns(DataWarning, match="answers=5"):
                one = Generator(llm)(rankings())
            assert len(server.requests) == 3  # stored answers stay valid
            assert set(one["qanswer"]) == {"Paris"}
            chat = questions(Generator(llm, answers=3).build_prompts(rankings()).prompts[:1])
            parameters = {**llm.parameters(), "seed": seeds[2]}
            assert len(ledger.store.get(call_keys("toy", parameters, chat))) == 1

    def test_a_ledger_resumes_between_answers(self, server, tmp_path):
        with Ledger(tmp_path / "l", max_calls=2) as ledger, pytest.raises(BudgetError):
            Generator(ledger.wrap(model(server)), answers=5)(rankings())
        with Ledger(tmp_path / "l") as ledger:
            Generator(ledger.wrap(model(server)), answers=5)(rankings())
            assert len(server.requests) == len(ledger) == 5

    def test_estimates_count_all_answers(self, server):
        frame = rankings(2)
        estimate = Generator(model(server), answers=5).estimate(frame)
        assert estimate.calls == 10
        assert Generator(model(server, temperature=0)).estimate(frame).calls == 2

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore:.*documents are left out:fairtk.errors.DataWarning")
    @pytest.mark.filterwarnings("ignore:.*tokens of prompts:fairtk.errors.DataWarning")
    def test_a_model_in_this_process(self, tmp_path):
        pytest.importorskip("transformers")
        folder = tiny_models.save_llama(tmp_path / "llama")
        settings = {"max_new_tokens": 4, "device": "cpu", "num_beams": 1}
        warm = HuggingFaceCausal(folder, temperature=1.5, **settings)
        frame = rankings(2, 2)
        out = Generator(warm, answers=4)(frame)
        assert len({*out["qanswer"].iloc[0]}) > 1
        with pytest.warns(DataWarning, match="answers=5"):
            first = Generator(warm)(frame)
        assert first["qanswer"].tolist() == [cell[0] for cell in out["qanswer"]]
        again = Generator(HuggingFaceCausal(folder, temperature=1.5, **settings), answers=4)(frame)
        assert again["qanswer"].tolist() == out["qanswer"].tolist()

    def test_a_failed_answer_is_a_failure(self):
        def rule(prompt, count, body):
            failed = body.get("seed") is not None
            return {"status": 400, "body": b'{"error": {"message": "no"}}'} if failed else "Paris"

        with serving(rule) as server, pytest.raises(UnansweredError, match="'q0'"):
            Generator(model(server, retries=0), answers=2)(rankings(2))


class TestExperiments:
    @pytest.mark.parametrize(
        "executor",
        [
            "serial",
            pytest.param("processes", marks=pytest.mark.slow),
            pytest.param("dask", marks=pytest.mark.nightly),
        ],
    )
    def test_a_run_and_a_resumed_run(self, server, tmp_path, executor):
        generator = Generator(model(server), answers=3)
        with settings_of(executor, tmp_path) as settings:
            options = {"save_dir": tmp_path / "store", **settings}
            first = experiment(server, generator, **options)
            assert len(server.requests) == 3 * 3  # queries and answers
            assert first.means.loc["a", "EU(utility='em')"] == pytest.approx(2 / 3)
            again = experiment(server, generator, **options)
        assert len(server.requests) == 9
        pd.testing.assert_frame_equal(again.rankings("a"), first.rankings("a"))
        with Ledger(tmp_path / "store" / FILE) as ledger:
            assert len(ledger) == 9
        counts = again.answer_status.loc["a"]
        assert counts["ok"] == counts.sum() == 3 * 4 * 3  # queries, rankings, answers

    def test_more_answers_only_pay_for_the_new_ones(self, server, tmp_path):
        experiment(server, Generator(model(server), answers=2), save_dir=tmp_path)
        with pytest.warns(DataWarning, match="Generator.answers: 2, now 5"):
            experiment(server, Generator(model(server), answers=5), save_dir=tmp_path)
        assert len(server.requests) == 3 * 5

    def test_plans_count_all_answers(self, server, tmp_path):
        run = rankings(2, 1)
        topics = run[["qid", "query"]]
        plan = fairtk.plan({"a": Generator(model(server), answers=3)}, topics, save_dir=tmp_path)
        assert plan.prompts["missing"].sum() == 6

    def test_saved_results(self, server, tmp_path):
        results = experiment(server, Generator(model(server), answers=3))
        results.save(tmp_path / "saved")
        loaded = Results.load(tmp_path / "saved")
        pd.testing.assert_frame_equal(loaded.answers("a"), results.answers("a"))
        assert loaded.answers("a")["qanswer"].iloc[0] == ["Paris", "Lyon", "Paris"]
        table = pd.read_parquet(tmp_path / "saved" / "answers.parquet")
        assert table["answer"].tolist() == [0, 1, 2] * 12
        assert table["qanswer"].tolist() == ["Paris", "Lyon", "Paris"] * 12

    def test_batch_files(self, tmp_path):
        llm = OpenAICompatible("toy", "http://127.0.0.1:1/v1", temperature=0.7)
        frame = rankings(2, 3)
        with Ledger(tmp_path / "l") as ledger:
            generator = Generator(ledger.wrap(llm), answers=2)
            batches = Batches(ledger)
            for _ in range(2):  # one round for each answer
                batches.write(lambda: generator(frame), tmp_path / "prompts")
                lines = [
                    json.loads(line)
                    for path in sorted((tmp_path / "prompts").glob("*.jsonl"))
                    for line in path.read_text().splitlines()
                ]
                texts = "\n".join(json.dumps(answered(line)) for line in lines)
                (tmp_path / "answers.jsonl").write_text(texts + "\n")
                batches.read(tmp_path / "prompts", [tmp_path / "answers.jsonl"])
            assert len(ledger) == 4
            assert {len(cell) for cell in generator(frame)["qanswer"]} == {2}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: OpenAICompatible("toy", "http://127.0.0.1:1/v1"), "temperature is 0"),
        (lambda: HuggingFaceCausal("nowhere", num_beams=4), "temperature is 0"),
        (KeywordRefiner, "rules"),
        (lambda: lambda prompts: prompts, "seed"),
    ],
)
def test_models_that_do_not_sample(make, reason):
    with pytest.raises(ParameterError, match=f"answers=3.*{reason}"):
        Generator(make(), answers=3)
    assert Generator(make()).answers == 1


def test_a_server_with_its_own_temperature_may_sample(server):
    assert Generator(model(server, temperature=None), answers=2).answers == 2


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "3", True, None])
def test_bad_numbers(server, wrong):
    with pytest.raises(ParameterError, match="answers"):
        Generator(model(server), answers=wrong)


class TestRemark:
    def test_one_answer_of_a_model_that_samples(self, server):
        with pytest.warns(DataWarning, match="answers=5"):
            Generator(model(server))(rankings())
        with pytest.warns(DataWarning, match="answers=5"):
            results = experiment(server, Generator(model(server)))
        [remark] = [one for one in results.remarks if one.kind == "one answer per prompt"]
        assert (remark.stage, remark.n_queries) == ("Generator", 3)

    @pytest.mark.filterwarnings("ignore:all answers are equal:fairtk.errors.DataWarning")
    def test_temperature_0_or_several_answers(self, server):
        for generator in (
            Generator(model(server, temperature=0)),
            Generator(model(server), answers=2),
        ):
            remarks = experiment(server, generator).remarks
            assert "one answer per prompt" not in [one.kind for one in remarks]


ANSWERS = pd.DataFrame(
    {
        "qid": ["1", "1", "2"],
        "sample": [0, 1, 0],
        "qanswer": [["a", 'b\t\n"c"'], ["", "nan"], ["None", "ü"]],
        "answer_status": [["ok", "cut"], ["empty", "ok"], ["ok", "ok"]],
    }
)


class TestFiles:
    @pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "parquet", "tsv.gz"])
    def test_a_row_per_answer(self, tmp_path, suffix):
        path = tmp_path / f"answers.{suffix}"
        io.write_answers(ANSWERS, path)
        pd.testing.assert_frame_equal(io.read_answers(path), ANSWERS)
        if suffix == "tsv":
            assert path.read_text().splitlines()[0].split("\t")[:4] == [
                *("qid", "sample", "answer", "qanswer"),
            ]

    def test_the_order_of_lines_does_not_count(self, tmp_path):
        path = tmp_path / "answers.jsonl"
        io.write_answers(ANSWERS, path)
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], lines[2], lines[4], lines[1], lines[3], lines[5]]))
        read = io.read_answers(path).sort_values(["qid", "sample"], ignore_index=True)
        pd.testing.assert_frame_equal(read, ANSWERS)

    def test_an_answer_that_is_there_twice(self, tmp_path):
        path = tmp_path / "answers.tsv"
        path.write_text("qid\tanswer\tqanswer\n1\t0\ta\n1\t0\tb\n")
        with pytest.raises((DuplicateError, FormatError), match="3"):
            io.read_answers(path)

    @pytest.mark.parametrize("wrong", [[[], ["a"]], [["a", None], ["a"]], [["a", 1], ["a"]]])
    def test_bad_lists(self, tmp_path, wrong):
        frame = pd.DataFrame({"qid": ["1", "2"], "qanswer": wrong})
        with pytest.raises(InputError, match="qanswer"):
            io.write_answers(frame, tmp_path / "answers.tsv")
        qrels = labels(2).assign(qid=["1", "2"])
        with pytest.raises(InputError, match="qanswer"):
            fairtk.evaluate(qrels, frame, [EM])

    def test_statuses_of_another_number(self, tmp_path):
        frame = ANSWERS.assign(answer_status=[["ok"], ["ok", "ok"], ["ok", "ok"]])
        with pytest.raises(InputError, match="answer_status"):
            io.write_answers(frame, tmp_path / "answers.tsv")


class TestReaders:
    def test_credit_is_that_of_the_mean_utility(self):
        run = pd.DataFrame({"qid": "1", "docno": ["a", "b"], "score": [2.0, 1.0]})
        subsets = Subsets("one-out")(run.assign(query="q"))
        kinds = subsets.drop_duplicates("sample").set_index("sample")["subset"]
        # {a, b}: right in 2 of 2 answers, {a}: in 1, {b}: in 0
        lists = {3: ["x", "x"], 1: ["x", "y"], 2: ["y", "y"], 0: ["y", "y"]}
        answers = subsets.assign(qanswer=[lists[kinds[s]] for s in subsets["sample"]])
        credit = from_answers(answers, "em", {"1": "x"}).set_index("docno")["credit"]
        assert credit.to_dict() == {"a": 1.0, "b": 0.5}

    @pytest.mark.parametrize("n_answers", [2, 3])
    @pytest.mark.parametrize("is_cut", [False, True])
    def test_credit_has_the_statuses_of_the_answers(self, n_answers, is_cut):
        """Also if there are as many answers as documents; a cut prompt has no credit."""
        run = pd.DataFrame({"qid": "1", "docno": ["a", "b"], "score": [2.0, 1.0], "query": "q"})
        subsets = Subsets("one-out")(run)
        statuses = [["cut"] + ["ok"] * (n_answers - 1) for _ in range(len(subsets))]
        if is_cut:  # one answer to {b}
            statuses[subsets["subset"].tolist().index(2)][-1] = "prompt cut"
        answers = subsets.assign(qanswer=[["x"] * n_answers] * len(subsets), answer_status=statuses)
        credit = from_answers(answers, "em", {"1": "x"})
        expected = ["prompt cut"] * n_answers if is_cut else ["cut"] + ["ok"] * (n_answers - 1)
        assert credit["answer_status"].tolist() == [expected] * 2
        assert credit["credit"].isna().tolist() == [is_cut] * 2

    def test_citations_are_the_mean_over_answers_with_citations(self):
        run = pd.DataFrame({"qid": "1", "docno": ["a", "b"], "score": [2.0, 1.0], "sample": 0})
        run["qanswer"] = [["It is [1].", "It is [1] [2].", "It is."]] * 2
        credit = Citations()(run).set_index("docno")["credit"]
        # [1, 0] and [1/2, 1/2]; the third has no citation
        assert credit.to_dict() == {"a": 0.75, "b": 0.25}
