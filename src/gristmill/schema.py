"""The columns of documents, in one place.

Every record of every input becomes one row, good or bad: `drop` is null for a kept row, and otherwise names
the fault. Later stages add layers of columns aligned with these rows; they never add or remove a row.
"""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

VERDICT = (pa.field("drop", pa.string()), pa.field("detail", pa.string()))

DOCUMENTS = pa.schema(
    [
        pa.field("doc_id", pa.binary(16), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("locator", pa.string(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("snapshot", pa.string()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("license", pa.string()),
        pa.field("language_hint", pa.string()),
        pa.field("title", pa.string()),
        pa.field("content_type", pa.string()),
        pa.field("charset", pa.string()),
        pa.field("html", pa.string()),
        pa.field("text", pa.string()),
        pa.field("text_bytes", pa.int64(), nullable=False),
        pa.field("html_bytes", pa.int64(), nullable=False),
        pa.field("meta", pa.string()),
        *VERDICT,
    ]
)


MEASURED = {"text_bytes": "text", "html_bytes": "html"}
"""Columns with the byte length of another column, which readers do not provide."""


@dataclass(slots=True)
class Record:
    """One record of an input file, as a reader provides it. Strings must be valid UTF-8 (no lone surrogates)."""

    position: int
    """Where the record starts in its file, in the reader's own unit; unique and rising within a file."""
    key: str | None = None
    """The record's own name, if the input has one; it replaces the position in the locator. It need not be
    unique: the id also depends on the position."""
    url: str | None = None
    timestamp_us: int | None = None
    """Microseconds since 1970, UTC."""
    license: str | None = None
    language_hint: str | None = None
    """Natural language of a page or programming language of a file, as the input states it; not detected."""
    title: str | None = None
    content_type: str | None = None
    charset: str | None = None
    """The encoding that the bytes were decoded from."""
    html: str | bytes | None = None
    """Decoded markup, for an extractor. Built-in readers may provide bytes that are known to be UTF-8."""
    text: str | bytes | None = None
    """Plain text, for inputs that have text; str or bytes as above."""
    meta: str | None = None
    """A JSON object with other facts from the reader (HTTP status, robots headers, unmapped fields)."""
    drop: str | None = None
    """Why the record is not a document, or None."""
    detail: str | None = None
    """One line for a person who inspects a dropped record: the library's error, the status code, the size."""
    doc_id: bytes | None = None
    """The id of the document, if the reader derives it from something more stable than file and position."""
    snapshot: str | None = None
    """The snapshot, if it is not that of the file."""
    more: tuple[Any, ...] = ()
    """The values of the columns that only its reader has (`Reader.columns`)."""
    fields: int | None = field(default=None, compare=False, repr=False)
    """Which of the fields that the recipe maps are in the record (`stages/reading/fields.py`); None: it maps none."""


def as_str(text: str | bytes) -> str:
    """The markup or text of a record, for people and libraries."""
    return text if isinstance(text, str) else text.decode()


def documents_schema(more: pa.Schema) -> pa.Schema:
    """The columns of documents whose reader adds some."""
    return pa.schema([*DOCUMENTS, *more]) if len(more) else DOCUMENTS


def layer_schema(schema: pa.Schema) -> pa.Schema:
    """A stage's columns plus those that every layer has."""
    fields = [pa.field(item.name, item.type) for item in schema]
    names = set(schema.names)
    for verdict in VERDICT:
        if verdict.name not in names:
            fields.append(verdict)
    if "text" in names and "text_bytes" not in names:
        fields.append(pa.field("text_bytes", pa.int64()))
    return pa.schema(fields)


def spelt(kind: pa.DataType) -> str:
    """A type as it is written in code: `pa.string()`."""
    name = {"double": "float64", "float": "float32", "halffloat": "float16", "bool": "bool_"}.get(str(kind), str(kind))
    return f"pa.{name}()" if hasattr(pa, name) else f"the type {kind}"
