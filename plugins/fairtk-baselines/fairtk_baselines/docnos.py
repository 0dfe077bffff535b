"""The docnos of an index, by position and back, read from disk as needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pyterrier_dr import FlexIndex

from fairtk.frames import IntArray

_BYTES = "docnos.utf8"
_ENDS = "docnos.ends.npy"


class Docnos:
    """Docnos by position, with the interface that `pyterrier_dr.FlexIndex` expects of its own.

    Its own, npids 0.1.3, fails on an index of a single document, and where docnos begin with the
    same half of a letter in UTF-8. Here any string is a docno.

    Args:
        folder: where `write` wrote them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = np.load(folder / _ENDS, mmap_mode="r", allow_pickle=False)
        raw = np.memmap(folder / _BYTES, dtype=np.uint8, mode="r")
        if len(self._ends) and int(self._ends[-1]) != len(raw):
            raise ValueError(f"{_BYTES} has {len(raw)} bytes, not {int(self._ends[-1])}")
        self._bytes = raw.data

    @staticmethod
    def write(folder: Path, docnos: Iterable[str]) -> None:
        """Write docnos to a folder."""
        ends, end = [], 0
        with (folder / _BYTES).open("wb") as stream:
            for docno in docnos:
                end += stream.write(docno.encode("utf-8", "surrogatepass"))
                ends.append(end)
        np.save(folder / _ENDS, np.array(ends, dtype=np.int64), allow_pickle=False)

    def __reduce__(self) -> tuple[type[Docnos], tuple[Path]]:
        return Docnos, (self._folder,)  # another process opens the files itself

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        return (self._one(i) for i in range(len(self)))

    def __getitem__(self, positions: Any) -> Any:
        """Return the docno at a position, or an array of those at positions."""
        if np.ndim(positions) == 0:
            return self._one(int(positions))
        places = np.asarray(positions)
        ends = self._ends[places]
        starts = np.where(places > 0, self._ends[places - 1], 0)
        found = np.empty(len(places), dtype=object)
        found[:] = [self._text(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        return found

    @property
    def fwd(self) -> Docnos:
        """Docnos by position: itself."""
        return self

    @cached_property
    def inv(self) -> _Positions:
        """Positions by docno; made in memory on first use."""
        return _Positions({docno: i for i, docno in enumerate(self)})

    def _one(self, position: int) -> str:
        start = int(self._ends[position - 1]) if position else 0
        return self._text(start, int(self._ends[position]))

    def _text(self, start: int, end: int) -> str:
        return str(self._bytes[start:end], "utf-8", "surrogatepass")


class _Positions:
    def __init__(self, position: dict[str, int]) -> None:
        self._position = position

    def __getitem__(self, docnos: Any) -> IntArray:
        return np.array([self._position[d] for d in docnos], dtype=np.int64)


class NamedIndex(FlexIndex):  # type: ignore[misc]
    """A `pyterrier_dr.FlexIndex` whose docnos are kept by `Docnos`.

    Vectors and metadata are in a FlexIndex's own form, and it does all that a FlexIndex does.
    """

    ARTIFACT_TYPE = FlexIndex.ARTIFACT_TYPE
    ARTIFACT_FORMAT = FlexIndex.ARTIFACT_FORMAT

    @classmethod
    def describe(cls, folder: Path, docnos: list[str], size: int) -> None:
        """Write what belongs beside ``vecs.f4``, the vectors of this size with these docnos."""
        Docnos.write(folder, docnos)
        about = {
            "type": cls.ARTIFACT_TYPE,
            "format": cls.ARTIFACT_FORMAT,
            "vec_size": size,
            "doc_count": len(docnos),
        }
        (folder / "pt_meta.json").write_text(json.dumps(about), encoding="utf-8")

    def payload(self, return_dvecs: bool = True, return_docnos: bool = True) -> list[Any]:
        """Return docnos, vectors and metadata, as far as wanted."""
        found: list[Any] = super().payload(return_dvecs=return_dvecs, return_docnos=False)
        return [self._named, *found] if return_docnos else found

    @cached_property
    def _named(self) -> Docnos:
        return Docnos(Path(self.index_path))
