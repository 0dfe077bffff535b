"""Addresses of the project, in one place, and of each page of its site."""

from __future__ import annotations

import os
from pathlib import Path

from fairtk.errors import InputError

SITE = "https://fairtk.example/docs/"
"""The site; a placeholder until there is one. ``setup.cfg`` has the same (a test checks it)."""
SOURCE = "https://fairtk.example/source"
"""The repository; a placeholder, too."""
FOLDER = "FAIRTK_DOCS"
"""The environment variable that names the folder of a built site."""
BUILD = "build the site (`python -m sphinx -b html docs docs/_build/html` in the source)"

ROOMS = {
    "fairtk": "What most programs need: measures, transformers, experiments.",
    "fairtk.measures": "Measures as objects and strings, and how to write one.",
    "fairtk.transformers": "Samplers, scorers and generators for PyTerrier pipelines.",
    "fairtk.groups": "Memberships of documents in groups, and target distributions.",
    "fairtk.exposure": "Browsing models and expected exposure, as arithmetic on arrays.",
    "fairtk.divergence": "How far apart distributions are.",
    "fairtk.statistics": "Paired tests, intervals, corrections, slopes and areas.",
    "fairtk.evaluation": "Measuring and comparing run files and frames.",
    "fairtk.experiment": "The durable experiment: store, executors, results.",
    "fairtk.certainty": "How sure a number is: samples needed, off-policy utility.",
    "fairtk.robustness": "What choices change: sensitivity and the frontier of alpha.",
    "fairtk.diagnosis": "What is wrong with a run, its labels and its groups.",
    "fairtk.conformity": "fairtk beside plain implementations of published definitions.",
    "fairtk.explanation": "Which group, rank or query costs how much.",
    "fairtk.report": "Results as one page of HTML.",
    "fairtk.fair_qr": "FAIR-QR: query refinement towards groups.",
    "fairtk.llm": "Language models behind a ledger that never pays twice.",
    "fairtk.backends": "Models on this machine that generate answers.",
    "fairtk.prompts": "What a generator is asked.",
    "fairtk.utilities": "String utilities of answers.",
    "fairtk.datasets": "LaMP and TREC Fair Ranking 2022 as ir_datasets.",
    "fairtk.io": "Run files, qrels and answers, read strictly.",
    "fairtk.studies": "The two papers' studies.",
    "fairtk.testing": "Contracts for plugin authors' tests.",
    "fairtk.plugins": "Hooks, and what plugins give.",
    "fairtk.documentation": "Where things are explained, and what to cite.",
    "fairtk.errors": "All exceptions and warnings.",
    "fairtk.demo": "The packaged collection and model.",
    "fairtk_classic": "The plugin of classic group-fairness measures.",
    "fairtk_baselines": "The plugin of FA*IR, DELTR, DLF, MMR and vector search.",
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
        page: as in `fairtk.documentation.topics`, e.g. ``"measures/EE_D.html"``.
    """
    folder = local_site()
    name, mark, anchor = page.partition("#")
    return f"{(folder / name).as_uri()}{mark}{anchor}" if folder else SITE + page
