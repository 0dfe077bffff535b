"""The contract of systems of ``fairtk qr``, for tests of plugins."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt

from fairtk.errors import FairtkWarning, InputError
from fairtk.frames import DOCNO, QID, QUERY, RANK, SCORE, TEXT, Run
from fairtk.groups import Groups, Target
from fairtk.plugins import registry
from fairtk.testing import toy_documents, toy_groups, toy_qrels, toy_run, toy_topics
from fairtk_papers.fair_qr import Setting

__all__ = ["Setting", "StudySystemContract", "toy_setting"]

_ALLOWED = {QID, QUERY, "question", DOCNO, SCORE, RANK}


def toy_setting(folder: Path, cutoff: int = 2, candidates: int = 4, **options: Any) -> Setting:
    """Return a `Setting` with the toy frames.

    Args:
        folder: the folder for files of the system.
        cutoff: the number of ranks to measure.
        candidates: the number of documents to rerank.
        options: the settings of the system.
    """
    groups = Groups.from_frame(toy_groups(), name="place")
    return Setting(
        attribute="place",
        groups=groups,
        target=Target.uniform(groups),
        retriever=pt.Transformer.from_df(toy_run().drop(columns=[TEXT, QUERY])),
        texts=pt.apply.generic(lambda rows: rows.merge(toy_documents(), on=DOCNO, how="left")),
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
        name: the registered name of the system.
        options: the settings of the system in the tests.
    """

    name: str
    options: ClassVar[Mapping[str, Any]] = {}

    def test_rankings(self) -> None:
        """Each topic gets a ranking of at least `cutoff` documents, without extra columns."""
        with TemporaryDirectory() as folder:
            topics = toy_topics()
            before = topics.copy()
            out = _rank(self._trained(Path(folder)), topics)
            assert topics.equals(before), f"{self.name} changes the topics"
            extra = sorted(set(out.columns) - _ALLOWED)
            assert not extra, f"{self.name} returns the extra columns {extra}"
            Run(out, self.name).checked()
            sizes = out.groupby(QID).size()
            for qid, least in toy_run().groupby(QID).size().clip(upper=2).items():
                size = int(sizes.get(qid, 0))
                assert size >= least, (
                    f"{self.name}: expected at least {least} documents for {qid!r}, got {size}"
                )
            unknown = set(out[QID]) - set(topics[QID])
            assert not unknown, f"{self.name} returns rows for unknown qids {sorted(unknown)}"

    def test_deterministic(self) -> None:
        """The output is equal on a second call, after a second build, and in another folder."""
        with TemporaryDirectory() as first, TemporaryDirectory() as second:
            system = self._trained(Path(first))
            expected = _rank(system, toy_topics())
            others = {
                "is called twice": system,
                "is built again": self._trained(Path(first)),
                "is built in another folder": self._trained(Path(second)),
            }
            for case, other in others.items():
                message = f"{self.name} returns different output when it {case}"
                assert _equal(_rank(other, toy_topics()), expected), message

    def test_topics_do_not_matter_to_each_other(self) -> None:
        """The output does not depend on batches or on the order of topics."""
        with TemporaryDirectory() as folder:
            system = self._trained(Path(folder))
            topics = toy_topics()
            expected = _rank(system, topics)
            parts = [_rank(system, topics[topics[QID] == qid]) for qid in topics[QID]]
            joined = pd.concat([p for p in parts if len(p)], ignore_index=True)
            assert _equal(joined, expected), f"{self.name} depends on how topics are batched"
            reordered = _rank(system, topics.iloc[::-1])
            assert _equal(reordered, expected), f"{self.name} depends on the order of topics"

    def test_no_topics(self) -> None:
        """Without topics there are no rows."""
        with TemporaryDirectory() as folder:
            out = _rank(self._trained(Path(folder)), toy_topics()[:0])
            assert len(out) == 0, f"{self.name}: expected no rows without topics, got {len(out)}"

    def test_fit(self) -> None:
        """Trained systems have ``fit`` and require it; the others do not."""
        with TemporaryDirectory() as folder:
            system = self._build(Path(folder))
            trained = registry.study_systems.get(self.name).trained
            assert not trained or hasattr(system, "fit"), (
                f"{self.name} is declared as trained, but has no fit"
            )
            try:
                _rank(system, toy_topics())
            except InputError:
                assert trained, f"{self.name} cannot rank, but is not declared as trained"
            else:
                assert not trained, f"{self.name} is declared as trained, but ranks without fit"

    def test_unknown_options_are_named(self) -> None:
        """An unknown setting is an error that names it."""
        option = "no_such_setting"
        with TemporaryDirectory() as folder:
            setting = toy_setting(Path(folder), **{**self.options, option: 1})
            try:
                registry.study_systems.load(self.name)(setting)
            except (InputError, TypeError) as error:
                assert option in str(error), f"the error must name {option!r}, got: {error}"
            else:
                raise AssertionError(f"{self.name} accepts the unknown setting {option!r}")

    def _build(self, folder: Path) -> Any:
        return registry.study_systems.load(self.name)(toy_setting(folder, **self.options))

    def _trained(self, folder: Path) -> Any:
        system = self._build(folder)
        if registry.study_systems.get(self.name).trained:
            with warnings.catch_warnings(action="ignore", category=FairtkWarning):
                system.fit(toy_topics(), toy_qrels())
        return system


def _equal(actual: pd.DataFrame, expected: pd.DataFrame) -> bool:
    """Return whether two frames have the same columns and rows; their order does not count."""
    keys = [QID, DOCNO, RANK]
    frames = (frame.sort_values(keys, ignore_index=True) for frame in (actual, expected))
    try:
        pd.testing.assert_frame_equal(*frames, check_dtype=False, rtol=1e-9, atol=0)
    except AssertionError:
        return False
    return True


def _rank(system: Any, topics: pd.DataFrame) -> pd.DataFrame:
    # systems may warn that the toy data are small
    with warnings.catch_warnings(action="ignore", category=FairtkWarning):
        ranked: pd.DataFrame = system.transform(topics)
    return ranked
