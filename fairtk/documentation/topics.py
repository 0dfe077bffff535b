"""The topics that ``fairtk docs`` knows, and the page of each."""

from __future__ import annotations

from fairtk.documentation.addresses import ROOMS, entry_of
from fairtk.errors import NotFoundError
from fairtk.plugins import loaded, registry

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
    "limits": ("concepts/limits.html", "what fairness numbers cannot say"),
    "randomness": ("concepts/randomness.html", "seeds, samples, what they change"),
    "identical": ("concepts/identical.html", "what is byte-identical, and what is not"),
    "certain": ("concepts/certain.html", "what to do about samples, queries and choices"),
    "trust": ("concepts/trust.html", "how the numbers were checked"),
    "run-files": ("cookbook/run_files.html", "tests, intervals, LaTeX"),
    "check-data": ("cookbook/check_data.html", "before you believe a number"),
    "explain": ("cookbook/explain.html", "which group, rank or query costs how much"),
    "own-groups": ("cookbook/groups.html", "your own groups and targets"),
    "pyterrier-rag": ("cookbook/pyterrier_rag.html", "inside its pipelines"),
    "lamp": ("cookbook/lamp.html", "each user's own documents"),
    "trec-fair": ("cookbook/trec_fair.html", "the track's files"),
    "production": ("cookbook/production.html", "calibrated sampling in a service"),
    "clusters": ("cookbook/clusters.html", "Dask and SLURM"),
    "servers": ("cookbook/servers.html", "a model behind a server, with a budget"),
    "caches": ("cookbook/caches.html", "stores and caches"),
    "reproduce": ("reproduce/index.html", "the two papers' studies at full size"),
    "plugins": ("plugin_guide.html", "hooks, contracts, a template"),
    "cli": ("cli.html", "commands, options, exit codes, completion"),
    "api": ("api/index.html", "classes and functions by room"),
    "faq": ("faq.html", "questions of new users"),
    "questions": ("questions.html", "twenty questions, and where each is answered"),
    "comparison": ("comparison.html", "beside other tools"),
    "cite": ("citing.html", "what to cite"),
}
"""The hand-written pages: file, and what is on it."""


def known_topics() -> dict[str, tuple[str, str]]:
    """Return page and summary by topic: pages, measures, transformers and rooms."""
    found = dict(PAGES)
    for measure in registry.measures.entries():
        about = f"the measure {measure.value.PRETTY_NAME}"
        found[measure.name] = (f"measures/{measure.name}.html", about)
    for transformer in registry.transformers.entries():
        module, _, name = transformer.value.target.partition(":")
        page = entry_of(module, name)
        if page:
            found[transformer.name] = (page, transformer.value.summary)
    modules = {plugin.module for plugin in loaded()}
    for room in (r for r in ROOMS if r.partition(".")[0] == "fairtk" or r in modules):
        found.setdefault(room, (f"api/{room}.html", ROOMS[room]))
    return found


def page_for(topic: str) -> str:
    """Return the page of a topic, whatever its case.

    Raises:
        NotFoundError: there is none; the nearest is suggested.
    """
    known = known_topics()
    folded = {name.lower(): page for name, (page, _) in known.items()}
    if topic.lower() not in folded:
        raise NotFoundError("topic", topic, known)
    return folded[topic.lower()]
