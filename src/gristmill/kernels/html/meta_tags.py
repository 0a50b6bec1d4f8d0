"""Finds `<meta …>` tags in the head of a page, in one pass over its bytes."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.hash.hashset import lower
from gristmill.kernels.memory import Bytes, view
from gristmill.kernels.text.ascii import APOSTROPHE, EXCLAMATION, GREATER, HYPHEN, LESS, QUOTE, SLASH, SP

Array = np.ndarray[Any, Any]

TAG_BYTES = 4096
"""Quotes are followed within this many bytes; a tag with an unclosed quote ends at its first `>`."""

_META, _HEAD, _BODY, _SCRIPT, _STYLE = (
    int.from_bytes(name, "big") for name in (b"meta", b"head", b"body", b"script", b"style")
)


@njit(nogil=True, cache=True)
def _name_at(data: Bytes, at: int, stop: int) -> int:
    """Returns the name of a tag, up to seven letters in lower case as one number; 0 for longer names or none."""
    name = 0
    # One byte for each letter.
    for place in range(at, min(at + 8, stop)):
        byte = lower(data[place])
        if byte <= SP or byte == SLASH or byte == GREATER:
            return name
        name = name << 8 | byte
    return 0


@njit(nogil=True, cache=True)
def _tag_end(data: Bytes, at: int, stop: int) -> int:
    """Returns the position after the `>` that ends a tag."""
    quote = 0
    first = -1
    # A `>` in quotes does not end the tag, unless the quotes never end.
    for place in range(at, min(stop, at + TAG_BYTES)):
        byte = data[place]
        if byte == GREATER:
            if quote == 0:
                return place + 1
            if first < 0:
                first = place + 1
        elif quote == 0 and (byte == QUOTE or byte == APOSTROPHE):
            quote = byte
        elif byte == quote:
            quote = 0
    return first if first > 0 else min(stop, at + TAG_BYTES)


@njit(nogil=True, cache=True)
def _skip_to(data: Bytes, at: int, stop: int, name: int) -> int:
    """Returns the end tag of an element whose content is not markup, or the end."""
    # Try each position.
    while at < stop:
        end_tag = data[at] == LESS and at + 1 < stop and data[at + 1] == SLASH
        if end_tag and _name_at(data, at + 2, stop) == name:
            break
        at += 1
    return at


@njit(nogil=True, cache=True)
def _skip_comment(data: Bytes, at: int, stop: int) -> int:
    # Try each position.
    while at + 2 < stop:
        if data[at] == HYPHEN and data[at + 1] == HYPHEN and data[at + 2] == GREATER:
            return at + 3
        at += 1
    return stop


@njit(nogil=True, cache=True)
def _has_any(data: Bytes, begin: int, end: int, words: Bytes, word_offsets: Array) -> bool:
    # Compare where the first letter is right.
    for at in range(begin, end):
        byte = lower(data[at])
        # There are few words.
        for word in range(len(word_offsets) - 1):
            first, size = word_offsets[word], word_offsets[word + 1] - word_offsets[word]
            if byte != words[first] or at + size > end:
                continue
            place = 1
            while place < size and lower(data[at + place]) == words[first + place]:
                place += 1
            if place == size:
                return True
    return False


@njit(nogil=True, cache=True)
def _doubled(table: Array) -> Array:
    more = np.empty((2 * len(table), 3), np.int64)
    # Copy the rows.
    for row in range(len(table)):
        for column in range(3):
            more[row, column] = table[row, column]
    return more


@njit(nogil=True, cache=True)
def find_tags(data: Array, offsets: Array, limit: int, words: Array, word_offsets: Array) -> Array:
    """Returns row, begin and end (int64) of every meta tag that contains one of `words` (in lower case, none empty).

    A head ends with `</head>`, `<body>` or after `limit` bytes. Comments, scripts and styles are not markup.
    """
    found = np.empty((64, 3), np.int64)
    count = 0
    text, sought = view(data), view(words)
    # Pages are independent of each other.
    for row in range(len(offsets) - 1):
        at = int(offsets[row])
        stop = min(at + limit, int(offsets[row + 1]))
        # Each turn skips a byte, or takes one tag or comment.
        while at < stop:
            if text[at] != LESS:
                at += 1
                continue
            name = _name_at(text, at + 1, stop)
            if name == _META:
                end = _tag_end(text, at, stop)
                if _has_any(text, at, end, sought, word_offsets):
                    if count == len(found):
                        found = _doubled(found)
                    found[count, 0], found[count, 1], found[count, 2] = row, at, end
                    count += 1
                at = end
            elif name in (_SCRIPT, _STYLE):
                at = _skip_to(text, at + 1, stop, name)
            elif name == _BODY:
                break
            elif at + 2 < stop and text[at + 1] == SLASH:
                if _name_at(text, at + 2, stop) == _HEAD:
                    break
                at += 2
            elif at + 3 < stop and text[at + 1] == EXCLAMATION and text[at + 2] == HYPHEN:
                at = _skip_comment(text, at + 3, stop)
            else:
                at += 1
    return found[:count]
