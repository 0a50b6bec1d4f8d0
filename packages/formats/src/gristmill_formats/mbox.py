"""Reads mail archives in the mbox format, one document per mail: what its author wrote.

The step `threads` joins the mails of a thread. Quotations, signatures and attachments are left out. A mail without
plain text has markup, for `extract` with `whole: true`. `meta` has hashes of the mail's id and of the first mail that
it refers to (`post`, `thread`); names and addresses are not kept.

A mail begins at a line `From ... 12:34:56 2026` at the start of the file, after an empty line, or before a line of a
header if it names a day of the week. Such lines inside a mail have a `>` before them in the variants mboxo and mboxrd,
of which one is removed. In the variants mboxcl and mboxcl2 they may have none, and `Content-Length` is not used, since
it is often false: the rest of such a mail becomes another document.
"""

import email
import hashlib
import re
from collections.abc import Iterator
from email.errors import MessageError
from email.message import Message

from gristmill.schema import Record
from gristmill.stages.contract import Bytes, Piece, Reader
from gristmill.stages.ingest.charset import decode
from gristmill.stages.ingest.sniff import beginning, refuse
from gristmill.stages.ingest.whole_file import TreeConfig, skipped_folder, wanted
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.fields import dump
from gristmill.stages.reading.stream import decompressed, peek, plain_chunks
from gristmill.stages.reading.timestamps import microseconds
from gristmill_formats import mail

_HEAD_BYTES = 1 << 12
_BEGIN = rb"From [^\n]{0,300}\d:\d\d[^\n]{0,60}\n"
_FIRST = re.compile(rb"\s{0,64}" + _BEGIN)
_NEXT = re.compile(rb"\n" + _BEGIN)  # it begins with fixed characters, which `re` finds fast
_DAY = re.compile(rb"(?>[^\n]*? (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )[^\n]*+\n[!-9;-~]{1,76}+:")
"""A line From with the header that begins below it."""
_LONGEST_LINE = 480
"""Bytes of a line From and of the name of a header."""
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_ID = re.compile(r"<(?=[^<>\s]{0,249}[@\d])([^<>\s]{1,250})>")
"""An id. `<yes>` is not one: some people typed it as an answer when git wanted an id."""
_POLICY = mail.BoundedPolicy()
_MULTIPART = re.compile(rb"^content-type:\s{0,8}(?:multipart|message)/", re.I | re.MULTILINE)


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".mbox", ".mbx", "")
    quotes: bool = False
    """Keep quotations of other mails ("> ..."), signatures, and the footers of mailing lists."""
    authors: bool = False
    """Keep the name and address of the author in `meta`."""
    max_record_bytes: Bytes = 64 << 20
    """A larger mail is dropped as `record_too_large` and never held in memory. Bytes, decompressed."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    """Reasons: `empty_file`, `not_mbox`, `empty_text`, `broken_mail`, `too_many_parts`, `record_too_large`, and
    `truncated_` or `corrupt_` with `gzip`, `zstd`, `bzip2`, `xz`.
    """
    with piece.open() as file:
        plain, chunks = decompressed(file)
        head, broken, chunks = peek(chunks, _HEAD_BYTES)
        try:
            if not head.strip() and not broken:
                raise ReadFault("empty_file", f"{len(head)} bytes, none of them visible")
            refuse(head, plain, "not_mbox")
            if not _FIRST.match(head) and not broken:
                raise ReadFault(
                    "not_mbox", f"the file begins with {beginning(head)} instead of a line From ... 12:34:56"
                )
        except ReadFault as fault:
            if piece.start == 0 and piece.stop != 0:
                yield Record(0, drop=fault.reason, detail=fault.detail)
            return
        start = 0
        if plain and piece.start > 0:
            start = max(piece.start - 3, 0)  # the empty line before a mail that begins at piece.start
            file.seek(start)
            chunks = plain_chunks(file)
        for position, data in _mails(chunks, start, config.max_record_bytes, len(head) - len(head.lstrip())):
            if piece.stop is not None and position >= piece.stop:
                return
            if position >= piece.start:
                yield _record(position, data, config)


def _mails(
    chunks: Iterator[bytes], position: int, limit_bytes: int, blank: int
) -> Iterator[tuple[int, bytes | ReadFault]]:
    """The mails of a stream with their positions; before the first one there are `blank` bytes. One that is longer is
    never held; a fault ends the mail that it is in. What comes before the first line From is not a mail."""
    begun = blank if position == 0 else None
    parts: list[bytes] = []
    size = 0
    tail = b""  # it may have the beginning of a line From; `position` is that of its first byte
    try:
        for chunk in chunks:
            data, at = tail + chunk, 0
            for found in _NEXT.finditer(data):
                start = found.start() + 1
                is_after_blank = data.endswith((b"\n\n", b"\n\r\n"), max(start - 3, 0), start)
                if not is_after_blank and not _DAY.match(data, start, start + _LONGEST_LINE):
                    continue
                if begun is not None and position + start > begun:
                    parts.append(data[at:start])
                    yield begun, _whole(parts, size + start - at, limit_bytes)
                begun, at, parts, size = position + start, start, [], 0
            kept = max(at, len(data) - _LONGEST_LINE)
            size += kept - at
            if begun is None or size > limit_bytes:
                parts.clear()
            else:
                parts.append(data[at:kept])
            tail, position = data[kept:], position + kept
    except ReadFault as fault:
        yield position if begun is None else begun, fault
        return
    if begun is not None:
        yield begun, _whole([*parts, tail], size + len(tail), limit_bytes)


def _whole(parts: list[bytes], size: int, limit_bytes: int) -> bytes | ReadFault:
    if size > limit_bytes:
        return ReadFault("record_too_large", f"{size} bytes, max_record_bytes = {limit_bytes}")
    return b"".join(parts)


def _record(position: int, data: bytes | ReadFault, config: Config) -> Record:
    if isinstance(data, ReadFault):
        return Record(position, drop=data.reason, detail=data.detail)
    record = Record(position, content_type="message/rfc822")
    try:
        if len(_MULTIPART.findall(data)) > mail.MAX_PARTS:
            raise ReadFault("too_many_parts", f"more than {mail.MAX_PARTS} parts that have parts")
        message = email.message_from_bytes(_ESCAPED.sub(rb"\1", data.lstrip().partition(b"\n")[2]), policy=_POLICY)
        fields = {
            name: mail.header(message, name, decode)
            for name in ("message-id", "references", "in-reply-to", "subject", "date", "from", "archived-at")
        }
        record.timestamp_us = microseconds(fields["date"])
        record.title = mail.bare_subject(fields["subject"]) or None
        archived = fields["archived-at"].strip("<> ")
        record.url = archived if archived.startswith(("http://", "https://")) else None
        own, before = _ID.findall(fields["message-id"]), _ID.findall(f"{fields['references']} {fields['in-reply-to']}")
        meta = {"post": _hashed(own[0])} if own else {}
        meta |= {"thread": _hashed((before or own)[0])} if before or own else {}
        record.meta = dump(meta | ({"author": fields["from"]} if config.authors and fields["from"] else {}))
        _set_body(record, message, config)
    except (MessageError, ValueError, LookupError) as error:
        record.drop, record.detail = "broken_mail", f"{type(error).__name__}: {error}"[:200]
    except ReadFault as fault:
        record.text = record.html = None
        record.drop, record.detail = fault.reason, fault.detail
    return record


def _hashed(name: str) -> str:
    """Ids of mails often have the address of their author."""
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _set_body(record: Record, message: Message, config: Config) -> None:
    texts: list[str] = []
    pages: list[str] = []
    for part in mail.parts_of(message):
        text, record.charset = mail.part_text(part, decode)
        (pages if part.get_content_type() == "text/html" else texts).append(text)
    text = "\n\n".join(one.strip("\n") for one in texts)
    text = text if config.quotes else mail.own_words(text)
    if text.strip():
        record.text = text
    elif any(page.strip() for page in pages):
        record.html = "\n".join(pages)
    else:
        raise ReadFault("empty_text", "the mail has no text of its author")


STAGE = Reader(
    version=5,
    config=Config,
    libraries=("orjson", "resiliparse", *UNPACKING),
    positions="bytes of the decompressed stream",
    splittable=True,
    wanted=wanted,
    skipped_folder=skipped_folder,
    read=read,
)
