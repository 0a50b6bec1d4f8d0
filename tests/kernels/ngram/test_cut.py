"""Words as language models see them, against a slow scan of Python strings."""

import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.ngram.cut import LONGEST, ROOM, ROOM_BYTES, cut_tables
from gristmill.kernels.text.unicode_classes import PIECE_RANGES, UNIT_RANGES
from gristmill_ngram.arpa import normal_form
from gristmill_ngram.kernels.texts import hash_texts


def is_in(point, ranges):
    return any(first <= point <= last for first, last in ranges)


def oracle(text):
    """Lines of words."""
    lines = []
    for line in text.split("\n"):
        words, word, alone = [], "", False
        for letter in line:
            kind = unicodedata.category(letter)
            by_itself = kind[0] == "L" and is_in(ord(letter), (*UNIT_RANGES, *PIECE_RANGES))
            is_part = kind[0] in "LN"
            is_mark = kind[0] == "M" or (kind == "Cf" and letter != "\u200b")
            if word and (not (is_part or is_mark) or by_itself or (alone and is_part)):
                words.append(word)
                word = ""
            if is_part or (is_mark and word):
                alone = by_itself if not word else alone
                lower = letter.lower() if kind in ("Lu", "Lt", "Nl") and len(letter.lower()) == 1 else letter
                word += "0" if kind == "Nd" else lower
        words += [word] * bool(word)
        lines += [" ".join(words)] * bool(words)
    return "\n".join(lines)


LETTERS = st.sampled_from("aB1 \n.,'éÉ٣三つกÄ́\u00ad\u200bİẞΣⅣ²_-\r\t🙂Ⱥ")


@given(st.text(st.one_of(LETTERS, st.characters(exclude_categories=["Cs"])), max_size=60))
def test_words_are_those_of_the_slow_scan(text):
    assert normal_form([text, "x", text]) == [oracle(text), "x", oracle(text)]


def test_long_words_are_unknown_and_short_ones_are_not():
    """120 bytes at most, so that a text of one word of a megabyte takes no more room than others."""
    texts = ["a" * LONGEST, "a" * (LONGEST + 1), "b " + "é" * 1_000_000 + " b", "字" * 5]
    data = "".join(texts).encode()
    offsets = np.cumsum([0, *(len(text.encode()) for text in texts)])
    spaces = np.empty(ROOM_BYTES, np.uint8), np.empty((ROOM, 3), np.int64)
    hashes, firsts = hash_texts(np.frombuffer(data, np.uint8), offsets, cut_tables(), *spaces)
    assert (hashes != 0).tolist() == [True, False, True, False, True, *[True] * 5]
    assert firsts.tolist() == [True, True, True, False, False, True, *[False] * 4]
