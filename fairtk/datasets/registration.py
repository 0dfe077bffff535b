"""Register the datasets of fairtk and its plugins with ir_datasets.

Each `DatasetSpec` is registered as a `LazyDataset`, which imports its target on first use. Existing
ids of ir_datasets are not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar

import ir_datasets
from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, TrecQrel
from ir_datasets.util.metadata import MetadataComponent

from fairtk.plugins import DatasetSpec

T = TypeVar("T")


class FileDocs(BaseDocs):  # type: ignore[misc]
    """English documents in a file; `path` returns the file and may download it."""

    def __init__(self, path: Callable[[], Path], namespace: str, cls: type[Any]) -> None:
        self._path, self._namespace, self._cls = path, namespace, cls

    def docs_path(self, force: bool = True) -> str:
        """Return the path of the file."""
        return str(self._path())

    def docs_cls(self) -> type[Any]:
        """Return the type of the documents."""
        return self._cls

    def docs_namespace(self) -> str:
        """Return the namespace of the document ids."""
        return self._namespace

    def docs_lang(self) -> str:
        """Return the documents' language."""
        return "en"


class FileQueries(BaseQueries):  # type: ignore[misc]
    """English queries in a file; see `FileDocs`."""

    def __init__(self, path: Callable[[], Path], namespace: str, cls: type[Any]) -> None:
        self._path, self._namespace, self._cls = path, namespace, cls

    def queries_path(self) -> str:
        """Return the path of the file."""
        return str(self._path())

    def queries_cls(self) -> type[Any]:
        """Return the type of the queries."""
        return self._cls

    def queries_namespace(self) -> str:
        """Return the namespace of the query ids."""
        return self._namespace

    def queries_lang(self) -> str:
        """Return the queries' language."""
        return "en"


class FileQrels(BaseQrels):  # type: ignore[misc]
    """Labels in a file, with their meanings."""

    def __init__(self, path: Callable[[], Path], meanings: dict[int, str]) -> None:
        self._path, self._meanings = path, meanings

    def qrels_path(self) -> str:
        """Return the path of the file."""
        return str(self._path())

    def qrels_cls(self) -> Any:
        """Return ir_datasets' type of labels."""
        return TrecQrel

    def qrels_defs(self) -> dict[int, str]:
        """Return the meaning of each label."""
        return dict(self._meanings)


class DocsIter:
    """An iterator over documents whose slices read only their documents.

    Args:
        read: yields the documents of a range in file order, or all for `None`.
        count: returns the number of documents; called only for slices.
        rows: the range of the documents; `None` for all.
    """

    def __init__(
        self,
        read: Callable[[range | None], Iterator[Any]],
        count: Callable[[], int],
        rows: range | None = None,
    ) -> None:
        self._read = read
        self._count = count
        self._rows = rows
        self._stream: Iterator[Any] | None = None

    def __iter__(self) -> DocsIter:
        return self

    def __next__(self) -> Any:
        if self._stream is None:
            self._stream = self._read(self._rows)
        return next(self._stream)

    def __getitem__(self, key: int | slice) -> Any:
        rows = range(self._count()) if self._rows is None else self._rows
        if isinstance(key, slice):
            return DocsIter(self._read, self._count, rows[_integer_slice(key, len(rows))])
        row = rows[key]
        return next(DocsIter(self._read, self._count, range(row, row + 1)))


class ReadOnce(Generic[T]):
    """The content of a file, read on first use, and again after the file has changed."""

    def __init__(self, path: Callable[[], Path], read: Callable[[Path], T]) -> None:
        self.path = path
        self._read = read
        self._content: tuple[Any, T] | None = None

    def __call__(self) -> T:
        """Return the current content of the file."""
        path = self.path()
        state = path.stat()
        identity = path, state.st_mtime_ns, state.st_size
        if self._content is None or self._content[0] != identity:
            self._content = identity, self._read(path)
        return self._content[1]


class Documentation:
    """The documentation of one dataset for ir_datasets.

    It merges entries of the package's ``documentation.yaml``, each named by its path of keys:
    descriptions are joined, and for other fields the last entry counts.
    """

    def __init__(self, package: str, *entries: tuple[str, ...]) -> None:
        self._package = package
        self._entries = entries

    def documentation(self) -> dict[str, str]:
        """Return name, description, labels and citation."""
        yaml = ir_datasets.lazy_libs.yaml()
        text = (files(self._package) / "documentation.yaml").read_text(encoding="utf-8")
        content = yaml.load(text, Loader=yaml.BaseLoader)
        entries = [reduce(dict.__getitem__, keys, content) for keys in self._entries]
        facts = {key: value.strip() for entry in entries for key, value in entry.items()}
        facts["desc"] = " ".join(entry["desc"].strip() for entry in entries if "desc" in entry)
        return facts


def make_dataset(dataset_id: str, *parts: Any) -> Any:
    """Return an ``ir_datasets.Dataset`` of some parts, with an id."""
    dataset = ir_datasets.Dataset(*parts)
    return ir_datasets.Dataset(MetadataComponent(dataset_id, dataset), dataset)


def _integer_slice(key: slice, count: int) -> slice:
    """Convert ir_datasets' fractional slices (``it[:1/3]``) to integers."""
    start, stop = (int(v * count) if isinstance(v, float) else v for v in (key.start, key.stop))
    if key.step is not None and key.step < 1:
        raise ValueError(f"the step of a slice must be at least 1, got {key.step}")
    return slice(start, stop, key.step)


class LazyDataset(ir_datasets.Dataset):  # type: ignore[misc]
    """A dataset that the target of its spec builds on first use."""

    def __init__(self, spec: DatasetSpec) -> None:
        super().__init__()
        self._spec = spec
        self._built: Any = None

    def dataset_id(self) -> str:
        """Return the registered id."""
        return self._spec.name

    def metadata(self) -> Any:
        """Return ir_datasets' metadata of the dataset."""
        return self._dataset().metadata()

    def __getattr__(self, name: str) -> Any:
        # unpickling reads private names too early, and ir_datasets.load reads "deprecated"; both
        # must not build the dataset
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
            built = self._spec.load()(self._spec.name)
            if not hasattr(built, "metadata"):
                built = ir_datasets.Dataset(MetadataComponent(self._spec.name, built), built)
            self._built = built
        return self._built


def listen(name: str, spec: DatasetSpec | None) -> None:
    """Register a dataset of a plugin, or unregister it if `spec` is `None`."""
    registered = ir_datasets.registry._registered
    if spec is not None and name not in registered:
        ir_datasets.registry.register(name, LazyDataset(spec))
    elif spec is None and isinstance(registered.get(name), LazyDataset):
        del registered[name]
