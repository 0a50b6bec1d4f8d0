"""Documents of which nothing is shown: those that a step names a list for in its column `withheld`.

Whoever shows documents asks here: of such a document the id, the source, the verdict and the name of the list are
told, whatever step it is looked at after, and nothing else: no text, no address, no title, no place in a file.
The same holds for every document that such a step has not seen as the recipe is now: it may be on the list.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.plan.graph import Node, NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView, DocumentPart
from gristmill.stages.buffers import one_chunk
from gristmill.store.parquet import open_parts
from gristmill.store.store import Part

COLUMN = "withheld"
TOLD = ("doc_id", "source")
"""What is told of every document."""
NOWHERE = "withheld"
"""In place of where it was read."""


def told(why: str) -> str:
    """In place of what is not shown; `why` is the list, or what has not run."""
    return f"text and origin are withheld ({why})"


def withholding(view: CorpusView, source: str) -> list[str]:
    """The steps of a source that mark such documents."""
    return [node_id for node_id in view.chains[source] if _marks_some(view.nodes[node_id])]


def _marks_some(node: NodeFacts) -> bool:
    is_idle = isinstance(node, Node) and getattr(node.config, "hashes", "") is None  # `safety` without a list
    return node.has_layers and COLUMN in node.columns and not is_idle


def marks(view: CorpusView, document: DocumentPart) -> list[Part]:
    """The layers of a document part that say which of its rows are withheld, as far as they are made."""
    at = (document.source, document.order)
    made = [view.states[node_id].layers for node_id in withholding(view, document.source)]
    return [layers[at][0] for layers in made if at in layers]


def first_of(columns: Sequence[Any]) -> Any:
    """For each row the list that it is on, or null, of the columns of several steps."""
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


class Withheld:
    """Which rows of a document part are withheld, and why."""

    def __init__(self, view: CorpusView, document: DocumentPart) -> None:
        at = (document.source, document.order)
        steps = withholding(view, document.source)
        waiting = [node_id for node_id in steps if at not in view.states[node_id].layers]
        self._unseen = f"{', '.join(waiting)} has not seen it as the recipe is now" if waiting else None
        self._readers = [] if waiting else open_parts(view.store, marks(view, document))

    def in_group(self, group: int, rows: int) -> pa.Array:
        """For each of the rows of a group why it is withheld, or null."""
        if self._unseen is not None:
            return pa.repeat(pa.scalar(self._unseen, pa.string()), rows)
        found = [reader.read_group(group, [COLUMN])[COLUMN] for reader in self._readers]
        return one_chunk(first_of(found)) if found else pa.nulls(rows, pa.string())

    def at(self, row: int) -> str | None:
        """The same of one row of the part."""
        if self._unseen is not None:
            return self._unseen
        columns = [reader.read([COLUMN])[COLUMN] for reader in self._readers]
        why: str | None = first_of(columns)[row].as_py() if columns else None
        return why


def list_of(view: CorpusView, document: DocumentPart, row: int) -> str | None:
    """Why a row of a part is withheld, if it is."""
    return Withheld(view, document).at(row)
