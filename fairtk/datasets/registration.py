"""Makes fairtk's and its plugins' datasets known to ir_datasets, without loading any.

ir_datasets has no plugin mechanism of its own; what it has is a registry. Each `DatasetSpec` is
put there as a `LazyDataset`, which imports its target when something is asked of it. An id that
ir_datasets has already stays as it is.
"""

from __future__ import annotations

from typing import Any

import ir_datasets
from ir_datasets.util.metadata import MetadataComponent

from fairtk.plugins.registry import DatasetSpec
from fairtk.starting.printing import load_target


class LazyDataset(ir_datasets.Dataset):  # type: ignore[misc]
    """A dataset that is built on first use, by calling the target of its spec with its id."""

    def __init__(self, spec: DatasetSpec) -> None:
        super().__init__()
        self._spec = spec
        self._built: Any = None

    def dataset_id(self) -> str:
        """Return the id it is registered under."""
        return self._spec.name

    def metadata(self) -> Any:
        """Return ir_datasets' metadata of the dataset."""
        return self._dataset().metadata()

    def __getattr__(self, name: str) -> Any:
        # unpickling asks for private names too early, and ir_datasets.load asks for "deprecated",
        # which would build every dataset that is listed
        if name.startswith("_") or name == "deprecated":
            raise AttributeError(name)
        return getattr(self._dataset(), name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._dataset())})

    def __getstate__(self) -> Any:
        return self._spec

    def __setstate__(self, state: DatasetSpec) -> None:
        self.__init__(state)  # type: ignore[misc]

    def _dataset(self) -> Any:
        if self._built is None:
            built = load_target(self._spec.target)(self._spec.name)
            if not hasattr(built, "metadata"):
                built = ir_datasets.Dataset(MetadataComponent(self._spec.name, built), built)
            self._built = built
        return self._built


def listen(name: str, spec: DatasetSpec | None) -> None:
    """Follow what plugins give and take back (None); ir_datasets' own datasets stay as they are."""
    known = ir_datasets.registry._registered
    if spec is not None and name not in known:
        ir_datasets.registry.register(name, LazyDataset(spec))
    elif spec is None and isinstance(known.get(name), LazyDataset):
        del known[name]
