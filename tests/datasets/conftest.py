"""Small invented LaMP folders, one for each task."""

from __future__ import annotations

import json

import pytest

QUESTIONS = {
    1: 'For an author who has written the paper with the title "Tidal Maps", which reference is '
    'related? Just answer with [1] or [2] without explanation. [1]: "Harbor Sand" [2]: "Old Stars"',
    2: "Which tag does this movie relate to? tags: [sci-fi, comedy] description: a robot sings",
    3: "What is the score of the following review on a scale of 1 to 5? review: a solid kettle",
    4: "Generate a headline for the following article: the river rose again",
    5: "Generate a title for the following abstract of a paper: we weigh clouds",
    6: "Generate a subject for the following email: lunch at noon",
    7: "Paraphrase the following tweet without any explanation before or after it: so tired",
}
QUERIES = {
    1: "Harbor Sand Old Stars",
    2: "a robot sings",
    3: "a solid kettle",
    4: "the river rose again",
    5: "we weigh clouds",
    6: "lunch at noon",
    7: "so tired",
}
GOLDS = {1: "[1]", 2: "sci-fi", 3: "4", 4: "River rises", 5: "Weighing", 6: "Lunch", 7: "Sleepy"}


def entry(task: int, pid: str, word: str) -> dict[str, str]:
    """Return a raw profile entry."""
    date = {"id": pid, "date": "2020-01-02"}
    if task in (1, 5):
        return {**date, "title": f"On {word}", "abstract": f"we study {word}"}
    if task == 2:
        return {**date, "description": f"a film about {word}", "tag": "comedy"}
    if task == 3:
        return {**date, "text": f"this {word} broke", "score": "2"}
    if task in (4, 6):
        return {**date, "title": f"News of {word}", "text": f"the {word} was seen"}
    return {**date, "text": f"{word} again"}


def questions(task: int) -> list[dict[str, object]]:
    """Return two queries whose profile ids collide once put behind the query id."""
    first = [entry(task, "210", "river"), entry(task, "11", "kettle"), entry(task, "12", "robot")]
    second = [entry(task, "10", "clouds"), entry(task, "210", "tides")]
    return [
        {"id": "31", "input": QUESTIONS[task], "profile": first},
        {"id": "312", "input": QUESTIONS[task], "profile": second},
    ]


def outputs(task: int) -> dict[str, object]:
    """Return the outputs of `questions`."""
    golds = [{"id": "31", "output": GOLDS[task]}, {"id": "312", "output": GOLDS[task]}]
    return {"task": f"LaMP_{task}", "golds": golds}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty data folder of ir_datasets, which downloads from this machine."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IR_DATASETS_DL_TIMEOUT", "300")  # a thread may be slow to answer
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("FAIRTK_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def lamp_folder(tmp_path):
    """Return a function that writes a folder for a task, with parts replaced."""

    def write(task=4, split="dev", questions_=None, outputs_=None):
        folder = tmp_path / f"lamp{task}"
        folder.mkdir(exist_ok=True)
        for name, value, default in (
            ("questions", questions_, questions(task)),
            ("outputs", outputs_, outputs(task)),
        ):
            content = value if isinstance(value, str) else json.dumps(value or default)
            (folder / f"{split}_{name}.json").write_text(content, encoding="utf-8")
        return folder

    return write


@pytest.fixture
def lamp_case():
    """Return the invented texts: ``queries``, ``questions`` and ``golds`` by task."""
    return {"queries": QUERIES, "questions": QUESTIONS, "golds": GOLDS, "raw": questions}
