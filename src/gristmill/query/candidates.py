"""Rows that may answer a question, as the index of a source has them (`stages/select/index.py`).

Of an index no more is read than its catalogue and the sets into which the keys of a question fall. What it says is that
a row may be meant; whether it is, the row itself tells.
"""

import json
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gristmill.engine.plan.graph import INDEX
from gristmill.engine.schedule.seen import Document, Seen
from gristmill.engine.work.task import part_from_json
from gristmill.errors import UserError
from gristmill.stages.dedup.public_suffix import is_below_suffix, registered_domain
from gristmill.stages.matches import host_of
from gristmill.stages.select.index import content_keys, domain_keys, set_of, sketches, url_keys
from gristmill.stages.select.index_file import Found, IndexFile

Rows = npt.NDArray[np.int64]
Candidates = dict[Document, Rows]

MOST_ALIKE = 100
"""Documents that are compared with a text: those that share the most with its sketch."""


class CorpusIndex:
    """The index of one source."""

    def __init__(self, seen: Seen, source: str) -> None:
        """`has_index` was asked."""
        model = seen.made[f"{source}/{INDEX}"].model
        assert model is not None
        catalogue = json.loads(bytes(memoryview(seen.store.get_part(model))))
        self._store, self._source = seen.store, source
        self._documents = dict(zip((int(name, 16) for name in catalogue["parts"]), seen.documents[source], strict=True))
        self._files = {one["entry"]["set"]: next(iter(one["files"].values())) for one in catalogue["outputs"]}
        self._sets: int = max((one["entry"]["of"] for one in catalogue["outputs"]), default=1)
        self._open: dict[int, IndexFile] = {}

    def candidates(self, kind: str, asked: Sequence[str]) -> Candidates | None:
        """Rows that may answer a question of a kind; None where the index cannot tell."""
        found: list[Found] = []
        for one in asked:
            here = _QUESTIONS[kind](self, one)
            if here is None:
                return None
            found += here
        return self._by_document(found)

    def search(self, kind: str, first: int, last: int) -> Iterable[Found]:
        """All with a key from `first` to `last`."""
        low, high = set_of(np.array([first, last], np.uint64), self._sets).tolist()
        for number in range(low, high + 1):
            if number in self._files:
                yield self._file(number).search(kind, first, last)

    def _file(self, number: int) -> IndexFile:
        if number not in self._open:
            data = self._store.get_part(part_from_json(self._files[number]))
            try:
                self._open[number] = IndexFile(data)
            except ValueError as error:
                raise UserError(
                    f"The index of {self._source} was written by another version of Gristmill ({error}), so nothing "
                    "can be looked up. Run the recipe again, which makes it anew."
                ) from None
        return self._open[number]

    def _by_document(self, found: Sequence[Found]) -> Candidates:
        rows: dict[Document, list[Rows]] = {}
        for one in found:
            for part in np.unique(one.part):
                rows.setdefault(self._documents[int(part)], []).append(one.row[one.part == part])
        return {document: np.unique(np.concatenate(some)) for document, some in rows.items()}


def has_index(seen: Seen, source: str) -> bool:
    """Whether a source of a run has an index."""
    return f"{source}/{INDEX}" in seen.nodes and seen.made[f"{source}/{INDEX}"].model is not None


def _ids(index: CorpusIndex, begins: str) -> Iterable[Found]:
    first, last = (int(begins[:16].ljust(16, digit), 16) for digit in "0f")
    return index.search("doc_id", first, last)


def _urls(index: CorpusIndex, url: str) -> Iterable[Found]:
    key = int(url_keys(pa.array([url]))[0][0])
    return index.search("url", key, key)


def _prefixes(index: CorpusIndex, prefix: str) -> Iterable[Found]:
    return _of_domain(index, registered_domain(host_of(prefix)))


def _domains(index: CorpusIndex, domain: str) -> Iterable[Found] | None:
    """None for what many have domains below, such as `co.uk`: they have nothing in common that is a key."""
    host = host_of(domain)
    return _of_domain(index, registered_domain(host)) if is_below_suffix(host) else None


def _of_domain(index: CorpusIndex, registered: str) -> Iterable[Found]:
    key = int(domain_keys(pa.array([registered]))[0])
    return index.search("domain", key, key)


def _hashes(index: CorpusIndex, digest: str) -> Iterable[Found]:
    key = int(digest[:16], 16)
    return index.search("content", key, key)


def _texts(index: CorpusIndex, text: str) -> Iterable[Found]:
    """Of the same text, and of those that share the most with its sketch."""
    column = pa.array([text])
    key = int(content_keys(column)[0])
    yield from index.search("content", key, key)
    shared = [found for one in sketches(column)[1].tolist() for found in index.search("sketch", one, one)]
    if shared:
        part, row = (np.concatenate(columns) for columns in zip(*shared, strict=True))
        places, counts = np.unique(np.stack([part, row.astype(np.uint64)]), axis=1, return_counts=True)
        most = np.argsort(-counts, kind="stable")[:MOST_ALIKE]
        yield Found(places[0, most], places[1, most].astype(np.int64))


_QUESTIONS: dict[str, Callable[[CorpusIndex, str], Iterable[Found] | None]] = {
    "doc_id": _ids,
    "url": _urls,
    "url_prefix": _prefixes,
    "domain": _domains,
    "content_hash": _hashes,
    "text": _texts,
}
