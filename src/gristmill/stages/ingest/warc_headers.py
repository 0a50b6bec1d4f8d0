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
_BLANK = re.compile(rb"\r?\n\r?\n")
_PLAIN_FIELD = re.compile(rb"\n([!-9;-~]+):([^\n]*)")
"""A line as in most headers: not folded, no space before the colon."""


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


def blank_line(data: bytes, start: int = 0) -> tuple[int, int] | None:
    """Where the first empty line starts and ends."""
    at = data.find(b"\r\n\r\n", start)
    bare = data.find(b"\n\n", start, at if at >= 0 else len(data))
    if at >= 0 and bare < 0 and data.find(b"\n\r\n", start, at + 2) < 0:  # also one that overlaps its start
        return at, at + 4
    found = _BLANK.search(data, start)
    return found.span() if found else None


def warc_fields(head: bytes) -> tuple[dict[bytes, bytes], bool]:
    """Fields by lower-case name (the first of each name), and whether every line was a field."""
    plain = _PLAIN_FIELD.findall(head)
    if len(plain) == head.count(b"\n"):
        return {name.lower(): value.strip() for name, value in reversed(plain)}, True
    fields: dict[bytes, bytes] = {}
    folded: dict[bytes, list[bytes]] = {}
    clean = True
    name = b""
    for line in head.split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t"):
            if name:
                folded.setdefault(name, [fields[name]]).append(line.strip())
            continue
        name, colon, value = line.partition(b":")
        if not colon:
            clean = clean and not line.strip()
            name = b""
            continue
        name = name.strip().lower()
        if name in fields:
            name = b""
        else:
            fields[name] = value.strip()
    for name, parts in folded.items():
        fields[name] = b" ".join(parts)
    return fields, clean


def decoded(value: bytes | None) -> str | None:
    """A header value as text: UTF-8 as WARC 1.1 requires, else Latin-1, which never fails."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
