"""Record headers: WARC's named fields, ARC's single line, and how to find either one among other bytes."""

import re

MAX_HEAD_BYTES = 1 << 18
"""A header longer than 256 KiB is damage: the longest URLs in crawls are some tens of kilobytes."""

# The line after the version must be a named field, which prose about the format rarely has.
WARC_HEAD = re.compile(rb"WARC/[01]\.\d{1,2}[ \t]*\r?\n[A-Za-z][A-Za-z0-9-]{0,60}[ \t]*:")
WARC_REACH = 96
ARC_HEAD = re.compile(
    rb"(?P<url>(?:filedesc|dns|https?|ftp|whois|gopher|news|nntp|mailto|metadata):[^\r\n]{1,16384}?)"
    rb" (?P<ip>[0-9A-Fa-f.:]{2,45}) (?P<date>\d{8,20}) (?P<mime>[^\r\n]{0,256}?) ?"
    rb"(?P<length>[^ \t\r\n]{1,15})[ \t]*+\r?\n"
)
ARC_SEARCH = re.compile(rb"(?<=\n)" + ARC_HEAD.pattern)
ARC_REACH = 17_000
_FOLD = re.compile(rb"\r?\n[ \t]+")
_FIELD = re.compile(rb"\n([^:\n]*):([^\n]*)")


def opens_record(data: bytes) -> str | None:
    """ "warc" or "arc" if `data` begins with a record header, else None."""
    if data.startswith(b"WARC/"):
        return "warc"
    return "arc" if data[:1].islower() and ARC_HEAD.match(data) else None


def holds_arc(data: bytes) -> bool:
    """Whether the first record in `data`, which may come after damage, is an ARC record."""
    if data.startswith(b"WARC/"):
        return False
    if ARC_HEAD.match(data):
        return True
    arc, other = ARC_SEARCH.search(data), WARC_HEAD.search(data)
    return arc is not None and (other is None or arc.start() < other.start())


def blank_line(data: bytes, start: int = 0, stop: int | None = None) -> tuple[int, int] | None:
    """Where the last line before the first empty line ends, and where the empty line ends."""
    crlf = data.find(b"\n\r\n", start, stop)
    bare = data.find(b"\n\n", start, stop if crlf < 0 else crlf)
    if bare >= 0:
        return bare, bare + 2
    return (crlf, crlf + 3) if crlf >= 0 else None


def warc_fields(head: bytes) -> tuple[dict[bytes, bytes], bool]:
    """Fields by lower-case name (the first of each name), and whether every line was a field."""
    if b"\n " in head or b"\n\t" in head:
        head = _FOLD.sub(b" ", head)
    fields = _FIELD.findall(head)
    return {name.strip().lower(): value.strip() for name, value in reversed(fields)}, len(fields) == head.count(b"\n")


def decoded(value: bytes | None) -> str | None:
    """A header value as text: UTF-8 as WARC 1.1 requires, else Latin-1, which never fails."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
