"""Short names for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_SUFFIXES = {
    ".run", ".res", ".trec", ".top", ".out", ".txt", ".tsv", ".csv", ".jsonl", ".parquet", ".pq",
}  # fmt: skip


def unique_names(paths: Sequence[str]) -> list[str]:
    """Return short names for files: stems, with suffixes and folders where stems do not differ.

    A file that is given twice gets a number behind its name.
    """
    files = [Path(path).resolve() for path in paths]
    distinct = list(dict.fromkeys(files))
    same = Counter(file.with_name(_stem(file)) for file in distinct)
    ends = {f: _stem(f) if same[f.with_name(_stem(f))] == 1 else f.name for f in distinct}
    short = dict(ends)
    for depth in range(2, max(len(file.parts) for file in files) + 1):
        count = Counter(short.values())
        for file, name in short.items():
            if count[name] > 1:
                short[file] = "/".join([*file.parts[-depth:-1], ends[file]])
    seen: Counter[Path] = Counter()
    names = []
    for file in files:
        seen[file] += 1
        names.append(short[file] + (f"#{seen[file]}" if seen[file] > 1 else ""))
    return names


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix
    stem = name.removesuffix(suffix) if suffix.lower() in _SUFFIXES else name
    return stem or path.name
