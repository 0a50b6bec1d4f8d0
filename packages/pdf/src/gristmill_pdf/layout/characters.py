"""Characters and words of PDF text: ligatures, superscripts and subscripts, and words that are hyphenated."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from gristmill.stages.shared.normalise import normalise
from gristmill.stages.shared.scripts import write_scripts
from gristmill_pdf.kernels.segments import IN_FORMULA, LOWERED, RAISED

_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_LIGATURES |= {0x2: "-", 0x7F: "-", 0xAD: "-", 0x2010: "-", 0xA0: " ", 0xF0B7: "•", 0xF0A7: "▪"}
_DOTLESS = re.compile("[\u0131\u0237](?=[\u0300-\u036f])")
"""The letters over which TeX draws the accents of i and j."""
_STROKE = re.compile("\u0338 ?([=<>|∃∈∋∣∥∼≃≅≈≡≤≥≺≻⊂⊃⊆⊇⊢←→↔⇐⇒⇔])")
"""The stroke that TeX draws before the sign that it crosses out."""
_SCRIPT_STEP = LOWERED - RAISED
_SCRIPTS = re.compile("|".join(
    f"[{chr(sign)}-{chr(sign + _SCRIPT_STEP - 1)}"
    f"{chr(sign + IN_FORMULA)}-{chr(sign + IN_FORMULA + _SCRIPT_STEP - 1)}]+"
    for sign in (RAISED, LOWERED)
))  # fmt: skip
_LONG_WORD_END = re.compile(r"[^\W\d_]{3}\Z")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_RTL = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_ARABIC_DIGIT = "[\u0660-\u0669\u06f0-\u06f9]"
_RIGHT_TO_LEFT = re.compile(f"[{_RTL}]")
_RUN = re.compile(f"[{_RTL}](?:[^\\w]*[{_RTL}])*")
_LEFT_TO_RIGHT = re.compile(
    f"[^\\W{_RTL}](?:[^{_RTL}]*[^\\W{_RTL}])?|{_ARABIC_DIGIT}(?:[.,:/\u066b\u066c]?{_ARABIC_DIGIT})*"
)
"""Latin words and numbers in a line that is read from right to left, and what is between them; numbers in Arabic
digits."""
_FORMS = re.compile("[\ufb50-\ufdff\ufe70-\ufefc]")
"""Shapes of Arabic letters, which have their own code points."""
_CLUSTER = re.compile("(?s).[\u0300-\u036f\u034f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]*")
"""A character and its marks."""
_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")
HYPHENS = ("-", "\u00ad", "\u2010", "\x02", "\x7f")
MOST_WORD_CHARS = 60
"""Longer words are not taken apart."""
LEAST_PART_CHARS = 4
"""Two words of the document that are at least this long keep the hyphen between them."""


def plain(text: str) -> str:
    """Text with ordinary letters, and with scripts as signs: x^2, a_n."""
    text = _DOTLESS.sub(lambda match: "ij"[match[0] == "\u0237"], text.translate(_LIGATURES))
    text = _STROKE.sub("\\1\u0338", text)
    if not text or max(text) < chr(RAISED):
        return text
    return write_scripts(_SCRIPTS.sub(_marked, text))


def base_chars(text: str) -> str:
    """Superscripts and subscripts as ordinary characters."""
    return "".join(chr((ord(char) - RAISED) % _SCRIPT_STEP) if ord(char) >= RAISED else char for char in text)


def _marked(match: re.Match[str]) -> str:
    """A script as `write_scripts` takes it. One in a formula follows the end of a formula, so it is never a mark."""
    codes = [ord(char) - RAISED for char in match[0]]
    in_formula = max(codes) >= IN_FORMULA
    sign = "_" if codes[0] % IN_FORMULA >= _SCRIPT_STEP else "^"
    chars = base_chars(match[0])
    if chars.strip("′") == "":
        return chars
    before = match.string[max(match.start() - 3, 0) : match.start()]
    if not in_formula and chars.isalpha() and len(chars) == 1 and sign == "^" and _LONG_WORD_END.search(before):
        return f"^{chars}"  # the mark of an author's address
    return f"{chr(0x7F)})" * in_formula + f"{chr(0x7F)}{sign}{chars}{chr(0x7F)})"


def logical(text: str) -> str:
    """A line as it is read, from its characters from left to right: Hebrew and Arabic are read from right to left."""
    if not (found := _RIGHT_TO_LEFT.findall(text)):
        return text
    text = _FORMS.sub(lambda match: unicodedata.normalize("NFKC", match[0])[::-1], text)
    if 2 * len(found) < sum(map(str.isalpha, text)):
        return _RUN.sub(lambda match: _reversed(match[0]), text)
    return _LEFT_TO_RIGHT.sub(lambda match: _reversed(match[0]), _reversed(text))


def _reversed(text: str) -> str:
    return "".join(_CLUSTER.findall(text)[::-1]).translate(_MIRRORED)


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
        is_chain = text[len(second) : len(second) + 1] == "-" and known[first.lower()] and known[second.lower()]
        return not (is_chain or _keeps_hyphen(first, second, known)), ""
    return False, "" if _is_wide(before[-1:]) and _is_wide(text[:1]) else " "


def _keeps_hyphen(first: str, second: str, known: Counter[str]) -> bool:
    """Whether a hyphen at the end of a line belongs to the word."""
    if "-" in first:  # log-proba|bility
        return not known[f"{first.rpartition('-')[2]}{second}".lower()]
    if (len(first) > 1 and first.isupper() and second.islower()) or any(map(str.isdigit, second)):
        return True  # URL-encoded, kfreebsd-amd64
    hyphenated, one = known[f"{first}-{second}".lower()], known[f"{first}{second}".lower()]
    if not second[:1].islower() and not (first.isupper() and second.isupper() and len(second) > 1):
        return one <= hyphenated
    if hyphenated or one:
        return hyphenated > one
    if len(first) == 1 and first.isupper():
        return True  # F-score: no hyphenation leaves one letter
    has_first, has_second = known[first.lower()], known[second.lower()]
    is_long = min(len(first), len(second)) >= LEAST_PART_CHARS
    is_first, is_last = known[f"{first}-".lower()], known[f"-{second}".lower()]
    return bool((has_first and has_second and is_long) or (is_first and has_second) or (is_last and has_first))


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
    found.update(_usual_parts(found))
    return found


def _usual_parts(words: Counter[str]) -> Counter[str]:
    """The first parts (`non-`) and last parts (`-level`) of compounds that have a hyphen more often than none."""
    parts: Counter[str] = Counter()
    for word in words:
        if "-" in word:
            parts.update((f"{word.partition('-')[0]}-", f"-{word.rpartition('-')[2]}"))
    for word in words:
        for at in range(2, len(word) - 1 if len(word) <= MOST_WORD_CHARS else 0):
            first, last = word[:at], word[at:]
            for part, other in ((f"{first}-", last), (f"-{last}", first)):
                if part in parts and other in words:
                    parts[part] -= 1
    return +parts
