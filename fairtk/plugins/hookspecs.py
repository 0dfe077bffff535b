"""The hooks that a plugin of fairtk can implement.

A plugin is a module named by an entry point of the group ``fairtk``. It marks functions with
`hookimpl`; each returns values, takes no callback, and imports nothing heavy:

    from fairtk import hookimpl

    @hookimpl
    def fairtk_measures():
        return [MyMeasure()]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from fairtk.plugins.registry import (
        DatasetSpec,
        PromptSpec,
        StudySystemSpec,
        TransformerSpec,
        UtilitySpec,
    )

PROJECT = "fairtk"
"""pluggy's project name and the entry-point group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def fairtk_measures() -> Iterable[Any]:  # type: ignore[empty-body]
    """Return instances of `fairtk.measures.FairMeasure`, e.g. ``[TopShare()]``."""


@hookspec
def fairtk_utilities() -> Iterable[UtilitySpec]:  # type: ignore[empty-body]
    """Return string utilities, e.g. ``[UtilitySpec("bleu", "pkg.bleu:Bleu", "BLEU-4")]``."""


@hookspec
def fairtk_browsing_models() -> Iterable[type]:  # type: ignore[empty-body]
    """Return subclasses of `fairtk.exposure.browsing.BrowsingModel`, e.g. ``[Skimming]``.

    The name of the class is its name in ``EE_D(browsing="Skimming(p=0.3)")``.
    """


@hookspec
def fairtk_transformers() -> Iterable[TransformerSpec]:  # type: ignore[empty-body]
    """Return PyTerrier transformers, which are imported on first use.

    For example ``[TransformerSpec("Shuffler", "pkg.shuffle:Shuffler", "shuffles", "R", "R")]``.
    """


@hookspec
def fairtk_datasets() -> Iterable[DatasetSpec]:  # type: ignore[empty-body]
    """Return data sets, which are registered with ir_datasets under their ids.

    For example ``[DatasetSpec("lab/news", "pkg.news:load", "news of our lab")]``.
    """


@hookspec
def fairtk_prompts() -> Iterable[PromptSpec]:  # type: ignore[empty-body]
    """Return prompt builders, e.g. ``[PromptSpec("short", "pkg.prompts:Short", "one line")]``."""


@hookspec
def fairtk_study_systems() -> Iterable[StudySystemSpec]:  # type: ignore[empty-body]
    """Return systems that ``fairtk qr`` compares FAIR-QR with.

    For example ``[StudySystemSpec("mmr", "pkg.systems:mmr", "BM25, then MMR")]``.
    """


@hookspec
def fairtk_commands(cli: click.Group) -> None:
    """Add click commands to the ``fairtk`` command line: ``cli.add_command(my_command)``."""
