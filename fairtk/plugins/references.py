"""What to cite: keys of measures, data sets and systems, and their BibTeX."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairtk.errors import NotFoundError
from fairtk.plugins import loaded, registry

TOOLS = ("fairtk", "macdonald2021pyterrier", "macavaney2022irmeasures", "macavaney2021irdatasets")
"""What every use of fairtk rests on."""

_ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}", re.MULTILINE | re.DOTALL)


def cite(*names: str) -> str:
    """Return BibTeX of the sources of measures, data sets and systems.

    Args:
        *names: measures (``"AWRF"``, also as in tables: ``"E(nDCG@5)"``), ids of data sets, and
            transformers or systems of studies (``"FairSampler"``, ``"mmr"``); none: the tools
            themselves.

    Raises:
        NotFoundError: a name is none of these; the nearest is suggested.
    """
    keys = [key for name in names for key in citation_keys(name)] if names else TOOLS
    known = entries()
    return "\n\n".join(known[key] for key in dict.fromkeys(keys)) + "\n" * bool(keys)


def citation_keys(name: str) -> list[str]:
    """Return the BibTeX keys of one measure, data set or system; none: it has no source."""
    for filled in _SPECS:
        if name in filled:
            return _keys(filled.get(name).citation)
    words = re.findall(r"[A-Za-z]\w*", name)
    measures = [word for word in words if word in registry.measures]
    if not measures or words[0] not in registry.measures:
        known = [n for filled in (registry.measures, *_SPECS) for n in filled.names()]
        raise NotFoundError("measure, data set or system", name, known)
    return [
        key for m in dict.fromkeys(measures) for key in _keys(registry.measures.get(m).CITATION)
    ]


def keys_of_results(systems: Iterable[str], measures: Iterable[str]) -> list[str]:
    """Return the keys of all that an experiment used and fairtk knows a source of.

    Args:
        systems: pipelines as text, e.g. ``"Candidates >> BM25Scorer >> FairSampler"``.
        measures: as in tables; those of ir_measures have no key here.
    """
    texts = [*systems, *measures]
    words = dict.fromkeys(word for text in texts for word in re.findall(r"[A-Za-z]\w*", text))
    named = [w for w in words if w in registry.transformers or w in registry.measures]
    return list(dict.fromkeys([*TOOLS, *(key for word in named for key in citation_keys(word))]))


def cite_results(systems: Iterable[str], measures: Iterable[str]) -> str:
    """Return the BibTeX of `keys_of_results`."""
    known = entries()
    return "\n\n".join(known[key] for key in keys_of_results(systems, measures)) + "\n"


def bibliography() -> str:
    """Return the BibTeX of fairtk and of all plugins that are loaded, each key once."""
    return "\n\n".join(entries().values()) + "\n"


_SPECS: tuple[Any, ...] = (
    registry.datasets,
    registry.transformers,
    registry.study_systems,
    registry.utilities,
    registry.prompts,
)


def _keys(citation: str | None) -> list[str]:
    return (citation or "").split()


def entries() -> dict[str, str]:
    """Return the BibTeX entries of fairtk and of all plugins that are loaded, by key."""
    found: dict[str, str] = {}
    for plugin in loaded():
        spec = importlib.util.find_spec(plugin.module.partition(".")[0])
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            file = Path(folder) / "references.bib"
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            for entry in _ENTRY.finditer(text):
                found.setdefault(entry.group(1), entry.group(0))
    return found
