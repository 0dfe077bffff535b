"""The statuses of answers in experiments, tables, files and pages."""

from __future__ import annotations

import json
import warnings

import pandas as pd
import pytest
from chat_clients import client
from chat_server import KEY, serving

import fairtk
from fairtk import Generator
from fairtk.credit import Subsets, from_answers
from fairtk.errors import DataWarning, FormatError, InputError, UndefinedWarning
from fairtk.experiment import Results
from fairtk.frames.answers import STATUSES
from fairtk.io import read_answers, write_answers
from fairtk.llm import Completion, UnansweredError

RUN = pd.DataFrame(
    {
        "qid": ["1", "1", "2", "2"],
        "query": ["capital?"] * 2 + ["name?"] * 2,
        "docno": ["a", "b", "c", "d"],
        "score": [2.0, 1.0] * 2,
        "text": ["word " * 40] * 4,
    }
)
QRELS = pd.DataFrame(
    {
        "qid": ["1", "2"],
        "docno": ["a", "c"],
        "label": [1, 1],
        "gold_answer": ["Paris", "Lyon"],
    }
)
EM = "EU(utility='em')"


def system(first, second, name="system", **options):
    """Return a generator with these completions for the two queries."""

    def answer(prompts):
        return [first if "capital" in prompt else second for prompt in prompts]

    return fairtk.identified(Generator(answer, **options), name)


def run(systems, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fairtk.Experiment(systems, RUN, QRELS, [EM, "EE_D@2"], **options)


@pytest.mark.parametrize("saved", [False, True])
def test_a_thinking_model_is_read_after_its_thoughts(tmp_path, saved):
    thought = Completion("<think>London? No.</think>\n\nParis"), Completion("<think>Lyon")
    results = run(
        {"a": system(*thought, "a"), "b": system(*thought, "b", answer="plain")},
        save_dir=tmp_path if saved else None,
    )
    # a: Paris is right, and a thought without an end is no answer: (1 + 0) / 2
    assert results.means.loc["a", EM] == 0.5 and results.means.loc["b", EM] == 0.0
    assert results.answers("a")["answer_status"].tolist() == ["ok", "thought only"]
    assert results.answer_status.loc["a", ["ok", "thought only"]].tolist() == [1, 1]
    assert results.answer_status.sum(axis=1).tolist() == [2, 2]
    assert [r.kind for r in results.remarks if r.system == "a"] == ["thoughts without an answer"]


def test_a_cut_prompt_has_no_utility_but_a_ranking(tmp_path):
    # 2 documents of 40 words: more than 80 words were sent, 20 tokens read
    results = run({"s": system(Completion("Paris", 20), Completion("Lyon"))}, save_dir=tmp_path)
    assert results.answer_status.loc["s", "prompt cut"] == 1
    assert results.undefined[["qid", "measure"]].to_numpy().tolist() == [["1", EM]]
    assert "less than half" in results.undefined["reason"].iloc[0]
    assert results.means.loc["s", EM] == 1.0  # of the other query
    assert results.per_query.query("measure == 'EE_D@2'")["value"].notna().all()
    [remark] = [one for one in results.remarks if one.kind == "cut prompts"]
    assert (remark.system, remark.count, remark.qids) == ("s", 1, ("1",))
    results.save(tmp_path / "saved")
    pd.testing.assert_frame_equal(
        Results.load(tmp_path / "saved").answer_status, results.answer_status
    )


@pytest.mark.parametrize(
    "completion",
    [
        Completion("Par", finish="length"),
        Completion("P", 20),
        Completion("<think>abc", finish="length"),
        Completion("", finish="thought cut"),
    ],
)
def test_a_cut_may_be_a_failure(completion):
    plain = Generator(lambda prompts: [completion for _ in prompts], on_cut="fail")
    with pytest.raises(UnansweredError, match="qid '1'"):
        plain(RUN)
    results = run({"s": system(completion, Completion("Lyon"), on_cut="fail")})
    assert results.failures["qid"].tolist() == ["1"]
    assert results.means.loc["s", EM] == 0.5  # the failed query has the worst value
    with_answers = run({"s": system(completion, Completion("Lyon"))})
    assert not len(with_answers.failures) and len(with_answers.answers("s")) == 2


def test_another_reading_costs_no_call(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pytest.importorskip("openai")
    text = '<think>London?</think>```json\n{"answer": "Paris"}\n```'
    with serving(lambda prompt, count: text) as server:
        statuses = {}
        for reader in ("after-thinking", "plain", "json:answer", "json:other"):
            generator = Generator(client(server), answer=reader)
            statuses[reader] = run({"s": generator}, save_dir=tmp_path).answers("s").iloc[0]
        assert server.counts and set(server.counts.values()) == {1}
    assert statuses["plain"]["qanswer"] == text
    assert statuses["after-thinking"]["qanswer"].startswith("```json")
    assert statuses["json:answer"].tolist() == ["1", "Paris", "ok"]
    assert statuses["json:other"].tolist() == ["1", "", "unreadable"]


@pytest.mark.parametrize(("answer", "n_remarks"), [("", 1), ("Rome", 1), (None, 0)])
def test_equal_answers_are_a_remark(answer, n_remarks):
    completions = [Completion(answer or one) for one in ("Paris", "Lyon")]
    if answer is not None:
        completions = [Completion(answer)] * 2
    results = run({"s": system(*completions)})
    equal = [one for one in results.remarks if one.kind == "equal answers"]
    assert len(equal) == n_remarks
    assert all(one.n_queries == 2 and repr(answer) in one.text for one in equal)


ANSWERS = pd.DataFrame(
    {"qid": ["1", "2"], "qanswer": ["Paris", "Ly"], "answer_status": ["ok", "cut"]}
)


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl", ".csv", ".parquet", ".tsv.gz"])
def test_files_keep_statuses(tmp_path, suffix):
    path = tmp_path / f"answers{suffix}"
    write_answers(ANSWERS, path)
    pd.testing.assert_frame_equal(read_answers(path), ANSWERS)
    with pytest.warns(DataWarning, match="cut"):
        results = fairtk.evaluate(QRELS, {"s": RUN}, [EM], answers=path)
    assert results.answer_status.loc["s", ["ok", "cut"]].tolist() == [1, 1]
    page = tmp_path / "page.html"
    results.report(page)
    assert "ok: 1, cut: 1" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_an_unknown_status_names_file_and_line(tmp_path, suffix):
    path = tmp_path / f"answers{suffix}"
    write_answers(ANSWERS, path)
    text = path.read_text(encoding="utf-8").replace("cut", "cutt")
    path.write_text(text, encoding="utf-8")
    line = 3 if suffix == ".tsv" else 2
    with pytest.raises(FormatError, match=rf"{path.name}.*{line}.*'cutt'.*'2'") as caught:
        read_answers(path)
    assert "'cut'" in str(caught.value)
    with pytest.raises(InputError, match="'cutt'.*'2'"):
        write_answers(ANSWERS.replace("cut", "cutt"), tmp_path / "other.tsv")


def test_rows_without_a_status_are_unknown():
    frame = RUN.assign(qanswer="Paris", answer_status=["ok", "ok", None, None])
    with pytest.warns(DataWarning):
        results = fairtk.evaluate(QRELS, {"s": frame}, [EM])
    assert results.answer_status.loc["s", ["ok", "unknown"]].tolist() == [1, 1]


def test_credit_of_a_cut_prompt_is_undefined():
    def answer(prompts):  # only the prompts with both documents are cut
        return [Completion("Paris", 20 if "Passage 2" in prompt else None) for prompt in prompts]

    answers = (Subsets("all") >> Generator(answer))(RUN[RUN["qid"] == "1"])
    credit = from_answers(answers, "em", QRELS)
    assert credit["credit"].isna().all() and set(credit["answer_status"]) == {"prompt cut"}
    with pytest.warns((UndefinedWarning, DataWarning)):
        results = fairtk.evaluate(QRELS[:1], {"s": credit}, ["AE_D"])
    assert results.undefined["reason"].str.contains("less than half").all()
    assert len(results.undefined) == 1


def test_a_status_table_has_all_statuses():
    results = run({"s": system(Completion("Paris"), Completion("Lyon"))})
    assert tuple(results.answer_status.columns) == STATUSES
    assert json.loads(results.answer_status.to_json())["ok"] == {"s": 2}
    plain = fairtk.identified(fairtk.FairSampler(n_samples=2, cutoff=1), "sampler")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fairtk.Experiment({"s": plain}, RUN, QRELS, ["EE_D@1"]).answer_status.empty


def last_line(text):
    return text.splitlines()[-1]


def test_a_function_with_a_name_is_saved(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(lambda prompt, count: "Let me see.\nParis") as server:
        for name, function, answer in (
            ("last", last_line, "Paris"),
            ("last", lambda text: text.upper(), "Paris"),  # the name is the identity
            ("other", lambda text: text[:3], "Let"),
        ):
            generator = Generator(client(server), answer=fairtk.identified(function, name))
            results = run({"s": generator}, save_dir=tmp_path)
            assert set(results.answers("s")["qanswer"]) == {answer}
        assert set(server.counts.values()) == {1}
    with pytest.raises(fairtk.errors.IdentityError, match="answer"):
        run({"s": Generator(client(server), answer=last_line)}, save_dir=tmp_path / "new")
