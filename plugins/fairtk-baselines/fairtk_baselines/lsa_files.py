"""The files of an `LsaEncoder`: its words and settings in JSON, its arrays as safetensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from fairtk.frames.content import digest
from fairtk_baselines.model_folder import Folder, ModelFolder

FOLDER = ModelFolder(
    what="an LSA encoder",
    record="lsa.json",
    kind="fairtk-baselines LSA encoder",
    keys=("settings", "tensors", "digest", "terms"),
    data="lsa-*.safetensors",
)

Float32Array = npt.NDArray[np.float32]


def write(
    folder: Folder,
    terms: list[str],
    idf: Float32Array,
    components: Float32Array,
    settings: dict[str, Any],
) -> None:
    """Write an encoder; see `LsaEncoder.save`."""
    content = digest([idf, components])
    name = f"lsa-{content}.safetensors"
    record = {"settings": settings, "tensors": name, "digest": content, "terms": terms}
    arrays = {"idf": idf, "components": components}
    FOLDER.write(folder, record, {name: lambda path: path.write_bytes(save(arrays))})


def holds(folder: Folder, settings: dict[str, Any]) -> bool:
    """Return whether the folder has an encoder with these settings."""
    return FOLDER.has_model(folder) and FOLDER.read(folder)["settings"] == settings


def read(folder: Folder) -> tuple[list[str], Float32Array, Float32Array, dict[str, Any]]:
    """Return terms, idf, components and settings; see `LsaEncoder.load`."""
    record = FOLDER.read(folder)
    name, terms = record["tensors"], record["terms"]
    tensors = FOLDER.tensors(folder, name)
    try:
        idf, components = tensors["idf"], tensors["components"]
    except KeyError as error:
        raise FOLDER.altered(FOLDER.place(folder, name), error) from None
    if digest([idf, components]) != record["digest"]:
        raise FOLDER.altered(FOLDER.place(folder, name))
    if len(idf) != len(terms):
        raise FOLDER.broken(folder, f"{len(terms)} words, not {len(idf)}")
    return terms, idf, components, record["settings"]
