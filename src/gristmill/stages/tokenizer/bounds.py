"""What a tokenizer file may ask for: ids up to a bound, each a whole number, tokens of a bounded length.

A file says in eleven bytes that a token has the id 4,000,000,000, and a table of that many rows fills the memory; so
ids are looked at before anything is built from them.
"""

from collections.abc import Iterable
from typing import Any

from gristmill.errors import UserError

MOST_BYTES = 1 << 28
"""Of a file. That of a vocabulary of 256,000 tokens has some 35 MB."""
MOST_IDS = 1 << 22
"""Sixteen times the largest vocabularies in use; each id is a row of an embedding."""
MOST_TOKEN_BYTES = 1 << 10
"""Of a token that is cut in two at every place, as those of rank files are; the longest in use have 512 spaces."""


def check_spec(spec: Any, uri: str) -> None:
    """UserError where the ids of a `tokenizer.json` are not such."""
    model = spec.get("model") if isinstance(spec, dict) else None
    if not isinstance(model, dict):
        raise _refused(uri, "is not a tokenizer.json: it has no model")
    vocabulary = model.get("vocab", {})
    if isinstance(vocabulary, dict):  # Unigram has a list: its ids are its places
        check_ids(vocabulary.items(), uri)
    elif not isinstance(vocabulary, list) or len(vocabulary) > MOST_IDS:
        raise _refused(uri, "has a vocabulary that is no mapping of tokens to ids")
    added = spec.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise _refused(uri, "has added_tokens that are no list of tokens")
    check_ids(((token.get("content"), token.get("id")) for token in added), uri)


def check_ids(tokens: Iterable[tuple[Any, Any]], uri: str) -> None:
    """UserError where a token is not text or bytes, or its id is no whole number from 0 to `MOST_IDS`."""
    for token, number in tokens:
        if not isinstance(token, str | bytes):
            raise _refused(uri, f"has a token that is not text ({type(token).__name__})")
        shown = repr(token[:40])
        if not isinstance(number, int) or isinstance(number, bool):
            raise _refused(uri, f"gives the token {shown} an id that is no whole number ({str(number)[:40]})")
        if not 0 <= number < MOST_IDS:
            told = number if abs(number) < 10**30 else "of more than 30 digits"
            raise _refused(uri, f"gives the token {shown} the id {told}, and ids go from 0 to {MOST_IDS - 1}")


def _refused(uri: str, fact: str) -> UserError:
    return UserError(f"{uri} {fact}, so no text can be encoded. Get a whole copy, or save it again.")
