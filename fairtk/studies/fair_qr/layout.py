"""The layout of a study: its cells, how the system of each is made, where its results are kept."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import FairtkWarning, NotFoundError
from fairtk.fair_qr.transformer import FairQR
from fairtk.frames.columns import QID
from fairtk.frames.content import digest
from fairtk.llm import Ledger, as_chat_model
from fairtk.plugins import registry
from fairtk.studies.fair_qr.cells import BM25, OWN, Cell, all_cells
from fairtk.studies.fair_qr.data import StudyData
from fairtk.studies.fair_qr.saved import SavedCell, file_name, write_json
from fairtk.studies.fair_qr.search import CollectionBM25
from fairtk.studies.fair_qr.setting import Setting
from fairtk.studies.fair_qr.settings import Settings

_BM25 = ("num_results", "k1", "b")


class Layout:
    """What is to be done, without doing it: the base of `Study`, which documents the arguments.

    Attributes:
        cells: one per system, or variation of FAIR-QR, and attribute.
    """

    def __init__(
        self,
        data: StudyData,
        folder: str | PathLike[str],
        llm: Any,
        settings: Settings | None = None,
        ledger: Ledger | None = None,
        retriever: Any = None,
    ) -> None:
        self.data = data
        self.folder = Path(folder)
        self.settings = settings or Settings()
        self.llm = as_chat_model(llm)
        self.ledger = ledger
        self.retriever = retriever if retriever is not None else self._bm25()
        self.cells = list(all_cells(self.settings, data.attributes))
        for cell in self.cells:
            if cell.refines:
                self.refiner(cell, self.llm)  # wrong settings are said before anything is done

    def saved(self, cell: Cell) -> SavedCell:
        """Return where a cell's results are kept; equal cells have one place."""
        return SavedCell(self.folder / "cells" / self._key(cell))

    def pending(self, cell: Cell) -> pd.DataFrame:
        """Return the topics of a cell that are not done."""
        topics = self.data.topics
        return topics[~topics[QID].isin(self.saved(cell).done(topics[QID]))]

    def refiner(self, cell: Cell, llm: Any) -> FairQR:
        """Return the transformer of a cell that refines."""
        groups, target = self.data.attributes[cell.attribute]
        options = {"qrels": self.data.qrels, **cell.options}
        with warnings.catch_warnings():
            # the no-op of pool="union" is one of the things that the study shows
            warnings.filterwarnings("ignore", message=".*pool='union'", category=FairtkWarning)
            return FairQR(self.retriever, groups, target, llm, **options)

    def build(self, cell: Cell) -> Any:
        """Return the system of a cell that does not refine; a trained one is not fitted yet."""
        if cell.system == BM25:
            return self.retriever
        return registry.study_systems.load(cell.system)(self._setting(cell))

    def _setting(self, cell: Cell) -> Setting:
        groups, target = self.data.attributes[cell.attribute]
        return Setting(
            attribute=cell.attribute,
            groups=groups,
            target=target,
            retriever=self.retriever,
            texts=self.data.texts,
            documents=self.data.documents,
            collection=self.data.collection,
            cutoff=self.settings.cutoff,
            candidates=self.settings.candidates,
            seed=self.settings.seed,
            folder=self.folder / "systems" / file_name(cell.system),
            options=cell.options,
        )

    def trained(self, cell: Cell) -> bool:
        """Return whether the system of a cell is fitted on topics."""
        return cell.system not in OWN and registry.study_systems.get(cell.system).trained

    def _bm25(self) -> CollectionBM25:
        index = self.folder / f"index-{self.data.collection}"
        for name in self.settings.bm25:
            if name not in _BM25:
                raise NotFoundError("setting of [bm25]", name, _BM25)
        return CollectionBM25(index, self.data.documents, **self.settings.bm25)

    def identity(self, cell: Cell) -> dict[str, Any]:
        """Return what decides a cell's results, as JSON values."""
        groups, target = self.data.attributes[cell.attribute]
        owners = {e.name: e.owner for e in registry.study_systems.entries()}
        owner = owners.get(cell.system, _version())
        made = {
            "system": cell.system,
            "made by": owner if cell.system not in OWN else _version(),
            "options": {k: _plain(v) for k, v in sorted(cell.options.items())},
            **self.data.key,
            "groups": groups.key,
            "target": target.key,
            "retriever": self._retriever_identity(),
            "cutoff": self.settings.cutoff,
        }
        if cell.refines:
            made["model"] = [self.llm.name, _plain(self.llm.parameters())]
            del made["cutoff"]
        elif cell.system != BM25:
            made |= {"candidates": self.settings.candidates, "seed": self.settings.seed}
        if self.trained(cell):
            made["folds"] = self.settings.folds
        return made

    def _retriever_identity(self) -> str:
        if isinstance(self.retriever, CollectionBM25):
            shown = self.retriever
            return f"CollectionBM25({shown.num_results}, k1={shown.k1}, b={shown.b})"
        return repr(self.retriever)

    def _key(self, cell: Cell) -> str:
        name = "".join(c if c.isalnum() else "-" for c in f"{cell.attribute}-{cell.system}")
        return f"{name}-{digest(self.identity(cell))}"

    def describe(self) -> None:
        """Write ``study.json``: settings and versions."""
        import platform

        import pyterrier

        write_json(
            self.folder / "study.json",
            {
                "data": self.data.name,
                "topics": len(self.data.topics),
                "attributes": list(self.data.attributes),
                "settings": {k: _plain(v) for k, v in self.settings.as_json().items()},
                "model": repr(self.llm),
                "retriever": self._retriever_identity(),
                "versions": {
                    "fairtk": _version(),
                    "python": platform.python_version(),
                    "pyterrier": pyterrier.__version__,
                    "systems": sorted({e.owner for e in registry.study_systems.entries()}),
                },
            },
        )


def _version() -> str:
    from fairtk import __version__

    return f"fairtk {__version__}"


def _plain(value: Any) -> Any:
    """Return a value as JSON values: objects by their printed form."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
