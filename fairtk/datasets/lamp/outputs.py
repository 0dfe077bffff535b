"""Reads and checks LaMP's gold outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from fairtk.datasets.lamp.reading import ADVICE, LeftOut, OnBad, check_on_bad, mapping
from fairtk.datasets.lamp.records import check_task, text_of
from fairtk.datasets.parts import ReadOnce
from fairtk.errors import FormatError, listed
from fairtk.files import described, read_json


class OutputsFile:
    """A file of gold outputs, read on first use; arguments as `QuestionsFile`."""

    def __init__(self, path: Callable[[], Path], task: int, on_bad: OnBad = "error") -> None:
        self.task = check_task(task)
        self.on_bad = check_on_bad(on_bad)
        self._path = path
        self._golds = ReadOnce(path, self._read)

    def golds(self) -> Mapping[str, str]:
        """Return the gold answer of each qid; a malformed file is a `FormatError`."""
        return self._golds()

    def for_questions(self, questions: Collection[str]) -> Mapping[str, str]:
        """Return the gold answers; a qid without one is a `FormatError` that names it."""
        golds = self.golds()
        missing = [qid for qid in questions if qid not in golds]
        if missing:
            raise FormatError(
                f"no gold output for {len(missing)} of {len(questions)} questions "
                f"({listed(missing)}); complete the file, or load the questions alone with "
                "from_folder(..., golds=False)",
                self._path(),
            )
        return golds

    def _read(self, path: Path) -> dict[str, str]:
        content = read_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("golds"), list):
            raise FormatError(
                "expected an object with the keys 'task' and 'golds' (a list); found "
                f"{described(content)}",
                path,
            )
        self._check_task(content.get("task"), path)
        found: dict[str, str] = {}
        left_out = LeftOut()
        for index, item in enumerate(content["golds"]):
            try:
                gold = mapping(item, "the entry")
                qid = text_of(gold, "id", "the entry")
                answer = text_of(gold, "output", f"query {qid!r}")
                if qid in found:
                    raise FormatError(f"the id {qid!r} occurs twice")
            except FormatError as error:
                place = f"golds entry {index}: {error}"
                if self.on_bad == "error":
                    raise FormatError(place + ADVICE, path) from None
                left_out.add("gold outputs", place, "")
                continue
            found[qid] = answer
        left_out.warn(f"LaMP-{self.task} outputs", path)
        return found

    def _check_task(self, stated: object, path: Path) -> None:
        # spelt "LaMP_4"; a suffix such as "LaMP_2M" is left alone
        digits = "".join(c for c in str(stated or "") if c.isdigit())
        if digits and digits != str(self.task):
            raise FormatError(
                f"the file says that it is of task {stated!r}, but task {self.task} was asked "
                "for: give the right task, or the right folder",
                path,
            )
