"""Reads `Posts.xml` and `Comments.xml` of Stack Exchange's data dumps, one document per post.

A post is a question, an answer or a comment; the step `threads` joins those of a question. A body is markup, for
`extract` with `whole: true`; a comment is plain text. `meta` has the post's id, its thread (the id of the question; of
a comment, the id of the post that it is about), its score, tags, and the accepted answer. The license is the one that
the dump states, or the one that Stack Exchange used on the day of the post. Every row of these files is one line, so no
line can declare an entity.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader, StageConfig
from gristmill.stages.ingest.jsonl import lines
from gristmill.stages.ingest.sniff import beginning, refuse
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import (
    decompressed,
    peek,
    plain_chunks,
    without_compression_suffix,
)
from gristmill.stages.reading.timestamps import microseconds
from gristmill_formats.xml_tree import parse_xml

_HEAD_BYTES = 1 << 12
_FILES = ("posts.xml", "comments.xml")
_ROOT = re.compile(rb"<(posts|comments)\s*/?>")
_KINDS = {"1": "question", "2": "answer"}
_HOST = re.compile(r"(?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,20}")
_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)
_TAG = re.compile(r"[^<>|\s]{1,100}")
_LICENSES = (("2018-05-02", "CC-BY-SA-4.0"), ("2011-04-08", "CC-BY-SA-3.0"), ("", "CC-BY-SA-2.5"))
"""The license of a post from a day on, as stackoverflow.com/help/licensing states it."""
_STATED = re.compile(r"CC BY-SA ([234]\.\d)")


class Config(StageConfig):
    """How rows become documents."""

    site: str | None = None
    """The host of the site, such as unix.stackexchange.com, for the URLs of posts. By default, the name of the folder
    of the file, if it is a host."""
    authors: bool = False
    """Keep the number of a post's author, and the name if the row has one, in `meta`."""
    max_record_bytes: Bytes = 64 << 20
    """A longer row is dropped as `record_too_large` and never held in memory. Bytes, decompressed."""


def wanted(name: str, config: Config) -> bool:
    """Of a folder, only the posts and comments: Users, Votes, PostHistory and others have no documents."""
    return PurePosixPath(without_compression_suffix(name)).name.lower() in _FILES


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_stack_exchange`, `other_post_type`, `invalid_xml`, `not_a_row`, `empty_text`,
    `record_too_large`, and `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    folder = PurePosixPath(piece.name).parent
    site = f"{folder}/" if folder.name else ""  # ids of posts are those of one site
    host = config.site or (folder.name if _HOST.fullmatch(folder.name) else None)
    with piece.open() as file:
        plain, chunks = decompressed(file)
        head, broken, chunks = peek(chunks, _HEAD_BYTES)
        root = _ROOT.search(head)
        try:
            if not head.strip() and not broken:
                raise ReadFault("empty_file", f"{len(head)} bytes, none of them visible")
            refuse(head, plain, "not_stack_exchange")
            if root is None and not broken:
                raise ReadFault("not_stack_exchange", f"neither <posts> nor <comments> in the first {len(head)} bytes")
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)
            return
        start = 0
        if plain and piece.start > 0:
            start = piece.start - 1  # a line that begins there, or before, is in another range
            file.seek(start)
            chunks = plain_chunks(file)
        is_comment = root is not None and root[1] == b"comments"
        for position, line in lines(chunks, start, config.max_record_bytes):
            if piece.stop is not None and position >= piece.stop:
                return
            if position < piece.start:
                continue
            if isinstance(line, ReadFault):
                yield Record(position, drop=line.reason, detail=line.detail)
            elif (row := line.strip()).startswith(b"<row"):
                yield _record(position, row, is_comment, site, host, config)
            elif not row.startswith((b"<?xml", b"\xef\xbb\xbf<?xml", b"<posts", b"<comments", b"</")):
                yield Record(position, drop="not_a_row", detail=f"the line begins with {beginning(row, 40)}")


def _record(position: int, row: bytes, is_comment: bool, site: str, host: str | None, config: Config) -> Record:
    record = Record(position, content_type="text/plain" if is_comment else "text/html")
    try:
        found = parse_xml(row)
        get = found.get
        kind = "comment" if is_comment else _KINDS.get(get("PostTypeId", ""))
        created = get("CreationDate", "")
        record.timestamp_us = microseconds(created)
        stated = _STATED.fullmatch(get("ContentLicense", ""))
        record.license = (
            f"CC-BY-SA-{stated[1]}" if stated else next(name for day, name in _LICENSES if created[:10] >= day)
        )
        own = get("Id", "")
        if kind is None:
            raise ReadFault("other_post_type", f"PostTypeId {get('PostTypeId', '')[:20]!r}")
        about = {"question": own, "answer": get("ParentId") or own, "comment": get("PostId", "")}[kind]
        meta: dict[str, Any] = {"type": kind, "thread": site + about}
        if not is_comment:
            meta["post"] = site + own
            record.title = get("Title") or None
            record.url = f"https://{host}/{kind[0]}/{own}" if host and _NUMBER.fullmatch(own) else None
        if _NUMBER.fullmatch(get("Score", "")):
            meta["score"] = int(get("Score", ""))
        if get("AcceptedAnswerId"):
            meta["accepted"] = site + get("AcceptedAnswerId", "")
        if get("Tags"):
            meta["tags"] = _TAG.findall(get("Tags", ""))
        if config.authors:
            names = {"author": "OwnerUserId UserId", "author_name": "OwnerDisplayName UserDisplayName"}
            meta |= {name: value for name, keys in names.items() for key in keys.split() if (value := get(key))}
        record.meta = dump(meta)
        body = get("Text" if is_comment else "Body", "")
        if not body.strip():
            raise ReadFault("empty_text", "the post has no text")
        if is_comment:
            record.text = body
        else:
            record.html = body
    except ReadFault as fault:
        record.drop, record.detail = fault.reason, fault.detail
    return record


STAGE = Reader(
    version=2,
    config=Config,
    libraries=("orjson", *UNPACKING),
    positions="bytes of the decompressed stream",
    beside=("other_post_type",),
    markup=True,
    splittable=True,
    wanted=wanted,
    read=read,
)
