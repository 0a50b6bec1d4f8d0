"""Reads CSV and TSV: the first line names the fields, every further record is a document.

As in RFC 4180, a field may be quoted; delimiters and line ends in quotes are text, and `""` is a quote. A quote within
a field that does not begin with one is an ordinary character. A single quote within quotes closes them; the text after
it is kept, and `meta` marks the row. Lines end with `\\n` or `\\r\\n`; blank lines are skipped. Files are plain or
compressed. A record's position is its first byte in the decompressed stream.

If a malformed record (one field more or less than the header, a quote that never closes) spans several lines, only its
first line is lost and reading continues with the second: a stray quote does not swallow its neighbours. Quotes make it
unsafe to start in the middle, so one task reads a whole file. Split a huge file between records, and repeat the header
in each piece.
"""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import field_validator

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest.sniff import beginning, refuse
from gristmill.stages.reading.csv_cut import Repaired, cut
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import RowConfig, mapper, missing_paths, nothing_under, unique_names
from gristmill.stages.reading.json_value import BOM, REPAIRED
from gristmill.stages.reading.stream import decompressed, peek, without_compression_suffix

_HEAD_BYTES = 1 << 16


class Config(RowConfig):
    """How rows become documents."""

    delimiter: str | None = None
    """One ASCII character between fields; `"\\t"` is a tab. null: a tab for `.tsv` and `.tab` files, else a comma."""
    quotes: bool = True
    """Whether fields may be quoted. false: a quote is an ordinary character, and every line is a record."""
    header: tuple[str, ...] | None = None
    """The names of the fields, for files whose first line is already a record."""

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str | None) -> str | None:
        if value is not None and (len(value) != 1 or not value.isascii() or value in '"\r\n'):
            raise ValueError(f'{value!r} is not a delimiter; write one ASCII character, such as ";" or "\\t"')
        return value


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_csv`, `missing_column`, `wrong_field_count`, `unclosed_quote`, `record_too_large`,
    `invalid_utf8`, `missing_text`, `empty_text`, and `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    with piece.open() as file:
        plain, chunks = decompressed(file)
        head, _, chunks = peek(chunks, _HEAD_BYTES)
        try:
            refuse(head, plain, "not_csv")
            if head.count(0) > len(head) // 8:  # UTF-16, or no text at all; a few zeros are only dirt in a row
                raise ReadFault("not_csv", f"no UTF-8 text; the file begins with {beginning(head)}")
            if b"\r" in head and b"\n" not in head:
                raise ReadFault("not_csv", "its lines end with CR alone; convert them to LF")
            yield from _records(chunks, piece, config)
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)


def _records(chunks: Iterator[bytes], piece: Piece, config: Config) -> Iterator[Record]:
    """Raises `ReadFault` for the file as a whole."""
    tab = without_compression_suffix(piece.name).lower().endswith((".tsv", ".tab"))
    delimiter = config.delimiter or ("\t" if tab else ",")
    names = None if config.header is None else _named(config.header, config)
    build = mapper(config.fields, config.keep_meta)
    empty = True
    for position, row in cut(chunks, delimiter, config.quotes, len(names) if names else None, config.max_record_bytes):
        if names is None:
            if isinstance(row, ReadFault):
                raise row
            names = _named([row[0].removeprefix(BOM.decode()), *row[1:]], config)
            continue
        empty = False
        if piece.stop is not None and position >= piece.stop:
            return
        if position < piece.start:
            continue
        if isinstance(row, ReadFault):
            yield Record(position, drop=row.reason, detail=row.detail)
        else:
            fields: dict[str, Any] = dict(zip(names, row, strict=True))
            if isinstance(row, Repaired):
                fields[REPAIRED] = ["text behind a closing quote"]
            yield build(position, fields)
    if empty:
        raise ReadFault("empty_file", "no record" if names is None else "a header and no record")


def _named(header: Any, config: Config) -> list[str]:
    """A unique name for every field."""
    names = unique_names([given.strip() or f"field_{number}" for number, given in enumerate(header, 1)])
    if missing := missing_paths(config.fields, names.__contains__):
        other = next((mark for mark in ";\t|," if len(names) == 1 and mark in names[0]), None)
        hint = f"; with one field only, perhaps `delimiter: {json.dumps(other)}` is meant" if other else ""
        raise ReadFault("missing_column", nothing_under(missing, names) + hint)
    return names


STAGE = Reader(
    version=12,
    config=Config,
    libraries=("orjson", *UNPACKING),
    positions="bytes of the decompressed stream",
    read=read,
)
