"""Texts as words, and how much information words carry.

Words are those of `kernels/dedup/shingles.py`: lower case, runs of letters, digits and `_`; in a script without spaces
each character is a word and counts half. Punctuation, white space and case are ignored.

The *information* of a text is the number of letters and digits of its different words, without everyday words. `What
time is it?` has none, `Why is the sky blue?` has 7. It tells a question that people also write independently from one
that they copied.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import category

import numpy as np
import pyarrow as pa

from gristmill.kernels.decontaminate.texts import words_of
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.kernels.text.unicode_data import known
from gristmill.stages.buffers import bytes_of

Array = np.ndarray[Any, Any]

SENTENCE_ENDS = frozenset(".!?…。！？؟۔।॥።፧։།༎။។៕")
_COMMON = """
a about after again all also always am an and another any are as at away back be because been before being best better
but by can come could day def did do does doing done down each even ever every few find first for from get give go going
good got great had has have having he help her here him his how i if in into is it its just keep know last let like
little long look made make makes making many may me mean means might more most much must my need needs never new next no
not now of off old on once one only or other our out over own people place put return right said same say see she should
show so some something still such take tell than that the their them then there these they thing things think this those
three through time to too two under up us use used using very want wants was way we well were what when where which
while who why will with work would year years yes yet you your
"""
COMMON_WORDS = frozenset(_COMMON.split())
"""English words that are in every kind of text. They carry no information."""
UNSPACED_LETTERS = 3
"""Letters for which a character of a script without spaces counts."""
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(
    "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua000-\ua4cf\uf900-\ufaff\U00020000-\U000323af]"
)
"""Characters of scripts without spaces: Thai, Lao, Burmese, Khmer, Chinese, Japanese, Yi."""
_HEADING = re.compile(
    r"(?i)\W*(?:what|why|who|where|when|how)(?:['’]s|\W+(?:is|are|was|were))\b"
    r"|(?=\W*(?:what|why|who|where|when|how)\b|.*\?\W*\Z).*\b(?:i|we|my|our|it|its|this|these)\b"
)
"""Questions that could be headings: they request a definition, or refer to the text around them."""

ENOUGH = 8
"""The least information that flags a document."""
LITTLE = 4
"""The least information of a question that flags by its length: STRONG words anywhere, EDITED words on their line."""
LEAST = 3
"""The least information of a question of few words that flags where a line is exactly that question."""
PLENTY = 14
"""The least information of a question that also flags in quotes or after a colon, where people put examples. `What is
the capital of France?` has 13."""
MUCH = 20
"""The least information of fewer than EDITED words that are left of an edited or truncated question."""
STRONG = 8
"""The words of a question that flags anywhere. In the test sets of nine benchmarks, shorter questions are phrases that
people also write independently (`The sun is responsible for`)."""
EDITED = 6
"""The words of a question that flags on a line to itself with one word changed or with little information."""
ALONE = 4
"""The words of a question that flags as a whole sentence."""
IN_A_LINE = 3
"""The words of a question that flags on a line to itself."""

NEAR_WORDS = 60
"""The most words between a question and its support, not counting the words of its choices."""
MOST = 0.8
"""The share of an item's words that counts as the item."""


class WordHashes(NamedTuple):
    """Texts as the hashes of their words."""

    starts: Array
    words: Array

    def of(self, number: int) -> Array:
        return self.words[self.starts[number] : self.starts[number + 1]]

    def sizes(self) -> Array:
        return np.diff(self.starts)


def hash_words(texts: Sequence[str]) -> WordHashes:
    data, offsets = bytes_of(pa.array(texts, pa.string()))
    return WordHashes(*words_of(data, offsets, copy_tables()))


def weights_of(texts: Sequence[str], hashes: WordHashes) -> Array:
    """The number of words of each text. In scripts without spaces each letter, with its marks, is half a word."""
    sizes = hashes.sizes().astype(np.float64)
    for number, text in enumerate(texts):
        if not text.isascii():
            sizes[number] -= 0.5 * sum(category(sign).startswith("L") for sign in _UNSPACED.findall(known(text)))
    return sizes


def _telling_words(*texts: str) -> set[str]:
    """The different words of texts, without common words."""
    text = _UNSPACED.sub(r" \g<0> ", known("\n".join(texts)).lower())
    if not text.isascii():  # combining marks do not end a word
        text = "".join(sign for sign in text if category(sign)[0] != "M")
    return set(_WORD.findall(text)) - COMMON_WORDS


@lru_cache(maxsize=1 << 16)
def information(*texts: str) -> int:
    """The information of texts, taken together."""
    return sum(UNSPACED_LETTERS if _UNSPACED.match(word) else len(word) for word in _telling_words(*texts))


@lru_cache(maxsize=1 << 16)
def is_telling(question: str) -> bool:
    """Whether a question may flag as a sentence without support. `Version 2.0` and `What is a variable?` may not: they
    have only one telling word.
    """
    telling = sum(not word.isdigit() for word in _telling_words(question))
    return information(question) >= ENOUGH and (telling > 1 or len(_WORD.findall(known(question))) > ALONE)


@lru_cache(maxsize=1 << 16)
def is_exact_line(question: str) -> bool:
    """Whether a question with little information flags where a line is exactly that question. It needs three words, or
    two words that end a sentence. `What is entropy?` and `How do I start?` could be headings and need support.
    """
    letters = sum(information(word) for word in _telling_words(question) if not word.isdigit())
    size = sum(not word.isdigit() for word in _WORD.findall(question))
    if size < IN_A_LINE:
        return size > 1 and letters >= ENOUGH and question.rstrip()[-1] in SENTENCE_ENDS
    return (letters >= LEAST or size >= EDITED) and not _HEADING.match(question)


def least_left(size: float, is_beginning: bool) -> int:
    """The least information of the remaining words of an edited or truncated question; few words need more."""
    return MUCH if size < EDITED else LITTLE if size >= STRONG or is_beginning else ENOUGH


@lru_cache(maxsize=1 << 16)
def supports(text: str) -> bool:
    """Whether a text has more than numbers, single letters and common words: `1, 3, 4` is no support."""
    return any(not word.isdigit() and information(word) > 1 for word in _telling_words(text))
