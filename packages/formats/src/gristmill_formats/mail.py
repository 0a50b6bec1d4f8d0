"""The text of a mail: of its parts, without attachments, quotations and signatures, and its headers as text."""

import re
from collections.abc import Callable, Iterator
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.policy import Compat32
from typing import Any

Decode = Callable[[bytes, str | None, bool], tuple[str, str, int]]
"""Bytes, their declared charset, and whether they are markup -> the text, its charset, replaced characters."""

MAX_PARTS = 100
_REPLY = re.compile(
    r"(\[[^\[\]]{1,60}\]\s{0,8})?(?:\s{0,8}(?:re|aw|sv|antw|fwd?|wg)(?:\[\d{1,3}\])?\s{0,8}[::])+\s*", re.I
)
_QUOTED = re.compile(r"\s{0,3}(?:>|\|\s|[A-Za-z]{2,3}>\s)")
_ATTRIBUTION = re.compile(r"@|\d|wrote|writes|said|schrieb|écrit|escribió|пиш|написал", re.I)
_ORIGINAL = re.compile(
    r"-{2,30}\s{0,3}(?:(?:original|forwarded) message|ursprüngliche nachricht|next part|on\s.{1,200}\swrote:)[\s-]*",
    re.I,
)
"""A line above another mail; `next part` is above what Mailman writes for attachments."""
_ANNOUNCED = re.compile(
    r"(?:on|at|am|le|el|il|em|op|den|på|dnia|w dniu|в|quoting)\s|\d{1,4}[./-]\d|[-*]{2,30}\s|(?:from|date|sent)\s?:",
    re.I,
)
"""How the announcement of a quotation begins: `On Mon, 9 Nov 1999, Miller wrote:`."""
_FIELD = re.compile(r"(?:from|date|sent|to|cc|subject)\s?:\s", re.I)
_OUTLOOK = tuple(
    tuple(re.compile(rf"\W{{0,3}}{name}\s?:", re.I) for name in names.split())
    for names in (
        "From Sent To",
        "Von Gesendet An",
        "De Envoyé À",
        "De Enviado Para",
        "Da Inviato A",
        "Van Verzonden Aan",
    )
)
"""The first lines above a mail that Outlook quotes without signs, in some languages."""
_OUTLOOK_FIRST = re.compile(r"\W{0,3}(?:From|Von|De|Da|Van)\s?:", re.I)
_MOST_OUTLOOK_LINES = 6
_DEVICE = re.compile(
    r"(?:sent|gesendet|envoyé|enviado|inviato|verzonden) (?:from|von|de|desde|da|vanaf|via) "
    r"(?:my|meinem|mon|mi|meu|mijn|yahoo|outlook|mail for|samsung|proton) ?.{0,60}",
    re.I,
)
"""A signature that a telephone writes."""
_WRAPPED, _LONGEST_REST = 60, 30
"""Characters of a quoted line whose end a mail program has put on the next line, at least, and of that end, at most."""
_FOOTER = re.compile(r"[_=*-]{20,200}\s*")
_PGP_HEAD = re.compile(r"\A\s{0,8}-----BEGIN PGP SIGNED MESSAGE-----\n(?:[A-Za-z]{1,30}:[^\n]{0,200}\n){0,5}\n")
_PGP_SIGNATURE = "-----BEGIN PGP SIGNATURE-----"
_MOST_FOOTER_LINES = 8


LONGEST_HEADER = 16_384
"""Characters of a header that are read. A header is decoded in quadratic time."""
_LONGEST_KIND = 2_000
"""Characters of a header about the content (`Content-Type`). Its parameters are split in quadratic time, many times."""


class BoundedPolicy(Compat32):
    """Cuts what the parser of the standard library would split, as it reads the header."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_KIND] if name.lower().startswith("content-") else value


def header(message: Message, name: str, decode: Decode) -> str:
    """A header with its encoded words decoded, on one line; "" if the mail has none."""
    value = next((value for key, value in message.raw_items() if key.lower() == name), "")
    raw = str(value)[:LONGEST_HEADER].encode("ascii", "surrogateescape")
    text = raw.decode() if raw.isascii() else decode(raw, None, False)[0]
    parts = []
    try:
        for part, charset in decode_header(text) if "=?" in text else [(text, None)]:
            parts.append(decode(part, charset, False)[0] if isinstance(part, bytes) else part)
    except (MessageError, ValueError, LookupError):  # not base64
        parts = [text]
    return _sound(" ".join("".join(parts).split()))


def _sound(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\0", "")


def bare_subject(subject: str) -> str:
    """The subject without the marks of replies; the name of a list before them stays."""
    return _REPLY.sub(lambda found: found[1] or "", subject, count=1) if _REPLY.match(subject) else subject


def parts_of(message: Message) -> Iterator[Message]:
    """The parts that a reader of the mail sees; of alternatives, the plain text if there is one."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        inner: Any = part.get_payload()
        kind = part.get_content_type()
        if kind == "message/rfc822" and part is not message:
            continue  # another mail
        if not isinstance(inner, list):
            if not is_attachment(part):
                yield part
        elif kind == "multipart/alternative":
            plain = [one for one in inner if one.get_content_type() == "text/plain"]
            waiting += plain[:1] or inner[-1:]
        else:
            waiting += inner[::-1]


def is_attachment(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or part.get_content_type() not in ("text/plain", "text/html")


def part_text(part: Message, decode: Decode) -> tuple[str, str]:
    """The text or markup of a part, and the name of its charset."""
    body = part.get_payload(decode=True)
    data = body if isinstance(body, bytes) else b""
    is_html = part.get_content_type() == "text/html"
    text, charset, _ = decode(data, part.get_content_charset(), is_html)
    text = _sound(text.replace("\r\n", "\n").replace("\r", "\n"))
    flowed = str(part.get_param("format", "")).lower() == "flowed"
    return (_unwrapped(text) if flowed and not is_html else text), charset


def _unwrapped(text: str) -> str:
    """`format=flowed` (RFC 3676): a line that ends with a space continues on the next one."""
    parts: list[str] = []
    is_open = False
    for line in text.split("\n"):
        line = line[1:] if line.startswith(" ") else line
        is_quoted = line.startswith(">")
        parts.append(line if is_open and not is_quoted else f"\n{line}")
        is_open = line.endswith(" ") and line != "-- " and not is_quoted
    return "".join(parts)[1:]


def own_words(text: str) -> str:
    """What the author of a mail wrote: without quotations, with the lines that announce them, and signatures."""
    text = _PGP_HEAD.sub("", text).partition(_PGP_SIGNATURE)[0]
    lines = [line.rstrip() if line != "-- " else line for line in text.split("\n")]
    if "-- " in lines:
        lines = lines[: lines.index("-- ")]
    lines = _without_footer(lines)
    if "--" in lines[-_MOST_FOOTER_LINES:]:  # the space may be lost
        lines = lines[: len(lines) - 1 - lines[::-1].index("--")]
    while lines and (not lines[-1] or _DEVICE.fullmatch(lines[-1])):
        lines.pop()
    kept: list[str] = []
    begun = last_quoted = False
    for place, line in enumerate(lines):
        if _ORIGINAL.fullmatch(line) or (begun and _is_outlook(lines, place)):
            break
        if is_quoted := _QUOTED.match(line) is not None or (last_quoted and _is_rest(lines, place)):
            if not last_quoted:
                _cut_attribution(kept)
        elif line or not kept or kept[-1]:
            kept.append(line)
            begun |= bool(line)
        last_quoted = is_quoted or (last_quoted and not line)
    return "\n".join(kept).strip("\n")


def _is_outlook(lines: list[str], place: int) -> bool:
    """Whether the header of a mail that is quoted without signs begins here. That of a patch has no `Sent:`."""
    for first, *others in _OUTLOOK if _OUTLOOK_FIRST.match(lines[place]) else ():
        if first.match(lines[place]):
            below = lines[place + 1 : place + _MOST_OUTLOOK_LINES]
            return all(any(one.match(line) for line in below) for one in others)
    return False


def _is_rest(lines: list[str], place: int) -> bool:
    """Whether a line between two quoted ones is the end of the first, which a mail program has wrapped."""
    if not 0 < place < len(lines) - 1:
        return False
    before, line, after = lines[place - 1 : place + 2]
    is_between = bool(line and _QUOTED.match(before) and _QUOTED.match(after))
    return is_between and len(line) <= _LONGEST_REST and len(before) >= _WRAPPED and before[-1] not in ".?!:"


def _without_footer(lines: list[str]) -> list[str]:
    """The lines before the ruler that a mailing list writes below each mail."""
    while lines and not lines[-1].strip():
        lines.pop()
    for place in range(max(len(lines) - _MOST_FOOTER_LINES, 0), len(lines) - 1):
        below = " ".join(lines[place + 1 :])
        if _FOOTER.fullmatch(lines[place]) and ("list" in below.lower() or "://" in below):
            return lines[:place]
    return lines


def _cut_attribution(kept: list[str]) -> None:
    """Remove the lines above a quotation that say who wrote it: up to three, of which the last ends with a colon, or
    lines of a header."""
    while kept and not kept[-1]:
        kept.pop()
    first = len(kept)
    while first and kept[first - 1] and len(kept) - first < 3:
        first -= 1
    is_whole = not first or not kept[first - 1]
    begun = next((at for at in range(len(kept) - 1, first - 1, -1) if _ANNOUNCED.match(kept[at])), None)
    if kept and kept[-1].endswith(":") and (is_whole or begun is not None):
        begun = first if begun is None else begun
        if _ATTRIBUTION.search(" ".join(kept[begun:])):
            del kept[begun:]
    elif is_whole and len(kept) - first > 1 and all(map(_FIELD.match, kept[first:])):
        del kept[first:]
    if kept:
        kept.append("")
