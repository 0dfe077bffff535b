"""Folders of data sets and studies: what is in them, and a second, simple reading of each file."""

from __future__ import annotations

import json
import random
import tomllib
from typing import Any

from campaign_case import Refused

INPUT = "Generate a headline for the following article: {}"
WORDS = ["river", "kettle", "robot", "cloud", "tide", "harbor", "lantern", "willow"]
GENDERS, REGIONS = ("male", "female"), ("Northern Europe", "Eastern Asia", "Southern Asia")
Files = dict[str, bytes]


def lamp(rng: random.Random) -> Files:
    """Return the two files of LaMP-4."""
    qids = [str(n) for n in rng.sample(range(1, 400), rng.randint(2, 4))]
    questions = []
    for qid in qids:
        pids = rng.sample(range(1, 90), rng.randint(1, 3))
        profile = [
            {"id": f"{pid:03}", "title": _text(rng, 2), "text": _text(rng, 5), "date": "2020-01-02"}
            for pid in pids
        ]
        questions.append({"id": qid, "input": INPUT.format(_text(rng, 4)), "profile": profile})
    golds = [{"id": qid, "output": _text(rng, 3)} for qid in qids]
    outputs = {"task": "LaMP_4", "golds": golds}
    return {"dev_questions.json": _json(questions), "dev_outputs.json": _json(outputs)}


def trec_fair(rng: random.Random) -> Files:
    """Return topics in both forms, metadata and corpus of TREC Fair Ranking 2022."""
    pages = rng.sample(range(100, 999), 12)
    topics = []
    for number in rng.sample(range(1, 99), rng.randint(2, 4)):
        words = rng.sample(WORDS, 2)
        relevant = rng.sample(pages, rng.randint(3, 6))
        topics.append({"id": number, "title": words[0].title(), "keywords": words,
                       "rel_docs": relevant})  # fmt: skip
    columns = {
        "id": {str(i): t["id"] for i, t in enumerate(topics)},
        "title": {str(i): t["title"] for i, t in enumerate(topics)},
        "keywords": {str(i): str(t["keywords"]) for i, t in enumerate(topics)},
        "rel_docs": {str(i): json.dumps(t["rel_docs"]) for i, t in enumerate(topics)},
    }
    records = [
        {"page_id": page, "qual_cat": "Start", "pred_qual": 0.5, "page_countries": [],
         "page_subcont_regions": [rng.choice(REGIONS)], "source_countries": {},
         "source_subcont_regions": {}, "gender": [rng.choice(GENDERS)], "occupations": [],
         "years": [], "first_letter_category": "s-", "creation_date_category": "2001-2006",
         "relative_pageviews_category": "Low", "num_sitelinks_category": "English only"}
        for page in pages
    ]  # fmt: skip
    corpus = [
        {"id": page, "title": _text(rng, 1), "url": f"https://pages.invalid/{page}",
         "plain": _text(rng, 9)}
        for page in pages
    ]  # fmt: skip
    return {
        "train_topics_meta.jsonl": _json(columns) + b"\n",
        "trec_2022_eval_reldocs.jsonl": b"".join(_json(t) + b"\n" for t in topics),
        "trec_2022_articles_discrete.json": b"".join(_json(r) + b"\n" for r in records),
        "trec_corpus_20220301_plain.json": b"".join(_json(r) + b"\n" for r in corpus),
    }


def study(rng: random.Random) -> bytes:
    """Return a study as TOML."""
    attributes = rng.choice([["gender"], ["geography"], ["gender", "geography"]])
    lines = [
        'folder = "."',
        f"attributes = {json.dumps(attributes)}",
        'systems = ["bm25", "fair-qr"]',
        f"cutoff = {rng.choice([3, 5])}",
        "candidates = 6",
        f"seed = {rng.randint(0, 99)}",
        "",
        "[bm25]",
        "k1 = 0.9",
        "",
        "[fair-qr]",
        f"max_iterations = {rng.randint(1, 4)}",
        "",
        "[variations]",
    ]
    return "".join(line + "\n" for line in lines).encode()


def _text(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


# Reading ------------------------------------------------------------------------------------------


def read_lamp(files: Files) -> dict[Any, Any]:
    """Return question, gold answer and documents of each query."""
    questions = _parsed(files, "dev_questions.json")
    outputs = _parsed(files, "dev_outputs.json")
    values: dict[Any, Any] = {}
    _need(isinstance(questions, list) and questions, "dev_questions.json", "no list")
    for entry in questions:
        qid = _text_of(entry, "id", "dev_questions.json")
        _need(("question", qid) not in values, "dev_questions.json", "an id twice")
        _need("/" not in qid, "dev_questions.json", "a '/' in an id")
        text = _text_of(entry, "input", "dev_questions.json")
        _need("article:" in text, "dev_questions.json", "no article")
        _need(text.partition("article:")[2].strip(), "dev_questions.json", "an empty article")
        values["question", qid] = text
        _need(isinstance(entry.get("profile"), list), "dev_questions.json", "no profile")
        for item in entry["profile"]:
            pid = _text_of(item, "id", "dev_questions.json")
            key = ("doc", f"{qid}/{pid}")
            _need(key not in values, "dev_questions.json", "a profile id twice")
            values[key] = (_text_of(item, "title", "dev_questions.json")
                           + "|" + _text_of(item, "text", "dev_questions.json"))  # fmt: skip
            if item.get("date") is not None:
                _text_of(item, "date", "dev_questions.json")
    _need(isinstance(outputs, dict) and isinstance(outputs.get("golds"), list),
          "dev_outputs.json", "no golds")  # fmt: skip
    task = "".join(c for c in str(outputs.get("task") or "") if c.isdigit())
    _need(task in ("", "4"), "dev_outputs.json", "another task")
    for entry in outputs["golds"]:
        qid = _text_of(entry, "id", "dev_outputs.json")
        _need(("gold", qid) not in values, "dev_outputs.json", "an id twice")
        values["gold", qid] = _text_of(entry, "output", "dev_outputs.json")
    asked = {key[1] for key in values if key[0] == "question"}
    _need(all(("gold", qid) in values for qid in asked), "dev_outputs.json", "no gold answer")
    return {k: v for k, v in values.items() if k[0] != "gold" or k[1] in asked}


def read_topics(name: str, raw: bytes) -> dict[Any, Any]:
    """Return title, keywords and relevant pages of each topic."""
    values: dict[Any, Any] = {}
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        record = _line(name, line, number)
        for topic in (
            _rows(record, name, number) if isinstance(record.get("id"), dict) else [record]
        ):
            for key in ("id", "title", "rel_docs"):
                _need(key in topic, name, f"no {key}", number)
            _need(type(topic["id"]) in (int, str) and topic["id"] != "", name, "id", number)
            qid = str(topic["id"])
            _need(("title", qid) not in values, name, "an id twice", number)
            _need(isinstance(topic["title"], str), name, "title", number)
            words = _list(topic.get("keywords"), name, number, python=True)
            _need(all(isinstance(w, str) for w in words), name, "keywords", number)
            pages = _list(topic["rel_docs"], name, number)
            _need(all(type(p) in (int, str) for p in pages), name, "rel_docs", number)
            values["title", qid] = topic["title"]
            values["keywords", qid] = " ".join(words)
            values |= {("page", qid, str(page)): 1 for page in pages}
    _need(values, name, "no topics")
    return values


def _rows(record: dict[str, Any], name: str, line: int) -> list[dict[str, Any]]:
    _need(all(isinstance(c, dict) for c in record.values()), name, "columns", line)
    rows = list(record["id"])
    _need(all(set(rows) == set(c) for c in record.values()), name, "rows", line)
    return [{key: column[row] for key, column in record.items()} for row in rows]


def _list(value: Any, name: str, line: int, python: bool = False) -> list[Any]:
    if value is None and python:
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value.replace("'", '"') if python else value)
        except (ValueError, RecursionError):
            value = None
    _need(isinstance(value, list), name, "no list", line)
    return value


def read_study(raw: bytes) -> dict[str, Any]:
    """Return a study's settings."""
    try:
        return tomllib.loads(raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused("study.toml", str(error)) from None


def _parsed(files: Files, name: str) -> Any:
    try:
        return json.loads(
            files[name].removeprefix(b"\xef\xbb\xbf").decode("utf-8"), object_pairs_hook=_no_twins,
            parse_constant=_no_constant,
        )  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise _refused(name, str(error)) from None


def _line(name: str, raw: bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(raw.decode("utf-8"), object_pairs_hook=_no_twins,
                            parse_constant=_no_constant)  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise _refused(name, str(error), number) from None
    _need(isinstance(record, dict), name, "no object", number)
    return record


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _text_of(entry: Any, key: str, name: str) -> str:
    _need(isinstance(entry, dict), name, "no object")
    value = entry.get(key)
    _need(type(value) in (str, int), name, f"{key} is {value!r}")
    return str(value)


def _need(holds: Any, name: str, why: str, line: int | None = None) -> None:
    if not holds:
        raise _refused(name, why, line)


def _refused(name: str, why: str, line: int | None = None) -> Refused:
    refused = Refused(why, line)
    refused.file = name
    return refused
