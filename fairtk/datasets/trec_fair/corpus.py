"""The corpus: JSON lines with ``id``, ``title``, ``url`` and ``plain``, and a store by page id.

The corpus is one stream of 20 GB unpacked, so that single articles cannot be read from it. The
store is an SQLite file with each article packed by itself, made on first use.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from ir_datasets.indices import Docstore

from fairtk.datasets.trec_fair.files import derived, stamp, writable
from fairtk.datasets.trec_fair.records import TrecFairDoc
from fairtk.errors import FormatError, InputError
from fairtk.files import json_objects
from fairtk.files.atomic import atomic_write

_KEYS = ("id", "title", "plain", "url")
_VERSION = "1"
_AT_ONCE = 500  # SQLite allows 999 values in a query


def articles(path: Path) -> Iterator[TrecFairDoc]:
    """Yield the articles of a corpus in its order; of a repeated id, the first."""
    seen = _Seen()
    for number, record in json_objects(path):
        article = _article(record, path, number)
        if seen.add(article.doc_id):
            yield article


def _article(record: dict[str, Any], path: Path, number: int) -> TrecFairDoc:
    try:
        page, title, plain, url = (record[key] for key in _KEYS)
    except KeyError as error:
        raise FormatError(
            f"an article needs the keys {list(_KEYS)}; {error.args[0]!r} is missing, found "
            f"{sorted(record)[:8]}",
            path,
            number,
        ) from None
    if isinstance(page, bool) or not isinstance(page, int | str) or page == "":
        raise FormatError(f"'id' must be a page id; found {page!r}", path, number)
    for key, value in zip(_KEYS[1:], (title, plain, url), strict=True):
        if not isinstance(value, str):
            raise FormatError(f"{key!r} of page {page} must be a string", path, number)
    return TrecFairDoc(str(page), title, plain, url)


class _Seen:
    """The ids so far: one bit per page number, which go up to 70 million."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._others: set[str] = set()

    def add(self, name: str) -> bool:
        """Return whether an id is new."""
        if len(name) > 9 or not (name.isascii() and name.isdecimal()) or name[0] == "0":
            new = name not in self._others
            self._others.add(name)
            return new
        place, bit = divmod(int(name), 8)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(place + 1, 2 * len(self._bits)) - len(self._bits)))
        if self._bits[place] >> bit & 1:
            return False
        self._bits[place] |= 1 << bit
        return True


class ArticleStore(Docstore):  # type: ignore[misc]
    """The articles by page id; the corpus is asked for when it is first needed."""

    def __init__(self, path: Callable[[], Path], field: str = "doc_id") -> None:
        if field != "doc_id":
            raise InputError(f"articles are looked up by doc_id only; found {field!r}")
        super().__init__(TrecFairDoc, field)
        self._corpus = path

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[TrecFairDoc]:
        """Yield the articles that exist, each once, in any order."""
        wanted = iter(dict.fromkeys(doc_ids))
        store = self.build()
        with closing(_connect(store)) as database:
            while some := list(islice(wanted, _AT_ONCE)):
                marks = ",".join("?" * len(some))
                query = f"SELECT id, body FROM articles WHERE id IN ({marks})"
                for name, body in database.execute(query, some):
                    yield TrecFairDoc(name, *json.loads(zlib.decompress(body)))

    def count(self) -> int:
        """Return the number of articles."""
        with closing(_connect(self.build())) as database:
            return int(database.execute("SELECT count(*) FROM articles").fetchone()[0])

    def built(self) -> Path | None:
        """Return the path of the store, if it is there and belongs to the corpus."""
        corpus = self._corpus()
        wanted = {("corpus", stamp(corpus)), ("version", _VERSION)}
        for place in derived(corpus, ".sqlite"):
            if not place.is_file():
                continue
            with contextlib.suppress(sqlite3.DatabaseError), closing(_connect(place)) as database:
                found = set(database.execute("SELECT key, value FROM about"))
                if wanted <= found:
                    return place
        return None

    def build(self) -> Path:
        """Return the path of the store, which is made unless it is there."""
        store = self.built()
        if store is not None:
            return store
        corpus = self._corpus()
        places = derived(corpus, ".sqlite")
        target = writable(places)
        if target is None:
            raise InputError(
                f"{corpus}: looking up articles needs a store, and neither {places[0].parent} nor "
                f"{places[1].parent} can be written; set IR_DATASETS_HOME to a folder that can"
            )
        mark = stamp(corpus)
        with atomic_write(target) as temporary, closing(sqlite3.connect(temporary)) as database:
            _fill(database, articles(corpus), mark)
        return target

    def __iter__(self) -> Iterator[TrecFairDoc]:
        return articles(self._corpus())


def _fill(database: sqlite3.Connection, docs: Iterator[TrecFairDoc], mark: str) -> None:
    from tqdm import tqdm

    # a crash leaves a file under a temporary name, so nothing needs a journal
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE articles (number INTEGER PRIMARY KEY, id TEXT, body BLOB)")
    database.execute("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT)")
    shown = tqdm(docs, desc="storing articles", unit=" articles", disable=None)
    rows = ((d.doc_id, _packed(d)) for d in shown)
    database.executemany("INSERT INTO articles (id, body) VALUES (?, ?)", rows)
    # sorting once is much cheaper than keeping an index in order
    database.execute("CREATE UNIQUE INDEX by_id ON articles (id)")
    about = [("corpus", mark), ("version", _VERSION)]
    database.executemany("INSERT INTO about VALUES (?, ?)", about)
    database.commit()


def _packed(doc: TrecFairDoc) -> bytes:
    return zlib.compress(json.dumps(doc[1:], ensure_ascii=False).encode(), 1)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
