"""``fairtk prompts``: prompts in files, and their answers. Studies: the tests of fairtk-papers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import batch_answers
import pytest
from batch_answers import answered
from chat_server import KEY

from fairtk import cli
from fairtk.batch import Batches
from fairtk.llm import Ledger, OpenAICompatible
from fairtk.llm.chat import questions

pytest.importorskip("openai")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path, tmp_path_factory):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path_factory.getbasetemp() / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"command": 1, "folder": 2}', '{"command": "rag \\"x", "folder": "/"}',
     '{"command": "prompts write x", "folder": "/"}', '{"command": "rag", "folder": "/nowhere"}'],
)  # fmt: skip
def test_a_folder_whose_command_is_not_to_be_read(fairtk, tmp_path, text):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/command.json").write_text(text)
    done = fairtk("prompts", "write", "out", "-o", "prompts")
    assert done.exit_code == 2 and done.output.count("\n") == 1, done.output
    assert "out/command.json" in done.output and "--debug" not in done.output


VLLM = """#!{python}
import json, sys
sys.path[:0] = {path!r}
from batch_answers import answered
options = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
assert sys.argv[1] == "run-batch" and options.pop("--model") == "my/model", sys.argv
with open(options.pop("-i")) as lines, open(options.pop("-o"), "w") as file:
    for line in lines:
        file.write(json.dumps(answered(json.loads(line))) + chr(10))
assert not options, sys.argv
"""
SBATCH = """#!/bin/sh
test "$1" = --wait || exit 9
range=${2#--array=}
for number in $(seq "${range%-*}" "${range#*-}"); do SLURM_ARRAY_TASK_ID=$number sh "$3"; done
"""


def tools(folder):
    """Write a stand-in of vLLM and one of SLURM, and the command of this checkout."""
    folder.mkdir()
    own = f'#!/bin/sh\nexec {sys.executable} -m fairtk "$@"\n'
    vllm = VLLM.format(python=sys.executable, path=[str(Path(batch_answers.__file__).parent)])
    for name, text in {"vllm": vllm, "sbatch": SBATCH, "fairtk": own}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def recipe(heading, number=0):
    """Return a script of the page on batches."""
    page = Path(__file__).parents[2] / "docs/cookbook/batches.md"
    section = page.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return section.split("```sh\n")[1 + number].split("```")[0]


@pytest.mark.slow
@pytest.mark.parametrize("heading", ["vLLM", "A SLURM array"])
def test_recipes(fairtk, tmp_path, heading):
    with Ledger(tmp_path / "answers.sqlite") as ledger:
        llm = ledger.wrap(OpenAICompatible("my/model"))
        texts = questions([f"prompt {number}" for number in range(2100)])
        written = Batches(ledger).write(lambda: llm.complete(texts), tmp_path / "prompts")
        assert written.prompts == 2100
        if "SLURM" in heading:
            (tmp_path / "answer.sh").write_text(recipe(heading, 1))
        variables = {
            **os.environ,
            "PATH": f"{tools(tmp_path / 'bin')}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(cli.__file__).parents[2]),
        }
        script = ["sh", "-e", "-c", recipe(heading)]
        done = subprocess.run(script, env=variables, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Answers: 2,100 taken" in done.stdout
        assert len(llm.complete(texts)) == 2100
    if "SLURM" in heading:
        assert len(list((tmp_path / "answers").iterdir())) == 3


# Bad input ---------------------------------------------------------------------------------------


def failed(result, code=2):
    assert result.exit_code == code and result.stdout == "", result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    return line


@pytest.fixture
def batch(tmp_path):
    """Write a batch of two prompts to the folder p; return its lines."""
    with Ledger(tmp_path / "a.sqlite") as ledger:
        llm = ledger.wrap(OpenAICompatible("toy", base_url="http://127.0.0.1:1/v1"))
        Batches(ledger).write(lambda: llm.complete(questions("ab")), tmp_path / "p")
    return (tmp_path / "p/batch-0001.jsonl").read_text().splitlines()


def test_a_ledger_that_was_moved(fairtk, tmp_path, batch):
    (tmp_path / "a.sqlite").rename(tmp_path / "b.sqlite")
    assert "--ledger" in failed(fairtk("prompts", "status", "p"))
    done = fairtk("prompts", "drop", "p", "--ledger", "b.sqlite")
    assert done.stdout == "Dropped prompts: 2\n"


def test_a_file_of_something_else_is_an_error(fairtk, tmp_path, batch):
    good = [json.dumps(answered(json.loads(text))) for text in batch]
    files = {
        "run": ["q1 Q0 d1 1 2.5 t"] * 300,
        "prompts": batch,
        "part": [good[0], *["q1"] * 30],
        "whole": good,
        "empty": [],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    assert "none.jsonl" in failed(fairtk("prompts", "read", "p", "none.jsonl"))
    codes = {name: fairtk("prompts", "read", "p", name) for name in [*files, "part", "whole"]}
    for name in ("run", "prompts"):
        last = codes[name].stderr.splitlines()[-1]
        assert codes[name].exit_code == 2 and last.startswith(f"Error: {name}: no answers")
    assert len(codes["run"].stderr.splitlines()) == 12  # ten, how many more, and the error
    for name in ("part", "whole", "empty"):  # also where all was read before
        assert codes[name].exit_code == 0, codes[name].output
    both = fairtk("prompts", "read", "p", "whole", "run")
    assert both.exit_code == 2 and "Error: run: " in both.stderr and "2 known" in both.stdout
