"""The packaged demo: an invented movie-tagging collection and a tiny T5 trained for it.

``fairtk demo`` and the tutorials use both, offline. The collection has the format of LaMP-2. The
README in its folder describes how it was made and what it must not be used for. For example::

    from fairtk import demo
    data = demo.load()
    generator = FlanT5(model=demo.model_folder(), prompt="lamp-2")
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DemoData",
    "collection_folder",
    "load",
    "load_topics_and_candidates",
    "model_folder",
]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class DemoData:
    """The collection as frames.

    Attributes:
        topics: ``qid``, ``query`` (the movie's description), ``question`` (the full LaMP-2
            question), ``gold_answer`` (the viewer's tag).
        candidates: run R with each query's profile: ``qid``, ``query``, ``question``, ``docno``
            ("qid/pid"), ``score`` (0 for all), ``rank`` (file order), ``text``, ``tag``, ``date``.
        qrels: ``qid``, ``docno``, ``label`` (1 = the packaged model answers better with the entry
            alone than without entries, otherwise 0), ``gold_answer``.
        groups: ``docno``, ``group``, ``weight``, ``attribute`` ("production" or "origin").
    """

    topics: pd.DataFrame
    candidates: pd.DataFrame
    qrels: pd.DataFrame
    groups: pd.DataFrame

    def __repr__(self) -> str:
        counts = f"{len(self.topics)} topics, {len(self.candidates)} candidates"
        return f"<the demo: {counts}, {len(self.qrels)} labels>"

    def _repr_html_(self) -> str:
        from fairtk.display.tables import frame_html

        columns = ["qid", "query", "gold_answer"]
        return frame_html(self.topics[columns], f"{self!r}: .topics and other frames", most=3)

    @property
    def dataset(self) -> Any:
        """The collection as an ``ir_datasets.Dataset`` for ``Candidates(...)``."""
        from fairtk.datasets.lamp import from_folder

        return from_folder(collection_folder(), task=2)


def model_folder() -> Path:
    """Return the folder of the tiny T5, for ``FlanT5(model=...)``."""
    return _HERE / "model"


def collection_folder() -> Path:
    """Return the folder of the collection, for ``fairtk.datasets.lamp.from_folder``."""
    return _HERE / "collection_files"


def load() -> DemoData:
    """Read the packaged collection.

    Raises:
        FormatError: a file is malformed.
    """
    import pandas as pd

    topics, candidates = load_topics_and_candidates()
    texts = {"qid": str, "docno": str}
    qrels = pd.read_csv(collection_folder() / "qrels.tsv", sep="\t", dtype=texts)
    qrels = qrels[["qid", "docno", "label"]].merge(topics[["qid", "gold_answer"]], on="qid")
    groups = pd.read_csv(collection_folder() / "groups.tsv", sep="\t", dtype={"docno": str})
    return DemoData(topics, candidates, qrels, groups)


def load_topics_and_candidates() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read `DemoData.topics` and `DemoData.candidates`, which need no utility labels."""
    import pandas as pd

    from fairtk.datasets.lamp import from_folder
    from fairtk.transformers import Candidates

    dataset = from_folder(collection_folder(), task=2)
    topics = pd.DataFrame(dataset.queries_iter()).rename(columns={"query_id": "qid"})
    topics = topics[["qid", "query", "question", "gold_answer"]]
    candidates = Candidates(dataset).transform(topics.drop(columns="gold_answer"))
    return topics, candidates
