"""The vocabulary: its token lengths, tokens that are never used, and tokens that should not exist.

None of this fails an audit. It shows what the training text was like: a token is a string that was frequent enough for
an embedding row, so a file header, a password or a broken encoding among the tokens means that the text had too many of
them.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill_tokenizer.subject import Merge, Subject

Array = np.ndarray[Any, Any]

EXAMPLES = 40
"""The most examples of each kind."""

MERGES_SHOWN = 30
LONG_RUN, LONG_BLANK_RUN = 16, 33
"""Limits in characters. Rulers of 16 and indentation of 32 are common; longer runs waste embedding rows."""
LONG_LITERAL_BYTES = 24
ONE_DOCUMENT_USES = 50
"""The fewest uses in one document, and none in any other, for a token to count as specific to that document."""

# Each pattern starts at the start of a run: a match attempt inside a run would scan the rest again (quadratic time).
_PII = {
    "email": re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[a-z]{2,}", re.I),
    "ip": re.compile(r"(?<!\d)(?:\d{1,3}\.){3}\d{1,3}(?!\d)"),
    "phone": re.compile(r"\+?\d[\d ()/.-]{7,}\d"),
    "url_with_user": re.compile(r"(?<!\w)\w+://[^\s/@]+@", re.A),
    "long_hex": re.compile(r"(?<![0-9a-f])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{16,}", re.I),
}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs", "Mn", "Me")
_RUN = re.compile(r"(.)\1*", re.S)
_LETTERS_THEN_OTHER = re.compile(r"[^\W\d_](?:\d|[^\w\s'\u2019])|\d[^\W\d_]")


def readable(token: bytes) -> str:
    """A token as readable text: visible spaces, counted long runs, and escapes for unprintable characters."""
    shown = []
    for run in _RUN.finditer(token.decode("utf-8", "backslashreplace")):
        character, count = run[1], len(run[0])
        if character == " ":
            character = "\u2423"
        elif unicodedata.category(character) in _UNSEEN:
            character = character.encode("unicode_escape").decode()
        shown.append(character * count if count < LONG_RUN else f"{character}{{{count}}}")
    return "".join(shown)


def token_tables(subject: Subject, uses: Array, documents: Array) -> dict[str, Any]:
    """All tables about tokens. `uses` and `documents` count the occurrences of each id, and the texts that have it."""
    return {
        "merges": {
            "count": len(subject.merges),
            "first": [_merge(merge) for merge in subject.merges[:MERGES_SHOWN]],
            "last": [_merge(merge) for merge in subject.merges[-MERGES_SHOWN:]],
        },
        "dead": dead_tokens(subject, uses),
        "unreachable": unreachable_tokens(subject),
        "junk": _by_kind(subject, {number: junk(subject.tokens[number]) for number in subject.ordinary})
        | _by_kind(subject, dict.fromkeys(_of_one_document(subject, uses, documents), "of_one_document")),
        "private": _by_kind(subject, {number: private(subject.tokens[number]) for number in subject.ordinary}),
        "long_literals": _shown(
            subject,
            [number for number in subject.ordinary if _letter_bytes(subject.tokens[number]) > LONG_LITERAL_BYTES],
        ),
    }


def dead_tokens(subject: Subject, uses: Array) -> dict[str, Any]:
    """Tokens that the sample never uses: early merges that are halves of longer tokens, or text that it lacks.

    Single bytes are counted, but not shown: 13 of them never occur in UTF-8.
    """
    dead = [number for number in subject.ordinary if uses[number] == 0]
    longer = [number for number in dead if len(subject.tokens[number]) > 1]
    share = len(dead) / max(1, len(subject.ordinary))
    return {**_shown(subject, longer), "count": len(dead), "share": share, "single_bytes": len(dead) - len(longer)}


def unreachable_tokens(subject: Subject) -> dict[str, Any]:
    """Tokens whose own text is encoded differently: another merge comes first, or the pattern splits them."""
    spelled = {}
    for number in subject.ordinary:
        try:
            spelled[number] = subject.tokens[number].decode()
        except UnicodeDecodeError:
            continue
    ids, offsets = subject.tokenizer.encode(pa.array(list(spelled.values()), pa.string()))
    single = np.diff(offsets) == 1
    found = np.full(len(spelled), -1, np.int64)
    found[single] = ids[offsets[:-1][single]]
    missed = np.asarray(list(spelled), np.int64)[found != np.asarray(list(spelled), np.int64)]
    return {**_shown(subject, missed.tolist()), "not_tested": len(subject.ordinary) - len(spelled)}


def junk(token: bytes) -> str | None:
    """The fault of a token that a clean corpus would not produce; None for a good token."""
    try:
        text = token.decode()
    except UnicodeDecodeError as error:
        whole = token[: error.start].decode() + token[error.end :].decode("utf-8", "ignore")
        return "part_of_a_character_with_others" if whole.strip() else None
    if len(text) > 1:
        longest = max(len(run[0]) for run in _RUN.finditer(text))
        if longest >= (LONG_BLANK_RUN if text.isspace() else LONG_RUN):
            return "long_run"
    if len(text) > 1 and "\ufffd" in text:
        return "replacement_character"
    if len(text) > 1 and any(unicodedata.category(one) == "Cc" and one not in "\t\n\r" for one in text):
        return "control_character"
    if _mojibake(text):
        return "wrongly_decoded"
    if _LETTERS_THEN_OTHER.search(text):
        return "letters_with_digits_or_symbols"
    return None


def private(token: bytes) -> str | None:
    """The kind of private or random string in a token; None for other tokens."""
    text = token.decode("utf-8", "ignore")
    if len(text) < 7:
        return None
    for kind, expression in _PII.items():
        if expression.search(text):
            return kind
    found = _BASE64.search(text)
    return "base64" if found and _is_random(found[0]) else None


def _is_random(text: str) -> bool:
    """Whether at least one in eight characters is unusual, as in `G8gd29yb`: words in camel case have runs of two or
    more lower-case letters (except `DsRole`), single upper-case letters (except `HTTP`), and hardly any digits.
    """
    runs = (
        (kind, len(list(run)))
        for kind, run in groupby(text, lambda one: "upper" if one.isupper() else "lower" if one.islower() else "digit")
    )
    odd = sum(kind == "digit" or (size > 1 if kind == "upper" else size == 1) for kind, size in runs)
    return odd * 8 >= len(text) and text.lower() != text


def _mojibake(text: str) -> bool:
    """Whether a text is UTF-8 that was decoded as Windows-1252, so that one character became several."""
    if text.isascii():
        return False
    try:
        return len(text.strip().encode("cp1252").decode("utf-8")) < len(text.strip())
    except UnicodeError:
        return False


def _letter_bytes(token: bytes) -> int:
    """The longest run of letters and combining marks, in bytes."""
    most = run = 0
    for character in token.decode("utf-8", "ignore"):
        run = run + len(character.encode()) if unicodedata.category(character)[0] in "LM" else 0
        most = max(most, run)
    return most


def _of_one_document(subject: Subject, uses: Array, documents: Array) -> list[int]:
    if documents.max(initial=0) < 2:
        return []
    return [
        number
        for number in subject.ordinary
        if documents[number] == 1 and uses[number] >= ONE_DOCUMENT_USES and _letter_bytes(subject.tokens[number]) >= 8
    ]


def _merge(merge: Merge) -> list[str]:
    return [readable(merge[0]), readable(merge[1]), readable(merge[0] + merge[1])]


def _by_kind(subject: Subject, kinds: Mapping[int, str | None]) -> dict[str, dict[str, Any]]:
    found: dict[str, list[int]] = {}
    for number, kind in kinds.items():
        if kind is not None:
            found.setdefault(kind, []).append(number)
    return {kind: _shown(subject, found[kind]) for kind in sorted(found)}


def _shown(subject: Subject, numbers: Iterable[int]) -> dict[str, Any]:
    """The count, and the first examples."""
    chosen = list(numbers)
    examples = [{"id": number, "token": readable(subject.tokens[number])} for number in chosen[:EXAMPLES]]
    return {"count": len(chosen), "examples": examples}
