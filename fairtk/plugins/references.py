"""What to cite, and where each thing is explained."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from fairtk.errors import NotFoundError
from fairtk.plugins import registry
from fairtk.plugins.host import loaded

TOOLS = ("fairtk", "macdonald2021pyterrier", "macavaney2022irmeasures", "macavaney2021irdatasets")
"""What every use of fairtk rests on."""

_ENTRY = re.compile(r"^@\w+\{([^,\s]+),.*?^\}", re.MULTILINE | re.DOTALL)


def cite(*names: str) -> str:
    """Return BibTeX of the sources of measures, data sets and systems.

    Args:
        *names: measures (``"AWRF"``, also as in tables: ``"E(nDCG@5)"``), ids of data sets, and
            transformers, studies or their systems (``"FairSampler"``, ``"rag"``, ``"mmr"``); none:
            the tools themselves.

    Raises:
        NotFoundError: a name is none of these; the nearest is suggested.
    """
    keys = [key for name in names for key in citation_keys(name)] if names else TOOLS
    bibtex = entries()
    return "\n\n".join(bibtex[key] for key in dict.fromkeys(keys)) + "\n" * bool(keys)


def citation_keys(name: str) -> list[str]:
    """Return the BibTeX keys of one measure, data set or system; none: it has no source."""
    for filled in _SPECS:
        if name in filled:
            return _keys(filled.get(name).citation)
    words = re.findall(r"[A-Za-z]\w*", name)
    measures = [word for word in words if word in registry.measures]
    if not measures or words[0] not in registry.measures:
        all_names = [n for filled in (registry.measures, *_SPECS) for n in filled.names()]
        raise NotFoundError("measure, data set or system", name, all_names)
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
    bibtex = entries()
    return "\n\n".join(bibtex[key] for key in keys_of_results(systems, measures)) + "\n"


def bibliography() -> str:
    """Return the BibTeX of fairtk and of all plugins that are loaded, each key once."""
    return "\n\n".join(entries().values()) + "\n"


_SPECS: tuple[Any, ...] = (
    registry.datasets,
    registry.transformers,
    registry.studies,
    registry.study_systems,
    registry.utilities,
    registry.prompts,
)


def _keys(citation: str | None) -> list[str]:
    return (citation or "").split()


def entries() -> dict[str, str]:
    """Return the BibTeX entries of fairtk and of all plugins that are loaded, by key."""
    bibtex: dict[str, str] = {}
    for plugin in loaded():
        spec = importlib.util.find_spec(plugin.module.partition(".")[0])
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            file = Path(folder) / "references.bib"
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            for entry in _ENTRY.finditer(text):
                bibtex.setdefault(entry.group(1), entry.group(0))
    return bibtex


_ADDRESSES = dict(line.split(", ", 1) for line in metadata("fairtk").get_all("Project-URL") or ())
SITE = _ADDRESSES.get("Documentation", "")
"""The site, as the installed distribution says it (``release.toml`` of the source)."""

DOCUMENTED_PACKAGES = {
    "fairtk": "What most programs need: measures, transformers, experiments.",
    "fairtk.measures": "Measures: objects and strings, your own, and where a cost comes from.",
    "fairtk.transformers": "Samplers, scorers, generators and FAIR-QR for PyTerrier pipelines.",
    "fairtk.groups": "Memberships of documents in groups, targets, and how far apart the two are.",
    "fairtk.exposure": "Browsing models, expected exposure, Plackett-Luce, on arrays.",
    "fairtk.credit": "Credit of documents in answers: how it is made, its measures, providers.",
    "fairtk.statistics": "Paired tests, intervals, corrections, slopes and areas.",
    "fairtk.experiment": "The durable experiment: store, executors, results.",
    "fairtk.analysis": "Curves over alpha, precision, sensitivity, off-policy estimates.",
    "fairtk.report": "Results as one page of HTML.",
    "fairtk.llm": "Models of this machine and of servers, behind a ledger that never pays twice.",
    "fairtk.prompts": "What a generator is asked.",
    "fairtk.utilities": "String utilities of answers.",
    "fairtk.datasets": "LaMP and TREC Fair Ranking 2022 as ir_datasets.",
    "fairtk.io": "Run files, qrels and answers, read strictly.",
    "fairtk.display": "Tables as text and figures in one style.",
    "fairtk.testing": "Contracts for plugin authors' tests.",
    "fairtk.plugins": "Hooks, what plugins give, and what to cite for it.",
    "fairtk.errors": "All exceptions and warnings.",
    "fairtk.demo": "The packaged collection and model.",
    "fairtk_classic": "The plugin of classic group-fairness measures.",
    "fairtk_baselines": "The plugin of FA*IR, DELTR, DLF, MMR and vector search.",
    "fairtk_papers": "The plugin of the two papers' studies: Towards Fair RAG, FAIR-QR.",
    "fairtk_vllm": "The plugin of models by vLLM.",
}
"""The rooms with a page of their own in the API reference; plugins' if they are installed."""


def entry_of(module: str, name: str) -> str | None:
    """Return the place of a class in the API reference: page and anchor; None: it has none."""
    parts = module.split(".")
    room = ".".join(parts[:2]) if parts[0] == "fairtk" else parts[0]
    return f"api/{room}.html#{room}.{name}" if room in DOCUMENTED_PACKAGES else None


def help_address(kind: type) -> str | None:
    """Return the address of a class's entry in the API reference; None: it has none."""
    page = entry_of(kind.__module__, kind.__name__)
    return page and SITE + page
