"""Candidate rows for a query, from the index of a source (`stages/select/index.py`).

Only the catalogue of the index and the sets that contain the keys of a query are read. The index gives candidates; the
caller compares each row with the query.
"""

import json
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.engine.plan.graph import INDEX
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.engine.work.task import part_from_json
from gristmill.kernels.hash.radix import sort_order
from gristmill.stages.matches import host_of
from gristmill.stages.select.index import (
    KINDS,
    IndexFile,
    IndexMatches,
    content_keys,
    domain_keys,
    set_of,
    sketches,
    url_keys,
)
from gristmill.stages.shared.arrow_file import intact
from gristmill.stages.shared.public_suffix import is_below_suffix, registered_domain

Rows = npt.NDArray[np.int64]
Candidates = dict[DocumentPart, Rows]
Key = tuple[str, int, int]
"""The kind of a key, and the first and last value of a range."""

MOST_ALIKE = 100
"""The most documents that are compared with a text: those that share the most sketch values with it."""
_FIX = "Run the recipe again to rebuild it."


class CorpusIndex:
    """The index of one source."""

    def __init__(self, view: CorpusView, source: str) -> None:
        """Requires `has_index`."""
        model = view.states[f"{source}/{INDEX}"].model
        assert model is not None
        catalogue = json.loads(bytes(memoryview(view.store.get_part(model))))
        self._store, self._source = view.store, source
        self._documents = dict(zip((int(name, 16) for name in catalogue["parts"]), view.documents[source], strict=True))
        self._files = {one["entry"]["set"]: next(iter(one["files"].values())) for one in catalogue["outputs"]}
        self._sets: int = max((one["entry"]["of"] for one in catalogue["outputs"]), default=1)
        self._open: dict[int, IndexFile] = {}

    def candidates(self, kind: str, queries: Sequence[str] | None) -> Candidates | None:
        """Candidate rows for queries of a kind; None if the index does not support them."""
        if kind == "text":
            return self._by_document([found for one in queries or () for found in _texts(self, one)])
        keys = None if queries is None else _KEYS[kind](queries)
        if keys is None:
            return None
        return self._by_document([found for key in dict.fromkeys(keys) for found in self.search(*key)])

    def search(self, kind: str, first: int, last: int) -> Iterable[IndexMatches]:
        """All rows with a key from `first` to `last`."""
        low, high = set_of(np.array([first, last], np.uint64), self._sets).tolist()
        for number in range(low, high + 1):
            if number in self._files:
                yield self._file(number).search(kind, first, last)

    def _file(self, number: int) -> IndexFile:
        if number not in self._open:
            data = self._store.get_part(part_from_json(self._files[number]))
            with intact(f"The index of {self._source}", "one of this version", "it cannot be used", _FIX):
                self._open[number] = IndexFile(data)
        return self._open[number]

    def _by_document(self, found: Sequence[IndexMatches]) -> Candidates:
        if not found:
            return {}
        part, row = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = sort_order(part, row.astype(np.uint64))
        parts, starts = np.unique(part[order], return_index=True)
        rows = np.split(row[order], starts[1:])
        return {self._documents[int(one)]: np.unique(some) for one, some in zip(parts, rows, strict=False)}


def has_index(view: CorpusView, source: str) -> bool:
    """Whether a source of a run has an index."""
    return f"{source}/{INDEX}" in view.nodes and view.states[f"{source}/{INDEX}"].model is not None


def _ids(queries: Sequence[str]) -> list[Key]:
    return [("doc_id", int(one[:16].ljust(16, "0"), 16), int(one[:16].ljust(16, "f"), 16)) for one in queries]


def _urls(queries: Sequence[str]) -> list[Key]:
    return _exactly("url", url_keys(pa.array(queries, pa.string()))[0].tolist())


def _domains(queries: Sequence[str]) -> list[Key] | None:
    """None for a public suffix such as `co.uk`: the domains below it share no key."""
    hosts = dict.fromkeys(map(host_of, queries))
    return _prefixes(queries) if all(map(is_below_suffix, hosts)) else None


def _prefixes(queries: Sequence[str]) -> list[Key]:
    registered = list(dict.fromkeys(registered_domain(host_of(one)) for one in queries))
    return _exactly("domain", domain_keys(pa.array(registered, pa.string())).tolist())


def _hashes(queries: Sequence[str]) -> list[Key]:
    return _exactly("content", (int(digest[:16], 16) for digest in queries))


def _copies(queries: Sequence[str]) -> list[Key]:
    """The keys of each text and its sketch. A copy with Jaccard similarity s has none of them with chance (1 -
    s)^16.
    """
    texts = pa.array(queries, pa.string())
    return [*_exactly("content", content_keys(texts).tolist()), *_exactly("sketch", sketches(texts)[1].tolist())]


def _exactly(kind: str, keys: Iterable[int]) -> list[Key]:
    return [(kind, key, key) for key in keys]


def _texts(index: CorpusIndex, text: str) -> Iterable[IndexMatches]:
    """Documents with the same text, and those that share the most sketch values with it."""
    found = {kind: [one for key in _copies([text]) if key[0] == kind for one in index.search(*key)] for kind in KINDS}
    yield from found["content"]
    if found["sketch"]:
        part, row = (np.concatenate(columns) for columns in zip(*found["sketch"], strict=True))
        places, counts = np.unique(np.stack([part, row.astype(np.uint64)]), axis=1, return_counts=True)
        most = np.argsort(-counts, kind="stable")[:MOST_ALIKE]
        yield IndexMatches(places[0, most], places[1, most].astype(np.int64))


_KEYS: dict[str, Callable[[Sequence[str]], list[Key] | None]] = {
    "doc_id": _ids,
    "url": _urls,
    "url_prefix": _prefixes,
    "domain": _domains,
    "file": lambda _: None,
    "content_hash": _hashes,
    "copy": _copies,
}
"""Kind of query -> the keys of all queries, or None if the index has no key for them."""
