"""Withheld documents, whose content must never be shown.

A document is withheld if it is on a list (a step names the list in its column `withheld`), if it was taken down, or if
it was dropped as a copy of such a document. Every command that shows documents checks this module. For a withheld
document it shows the id, the source, the verdict and the reason, and nothing else: no text, URL, title or position in a
file. The same applies to every document that a step with a list has not processed with the current recipe.

Only `gristmill takedown` names the URLs of documents that it takes down (`list_of`): its receipt proves the takedown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.plan.facts import NodeFacts
from gristmill.engine.publish.run_record import newest_run, see_record
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.stages import TAKEDOWN, TAKEDOWN_MATCH
from gristmill.stages.buffers import one_chunk
from gristmill.store.parquet import PartReader, open_parts
from gristmill.store.store import Part

COLUMN, DOC_ID = "withheld", "doc_id"
SHOWN = (DOC_ID, "source")
"""The fields that are shown for every document."""
NOWHERE = "withheld"
"""The locator of a withheld document."""
_TAKEN = {TAKEDOWN_MATCH: "request", TAKEDOWN: "drop"}
"""Steps of a takedown -> the column that is not null for a document that a request names, or that has to go."""
_COPY = re.compile("of ([0-9a-f]{32})")
"""The detail of a document that was dropped as a copy of another."""
_KNOWN: WeakKeyDictionary[CorpusView, Mapping[str, str]] = WeakKeyDictionary()


def withheld_note(why: str) -> str:
    """The text that replaces the content; `why` names the list, or the step that has not run."""
    return f"text and origin are withheld ({why})"


def withholding(view: CorpusView, source: str) -> list[str]:
    """The steps of a source that mark withheld documents."""
    return [node_id for node_id in view.chains[source] if _marks_some(view.nodes[node_id])]


def _marks_some(node: NodeFacts) -> bool:
    if not node.has_layers or COLUMN not in node.columns:
        return False
    return node.identity["config"].get("hashes", "") is not None  # `safety` may have no list


def marks(view: CorpusView, document: DocumentPart) -> list[Part]:
    """The layers, as far as they exist, that say which rows of a document part are withheld."""
    steps = withholding(view, document.source)
    return [view.layer(step, document) for step in steps if view.has_layer(step, document)]


def first_of(columns: Sequence[Any]) -> Any:
    """For each row, the list that it is on, or null, from the columns of several steps."""
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


class Withheld:
    """Which rows of a document part are withheld, and why."""

    def __init__(self, view: CorpusView, document: DocumentPart) -> None:
        steps = withholding(view, document.source)
        waiting = [node_id for node_id in steps if not view.has_layer(node_id, document)]
        self._not_run = f"{', '.join(waiting)} has not run with the current recipe" if waiting else None
        self._readers = [] if waiting else open_parts(view.store, marks(view, document))
        self._hidden = {} if waiting else hidden_ids(view)
        self._ids = open_parts(view.store, [document.part])[0] if self._hidden else None

    def in_group(self, group: int, rows: int) -> pa.Array:
        """For each row of a group, why it is withheld, or null."""
        if self._not_run is not None:
            return pa.repeat(pa.scalar(self._not_run, pa.string()), rows)
        found = [reader.read_group(group, [COLUMN])[COLUMN] for reader in self._readers]
        listed = one_chunk(first_of(found)) if found else pa.nulls(rows, pa.string())
        return listed if self._ids is None else self._with_hidden(listed, self._ids.read_group(group, [DOC_ID])[DOC_ID])

    def _with_hidden(self, listed: pa.Array, ids: Any) -> pa.Array:
        return pc.coalesce(listed, pa.array([self._hidden.get(one.hex()) for one in ids.to_pylist()], pa.string()))

    def at(self, row: int) -> str | None:
        """The same for one row of the part."""
        if self._not_run is not None:
            return self._not_run
        columns = [reader.read([COLUMN])[COLUMN] for reader in self._readers]
        why: str | None = first_of(columns)[row].as_py() if columns else None
        if why is None and self._ids is not None:
            why = self._hidden.get(self._ids.read([DOC_ID])[DOC_ID][row].as_py().hex())
        return why


def why_withheld(view: CorpusView, document: DocumentPart, row: int) -> str | None:
    """Why a row of a part is withheld, if it is."""
    return Withheld(view, document).at(row)


def list_of(view: CorpusView, document: DocumentPart, row: int) -> str | None:
    """The same, unless it was taken down."""
    why = why_withheld(view, document, row)
    return None if why == TAKEDOWN else why


def hidden_ids(view: CorpusView) -> Mapping[str, str]:
    """The ids of documents that are on a list or taken down, and of documents that were dropped as copies of them, each
    with the reason. Takedown requests also name documents that another step has dropped. What the newest version has
    taken down is hidden in every other one, too.
    """
    if view not in _KNOWN:
        found = _find_hidden(view)
        newest = newest_run(view.store, view.name)
        if newest is not None and newest is not view.record:
            newest_view = see_record(view.store, view.label, newest)
            later = {node.id for node in newest_view.nodes.values() if node.name in _TAKEN}
            if any(node_id not in view.nodes or _differs(view, newest_view, node_id) for node_id in later):
                taken = _find_hidden(newest_view)
                found = {doc_id: why for doc_id, why in taken.items() if why == TAKEDOWN} | found
        _KNOWN[view] = found
    return _KNOWN[view]


def _differs(view: CorpusView, other: CorpusView, node_id: str) -> bool:
    return view.nodes[node_id].identity != other.nodes[node_id].identity


def is_hidden(view: CorpusView, ids: Any) -> pa.Array:
    """Which of some ids `hidden_ids` has."""
    return pc.is_in(ids, pa.array([bytes.fromhex(one) for one in hidden_ids(view)], ids.type))


def _find_hidden(view: CorpusView) -> dict[str, str]:
    found: dict[str, str] = {}
    for node_id, column in _marking(view):
        for doc_id, why in _values(view, node_id, column):
            found.setdefault(doc_id, TAKEDOWN if column != COLUMN else why)
    copies: dict[str, list[str]] = {}
    for node in view.nodes.values() if found else ():
        if node.name.endswith("_dedup") and "detail" in node.columns:
            for doc_id, detail in _values(view, node.id, "detail"):
                if copy_of := _COPY.match(detail):
                    copies.setdefault(copy_of[1], []).append(doc_id)
    waiting = [*found]
    while waiting:
        original = waiting.pop()
        for copy in copies.pop(original, ()):
            found.setdefault(copy, found[original])
            waiting.append(copy)
    return found


def _marking(view: CorpusView) -> Iterator[tuple[str, str]]:
    """The steps that mark documents, with the column that is not null for these."""
    for node in view.nodes.values():
        if _marks_some(node):
            yield node.id, COLUMN
        elif node.name in _TAKEN:
            yield node.id, _TAKEN[node.name]


def _values(view: CorpusView, node_id: str, column: str) -> Iterator[tuple[str, str]]:
    """The ids of documents with a value in a column of a step, and these values."""
    for document in (one for some in view.documents.values() for one in some):
        if not view.has_layer(node_id, document):
            continue
        values = PartReader(view.store, view.layer(node_id, document)).read([column])[column]
        if values.null_count < len(values):
            ids = PartReader(view.store, document.part).read(["doc_id"])["doc_id"]
            is_there = values.is_valid()
            pairs = zip(ids.filter(is_there).to_pylist(), values.filter(is_there).to_pylist(), strict=True)
            yield from ((doc_id.hex(), value) for doc_id, value in pairs)
