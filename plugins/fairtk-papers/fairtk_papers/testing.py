"""What every system of ``fairtk qr`` must keep to, for plugin authors' tests."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pandas as pd

from fairtk.errors import FairtkWarning, InputError
from fairtk.frames import DOCNO, QID, QUERY, RANK, SCORE, TEXT, Run
from fairtk.groups import Groups, Target
from fairtk.plugins import registry
from fairtk.testing import toy_documents, toy_groups, toy_qrels, toy_run, toy_topics
from fairtk.testing.toys import check_frames
from fairtk.transformers import FairTransformer
from fairtk_papers.fair_qr import Setting

__all__ = ["Setting", "StudySystemContract", "toy_setting"]

_ALLOWED = {QID, QUERY, "question", DOCNO, SCORE, RANK}


class ToyRetriever(FairTransformer):
    """Q -> R: the toy run, without texts."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the toy rankings of the topics."""
        self.check_inputs(inp, [QID, QUERY])
        return inp.merge(toy_run().drop(columns=[TEXT, QUERY]), on=QID)


class ToyTexts(FairTransformer):
    """R -> R with the toy documents' texts."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the input with ``text``."""
        self.check_inputs(inp, [DOCNO])
        return inp.merge(toy_documents(), on=DOCNO, how="left")


def toy_setting(folder: Path, cutoff: int = 2, candidates: int = 4, **options: Any) -> Setting:
    """Return a setting of the toy frames, as a study gives it to the systems that it builds.

    Args:
        folder: where the system may keep files.
        cutoff: the ranks that are measured.
        candidates: documents to reorder.
        options: the settings of the system; names that are no identifiers go in by ``**``.
    """
    groups = Groups.from_frame(toy_groups(), name="place")
    return Setting(
        attribute="place",
        groups=groups,
        target=Target.uniform(groups),
        retriever=ToyRetriever(),
        texts=ToyTexts(),
        documents=lambda: iter(toy_documents().to_dict(orient="records")),
        collection="toys",
        cutoff=cutoff,
        candidates=candidates,
        seed=3,
        folder=folder,
        options=options,
    )


class StudySystemContract:
    """Tests of a system for ``fairtk qr``; subclass it and set `name`.

    Attributes:
        name: what the system is registered under.
        options: settings of the system to test with.
    """

    name: str
    options: ClassVar[Mapping[str, Any]] = {}

    def test_rankings(self) -> None:
        """Every topic gets a ranking of at least `cutoff` documents, without helper columns."""
        with TemporaryDirectory() as folder:
            topics = toy_topics()
            before = topics.copy()
            out = _rank(self._ready(Path(folder)), topics)
            _check(topics.equals(before), f"{self.name} changes the topics")
            extra = sorted(set(out.columns) - _ALLOWED)
            _check(not extra, f"{self.name} leaves the columns {extra} in its output")
            Run(out, self.name).checked()
            sizes = out.groupby(QID).size()
            for qid, least in toy_run().groupby(QID).size().clip(upper=2).items():
                size = int(sizes.get(qid, 0))
                _check(size >= least, f"{self.name} gives {size} documents for {qid!r}")
            strange = set(out[QID]) - set(topics[QID])
            _check(not strange, f"{self.name} gives rows for the qids {sorted(strange)}")

    def test_deterministic(self) -> None:
        """Return the same when built and fitted again, in another folder, and when used twice."""
        with TemporaryDirectory() as one, TemporaryDirectory() as two:
            system = self._ready(Path(one))
            expected = _rank(system, toy_topics())
            message = f"{self.name} gives another output when it is"
            check_frames(_rank(system, toy_topics()), expected, f"{message} used twice")
            check_frames(
                _rank(self._ready(Path(one)), toy_topics()), expected, f"{message} built again"
            )
            check_frames(
                _rank(self._ready(Path(two)), toy_topics()),
                expected,
                f"{message} built in another folder",
            )

    def test_topics_do_not_matter_to_each_other(self) -> None:
        """Topics one by one, and in another order, get what all at once get."""
        with TemporaryDirectory() as folder:
            system = self._ready(Path(folder))
            topics = toy_topics()
            expected = _rank(system, topics)
            parts = [_rank(system, topics[topics[QID] == qid]) for qid in topics[QID]]
            alone = pd.concat([p for p in parts if len(p)], ignore_index=True)
            check_frames(alone, expected, f"{self.name} depends on how topics are batched")
            turned = _rank(system, topics.iloc[::-1])
            check_frames(turned, expected, f"{self.name} depends on the order of topics")

    def test_no_topics(self) -> None:
        """No topics in, no rows out."""
        with TemporaryDirectory() as folder:
            out = _rank(self._ready(Path(folder)), toy_topics()[:0])
            _check(len(out) == 0, f"{self.name} makes {len(out)} rows of no topics")

    def test_fit(self) -> None:
        """What is said to be trained has ``fit``, and needs it; the rest does not."""
        with TemporaryDirectory() as folder:
            system = self._build(Path(folder))
            trained = registry.study_systems.get(self.name).trained
            _check(not trained or hasattr(system, "fit"), f"{self.name} is trained, but has no fit")
            try:
                out = _rank(system, toy_topics())
            except InputError:
                _check(trained, f"{self.name} cannot rank, but is not said to be trained")
            else:
                _check(not trained, f"{self.name} is trained, but ranks without: {len(out)} rows")

    def test_unknown_options_are_named(self) -> None:
        """A setting that the system does not have is an error that names it."""
        option = "no_such_setting"
        with TemporaryDirectory() as folder:
            setting = toy_setting(Path(folder), **{**self.options, option: 1})
            try:
                registry.study_systems.load(self.name)(setting)
            except (InputError, TypeError) as error:
                _check(option in str(error), f"the error must name {option!r}; it says: {error}")
            else:
                raise AssertionError(f"{self.name} takes the setting {option!r} without a word")

    def _build(self, folder: Path) -> Any:
        return registry.study_systems.load(self.name)(toy_setting(folder, **self.options))

    def _ready(self, folder: Path) -> Any:
        system = self._build(folder)
        if registry.study_systems.get(self.name).trained:
            with warnings.catch_warnings(action="ignore", category=FairtkWarning):
                system.fit(toy_topics(), toy_qrels())
        return system


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _rank(system: Any, topics: pd.DataFrame) -> pd.DataFrame:
    # systems may say what they like about data as small as the toys
    with warnings.catch_warnings(action="ignore", category=FairtkWarning):
        ranked: pd.DataFrame = system.transform(topics)
    return ranked
