"""Decodes the bytes of a page in the order that browsers use: BOM, HTTP header, <meta>, detection.

Two things differ from the standard, because readable text matters more here. Bytes that are valid UTF-8 with multi-byte
sequences are UTF-8, regardless of what was declared: text in another encoding is only valid UTF-8 by chance if it is a
few characters long. And if an HTTP header says Latin-1, the default of many servers, a <meta> that names another
encoding takes precedence if that encoding fits.
"""

import re

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from gristmill.kernels.text.utf8 import continuation_bytes

BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_BOM_BYTES = tuple(mark for mark, _ in BOMS)

# Labels that the library's WHATWG table lacks. Few pages use them, but those pages are intact.
_MORE_LABELS = {
    "cp949": "cp949",
    "uhc": "cp949",
    "cp932": "cp932",
    "cp936": "gb18030",
    "hz-gb-2312": "hz",
    "iso-2022-kr": "iso2022_kr",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ukrainian": "mac_cyrillic",
}
# Browsers decode these names with the vendor's superset; Python's codecs of the same name are the bare standard.
_WIDER = {
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-11": "cp874",
    "iso2022_jp": "iso2022_jp_ext",
}
_NAMES = {
    "cp949": "euc-kr",
    "cp932": "shift_jis",
    "big5hkscs": "big5",
    "cp874": "windows-874",
    "iso2022_jp_ext": "iso-2022-jp",
    "iso2022_kr": "iso-2022-kr",
    "euc_jp": "euc-jp",
    "hz": "hz-gb-2312",
    "cp866": "ibm866",
}
_EAST_ASIAN = frozenset({"cp949", "cp932", "gb18030", "big5hkscs", "euc_jp"})
_LATIN = frozenset(
    {"cp1250", "cp1254", "cp1257", "cp1258", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-7", "iso8859-9"}
    | {"iso8859-10", "iso8859-13", "iso8859-15", "iso8859-16", "mac-roman", "cp1253", "cp1255", "iso8859-8"}
)
_WESTERN = _LATIN | {"cp1252", "cp1256"}
_HIGH_BYTES = bytes(range(128, 256))
MOST_WESTERN = 0.25
"""Share of non-ASCII bytes above which text that is declared as UTF-8, but only decodes to Latin letters, is broken
UTF-8. A page in Polish or Vietnamese, markup included, has about 10%."""
FEW_BYTES = 200
"""With fewer non-ASCII bytes, the detector mistakes the curly quotes of an English page for Czech or Greek letters."""
_STATEFUL = {b"\x1b$)C": "iso2022_kr", b"\x1b$": "iso2022_jp_ext", b"\x1b(": "iso2022_jp_ext"}

_META = re.compile(rb"<meta\s[^>]{0,1024}?charset\s*+=\s*+[\"']?\s*+([A-Za-z0-9_:.\-]{2,40})", re.I)
_XML = re.compile(rb"^\s{0,64}<\?xml\s[^>]{0,256}?encoding\s*=\s*[\"']([A-Za-z0-9_:.\-]{2,40})[\"']", re.I)
_COMMENT = re.compile(rb"<!--.*?-->", re.S)
PRESCAN_BYTES = 8192
"""The standard requires 1,024; browsers continue to the end of the head."""

CHANCE_BYTES = 12
"""Up to this many continuation bytes, East Asian text may be valid UTF-8 by chance."""


def codec(label: str | None) -> str | None:
    """The Python codec for a label from headers or markup, or None if it is unknown."""
    if not label:
        return None
    label = label.strip().strip("\"'").lower()
    name = _MORE_LABELS.get(label) or map_encoding_to_html5(label, fallback_utf8=False)
    return _WIDER.get(name, name) if name else None


def name_of(name: str) -> str:
    """The name of a codec on the web."""
    if name.startswith("cp125"):
        return "windows-" + name[2:]
    return _NAMES.get(name, name.replace("iso8859", "iso-8859"))


def declared_in_markup(body: bytes) -> str | None:
    """The codec that a <meta> or XML declaration names. It cannot be UTF-16, since the name was read as ASCII."""
    head = body[:PRESCAN_BYTES]
    closed = head.rfind(b"-->") + 3  # there are no comments after the last end mark
    plain = _COMMENT.sub(b"", head[:closed]) + head[closed:] if closed > 2 else head
    found = _META.search(plain) or _XML.search(head)
    name = codec(found[1].decode("ascii")) if found else None
    return "utf-8" if name and name.startswith("utf-16") else name


def is_plain_utf8(body: bytes, label: str | None) -> bool:
    """Whether decoding would return the same bytes as UTF-8 and can be skipped. False if that is not clear.

    A page of only ASCII may be HZ, and a page with few other characters may be East Asian text that is UTF-8 by chance.
    """
    if body.startswith(_BOM_BYTES) or b"\x1b" in body or b"\0" in body:
        return False
    more = continuation_bytes(body)
    return more > CHANCE_BYTES or (more >= 0 and not label) or (more == 0 and b"~{" not in body)


def decode(body: bytes, label: str | None, markup: bool) -> tuple[str, str, int]:
    """The text, the name of its encoding, and the number of replacement characters that decoding inserted.

    `label` is the charset in the HTTP header; `markup` allows a search for <meta>.
    """
    for mark, name in BOMS:
        if body.startswith(mark):
            text = body[len(mark) :].decode(name, "replace")
            return text, name, text.count("\ufffd") if name != "utf-8" else _added(body, text)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return _legacy(body, codec(label), markup)
    if b"\x1b" in body or b"\0" in body or (label and len(body) - len(text) <= CHANCE_BYTES):
        return _maybe_not_utf8(body, text, label, markup)
    return text, "utf-8", 0


def _added(body: bytes, text: str) -> int:
    return text.count("\ufffd") - body.count(b"\xef\xbf\xbd")


def _maybe_not_utf8(body: bytes, text: str, label: str | None, markup: bool) -> tuple[str, str, int]:
    """Decodes valid UTF-8 that may still be something else: a 7-bit encoding, UTF-16, a few East Asian characters."""
    declared = codec(label) or (declared_in_markup(body) if markup else None)
    tries = [declared] if declared in _EAST_ASIAN and len(text) < len(body) else []
    if declared == "hz" and b"~{" in body:
        tries.append("hz")
    if b"\x1b" in body:
        tries += [name for escape, name in _STATEFUL.items() if escape in body]
    if b"\0" in body:
        tries += [name] if (name := _looks_utf16(body)) else []
    for name in tries:
        try:
            return _sound(body.decode(name)), name_of(name), 0
        except UnicodeError:
            continue
    return text, "utf-8", 0


def _looks_utf16(body: bytes) -> str | None:
    """Detects UTF-16 without a BOM: in mostly Latin text, markup included, every other byte is zero."""
    head = body[:1024]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd * 4 > len(head) and even * 16 < odd:
        return "utf-16-le"
    return "utf-16-be" if even * 4 > len(head) and odd * 16 < even else None


def _legacy(body: bytes, http: str | None, markup: bool) -> tuple[str, str, int]:
    """Decodes bytes that are not UTF-8: the declared encoding if it fits, else the best of all candidates."""
    text = body.decode("utf-8", "replace")
    added = _added(body, text)
    if len(body) - len(text) >= 20 * added:  # continuation bytes in order: UTF-8 with a few damaged characters
        return text, "utf-8", added
    if b"\0" in body and (wide := _looks_utf16(body)):
        return _decoded(body, wide)
    meta = declared_in_markup(body) if markup else None
    says_utf8 = (http or meta) == "utf-8"
    if says_utf8 and 3 * (len(body) - len(text)) >= added:  # legacy text hardly ever forms valid sequences
        return text, "utf-8", added
    order = [http, meta]
    if http == "cp1252" and meta not in (None, "utf-8"):
        order = [meta, http]
    best: tuple[str, str, int] | None = None
    for name in order:
        if name is None or (name == "utf-8" and len(body) - len(text) < added):
            continue
        best = _better(best, _decoded(body, name))
        if best[2] * 1000 <= len(best[0]):
            return best
    # Use the detector's own names: its mapping to web names takes Korean for UTF-8 (resiliparse 1.1). Names that the
    # web does not know, such as DOS code pages, are bad guesses.
    detected = codec(detect_encoding(body, html5_compatible=False))
    if detected in _LATIN and _high_bytes(body) < FEW_BYTES:
        detected = "cp1252"
    if detected and detected != "utf-8":
        best = _better(best, _decoded(body, detected))
    if best is None or (best[1] == "utf-8" and best[2] * 2 > len(best[0])):
        best = _decoded(body, "cp1252")
    if says_utf8 and codec(best[1]) in _WESTERN and _high_bytes(body) > MOST_WESTERN * len(body):
        return text, "utf-8", added
    return best


def _high_bytes(body: bytes) -> int:
    return len(body) - len(body.translate(None, _HIGH_BYTES))


def _better(best: tuple[str, str, int] | None, other: tuple[str, str, int]) -> tuple[str, str, int]:
    return best if best is not None and best[2] <= other[2] else other


def _decoded(body: bytes, name: str) -> tuple[str, str, int]:
    try:
        return _sound(body.decode(name)), name_of(name), 0
    except UnicodeError:
        text = body.decode(name, "replace").encode("utf-8", "replace").decode()
        return text, name_of(name), text.count("\ufffd")


def _sound(text: str) -> str:
    """Returns the text, or raises UnicodeError if it has a lone surrogate, which some codecs let through."""
    text.encode()
    return text
