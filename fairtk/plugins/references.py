"""BibTeX references, and links to the API reference."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from fairtk.errors import NotFoundError
from fairtk.plugins import registry
from fairtk.plugins.host import loaded_plugins

TOOLS = ("fairtk", "macdonald2021pyterrier", "macavaney2022irmeasures", "macavaney2021irdatasets")
"""References for every use of fairtk."""

_ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}", re.MULTILINE | re.DOTALL)


def cite(*names: Any) -> str:
    """Return BibTeX for measures, data sets and systems.

    Args:
        *names: measures (``"AWRF"``, or as in tables: ``"E(nDCG@5)"``), ids of data sets, and
            transformers, studies or their systems (``"FairSampler"``, ``"rag"``, ``"mmr"``).
            Measures and transformers may be objects. Without names, the references are those of
            fairtk and its tools.

    Raises:
        NotFoundError: a name is unknown; the nearest is suggested.
    """
    keys = [key for name in names for key in citation_keys(_name_of(name))] if names else TOOLS
    return _bibtex(keys) if keys else ""


def _name_of(named: Any) -> str:
    if isinstance(named, str) or hasattr(named, "NAME"):  # a measure
        return str(named)
    return str((named if isinstance(named, type) else type(named)).__name__)


def citation_keys(name: str) -> list[str]:
    """Return the BibTeX keys of one measure, data set or system; empty if it has no reference."""
    for filled in _SPECS:
        if name in filled:
            return (filled.get(name).citation or "").split()
    words = re.findall(r"[A-Za-z]\w*", name)
    measures = [word for word in words if word in registry.measures]
    if not measures or words[0] not in registry.measures:
        all_names = [n for filled in (registry.measures, *_SPECS) for n in filled.names()]
        raise NotFoundError("measure, data set or system", name, all_names)
    return [key for m in measures for key in (registry.measures.get(m).CITATION or "").split()]


def cite_results(systems: Iterable[str], measures: Iterable[str]) -> str:
    """Return BibTeX for the systems and measures of an experiment that have a reference.

    Args:
        systems: pipelines as text, e.g. ``"Candidates >> BM25Scorer >> FairSampler"``.
        measures: as in tables; measures of ir_measures have no entry.
    """
    words = re.findall(r"[A-Za-z]\w*", " ".join([*systems, *measures]))
    named = [w for w in words if w in registry.transformers or w in registry.measures]
    return _bibtex([*TOOLS, *(key for word in named for key in citation_keys(word))])


def _bibtex(keys: Iterable[str]) -> str:
    bibtex = entries()
    return "\n\n".join(bibtex[key] for key in dict.fromkeys(keys)) + "\n"


def bibliography() -> str:
    """Return the BibTeX of fairtk and of all loaded plugins, each key once."""
    return "\n\n".join(entries().values()) + "\n"


_SPECS: tuple[Any, ...] = (
    registry.datasets,
    registry.transformers,
    registry.studies,
    registry.study_systems,
    registry.utilities,
    registry.prompts,
)


def entries() -> dict[str, str]:
    """Return the BibTeX entries of fairtk and of all loaded plugins, by key."""
    bibtex: dict[str, str] = {}
    for plugin in loaded_plugins():
        package = plugin.module.partition(":")[0].partition(".")[0]
        for entry in _ENTRY.finditer(read_package_file(package, "references.bib")):
            bibtex.setdefault(entry.group(1), entry.group(0))
    return bibtex


def read_package_file(package: str, name: str) -> str:
    """Return the text of a file in the folder of an imported package; ``""`` without the file.

    Scripts, notebooks and modules made at run time have no folder.
    """
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        file = Path(folder, name)
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return ""


_ADDRESSES = dict(line.split(", ", 1) for line in metadata("fairtk").get_all("Project-URL") or ())
SITE = _ADDRESSES.get("Documentation", "")
"""The address of the documentation, from the metadata of the distribution."""


def help_address(kind: type) -> str | None:
    """Return the address of a class in the API reference; `None` for classes of third parties."""
    package, *rest = kind.__module__.split(".")
    page = ".".join([package, *rest[:1]]) if package == "fairtk" else package
    is_own = package.startswith("fairtk")
    return f"{SITE}api/{page}.html#{page}.{kind.__name__}" if is_own else None
