"""``fairtk prompts``: studies whose prompts are answered from files give what they give online."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest
import qr_world
from batch_answers import answered
from chat_server import serving
from fairtk_papers.studies import TIMES
from test_cli_rag import folder_of, short

pytest.importorskip("openai")


def sums(folder):
    """Return the sha256 of all tables of a study, without columns of seconds."""
    found = {}
    for path in sorted(folder.rglob("tables/*.csv")):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert len(frame)
        text = frame.drop(columns=[c for c in frame if c in TIMES]).to_csv(index=False)
        found[path.name] = hashlib.sha256(text.encode()).hexdigest()
    assert found
    return found


def until_done(fairtk, source, rule, *limits):
    """Write, answer and read round after round; return how many prompts each asked for."""
    rounds = []
    while True:
        done = fairtk("prompts", "write", source, "-o", "prompts", *limits)
        assert done.exit_code == 0, done.output
        if "No prompts are missing" in done.stdout:
            return rounds
        assert not limits or "at most 0." in done.stdout
        manifest = json.loads(Path("prompts", "manifest.json").read_text())
        names = [f["name"] for f in manifest["files"] if f["round"] == len(rounds) + 1]
        lines = [x for name in names for x in Path("prompts", name).read_text().splitlines()]
        rounds.append(len(lines))
        assert f"Round {len(rounds)}: {len(lines)} prompts written to" in done.stdout
        assert "for answers of a batch" in failed(fairtk("rag" if limits else "qr", source), 1)
        answers = [json.dumps(answered(json.loads(line), rule)) for line in lines]
        Path("answers").write_text("".join(f"{line}\n" for line in answers))
        read = fairtk("prompts", "read", "prompts", "answers")
        assert read.exit_code == 0 and "0 failed, 0 pending" in read.stdout, read.output


def rag_rule(prompt, *_):
    return "comedy" if "the tag for the movie" in prompt and len(prompt) % 3 else "?"


def failed(result, code=2):
    assert result.exit_code == code and result.stdout == "", result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    return line


@pytest.mark.slow
def test_rag_from_files_is_rag_online(fairtk, tmp_path):
    folder = folder_of(tmp_path / "data", 2, short)
    study = f"folder = '{folder}'\ntasks = [2]\ngenerators = ['openai:toy']\nn_samples = 2\n"
    study += "alphas = [0, 4]\ncredit = 'shapley'\nmin_useful = 1\n"
    path = tmp_path / "study.toml"
    prices = tmp_path / "prices.tsv"
    prices.write_text("model\tprompt\tcompletion\ntoy\t3\t10\n")
    with serving(rag_rule) as server:
        options = f"seed = 3\ntimeout = 600\nbase_url = '{server.url}'\n"
        path.write_text(f"{study}output = 'out'\n[options.'openai:toy']\n{options}")
        n_requests = until_done(fairtk, path, rag_rule, "--max-cost", 1, "--prices", prices)
        assert len(n_requests) == 2 and n_requests[0] == 2 * (1 + 3)  # labels first
        status = fairtk("prompts", "status", "prompts", "--format", "json")
        assert [row["out"] for row in json.loads(status.stdout)] == [0, 0]
        again = fairtk("rag", path, "--offline", "--format", "json")
        assert again.exit_code == 0, again.output
        assert server.requests == []
        online = fairtk("rag", path, "-o", "online", "--format", "json")
        assert online.exit_code == 0, online.output
        assert len(server.requests) == sum(n_requests)
    assert again.stdout == online.stdout
    assert sums(tmp_path / "out") == sums(tmp_path / "online")
    # the output folder stands for the study, too
    more = fairtk("prompts", "write", "out", "-o", "more")
    assert more.exit_code == 0 and "No prompts are missing" in more.stdout


@pytest.mark.nightly
def test_a_loop_from_files_is_the_loop_online(fairtk, tmp_path, wiki):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    study = f"folder = '{wiki}'\nattributes = ['gender']\ncutoff = 5\ncandidates = 10\n"
    study += "systems = ['bm25', 'fair-qr', 'random-terms']\n[tuning]\n"
    study += "[variations]\nmax_iterations = [1, 5]\n"
    path = tmp_path / "study.toml"
    with serving(qr_world.adds_a_term) as server:
        address = f"base_url = '{server.url}'\n"
        path.write_text(
            f"{study}[llm]\nbackend = 'openai'\nmodel = 'toy'\ntimeout = 600\n{address}"
        )
        n_requests = until_done(fairtk, path, qr_world.adds_a_term)
        # the next prompts depend on answers
        assert len(n_requests) > 1 and server.requests == []
        again = fairtk("qr", path, "--offline")
        online = fairtk("qr", path, "-o", "online")
        assert again.exit_code == online.exit_code == 0, again.output + online.output
        assert len(server.requests) == sum(n_requests)
    own, other = tmp_path / "fair-qr-study", tmp_path / "online"
    assert qr_world.differences(qr_world.sums(own), qr_world.sums(other)) == []
    names = [p.relative_to(own) for p in [*own.glob("*.csv"), *own.glob("tables/*")]]
    assert len(names) > 10
    for name in names:  # byte for byte
        if name.stem != "costs":
            assert (own / name).read_bytes() == (other / name).read_bytes(), name
    costs = [pd.read_parquet(folder / "costs.parquet") for folder in (own, other)]
    costs = [frame.drop(columns=[c for c in frame if c in TIMES]) for frame in costs]
    pd.testing.assert_frame_equal(*costs)


@pytest.mark.parametrize(
    ("study", "options", "place"),
    [
        ("folder = 'x'\n", (), "'generators'"),
        ("folder = 'x'\ngenerator = ['openai:m']\n", (), "unknown key 'generator'"),
        ("folder = 'x'\ngenerators = ['openai:m']\n", ("--offline",), "--offline"),
    ],
)
def test_studies_without_prompts_to_write(fairtk, tmp_path, study, options, place):
    path = tmp_path / "study.toml"
    path.write_text(study)
    assert place in failed(fairtk("prompts", "write", path, "-o", "p", *options))
    for source in ("x.toml", tmp_path):
        assert str(source) in failed(fairtk("prompts", "write", source, "-o", "p"))
    assert not (tmp_path / "p").exists()
