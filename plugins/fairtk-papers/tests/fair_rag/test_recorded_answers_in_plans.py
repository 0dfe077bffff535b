"""A plan of Towards Fair RAG does not count recorded answers of incomplete stages."""

import json

import pytest
from chat_server import serving
from test_cli_rag import folder_of, short

pytest.importorskip("openai")

LABELS = 2 * (1 + 3)  # of 2 queries with 3 documents: no document, and each alone


def answer(prompt, _):
    return "comedy" if "the tag for the movie" in prompt else "?"


@pytest.mark.parametrize(
    ("own_ledger", "credit"),
    [(True, "none"), pytest.param(False, "one-out", marks=pytest.mark.slow)],
)
def test_the_calls_of_a_plan_are_those_of_the_next_run(fairtk, tmp_path, credit, own_ledger):
    config = tmp_path / "study.toml"
    ledger = '[ledger]\npath = "answers.sqlite"' if own_ledger else ""
    folder = folder_of(tmp_path / "data", 2, short)
    config.write_text(f'folder = "{folder}"\noutput = "out"\n{ledger}\n', encoding="utf-8")
    with serving(answer) as server:
        words = ["rag", str(config), "-t", "2", "-g", "openai:m", "-n", "2", "-a", "0"]
        words += ["--credit", credit, "--base-url", server.url, "--api-key-env", ""]
        words += ["--set", "max_tokens=20", "--set", "concurrency=1"]

        def plan(*more):
            done = fairtk(*words, "--dry-run", "--format", "json", *more)
            assert done.exit_code == 0, done.output
            return {row["retriever"]: row for row in json.loads(done.stdout)}

        def stop_after(n_calls):
            n_more = n_calls - len(server.requests)
            assert fairtk(*words, "--max-calls", str(n_more)).exit_code == 1
            assert len(server.requests) == n_calls

        stop_after(5)
        labels = plan()["labels"]
        assert (labels["prompts"], labels["calls"]) == (LABELS, LABELS - 5)
        assert labels["completion_tokens"] == 20 * labels["calls"]
        stop_after(LABELS + 3)
        left = plan("--max-calls", "99")
        n_left = sum(row["calls"] for row in left.values())
        assert left["labels"]["calls"] == 0 < n_left
        done = fairtk(*words, "--max-calls", str(n_left))
        assert done.exit_code == 0, done.output
        assert len(server.requests) == LABELS + 3 + n_left
