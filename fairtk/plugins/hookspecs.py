"""The hooks of fairtk.

A plugin is a module named by an entry point of the group ``fairtk``. It marks functions with
`fairtk.hookimpl`. They return values, take no callbacks, and import nothing expensive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pluggy

PROJECT = "fairtk"  # for pluggy
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def fairtk_measures() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return instances of `fairtk.measures.FairMeasure`, e.g. ``[TopShare()]``."""


@hookspec
def fairtk_utilities() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return string utilities, e.g. ``[UtilitySpec("bleu", "pkg.bleu:Bleu", "BLEU-4")]``."""


@hookspec
def fairtk_browsing_models() -> Iterable[type]:  # type: ignore[empty-body]
    """Return subclasses of `BrowsingModel`: ``[Skimming]`` defines ``"Skimming(p=0.3)"``."""


@hookspec
def fairtk_divergences() -> Iterable[type]:  # type: ignore[empty-body]
    """Return subclasses of `Divergence`: ``[Hellinger]`` defines its NAME, ``"hellinger"``."""


@hookspec
def fairtk_transformers() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return transformers: ``[TransformerSpec("Mix", "pkg.mix:Mix", "mixes", "R", "R")]``."""


@hookspec
def fairtk_datasets() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return data for ir_datasets: ``[DatasetSpec("lab/news", "pkg.news:load", "our news")]``."""


@hookspec
def fairtk_prompts() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return prompt builders, e.g. ``[PromptSpec("short", "pkg.prompts:Short", "one line")]``."""


@hookspec
def fairtk_chat_models() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return kinds of models: ``[ChatModelSpec("lab", "pkg.lab:Lab", "our models")]``.

    ``fairtk rag -g lab:MODEL`` then calls ``Lab(model="MODEL")``, with the other settings of a
    configuration (``device``, ``dtype``, ``revision``, ...) as keywords. `server` says that a
    server answers, so that answers cost money.
    """


@hookspec
def fairtk_study_systems() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return systems for ``fairtk qr``: ``[StudySystemSpec("mmr", "pkg:mmr", "then MMR")]``."""


@hookspec
def fairtk_studies() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return studies that have a command: ``[StudySpec("mine", "pkg:Settings", "my study")]``."""
