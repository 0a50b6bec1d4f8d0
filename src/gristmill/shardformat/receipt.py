"""The receipt of a takedown: which documents were taken out of which shards.

A `receipt.json` in a folder of its own:

    format      1
    before      {"manifest": hash, …}            the shards in which the documents lie
    after       {"manifest": hash, …} or null    the shards without them, once there are such
    documents   [{"doc_id": 32 hex digits, "group": name or null, "shard": number or null, "rows": [numbers], …}, …]

`shard` counts from 0 in its group and `rows` are samples of that shard, both as the manifest before has them. They are
null and empty where nobody looked for the document or nobody found it. Other fields are for people and other programs.
"""

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from gristmill.errors import UserError
from gristmill.shardformat.locations import manifest_at, read_bytes

NAME, FORMAT = "receipt.json", 1

_HEX = re.compile("[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class TakenDown:
    """A document, and where it lies in the shards before."""

    doc_id: bytes
    """16 bytes."""
    group: str | None
    shard: int | None
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Receipt:
    """What a takedown did."""

    location: str
    before: str
    """The hash of the manifest."""
    after: str | None
    """The hash of the manifest."""
    documents: tuple[TakenDown, ...]


def read_receipt(location: str | os.PathLike[str]) -> Receipt:
    """Read and check a receipt, by its file, its folder or its location; UserError where it is none."""
    found = manifest_at(location, NAME)
    try:
        content = json.loads(read_bytes(found, NAME))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{found} is not JSON ({error}), so it is no receipt, or a damaged one: which documents were taken down is "
            "unknown. Name the receipt.json of a takedown, or its folder; if that is the one, copy it again."
        ) from None
    if not isinstance(content, dict) or not {"format", "before", "documents"} <= content.keys():
        raise UserError(
            f"{found} is not the receipt of a takedown, so which documents were taken down is unknown. Name a "
            "receipt.json, or the folder in which it lies."
        )
    if type(content["format"]) is not int or content["format"] != FORMAT:
        raise UserError(
            f"{found} is of format {content['format']!r:.40}, and this Gristmill reads receipts of format {FORMAT}. "
            "Use the Gristmill that wrote it."
        )
    try:
        return _made(found, content)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{found} lacks a field or has a wrong one ({type(error).__name__}: {error}), so a document could be "
            "missed, and nothing is masked by it. Copy the receipt again from where the takedown wrote it."
        ) from None


def _made(location: str, content: dict[str, Any]) -> Receipt:
    before, after = content["before"], content.get("after")
    documents = content["documents"]
    if not isinstance(documents, list):
        raise TypeError("documents is not a list")
    return Receipt(
        location,
        _hex(before["manifest"], 64, "before.manifest"),
        None if after is None else _hex(after["manifest"], 64, "after.manifest"),
        tuple(_document(document) for document in documents),
    )


def _document(content: dict[str, Any]) -> TakenDown:
    group, shard, rows = content["group"], content["shard"], content.get("rows")
    if group is not None and not isinstance(group, str):
        raise TypeError(f"group {group!r:.40} is not text")
    if rows is not None and not isinstance(rows, list):
        raise TypeError(f"rows {rows!r:.40} is not a list")
    return TakenDown(
        bytes.fromhex(_hex(content["doc_id"], 32, "doc_id")),
        group,
        None if shard is None else _number(shard, "shard"),
        tuple(_number(row, "row") for row in rows or ()),
    )


def _hex(value: Any, digits: int, name: str) -> str:
    if not isinstance(value, str) or len(value) != digits or not _HEX.fullmatch(value):
        raise ValueError(f"{name} {value!r:.80} is not {digits} hex digits")
    return value


def _number(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} {value!r:.40} is not a number from 0 on")
    return value
