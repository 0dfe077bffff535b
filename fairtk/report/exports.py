"""Results as CSV, and as TREC files with ir_metadata."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_datasets

from fairtk import checks
from fairtk.errors import DataWarning, StoreError
from fairtk.frames import DOCNO, LABEL, QID, SCORE
from fairtk.io import write_qrels, write_run
from fairtk.io.atomic import atomic_text

if TYPE_CHECKING:
    from fairtk.experiment.results import Results


def to_csv(results: Results) -> str:
    """Return the means and numbers of queries as CSV with all digits."""
    return str(results.counts.to_csv(index=False, lineterminator="\n"))


def write_trec(results: Results, folder: Path) -> list[Path]:
    """Write run files with ir_metadata, and qrels; see `Results.to_trec`."""
    files: list[Path] = []
    names = file_names(results.systems)
    with _writable(folder):
        for system, name in names.items():
            rows = results.rankings(system)
            missing = [c for c in (QID, DOCNO, SCORE) if c not in rows.columns]
            if missing:
                warnings.warn(
                    f"no run file is written for system {system!r}: missing column "
                    f"{missing[0]!r}; use Results.save",
                    DataWarning,
                    stacklevel=4,
                )
                continue
            files += [folder / f"{name}.run", folder / f"{name}.ir-metadata.yml"]
            write_run(rows, files[-2], tag=name)
            _write(files[-1], ir_metadata(results, system, {"tag": name}))
        qrels = results.qrels
        if qrels is not None and {QID, DOCNO, LABEL} <= {*qrels.columns}:
            files.append(folder / "qrels.txt")
            write_qrels(qrels[[QID, DOCNO, LABEL]], files[-1])
    return files


def ir_metadata(results: Results, system: str, more: Mapping[str, Any] | None = None) -> str:
    """Return the ir_metadata of a run; see `Results.to_ir_metadata`."""
    checks.known("system", system, results.systems)
    config, environment = results.config, results.environment
    name, _, processor = str(environment.get("platform", "")).partition(" ")
    packages: Mapping[str, str] = environment.get("packages", {})
    evaluation: dict[str, Any] = {"reported measures": list(map(str, results.measures))}
    if results.baseline is not None:
        evaluation["baseline"] = [results.baseline]
    goal = {"research goal": {"evaluation": evaluation}} if results.measures else {}
    components: dict[str, Any] = {
        "tag": system,
        "platform": {
            "hardware": {"cpu": {"architecture": processor}},
            "operating system": {"kernel": name},
            "software": {
                "libraries": {"python": [f"{p}=={v}" for p, v in packages.items()]},
                "retrieval toolkit": [f"{p}=={packages[p]}" for p in _TOOLKITS if p in packages],
            },
        },
        "implementation": {"source": {"lang": ["Python"]}},
        **goal,
        "method": {"automatic": True, "retrieval": list(_retrieval(results, system))},
    }
    if config.get("command"):
        components["implementation"]["executable"] = {"cmd": config["command"]}
    if config.get("dataset"):
        collection = {"name": config["dataset"], "ir_datasets": config["dataset"]}
        components["data"] = {"test collection": collection}
    yaml: Any = ir_datasets.lazy_libs.yaml()
    text = yaml.safe_dump({**components, **(more or {})}, sort_keys=False, allow_unicode=True)
    return str(text)


_TOOLKITS = ("pyterrier", "pyterrier-pisa", "fairtk")


def _retrieval(results: Results, system: str) -> Iterator[dict[str, Any]]:
    """Yield the known stages of a system; each reranks the previous one."""
    before = None
    for number, stage in enumerate(results.config.get("stages", {}).get(system, []), 1):
        if not stage:
            continue
        name = stage.get("identified") or str(stage.get("class", "stage")).rpartition(".")[2]
        settings = {k: v for k, v in stage.items() if isinstance(v, str | int | float | bool)}
        entry = {"name": f"{number} {name}", **settings}
        entry["method"] = entry.pop("class", name)
        yield entry if before is None else {**entry, "reranks": before}
        before = entry["name"]


def file_names(systems: Iterable[str]) -> dict[str, str]:
    """Return a file name for each system, unique also without case."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for system in systems:
        base = re.sub(r"[^\w.+-]+", "-", system).strip("-.")[:150] or "unnamed"
        name, number = base, 2
        while name.casefold() in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name.casefold())
        names[system] = name
    return names


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Create a folder for files, and raise `StoreError` if writing fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot write the files ({error.strerror or error}); give a writable folder "
            "with enough free space"
        ) from error


def write_or_return(text: str, path: str | PathLike[str] | None) -> str | None:
    """Return a text, or write it to a file and return `None`, as pandas does."""
    if path is None:
        return text
    _write(checks.path("path", path), text)
    return None


def _write(path: Path, text: str) -> None:
    with atomic_text(path) as stream:
        stream.write(text)
