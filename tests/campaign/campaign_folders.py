"""Cases of folders: LaMP, TREC Fair Ranking 2022, and studies of it as TOML."""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaign_case import (
    FATAL,
    FOREIGN,
    NEUTRAL,
    PLACELESS,
    REFUSED,
    SILENT,
    WRONG,
    Refused,
    Unsaid,
    Verdict,
    same_values,
)
from campaign_files import call
from campaign_folder_mutations import JSON_MUTATIONS, STUDY_MUTATIONS, Broken
from campaign_folder_world import Files, lamp, read_lamp, read_study, read_topics, study, trec_fair

EVAL, TRAIN = "trec_2022_eval_reldocs.jsonl", "train_topics_meta.jsonl"
TARGETS = ("dev_questions.json", "dev_outputs.json", TRAIN, EVAL, "study.toml")


def run_case(seed: int, folder: Path, show: bool = False) -> Verdict:
    """Run a case; with `show`, print the mutated file and what came out."""
    rng = random.Random(f"folders {seed}")
    name = TARGETS[seed % len(TARGETS)]
    mutations = STUDY_MUTATIONS if name == "study.toml" else JSON_MUTATIONS
    mutation = mutations[seed // len(TARGETS) % len(mutations)]
    verdict = Verdict("folders", seed, name, mutation.name, mutation.kind)
    files = lamp(rng) if name.startswith("dev") else trec_fair(rng)
    if name == "study.toml":
        files[name] = files["before"] = study(rng)
    door, reference = _doors(name)
    original = reference(files)
    try:
        files[name] = mutation.change(rng, files[name])
    except Broken:
        verdict.mutation += " (no occasion)"
        return verdict
    for each, raw in files.items():
        (folder / each).write_bytes(raw)
    wanted: Any
    try:
        wanted = original if mutation.kind == NEUTRAL else reference(files)
    except (Refused, Unsaid) as other:
        wanted = other
    if mutation.kind == FATAL and not isinstance(wanted, Refused):
        wanted = Refused(mutation.name)
        wanted.file = name
    got = _attempt(door, folder, name)
    if show:
        print(files[name][:3000].decode("utf-8", "backslashreplace"))
        print(f"--- expected: {wanted!r}\n--- found: {got!r}")
    _judge(verdict, wanted, got)
    return verdict


def _doors(
    name: str,
) -> tuple[Callable[[Path, str], dict[Any, Any]], Callable[[Files], dict[Any, Any]]]:
    if name.startswith("dev"):
        return _lamp, read_lamp
    if name == "study.toml":
        return _study, _expected_study
    return _topics, lambda files: read_topics(name, files[name])


def _attempt(door: Callable[[Path, str], dict[Any, Any]], folder: Path, name: str) -> Any:
    from fairtk.errors import FairtkWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FairtkWarning)
        warnings.filterwarnings("ignore", r"ast\..* is deprecated", DeprecationWarning)
        try:
            return door(folder, name)
        except Exception as error:
            return error


def _lamp(folder: Path, name: str) -> dict[Any, Any]:
    from fairtk.datasets import lamp as data

    dataset = data.from_folder(folder, task=4)
    values: dict[Any, Any] = {}
    for query in dataset.queries_iter():
        values["question", query.query_id] = query.question
        values["gold", query.query_id] = query.gold_answer
    for doc in dataset.docs_iter():
        values["doc", doc.doc_id] = f"{doc.title}|{doc.article}"
    return values


def _topics(folder: Path, name: str) -> dict[Any, Any]:
    from fairtk.datasets import trec_fair as data

    dataset = data.from_folder(folder, "train" if name == TRAIN else "eval")
    values: dict[Any, Any] = {}
    for query in dataset.queries_iter():
        values["title", query.query_id] = query.title
        values["keywords", query.query_id] = " ".join(query.keywords)
    for label in dataset.qrels_iter():
        values["page", label.query_id, label.doc_id] = label.relevance
    return values


_SETTINGS = ("the study", "FairQR", "[llm]", "[ledger]", "system", "dimension", "dataset", "split")
"""What else a message about a study may name: options of the command line win over its file."""
_BESIDE = {"dev_questions.json": "dev_outputs.json", "dev_outputs.json": "dev_questions.json"}
"""The file that lacks what another one says."""


class Said(Exception):
    """What a command said when it did not do its work."""


def _study(folder: Path, name: str) -> dict[Any, Any]:
    out = str(folder / "out")
    arguments = ["qr", str(folder / name), "-o", out, "--dry-run", "--format", "json"]
    code, printed, said = call(arguments)
    if code != 0:
        message = next((s for s in said.splitlines() if s.startswith("Error: ")), said[-300:])
        if code != 2 or "shows where" in message:
            raise RuntimeError(f"exit code {code}: {message}")
        raise Said(message)
    rows = [row for row in json.loads(printed) if row["attribute"] != "all"]
    return {row["attribute"]: row["topics"] for row in rows}


def _expected_study(files: Files) -> dict[Any, Any]:
    """Return the number of topics of each attribute, where nothing but these matters."""
    settings = read_study(files["study.toml"])
    topics = len(json.loads(files[TRAIN])["id"])
    known = {"folder", "attributes", "systems", "cutoff", "candidates", "seed", "bm25", "fair-qr",
             "variations"}  # fmt: skip
    if set(settings) - known:
        refused = Refused("a key that is none")
        refused.file = "study.toml"
        raise refused
    attributes = settings.get("attributes", ["gender", "geography"])
    before = read_study(files["before"])
    if any(settings.get(name) != before.get(name) for name in known - {"attributes"}):
        raise Unsaid("settings that the number of topics may depend on")
    if not isinstance(attributes, list) or not set(map(str, attributes)) <= {"gender", "geography"}:
        raise Unsaid("attributes")
    return dict.fromkeys(attributes, topics)


def _judge(verdict: Verdict, wanted: Any, got: Any) -> None:
    from fairtk.errors import FairtkError

    if isinstance(got, Exception) and not isinstance(got, FairtkError | Said):
        verdict.outcome, verdict.detail = FOREIGN, f"{type(got).__name__}: {str(got)[:300]}"
        return
    verdict.got = "error" if isinstance(got, Exception) else "value"
    if isinstance(got, Exception):
        message = str(got)
        if not isinstance(wanted, Refused | Unsaid):
            verdict.outcome, verdict.detail = REFUSED, message
        elif not any(
            word in message
            for word in (verdict.room, _BESIDE.get(verdict.room, verdict.room), *_SETTINGS)
        ):
            verdict.outcome, verdict.detail = PLACELESS, f"names no file: {message}"
        elif getattr(wanted, "line", None) and not re.search(r"\w:\d+:", message):
            verdict.outcome, verdict.detail = PLACELESS, f"names no line: {message}"
        return
    if isinstance(wanted, Refused):
        verdict.outcome, verdict.detail = SILENT, f"expected an error ({wanted})"
    elif isinstance(wanted, dict):
        difference = same_values(wanted, got)
        if difference:
            verdict.outcome, verdict.detail = WRONG, difference
