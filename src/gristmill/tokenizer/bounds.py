"""Bounds on tokenizer files: the largest id, the length of tokens, and how much steps may lengthen a text.

Eleven bytes in a file can give a token the id 4,000,000,000, and a table with that many rows fills the memory; so ids
are checked before anything is built from them. Forty steps that each double the text fill it as well, and then the
library ends the process.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from gristmill.counted import counted
from gristmill.errors import UserError

MOST_BYTES = 1 << 28
"""Size limit of a file. A vocabulary of 256,000 tokens takes about 35 MB."""
MOST_IDS = 1 << 22
"""Sixteen times the largest vocabularies in use; each id is a row of an embedding."""
MOST_UNUSED = 1 << 18
"""Ids without a token, beyond the number of tokens: files reserve some ids, not a million."""
MOST_TOKEN_BYTES = 1 << 10
"""Length limit of tokens in rank files, which are split at every position; the longest in use are 512 spaces."""

MOST_GROWTH = 64
"""In real files, a space becomes three bytes (▁) and then six (the byte alphabet)."""
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_STEPS = ("normalizers", "pretokenizers", "processors", "decoders")


def check_spec(spec: Any, uri: str) -> None:
    """Raise UserError if the ids or steps of a `tokenizer.json` are outside the bounds."""
    model = spec.get("model") if isinstance(spec, dict) else None
    if not isinstance(model, dict):
        raise _refused(uri, "is not a tokenizer.json: it has no model")
    for part in _PARTS:
        if not isinstance(spec.get(part) or {}, dict):
            raise _refused(uri, f"has a {part} that is not a mapping")
    for parts in (_PARTS[:3], _PARTS[3:]):
        if _growth([spec.get(part) for part in parts]) > MOST_GROWTH:
            named = " and ".join(part for part in parts if spec.get(part))
            raise _refused(uri, f"has steps ({named}) that make a text more than {MOST_GROWTH} times longer")
    vocabulary = model.get("vocab", {})
    if isinstance(vocabulary, dict):  # Unigram has a list: ids are positions
        numbered = vocabulary.items()
    elif not isinstance(vocabulary, list) or len(vocabulary) > MOST_IDS:
        raise _refused(uri, "has a vocabulary that is not a mapping of tokens to ids")
    else:
        numbered = {str(index): index for index in range(len(vocabulary))}.items()
    _check_prefix(model, uri)
    added = spec.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise _refused(uri, "has added_tokens that are not a list of tokens")
    check_ids(chain(numbered, ((token.get("content"), token.get("id")) for token in added)), uri)


def _check_prefix(model: dict[str, Any], uri: str) -> None:
    """Check merges: the library cuts the prefix off the second side of each, and crashes if it is shorter."""
    prefix, merges = model.get("continuing_subword_prefix"), model.get("merges")
    if not isinstance(prefix, str) or not isinstance(merges, list):
        return
    size = len(prefix.encode("utf-8", "replace"))
    for merge in merges:
        sides = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(sides, list) or len(sides) != 2 or not isinstance(sides[1], str):
            continue  # the library reports the fault
        side = sides[1].encode("utf-8", "replace")
        if len(side) < size or (side[size:] and 0x80 <= side[size] < 0xC0):
            raise _refused(uri, f"has a merge with {sides[1][:40]!r}, without the prefix {prefix[:40]!r}")


def _growth(steps: object) -> int:
    """How many times longer the steps, applied in order, may make a text. Above the bound, any larger number."""
    growth = 1
    for step in steps if isinstance(steps, list) else ():
        if growth > MOST_GROWTH or not isinstance(step, dict):
            continue
        if step.get("type") == "ByteLevel":
            growth *= 2
        elif step.get("type") == "Replace":
            growth *= _replaced(step.get("pattern"), step.get("content"))
        for name in _STEPS:
            growth *= _growth(step.get(name))
    return growth


def _replaced(pattern: object, content: object) -> int:
    """The growth of one replacement. An expression is assumed to match at least one byte."""
    known = pattern.get("String") if isinstance(pattern, dict) else None
    matched = len(known.encode("utf-8", "replace")) if isinstance(known, str) else 1
    written = len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0
    return max(1, -(-written // matched) if matched else 1 + written)


def check_ids(tokens: Iterable[tuple[Any, Any]], uri: str) -> None:
    """Raise UserError if a token is not text or bytes, its id is not below `MOST_IDS`, or most ids are unused."""
    count, highest = 0, -1
    for token, number in tokens:
        if not isinstance(token, str | bytes):
            raise _refused(uri, f"has a token that is not text ({type(token).__name__})")
        shown = repr(token[:40])
        if not isinstance(number, int) or isinstance(number, bool):
            raise _refused(uri, f"gives the token {shown} an id that is not a whole number ({str(number)[:40]})")
        if not 0 <= number < MOST_IDS:
            label = number if abs(number) < 10**30 else "of more than 30 digits"
            raise _refused(uri, f"gives the token {shown} the id {label}, but ids are 0 to {MOST_IDS - 1}")
        count, highest = count + 1, max(highest, number)
    if highest > 2 * count + MOST_UNUSED:
        raise _refused(uri, f"has {counted(count, 'token')} but ids up to {highest}, nearly all without a token")


def _refused(uri: str, fact: str) -> UserError:
    return UserError(f"{uri} {fact}, so no text can be encoded. Get a complete copy, or save it again.")
