"""What to cite, and where each thing is explained."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from fairtk.errors import InputError, NotFoundError
from fairtk.plugins import registry
from fairtk.plugins.host import loaded

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
FOLDER = "FAIRTK_DOCS"
"""The environment variable that names the folder of a built site."""
BUILD = "build the site (`python -m sphinx -b html docs docs/_build/html` in the source)"

ROOMS = {
    "fairtk": "What most programs need: measures, transformers, experiments.",
    "fairtk.measures": "Measures: objects and strings, your own, and where a cost comes from.",
    "fairtk.transformers": "Samplers, scorers, generators and FAIR-QR for PyTerrier pipelines.",
    "fairtk.groups": "Memberships of documents in groups, targets, and how far apart the two are.",
    "fairtk.exposure": "Browsing models, expected exposure, Plackett-Luce, on arrays.",
    "fairtk.credit": "Credit of documents in answers: citations, leaving one out, Shapley values.",
    "fairtk.statistics": "Paired tests, intervals, corrections, slopes and areas.",
    "fairtk.experiment": "The durable experiment: store, executors, results.",
    "fairtk.analysis": "Can a number be trusted: comparisons, precision, faulty data.",
    "fairtk.report": "Results as one page of HTML.",
    "fairtk.llm": "Models of this machine and of servers, behind a ledger that never pays twice.",
    "fairtk.prompts": "What a generator is asked.",
    "fairtk.utilities": "String utilities of answers.",
    "fairtk.datasets": "LaMP and TREC Fair Ranking 2022 as ir_datasets.",
    "fairtk.io": "Run files, qrels and answers, read strictly.",
    "fairtk.studies": "The two papers' studies.",
    "fairtk.testing": "Contracts for plugin authors' tests.",
    "fairtk.plugins": "Hooks, what plugins give, and what to cite for it.",
    "fairtk.errors": "All exceptions and warnings.",
    "fairtk.demo": "The packaged collection and model.",
    "fairtk_classic": "The plugin of classic group-fairness measures.",
    "fairtk_baselines": "The plugin of FA*IR, DELTR, DLF, MMR and vector search.",
    "fairtk_vllm": "The plugin of models by vLLM.",
}
"""The rooms with a page of their own in the API reference; plugins' if they are installed."""


def entry_of(module: str, name: str) -> str | None:
    """Return the place of a class in the API reference: page and anchor; None: it has none."""
    parts = module.split(".")
    room = ".".join(parts[:2]) if parts[0] == "fairtk" else parts[0]
    return f"api/{room}.html#{room}.{name}" if room in ROOMS else None


def help_address(kind: type) -> str | None:
    """Return the address of a class's entry in the API reference; None: it has none."""
    page = entry_of(kind.__module__, kind.__name__)
    return page and SITE + page


def local_site() -> Path | None:
    """Return the folder of a built site on this machine: `FOLDER`'s, or the checkout's.

    Raises:
        InputError: `FOLDER` names one that has no site.
    """
    named = os.environ.get(FOLDER)
    folder = Path(named or Path(__file__).parents[2] / "docs" / "_build" / "html")
    if (folder / "index.html").is_file():
        return folder.resolve()
    if named:
        raise InputError(f"{FOLDER} names {named!r}, which has no index.html: {BUILD}, or unset it")
    return None


def address(page: str) -> str:
    """Return where a page is: the file of a built site, otherwise the address on the network.

    Args:
        page: as in `fairtk.plugins.references`, e.g. ``"measures/EE_D.html"``.
    """
    folder = local_site()
    name, mark, anchor = page.partition("#")
    return f"{(folder / name).as_uri()}{mark}{anchor}" if folder else SITE + page


PAGES = {
    "start": ("index.html", "install, first number, first pipeline"),
    "install": ("install.html", "what works on which system"),
    "first-number": ("first_number.html", "your own run files, in two minutes"),
    "first-pipeline": ("first_pipeline.html", "a fair pipeline, in five minutes"),
    "measures": ("measures/index.html", "every measure: formula, range, what it does not say"),
    "tutorials": ("tutorials/index.html", "executed notebooks"),
    "cookbook": ("cookbook/index.html", "one recipe per task"),
    "concepts": ("concepts/index.html", "exposure, groups, limits, randomness, trust"),
    "frames": ("concepts/frames.html", "which columns a frame has"),
    "exposure": ("concepts/exposure.html", "who sees what, and machine users"),
    "groups": ("concepts/groups.html", "memberships, and what they are compared with"),
    "credit": (
        "concepts/credit.html",
        "whose documents an answer rests on, and what that does not say",
    ),
    "limits": ("concepts/limits.html", "what fairness numbers cannot say"),
    "randomness": ("concepts/randomness.html", "seeds, samples, what they change"),
    "identical": ("concepts/identical.html", "what is byte-identical, and what is not"),
    "certain": ("concepts/certain.html", "what to do about samples, queries and choices"),
    "trust": ("concepts/trust.html", "how the numbers were checked"),
    "run-files": ("cookbook/run_files.html", "tests, intervals, LaTeX"),
    "check-data": ("cookbook/check_data.html", "before you believe a number"),
    "own-retriever": ("cookbook/own_retriever.html", "pyserini, ColBERT, BEIR, MS MARCO"),
    "reading": ("concepts/reading.html", "what EE_D = 0.3 means: fixed, uniform, oracle"),
    "explain": ("cookbook/explain.html", "which group, rank or query costs how much"),
    "own-groups": ("cookbook/groups.html", "your own groups and targets"),
    "pyterrier-rag": ("cookbook/pyterrier_rag.html", "inside its pipelines"),
    "lamp": ("cookbook/lamp.html", "each user's own documents"),
    "trec-fair": ("cookbook/trec_fair.html", "the track's files"),
    "production": ("cookbook/production.html", "calibrated sampling in a service"),
    "clusters": ("cookbook/clusters.html", "Dask and SLURM"),
    "servers": ("cookbook/servers.html", "a model behind a server, with a budget"),
    "batches": ("cookbook/batches.html", "prompts out, answers in: batch APIs, vLLM, SLURM"),
    "open-results": ("cookbook/open_results.html", "Parquet and JSON for other tools"),
    "caches": ("cookbook/caches.html", "stores and caches"),
    "reproduce": ("reproduce/index.html", "the two papers' studies at full size"),
    "plugins": ("plugin_guide.html", "hooks, contracts, a template"),
    "cli": ("cli.html", "commands, options, exit codes, completion"),
    "api": ("api/index.html", "classes and functions by room"),
    "faq": ("faq.html", "questions of new users"),
    "comparison": ("comparison.html", "beside other tools"),
    "cite": ("citing.html", "what to cite"),
}
"""The hand-written pages: file, and what is on it."""


def known_topics() -> dict[str, tuple[str, str]]:
    """Return page and summary by topic: pages, measures, transformers and rooms."""
    topics = dict(PAGES)
    for measure in registry.measures.entries():
        about = f"the measure {measure.value.PRETTY_NAME}"
        topics[measure.name] = (f"measures/{measure.name}.html", about)
    for transformer in registry.transformers.entries():
        module, _, name = transformer.value.target.partition(":")
        page = entry_of(module, name)
        if page:
            topics[transformer.name] = (page, transformer.value.summary)
    modules = {plugin.module for plugin in loaded()}
    for room in (r for r in ROOMS if r.partition(".")[0] == "fairtk" or r in modules):
        topics.setdefault(room, (f"api/{room}.html", ROOMS[room]))
    return topics


def page_for(topic: str) -> str:
    """Return the page of a topic, whatever its case.

    Raises:
        NotFoundError: there is none; the nearest is suggested.
    """
    topics = known_topics()
    folded = {name.lower(): page for name, (page, _) in topics.items()}
    if topic.lower() not in folded:
        raise NotFoundError("topic", topic, topics)
    return folded[topic.lower()]
