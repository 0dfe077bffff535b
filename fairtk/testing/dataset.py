"""What every data set must keep to, as far as fairtk reads it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from fairtk.testing.agreement import check


class DatasetContract:
    """Tests of a data set in ir_datasets' terms; subclass it, set `id` or define `dataset`.

    Attributes:
        id: the ir_datasets id.
        limit: how many documents, queries, candidates and labels are read at most.
    """

    id: str
    limit: int = 2_000

    def dataset(self) -> Any:
        """Return the ``ir_datasets.Dataset`` under test."""
        import ir_datasets

        return ir_datasets.load(self.id)

    def _read(self, part: str) -> list[Any]:
        dataset = self.dataset()
        if not dataset.has(part):
            return []
        records = list(islice(getattr(dataset, f"{part}_iter")(), self.limit))
        again = list(islice(getattr(dataset, f"{part}_iter")(), self.limit))
        check(bool(records), f"{part}_iter gives nothing")
        check(records == again, f"{part}_iter gives something else the second time")
        return records

    def test_something_is_there(self) -> None:
        """There are documents, queries or both."""
        dataset = self.dataset()
        check(dataset.has("docs") or dataset.has("queries"), "neither documents nor queries")

    def test_documents(self) -> None:
        """Ids are distinct strings, texts are strings, and the store has what the iterator has."""
        documents = self._read("docs")
        _check_records(documents, "doc_id")
        if documents:
            store = self.dataset().docs_store()
            for document in (documents[0], documents[-1]):
                found = store.get(document.doc_id)
                check(found == document, f"docs_store gives {found!r}, docs_iter {document!r}")

    def test_queries(self) -> None:
        """Ids are distinct strings, and texts are strings."""
        _check_records(self._read("queries"), "query_id")

    def test_candidates_and_labels_refer_to_what_is_there(self) -> None:
        """Every candidate and label has its document, is given once, and has a known query."""
        queries = {q.query_id for q in self._read("queries")}
        whole = len(queries) < self.limit
        for part in ("scoreddocs", "qrels"):
            records = self._read(part)
            pairs = [(r.query_id, r.doc_id) for r in records]
            check(len(set(pairs)) == len(pairs), f"{part}: a query has a document twice")
            strange = sorted({q for q, _ in pairs} - queries)
            check(
                not (whole and queries and strange),
                f"{part}: unknown queries {strange[:5]}",
            )
            if records and self.dataset().has("docs"):
                wanted = {d for _, d in pairs[:50]}
                found = set(self.dataset().docs_store().get_many(sorted(wanted)))
                check(found == wanted, f"{part}: no such documents {sorted(wanted - found)[:5]}")

    def test_says_what_it_is(self) -> None:
        """The PyTerrier form has the same queries."""
        import pyterrier as pt

        queries = self._read("queries")
        if queries and hasattr(self, "id"):
            topics = pt.get_dataset(f"irds:{self.id}").get_topics()
            check(
                list(topics["qid"][: self.limit]) == [q.query_id for q in queries],
                f"pt.get_dataset('irds:{self.id}') has other topics",
            )


def _check_records(records: list[Any], field: str) -> None:
    ids = [getattr(record, field) for record in records]
    check(all(isinstance(i, str) and i for i in ids), f"a {field} is not a string, or empty")
    check(len(set(ids)) == len(ids), f"a {field} occurs twice")
    for name, record in zip(ids, records, strict=True):
        text = record.default_text()
        check(isinstance(text, str), f"default_text of {field} {name!r} is {text!r}")
