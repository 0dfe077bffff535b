"""The study of Towards Fair RAG on the packaged collection and model."""

import json
import shutil
import sqlite3
from contextlib import closing

import pandas as pd
import pytest
from fairtk_papers.fair_rag import LampTask, RagResults, RagSettings, RagStudy
from fairtk_papers.fair_rag.labels import TaskLabels
from rag_world import generator, study

from fairtk import BM25Scorer, Candidates, Generator, demo, prompts
from fairtk.datasets import lamp
from fairtk.errors import (
    FormatError,
    InputError,
    NotFoundError,
    ParameterError,
    StageError,
)
from fairtk.transformers import OracleSampler, SingleDocumentSampler

pytestmark = pytest.mark.slow  # a model answers some hundred prompts


@pytest.fixture(scope="module")
def done(tmp_path_factory, finished_rag):
    folder = tmp_path_factory.mktemp("rag")
    own = study(folder)
    before = own.plan(), own.status()
    shutil.copytree(finished_rag, folder, dirs_exist_ok=True)
    results = own.run()
    return own, before, results, results.save(folder)


def test_each_policy_has_each_value_of_each_query(done):
    _, _, results, _ = done
    values = results.values
    assert set(values["alpha"]) == {0.0, 8.0, "oracle", "deterministic"}
    assert set(values["measure"]) == {"EE_D", "EE_R", "nDCG", "EU", "normalized EU"}
    n_queries = results.collections["queries"].iloc[0]
    assert len(values) == 4 * 5 * n_queries and not values["value"].isna().any()
    fixed = values[(values["alpha"] == "deterministic") & (values["measure"] == "EE_D")]
    assert (fixed["value"] == 1).all()
    oracle = values[(values["alpha"] == "oracle") & (values["measure"] == "EE_R")]
    assert oracle["value"].to_numpy() == pytest.approx(1, abs=0.2)


def test_a_second_run_generates_nothing_and_finds_the_same(done):
    own, _, results, place = done
    tables = {path.name: path.read_bytes() for path in (place / "tables").iterdir()}
    assert own.plan().total["prompts"] == 0
    again = own.run()
    pd.testing.assert_frame_equal(again.values, results.values)
    again.save(own.folder)
    assert {path.name: path.read_bytes() for path in (place / "tables").iterdir()} == tables


def test_a_system_that_fails_for_all_queries_is_an_error(finished_rag, tmp_path, monkeypatch):
    def fail(self, inp):
        raise RuntimeError("out of memory")

    shutil.copytree(finished_rag, tmp_path, dirs_exist_ok=True)
    own = study(tmp_path, seed=7)  # the labels are stored, but no rankings
    monkeypatch.setattr(OracleSampler, "transform", fail)
    with pytest.raises(StageError, match="oracle.*out of memory"):
        own.run()
    assert own.status().set_index("stage")["done"].to_dict()["BM25, alpha 8"] == 3


def test_the_plan_before_the_run(done, tmp_path):
    own, (before, status), _, _ = done
    # 3 queries x (2 alphas and the oracle, 3 samples each, and 1 deterministic ranking)
    rankings = before.rows.set_index("retriever")["rankings"]
    assert rankings.to_dict() == {"labels": 0, "BM25": 3 * (3 * 3 + 1)}
    docs = len(own.label(own.tasks[0], generator()(2, 5)).gains.documents)
    assert before.rows["prompts"].iloc[0] == 3 + docs
    assert status["done"].sum() == 0 and before.total["prompts"] == before.rows["prompts"].sum()
    empty = tmp_path / "nothing"
    assert study(empty).plan().total["prompts"] > 0 and not empty.exists()


def test_the_tables_are_the_papers(done):
    _, _, results, place = done
    laid_out = {"table_3", "table_4", "table_5", "table_7"}  # of LaMP-2
    stems = {path.stem for path in (place / "tables").iterdir()}
    assert stems == {*results.tables(), *laid_out}
    text = (place / "tables" / "table_7.md").read_text(encoding="utf-8")
    assert text.startswith("| Model (baseline utility) |") and "| BM25+tiny (" in text
    assert results.means["policy"].tolist() == ["alpha 0", "alpha 8", "oracle", "deterministic"]
    facts = json.loads((place / "study.json").read_text(encoding="utf-8"))
    assert facts["collections"][0]["left out"] == 3 - facts["collections"][0]["queries"]
    assert "CC BY-NC-SA" in facts["licenses"][0]


def test_what_was_saved_is_read_again(done):
    own, _, results, _ = done
    again = RagResults.load(own.folder)
    pd.testing.assert_frame_equal(again.values, results.values)
    pd.testing.assert_frame_equal(again.sizes, results.sizes)
    assert again.settings == results.settings and again.notes == results.notes
    pd.testing.assert_frame_equal(again.means, results.means)


def test_results_of_several_settings_lie_side_by_side(done, tmp_path):
    _, _, results, _ = done
    results.save(tmp_path)
    name = results.save(tmp_path).name
    other = RagResults(**{**vars(results), "settings": RagSettings(seed=1)})
    other.save(tmp_path)
    both = ", ".join(sorted([name, other.settings.name]))
    with pytest.raises(NotFoundError, match="''") as error:
        RagResults.load(tmp_path)
    assert both in str(error.value)
    assert RagResults.load(tmp_path, name).settings == results.settings
    with pytest.raises(FormatError, match="no"):
        RagResults.load(tmp_path / "tables")


def test_labels_that_came_with_the_data_are_taken_and_agree_with_own_ones(done, tmp_path):
    own, _, _, _ = done
    task = own.tasks[0]
    labels = own.label(task, generator()(2, 5)).gains
    lamp.write_folder(task.dataset, labels.qrels(1), tmp_path)
    labeled = lamp.from_folder(tmp_path, task=2)
    published = study(own.folder, dataset=labeled).label(LampTask(labeled), generator()(2, 5))
    assert published.facts["labels"] == "published" and published.gains is None
    expected = labels.qrels(2).sort_values(["qid", "docno"], ignore_index=True)
    result = published.qrels.sort_values(["qid", "docno"], ignore_index=True)
    pd.testing.assert_frame_equal(result, expected, check_dtype=False)
    both = study(own.folder, labeled, labels="own")
    both = both.label(LampTask(labeled), generator()(2, 5))
    assert both.facts["published: kappa"] == 1.0 and both.facts["published: share"] == 1.0


def test_no_useful_document_anywhere(done, tmp_path):
    own, _, _, _ = done
    with pytest.raises(InputError, match="1000.*min_useful = 1"):
        study(own.folder, min_useful=1000).run()


@pytest.mark.filterwarnings("ignore:.*left out of prompts or cut")
def test_prompts_cut_as_published_are_other_answers_only_where_they_differ(tmp_path):
    """With a window of 82 tokens, 33 of 129 prompts are cut, and cut otherwise."""
    task = LampTask(demo.load().dataset)
    documents = Candidates(task.dataset)(task.topics[:3])
    built = {}
    for truncation in ("keep-question", "published"):
        own = study(tmp_path, make=generator(max_prompt_tokens=82), truncation=truncation)
        assert own.status()["done"].sum() == 0  # what was cut otherwise is no result of this one
        reader = own.generator(task, "tiny")
        built[truncation] = {
            *reader.build_prompts(SingleDocumentSampler()(documents)).prompts,
            *reader.build_prompts(task.topics[:3]).prompts,
        }
        own.label(task, reader)
        answers = set().union(*built.values())
        with closing(sqlite3.connect(tmp_path / "experiment.sqlite")) as store:
            [count] = store.execute("SELECT COUNT(*) FROM answers").fetchone()
        assert count == len(answers)
    both = built["keep-question"] & built["published"]
    assert 0 < len(both) < len(built["published"])


def test_a_model_without_a_window_cannot_cut_as_published(tmp_path):
    def make(task, cutoff, truncation):
        prompt = prompts.get(f"lamp-{task}", truncate="fair-rag")
        return Generator(lambda texts: texts, prompt, cutoff)

    with pytest.raises(InputError, match="model_max_length"):
        study(tmp_path, make=make, truncation="published").run()


def test_what_a_study_needs(tmp_path):
    task = LampTask(demo.load().dataset)
    with pytest.raises(ParameterError):
        RagStudy([task], {}, {"tiny": generator()}, tmp_path)
    with pytest.raises(ParameterError, match="'LaMP-2'"):
        RagStudy([task, task], {"BM25": BM25Scorer()}, {"tiny": generator()}, tmp_path)
    with pytest.raises(InputError, match="LaMP"):
        LampTask("vaswani")


def test_graded_labels_make_a_graded_oracle(done):
    own, _, _, _ = done
    labels = study(own.folder, grades="gain").label(own.tasks[0], generator()(2, 5))
    assert isinstance(labels, TaskLabels) and set(labels.qrels["label"]) == {
        0,
        1,
    }  # accuracy: one gain


def test_two_retrievers_share_folder_and_answers(done):
    own, _, results, _ = done
    two = {"BM25": BM25Scorer(), "other": BM25Scorer(k1=0.5)}
    both = RagStudy(own.tasks, two, own.generators, own.folder, own.settings)
    of_both = both.run()  # a warning would be an error here
    assert of_both.means["retriever"].tolist() == ["BM25"] * 4 + ["other"] * 4
    first = of_both.values[of_both.values["retriever"] == "BM25"].reset_index(drop=True)
    same = (
        first["measure"] != "normalized EU"
    )  # whose best ranking may be the other retriever's oracle
    pd.testing.assert_frame_equal(first[same], results.values[same])
