"""Characters and words of PDF text: ligatures, superscripts and subscripts, and words that are hyphenated."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from gristmill.kernels.pdf.segments import IN_FORMULA, LOWERED, RAISED
from gristmill.stages.shared.normalise import normalise
from gristmill.stages.shared.scripts import write_scripts

_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_LIGATURES |= {0x2: "-", 0x7F: "-", 0xAD: "-", 0x2010: "-", 0xA0: " ", 0xF0B7: "•", 0xF0A7: "▪"}
_SCRIPT_STEP = LOWERED - RAISED
_SCRIPTS = re.compile(
    "|".join(
        f"[{chr(first)}-{chr(first + _SCRIPT_STEP - 1)}]+"
        for first in (RAISED, LOWERED, RAISED + IN_FORMULA, LOWERED + IN_FORMULA)
    )
)
_LONG_WORD_END = re.compile(r"[^\W\d_]{3}\Z")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
HYPHENS = ("-", "\u00ad", "\u2010", "\x02", "\x7f")
LEAST_PART_CHARS = 4
"""Two words of the document that are at least this long keep the hyphen between them."""


def plain(text: str) -> str:
    """Text with ordinary letters, and with scripts as signs: x^2, a_n."""
    text = text.translate(_LIGATURES)
    if not text or max(text) < chr(RAISED):
        return text
    return write_scripts(_SCRIPTS.sub(_marked, text))


def base_chars(text: str) -> str:
    """Superscripts and subscripts as ordinary characters."""
    return "".join(chr((ord(char) - RAISED) % _SCRIPT_STEP) if ord(char) >= RAISED else char for char in text)


def _marked(match: re.Match[str]) -> str:
    """A script as `write_scripts` takes it. One in a formula follows the end of a formula, so it is never a mark."""
    code = ord(match[0][0]) - RAISED
    sign = "_" if code % IN_FORMULA >= _SCRIPT_STEP else "^"
    chars = base_chars(match[0])
    before = match.string[max(match.start() - 3, 0) : match.start()]
    if code < IN_FORMULA and chars.isalpha() and len(chars) == 1 and sign == "^" and _LONG_WORD_END.search(before):
        return f"^{chars}"  # the mark of an author's address
    return f"{chr(0x7F)})" * (code >= IN_FORMULA) + f"{chr(0x7F)}{sign}{chars}{chr(0x7F)})"


def clean(text: str) -> str:
    return normalise(plain(text), 0).strip()


def joined(lines: Iterable[str], known: Counter[str]) -> str:
    """The lines of a paragraph as one text."""
    parts: list[str] = []
    for line in lines:
        new = plain(line).strip()
        if parts and new:
            cut, glue = seam(parts[-1], new, known)
            parts[-1] = parts[-1][:-1] if cut else parts[-1]
            new = glue + new
        parts.append(new)
    return clean("".join(parts))


def seam(before: str, text: str, known: Counter[str]) -> tuple[bool, str]:
    """How two parts of a paragraph are joined: whether the hyphen goes, and what comes between them."""
    if before.endswith("-") and len(before) > 1 and before[-2].isalpha() and text[:1].isalpha():
        first, second = re.split(r"[^\w-]", before[-61:-1])[-1], re.split(r"[^\w]", text[:60], maxsplit=1)[0]
        return not _keeps_hyphen(first, second, known), ""
    return False, "" if _is_wide(before[-1:]) and _is_wide(text[:1]) else " "


def _keeps_hyphen(first: str, second: str, known: Counter[str]) -> bool:
    """Whether a hyphen at the end of a line belongs to the word."""
    if "-" in first:
        return True
    hyphenated, one = known[f"{first}-{second}".lower()], known[f"{first}{second}".lower()]
    if not second[:1].islower() and not (first.isupper() and second.isupper() and len(second) > 1):
        return one <= hyphenated
    if not hyphenated and not one and min(len(first), len(second)) >= LEAST_PART_CHARS:
        return bool(known[first.lower()] and known[second.lower()])
    return hyphenated > one


def _is_wide(char: str) -> bool:
    """Whether a character belongs to a script that is written without spaces."""
    return "\u2e80" <= char <= "\u9fff" or "\uff00" <= char <= "\uffef" or "\U00020000" <= char <= "\U0003ffff"


def words_of(lines: Sequence[str]) -> Counter[str]:
    """The words of a document, if a line ends with a hyphen."""
    if not any(line.endswith(HYPHENS) for line in lines):
        return Counter()
    found: Counter[str] = Counter()
    for line in "\n".join(lines).split("\n"):
        text = plain(line)
        words = _WORD.findall(text.lower())
        found.update(words[1:-1] if text.endswith("-") else words[1:])
    return found
