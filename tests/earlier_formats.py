"""Ledgers and stores of each format: the program that wrote ``tests/experiment/format_*.zip``.

``python tests/earlier_formats.py FILE.zip`` writes such a file with the installed fairtk. The
committed ones are of the versions that had these formats, so never write them again: tests open
them with the functions below. Models have relative paths, which are part of the keys of answers.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
import zlib
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pyterrier as pt
from batch_answers import answered
from chat_server import error, serving
from tiny_models import save_t5

import fairtk
from fairtk import FairSampler, Generator, QueryRefiner
from fairtk.batch import Batches
from fairtk.llm import HuggingFaceSeq2Seq, Ledger, OpenAICompatible
from fairtk.llm.chat import questions
from fairtk.transformers import leave_notes

ARCHIVES = sorted(Path(__file__).parent.glob("experiment/format_*.zip"))
NOBODY = "http://127.0.0.1:9/v1"  # never asked
WORDS = ["harbour", "lantern", "willow", "ladder", "vector", "kernel"]
TOPICS = pd.DataFrame({"qid": [f"q{i}" for i in range(6)], "query": [f"{w} tag" for w in WORDS]})
CHANGED = TOPICS.assign(query=TOPICS["query"].where(TOPICS["qid"] != "q1", "other words"))
PROMPTS = [f"the movie {word} is" for word in WORDS]


def by_prompt(prompt, count=1):
    """Answer as the server did, except for two prompts."""
    if "vector tag" in prompt:
        return error(400)
    return "" if "kernel is" in prompt else f"answer {zlib.crc32(prompt.encode())}"


def function(prompts):
    """Answer as a function did."""
    return [f"function {len(prompt)}" for prompt in prompts]


class Ranking(pt.Transformer):
    """Q -> R: three documents for each query."""

    def transform(self, inp):
        rows = [
            (row.qid, row.query, f"{row.qid}-d{i}", 3.0 - i, i, f"silver {word} of {row.qid}")
            for row in inp.itertuples()
            for i, word in enumerate(WORDS[:3])
        ]
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank", "text"])


class Noting(pt.Transformer):
    """R -> R: passes rows on with a note for each query, and gives up q2, or all queries."""

    leaves_notes = True

    def __init__(self, gives_up=("q2",)):
        self.gives_up = gives_up

    def transform(self, inp):
        given_up = [qid for qid in inp["qid"].unique() if qid in self.gives_up]
        self.missing = pd.DataFrame({"qid": given_up, "reason": "given up"})
        notes = {qid: {"trace": [qid, 1.5, None]} for qid in inp["qid"].unique()}
        leave_notes(self, notes)
        return inp[~inp["qid"].isin(given_up)].reset_index(drop=True)


def ranking(version=1):
    return fairtk.identified(Ranking(), f"ranking, v{version}")


def server_systems(url):
    """Return the systems of the folder ``server``."""
    llm = OpenAICompatible("toy", url, temperature=0.3)
    sampled = ranking() >> FairSampler(alpha=1, n_samples=2, cutoff=2, seed=1)
    return {
        "rag": sampled >> Generator(llm, prompt="rag", cutoff=2),
        "refined": QueryRefiner(llm, group="g") >> ranking(),
        "noted": ranking() >> fairtk.identified(Noting(), "noting, v1"),
        "lost": ranking() >> fairtk.identified(Noting(tuple(TOPICS["qid"])), "lost, v1"),
        "remarked": ranking() >> FairSampler(n_samples=2, cutoff=2, target_disparity=0.1),
    }


def local_systems():
    """Return the systems of the folder ``local``; the model is in the working directory."""
    local = Generator(HuggingFaceSeq2Seq("model", max_new_tokens=4), cutoff=1)
    return {
        "t5": ranking() >> fairtk.identified(local, "t5, v1"),
        "function": ranking() >> fairtk.identified(Generator(function, cutoff=2), "function, v1"),
    }


def ledger_models(url):
    """Return the models of the ledger ``answers.sqlite``."""
    t5 = HuggingFaceSeq2Seq("model", max_new_tokens=4)
    return {
        "server": OpenAICompatible("toy", url, temperature=0.3),
        "temperature": OpenAICompatible("toy", url, temperature=0.7, seed=3, max_tokens=50),
        "t5": t5,
        "t5 sampled": HuggingFaceSeq2Seq("model", max_new_tokens=4, temperature=0.5, seed=7),
        "function": function,
    }


def batch_systems(ledger):
    """Return the systems of the folder ``batch``: what they ask second depends on the first."""
    llm = ledger.wrap(OpenAICompatible("toy", NOBODY, temperature=0.3))
    refined = QueryRefiner(llm, group="g") >> ranking()
    return {"both": refined >> Generator(llm, prompt="rag", cutoff=2)}


def run(systems, topics, folder):
    """Run an experiment; failed queries are expected."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=fairtk.errors.FairtkWarning)
        return fairtk.Experiment(systems, topics, save_dir=folder, threads=1, batch_size=4)


def contents(results):
    """Return rankings with answers, failures and notes as JSON values."""
    later = ["answer_status", "in_prompt"]  # columns that format 4 did not have
    frames = {
        name: results.rankings(name).drop(columns=later, errors="ignore")
        for name in results.systems
    }
    return {
        "rankings": {
            name: json.loads(frame.to_json(orient="records")) for name, frame in frames.items()
        },
        "failures": results.failures[["system", "qid"]].to_numpy().tolist(),
        "notes": {
            name: json.loads(results.notes(name).to_json(orient="records"))
            for name in results.systems
        },
    }


def answer_lines(path):
    """Return the lines of answers to the prompts of a batch file."""
    rule = lambda prompt: f"answer {len(prompt)}"  # noqa: E731
    lines = path.read_text(encoding="utf-8").splitlines()
    return "".join(json.dumps(answered(json.loads(line), rule)) + "\n" for line in lines)


def write(folder):
    """Write the folder."""
    save_t5(folder / "model")
    expected = {}
    with serving(by_prompt) as server:
        systems = server_systems(server.url)
        run(systems, TOPICS, folder / "server")
        run({"in parts": ranking(2)}, TOPICS.head(2), folder / "server")
        run({"in parts": ranking(2)}, TOPICS.tail(4), folder / "server")
        # results of q1 for other words: the topic that was used last
        results = run(systems, CHANGED, folder / "server")
        expected["server"] = contents(results)
        expected["remarks"] = json.loads(json.dumps(list(map(asdict, results.remarks))))
        with Ledger(folder / "answers.sqlite", prices={"toy": (1.0, 2.0)}) as ledger:
            expected["answers"] = {
                name: [answer.text for answer in ledger.wrap(llm).complete(questions(PROMPTS))]
                for name, llm in ledger_models(server.url).items()
            }
    expected["local"] = contents(run(local_systems(), TOPICS, folder / "local"))
    (folder / "batch").mkdir()
    with Ledger(folder / "batch" / "answers.sqlite") as ledger:
        batches = Batches(ledger)
        for number in (1, 2):  # the answers of the second round are not read yet
            batches.write(
                lambda: run(batch_systems(ledger), TOPICS, folder / "batch" / "results"),
                folder / "batch" / "prompts",
            )
            if number == 1:
                first = folder / "batch" / "prompts" / "batch-0001.jsonl"
                answers = folder / "batch" / "answers.jsonl"
                answers.write_text(answer_lines(first), encoding="utf-8")
                batches.read(folder / "batch" / "prompts", [answers])
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def move(folder, before, after):
    """Replace the path of the folder in its batch folder, which the ledger names, too."""
    manifest = folder / "batch" / "prompts" / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace(before, after), encoding="utf-8")
    with closing(sqlite3.connect(folder / "batch" / "answers.sqlite")) as database, database:
        database.execute("UPDATE owners SET name = replace(name, ?, ?)", (before, after))


def main(file):
    """Write the files without paths and names of this machine, in one archive."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        os.chdir(folder)
        write(folder)
        move(folder, str(folder), "FOLDER")
        for path in folder.rglob("*.sqlite"):
            with closing(sqlite3.connect(path, isolation_level=None)) as database:
                name = "process 1 on elsewhere"
                database.execute("UPDATE owners SET name = ? WHERE expires IS NOT NULL", (name,))
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for path in [*folder.rglob("*-wal"), *folder.rglob("*-shm"), *folder.rglob(".*")]:
            path.unlink()
        os.chdir(file.parent)
        shutil.make_archive(str(file.with_suffix("")), "zip", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
