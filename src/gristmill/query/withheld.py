"""Documents of which nothing is shown: those that a step names a list for in its column `withheld`.

Whoever shows documents asks here: of such a document the id, the source, the verdict and the name of the list are
told, whatever step it is looked at after, and nothing else: no text, no address, no title, no place in a file.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.schedule.seen import Document, Seen
from gristmill.store.parquet import PartReader
from gristmill.store.store import Part

COLUMN = "withheld"
TOLD = ("doc_id", "source")
"""What is told of every document."""
NOWHERE = "withheld"
"""In place of where it was read."""


def told(name: str) -> str:
    """In place of what is not shown; `name` is the list."""
    return f"text and origin are withheld ({name})"


def withholding(seen: Seen, source: str) -> list[str]:
    """The steps of a source that mark such documents."""
    nodes = [seen.nodes[node_id] for node_id in seen.chains[source]]
    return [node.id for node in nodes if node.has_layers and COLUMN in node.columns]


def marks(seen: Seen, document: Document) -> list[Part]:
    """The layers of a document part that say which of its rows are withheld, as far as they are made."""
    at = (document.source, document.order)
    made = [seen.made[node_id].layers for node_id in withholding(seen, document.source)]
    return [layers[at][0] for layers in made if at in layers]


def first_of(columns: Sequence[Any]) -> Any:
    """For each row the list that it is on, or null, of the columns of several steps."""
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


def list_of(seen: Seen, document: Document, row: int) -> str | None:
    """The list that a row of a part is on."""
    for part in marks(seen, document):
        name: str | None = _column(PartReader(seen.store, part))[row].as_py()
        if name is not None:
            return name
    return None


def _column(reader: PartReader) -> pa.ChunkedArray:
    return reader.read([COLUMN])[COLUMN]
