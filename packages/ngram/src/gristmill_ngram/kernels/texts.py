"""Whole texts as words for n-gram language models: in their normal form, and as hashes."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.memory import view
from gristmill.kernels.ngram.cut import LONGEST, ROOM, CutTables, cut_some
from gristmill.kernels.text.ascii import LF, SP
from gristmill.kernels.text.words import hash_bytes

Array = np.ndarray[Any, Any]


@njit(nogil=True, cache=True)
def cut_texts(data: Array, offsets: Array, tables: CutTables, words: Array, starts: Array) -> tuple[Array, Array]:
    """Returns the normal form of texts: words separated by spaces, sentences by line feeds, texts by nothing; and where
    each text ends in it. Other programs that train or score take this form.

    `words` (uint8, ROOM_BYTES) and `starts` (int64, [ROOM, 3]) are scratch.
    """
    text, bytes_ = view(data), view(words)
    views = view(tables)
    out = np.empty(2 * (offsets[-1] - offsets[0]) + 16, np.uint8)  # a wide letter becomes four bytes and a space
    ends = np.empty(len(offsets) - 1, np.int64)
    write = 0
    # Each text is cut alone.
    for row in range(len(offsets) - 1):
        at, stop, is_first, is_open = offsets[row], offsets[row + 1], True, False
        # Each turn cuts up to ROOM words.
        while at < stop:
            at, count, is_first = cut_some(text, at, stop, views, bytes_, starts, is_first)
            # Write the separator before each word but the first.
            for word in range(count):
                if is_open:
                    out[write] = LF if starts[word, 2] else SP
                    write += 1
                is_open = True
                # Words are short, so they are copied byte by byte.
                for place in range(starts[word, 0], starts[word, 1]):
                    out[write] = words[place]
                    write += 1
        ends[row] = write
    return out[:write].copy(), ends


@njit(nogil=True, cache=True)
def hash_texts(data: Array, offsets: Array, tables: CutTables, words: Array, starts: Array) -> tuple[Array, Array]:
    """Returns the hash of every word of all texts, 0 for one that is too long, and whether a sentence begins with it.

    Scratch as in `cut_texts`. A word takes at least two bytes of text, with the byte after it.
    """
    text, bytes_ = view(data), view(words)
    views = view(tables)
    room = (offsets[-1] - offsets[0]) // 2 + len(offsets) + ROOM
    hashes, firsts = np.empty(room, np.uint64), np.empty(room, np.bool_)
    found = 0
    # Each text is cut alone.
    for row in range(len(offsets) - 1):
        at, stop, is_first = offsets[row], offsets[row + 1], True
        # Each turn cuts up to ROOM words.
        while at < stop:
            at, count, is_first = cut_some(text, at, stop, views, bytes_, starts, is_first)
            # Hash the words of this turn.
            for word in range(count):
                begin, end = starts[word, 0], starts[word, 1]
                hashes[found] = hash_bytes(bytes_, begin, end) if end - begin <= LONGEST else np.uint64(0)
                firsts[found] = starts[word, 2] != 0
                found += 1
    return hashes[:found].copy(), firsts[:found].copy()
