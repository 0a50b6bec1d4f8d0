"""What a tokenizer file may ask for: ids up to a bound, each a whole number, tokens of a bounded length, steps that
make a text a bounded number of times longer.

A file says in eleven bytes that a token has the id 4,000,000,000, and a table of that many rows fills the memory; so
ids are looked at before anything is built from them. Forty steps that each double the text fill it as well, and the
library ends the process then.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from gristmill.counted import counted
from gristmill.errors import UserError

MOST_BYTES = 1 << 28
"""Of a file. That of a vocabulary of 256,000 tokens has some 35 MB."""
MOST_IDS = 1 << 22
"""Sixteen times the largest vocabularies in use; each id is a row of an embedding."""
MOST_UNUSED = 1 << 18
"""Ids without a token, beside as many as there are tokens: files leave room for later, not for a million."""
MOST_TOKEN_BYTES = 1 << 10
"""Of a token that is cut in two at every place, as those of rank files are; the longest in use have 512 spaces."""

MOST_GROWTH = 64
"""Spaces become three bytes (▁) and then six (the byte alphabet) in files that are in use."""
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_STEPS = ("normalizers", "pretokenizers", "processors", "decoders")


def check_spec(spec: Any, uri: str) -> None:
    """UserError where the ids or the steps of a `tokenizer.json` are not such."""
    model = spec.get("model") if isinstance(spec, dict) else None
    if not isinstance(model, dict):
        raise _refused(uri, "is not a tokenizer.json: it has no model")
    for part in _PARTS:
        if not isinstance(spec.get(part) or {}, dict):
            raise _refused(uri, f"has a {part} that is no mapping")
    for parts in (_PARTS[:3], _PARTS[3:]):
        if _growth([spec.get(part) for part in parts]) > MOST_GROWTH:
            told = " and ".join(part for part in parts if spec.get(part))
            raise _refused(uri, f"has steps ({told}) that make a text more than {MOST_GROWTH} times longer")
    vocabulary = model.get("vocab", {})
    if isinstance(vocabulary, dict):  # Unigram has a list: its ids are its places
        numbered = vocabulary.items()
    elif not isinstance(vocabulary, list) or len(vocabulary) > MOST_IDS:
        raise _refused(uri, "has a vocabulary that is no mapping of tokens to ids")
    else:
        numbered = {str(place): place for place in range(len(vocabulary))}.items()
    _check_prefix(model, uri)
    added = spec.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise _refused(uri, "has added_tokens that are no list of tokens")
    check_ids(chain(numbered, ((token.get("content"), token.get("id")) for token in added)), uri)


def _check_prefix(model: dict[str, Any], uri: str) -> None:
    """The library cuts the prefix off the second side of each merge, and breaks down where there is less to cut."""
    prefix, merges = model.get("continuing_subword_prefix"), model.get("merges")
    if not isinstance(prefix, str) or not isinstance(merges, list):
        return
    size = len(prefix.encode("utf-8", "replace"))
    for merge in merges:
        sides = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(sides, list) or len(sides) != 2 or not isinstance(sides[1], str):
            continue  # the library says what is wrong with it
        side = sides[1].encode("utf-8", "replace")
        if len(side) < size or (side[size:] and 0x80 <= side[size] < 0xC0):
            raise _refused(uri, f"has a merge with {sides[1][:40]!r}, which is no prefix {prefix[:40]!r} and a rest")


def _growth(steps: Any) -> int:
    """How many times longer the steps may make a text, one after the other; beyond the bound any number."""
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


def _replaced(pattern: Any, content: Any) -> int:
    """An expression is taken to match a byte at least."""
    known = pattern.get("String") if isinstance(pattern, dict) else None
    matched = len(known.encode("utf-8", "replace")) if isinstance(known, str) else 1
    written = len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0
    return max(1, -(-written // matched) if matched else 1 + written)


def check_ids(tokens: Iterable[tuple[Any, Any]], uri: str) -> None:
    """UserError where a token is not text or bytes, or its id is none from 0 to `MOST_IDS`, or few have ids."""
    count, highest = 0, -1
    for token, number in tokens:
        if not isinstance(token, str | bytes):
            raise _refused(uri, f"has a token that is not text ({type(token).__name__})")
        shown = repr(token[:40])
        if not isinstance(number, int) or isinstance(number, bool):
            raise _refused(uri, f"gives the token {shown} an id that is no whole number ({str(number)[:40]})")
        if not 0 <= number < MOST_IDS:
            told = number if abs(number) < 10**30 else "of more than 30 digits"
            raise _refused(uri, f"gives the token {shown} the id {told}, and ids go from 0 to {MOST_IDS - 1}")
        count, highest = count + 1, max(highest, number)
    if highest > 2 * count + MOST_UNUSED:
        raise _refused(
            uri, f"has {counted(count, 'token')} and ids up to {highest}, nearly all of them without a token"
        )


def _refused(uri: str, fact: str) -> UserError:
    return UserError(f"{uri} {fact}, so no text can be encoded. Get a whole copy, or save it again.")
