"""The files of a trained `DLF`: its settings in JSON, its weights as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safetensors.numpy import save

from fairtk.frames.content import digest
from fairtk_baselines.model_folder import Arrays, Folder, ModelFolder

FOLDER = ModelFolder(
    what="a DLF model",
    record="dlf.json",
    kind="fairtk-baselines DLF",
    keys=("settings", "dimension", "weights", "digest"),
    data="dlf-*.safetensors",
)


def write(folder: Folder, settings: Mapping[str, Any], dimension: int, weights: Arrays) -> None:
    """Write a model; see `DLF.save`.

    Args:
        folder: is made where there is none; a model that is there is replaced.
        settings: what JSON can hold.
        dimension: of the vectors.
        weights: by name.
    """
    content = digest(weights)
    name = f"dlf-{content}.safetensors"
    record = {
        "settings": dict(settings),
        "dimension": dimension,
        "weights": name,
        "digest": content,
    }
    FOLDER.write(folder, record, {name: lambda path: path.write_bytes(save(weights))})


def read(folder: Folder) -> tuple[dict[str, Any], int, Arrays]:
    """Return settings, dimension and weights; see `DLF.load`."""
    record = FOLDER.read(folder)
    weights = FOLDER.tensors(folder, record["weights"])
    if digest(weights) != record["digest"]:
        raise FOLDER.altered(FOLDER.place(folder, record["weights"]))
    return record["settings"], record["dimension"], weights
