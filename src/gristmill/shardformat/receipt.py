"""The receipt of a takedown: the documents that were removed, and the shards that contained them.

A `receipt.json` in its own folder:

    format      1
    before      {"manifest": hash, …}            the shards with the documents
    after       {"manifest": hash, …} or null    the shards without them, once they exist
    documents   [{"doc_id": 32 hex digits, "group": name or null, "shard": number or null, "rows": [numbers], …}, …]
    seal        sha256 of the rest as JSON with sorted keys, without spaces, ASCII only

`shard` counts from 0 in its group and `rows` are samples of that shard, both in the manifest before. They are null and
empty if the document was not searched for or not found. Other fields are for people and other programs.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.errors import UserError
from gristmill.shardformat.locations import manifest_at, read_bytes

NAME, FORMAT = "receipt.json", 1


@dataclass(frozen=True, slots=True)
class TakenDown:
    """A document, and its location in the shards before."""

    doc_id: bytes
    """16 bytes."""
    group: str | None
    shard: int | None
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Receipt:
    """The result of a takedown."""

    location: str
    before: str
    """The hash of the manifest."""
    after: str | None
    """The hash of the manifest."""
    documents: tuple[TakenDown, ...]


def read_receipt(location: str | os.PathLike[str]) -> Receipt:
    """Read and check a receipt, by its file, its folder or its URL. Raises UserError if it is not one."""
    return read_whole_receipt(location)[0]


def read_whole_receipt(location: str | os.PathLike[str]) -> tuple[Receipt, dict[str, Any]]:
    """The receipt and the whole content of its file, from one read."""
    found = manifest_at(location, NAME)
    try:
        content = json.loads(read_bytes(found, NAME))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{found} is not JSON ({error}), so it is not a receipt or is damaged, and the removed documents are "
            "unknown. Name the receipt.json of a takedown, or its folder; if it is damaged, copy it again."
        ) from None
    if not isinstance(content, dict) or not {"format", "before", "documents"} <= content.keys():
        raise UserError(
            f"{found} is not the receipt of a takedown, so the removed documents are unknown. Name a "
            "receipt.json, or its folder."
        )
    if content.get("seal") != seal_of(content):
        fault = "its seal does not match its content" if "seal" in content else "it has no seal"
        raise UserError(
            f"{found} was changed after it was written: {fault}, so the removed documents are unknown. Copy "
            "it again from where the takedown wrote it, or write it again: gristmill takedown receipt."
        )
    if type(content["format"]) is not int or content["format"] != FORMAT:
        raise UserError(
            f"{found} has format {content['format']!r:.40}, but this version of Gristmill reads format {FORMAT}. "
            "Use the version that wrote it."
        )
    try:
        return _parsed(found, content), content
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{found} has a missing or wrong field ({type(error).__name__}: {error}), so a document could be "
            "missed, and it masks nothing. Copy the receipt again from where the takedown wrote it."
        ) from None


def seal_of(content: Mapping[str, Any]) -> str:
    """The seal of a receipt, which detects changes: the SHA-256 of everything but the seal."""
    rest = {name: value for name, value in content.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _parsed(location: str, content: dict[str, Any]) -> Receipt:
    before, after = content["before"], content.get("after")
    documents = content["documents"]
    if not isinstance(documents, list):
        raise TypeError("documents is not a list")
    return Receipt(
        location,
        _text(before["manifest"]),
        None if after is None else _text(after["manifest"]),
        tuple(_document(document) for document in documents),
    )


def _document(content: dict[str, Any]) -> TakenDown:
    doc_id, group, shard, rows = content["doc_id"], content["group"], content["shard"], content.get("rows")
    parsed = bytes.fromhex(_text(doc_id))
    if len(doc_id) != 32 or len(parsed) != 16:
        raise ValueError(f"doc_id {doc_id!r:.80} is not 32 hex digits")
    if rows is not None and not isinstance(rows, list):
        raise TypeError(f"rows {rows!r:.40} is not a list")
    return TakenDown(
        parsed,
        None if group is None else _text(group),
        None if shard is None else _number(shard),
        tuple(map(_number, rows or ())),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return value


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} is not a number of 0 or more")
    return value
