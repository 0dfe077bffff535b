"""Where the files of TREC Fair Ranking 2022 are: at the official addresses, or in a folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from fairtk.datasets.fetching import Table, fetch
from fairtk.errors import FormatError
from fairtk.files import JSON_ENTRY, decoded, opened, parse_json

Part = Literal["corpus", "metadata", "assessed", "train", "eval"]

OFFICIAL = "trec-fair/2022"
"""The subfolder of ir_datasets' data folder, shared with ir_datasets' own trec-fair/2022."""

NAMES: dict[Part, str] = {
    "corpus": "trec_corpus_20220301_plain.json.gz",
    "metadata": "trec_2022_articles_discrete.json.gz",
    "assessed": "trec_2022_articles_discrete_assessed.json.gz",
    "train": "train_topics_meta.jsonl",
    "eval": "trec_2022_eval_reldocs.jsonl.gz",
}
"""The official name of each file."""

HOLDS: dict[Part, str] = {
    "corpus": "the articles' texts",
    "metadata": "the articles' groups and quality",
    "assessed": "the articles' groups and assessed quality",
    "train": "the training topics with keywords and relevant pages",
    "eval": "the evaluation topics with relevant pages",
}
"""What each file has in it."""


class FolderFiles:
    """Files in a local folder, packed or not."""

    count_hint: int | None = None
    """The number of documents, where it is known without reading them."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser().resolve()
        if not self.folder.is_dir():
            raise FormatError("there is no such folder", self.folder)

    def has(self, part: Part) -> bool:
        """Return whether the folder has a file."""
        return self._find(part) is not None

    def path(self, part: Part) -> Path:
        """Return the path of a file; a missing one is a `FormatError` that says what is there."""
        found = self._find(part)
        if found is None:
            there = sorted(p.name for p in self.folder.iterdir() if not p.name.startswith("."))[:8]
            raise FormatError(
                f"expected {NAMES[part]} ({HOLDS[part]}) in the folder; found {there}", self.folder
            )
        return found

    def _find(self, part: Part) -> Path | None:
        plain = NAMES[part].removesuffix(".gz")
        for name in dict.fromkeys((NAMES[part], plain, f"{plain}.gz")):
            if (self.folder / name).is_file():
                return self.folder / name
        return None


class OfficialFiles:
    """Files in ir_datasets' data folder, downloaded when they are not there."""

    count_hint: int | None = 6_475_537

    def __init__(self, sources: Table | None = None) -> None:
        self._sources = sources

    def path(self, part: Part) -> Path:
        """Return the path of a file; a `DownloadError` where it cannot be had."""
        loader = "fairtk.datasets.trec_fair.from_folder"
        return fetch(OFFICIAL, NAMES[part], self._sources, check_lines, loader)


Files = FolderFiles | OfficialFiles


def check_lines(path: Path) -> None:
    """Raise `FormatError` unless the file is JSON lines; a gzipped one is read to its end."""
    with opened(path, JSON_ENTRY) as lines:
        first = lines.readline()
        if not first:
            raise FormatError("it is empty")
        try:
            found = parse_json(decoded(first, path, 1), path, 1)
        except FormatError as error:
            raise FormatError(f"not (gzipped) JSON lines: {error.reason}") from None
        if not isinstance(found, dict):
            raise FormatError("its first line is no JSON object")
        for _ in lines:  # to the end, where gzip has a checksum
            pass


def derived(source: Path, suffix: str) -> list[Path]:
    """Return where a file that is made from another may lie, the best place first.

    That is next to it, or, where its folder cannot be written, in ir_datasets' data folder.
    """
    import ir_datasets

    key = hashlib.blake2b(str(source.resolve()).encode(), digest_size=8).hexdigest()
    elsewhere = Path(ir_datasets.util.home_path()) / OFFICIAL / "derived"
    return [
        source.with_name(f"{source.name}.fairtk{suffix}"),
        elsewhere / f"{source.name}.{key}.fairtk{suffix}",
    ]


def writable(places: list[Path]) -> Path | None:
    """Return the first place that a file can be written to; its folder is made if need be.

    A folder that nobody may write to is left alone, by the superuser too.
    """
    for place in places:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            allowed = place.parent.stat().st_mode & 0o222
        except OSError:
            continue
        if allowed and os.access(place.parent, os.W_OK):
            return place
    return None


def stamp(source: Path) -> str:
    """Return size and time of change of a file: what a file made from it belongs to."""
    state = source.stat()
    return f"{state.st_size}-{state.st_mtime_ns}"
