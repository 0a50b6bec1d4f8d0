"""A text as words: their hashes, their positions, and the signs around them."""

import re
from collections import Counter
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gristmill.kernels.decontaminate.texts import word_spans
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.stages.decontaminate.matching.words import SENTENCE_ENDS, hash_words

Array = np.ndarray[Any, Any]

BESIDE_WORDS = 8
"""The most words between a question and an answer of one or two words."""
SEVERAL = 3
"""An answer of at least this many words does not occur by chance."""
_ENDS = SENTENCE_ENDS | frozenset(':;：；|>)("“”‘’*#•')
"""Signs that separate a question from the text before or after it, in any script."""
_LABEL = re.compile(rb"(?i)(?:\A|\n)[ \t#*>-]*(?:question|query|q|problem|goal)[ \t]*\d{0,4}[.:)][ \t*]*\Z")
"""A label before a question, at the start of a line: `Question 12:`."""
LABEL_BYTES = 40


class WordSequence:
    """A text as words: their hashes and their positions."""

    def __init__(self, data: Array) -> None:
        self.text = data.tobytes()
        self._data = np.frombuffer(self.text or b" ", np.uint8)

    @cached_property
    def spans(self) -> Array:
        """The first and last byte (exclusive) of each word."""
        return np.asarray(word_spans(self._data, 0, len(self.text), copy_tables()))

    @cached_property
    def words(self) -> Array:
        return hash_words([self.text.decode("utf-8", "replace")]).words

    def read(self, first: int, last: int) -> str:
        """The text of a range of words."""
        return self.text[self.spans[first, 0] : self.spans[last - 1, 1]].decode("utf-8", "replace")

    def bytes(self, first: int, last: int) -> tuple[int, int]:
        """The byte offsets of a range of words."""
        return int(self.spans[first, 0]), int(self.spans[last - 1, 1])

    def stands_alone(self, first: int, last: int, in_a_line: bool, edge: int = 0, is_strict: bool = False) -> bool:
        """Whether a range of words, with up to `edge` more words at each end, is a whole sentence or paragraph; a line
        break ends one. `in_a_line`: it must have a line to itself, except for a label. `is_strict`: a quote, colon or
        bracket does not begin a sentence, and emphasis does not end one.
        """
        begins = any(self._begins(place, in_a_line, is_strict) for place in range(max(first - edge, 0), first + 1))
        return begins and any(
            self._ends(place, in_a_line, is_strict) for place in range(last, min(last + edge, len(self.spans)) + 1)
        )

    def with_ends(self, first: int, last: int, own: Array) -> tuple[int, int]:
        """Extend the range of an edited copy to its first or last word if one word was inserted next to it."""
        before, after = self.words[max(first - 2, 0) : first + 1], self.words[last - 1 : last + 2]
        first -= 2 * (len(before) == 3 and before[0] == own[0] and own[0] not in before[1:])
        return first, last + 2 * (len(after) == 3 and after[2] == own[-1] and own[-1] not in after[:2])

    def in_common(self, first: int, last: int, own: Array) -> list[int]:
        """The positions of words of a unit that occur in a range, each at most as often as in the range."""
        left = Counter(self.words[first:last].tolist())
        found = []
        for number, word in enumerate(own.tolist()):
            if left[word]:
                left[word] -= 1
                found.append(number)
        return found

    def is_verbatim(self, first: int, text: str) -> bool:
        """Whether `text` is there verbatim, its first word at `first`, and white space follows it."""
        wanted = text.strip().encode()
        at = int(self.spans[first, 0] - WordSequence(np.frombuffer(wanted, np.uint8)).spans[0, 0])
        end = at + len(wanted)
        return at >= 0 and self.text.startswith(wanted, at) and not self.text[end : end + 1].strip()

    def _begins(self, first: int, in_a_line: bool, is_strict: bool) -> bool:
        if first == 0:
            return True
        start = int(self.spans[first, 0])
        if _LABEL.search(self.text[max(start - LABEL_BYTES, 0) : start]):
            return True
        before = self.text[self.spans[first - 1, 1] : start].decode("utf-8", "replace")
        ends = frozenset() if before.rstrip().endswith(",") else SENTENCE_ENDS if is_strict else _ENDS
        return "\n" in before if in_a_line else bool(ends & set(before)) or before.count("\n") > 1

    def _ends(self, last: int, in_a_line: bool, is_strict: bool = False) -> bool:
        if last == len(self.spans):
            return True
        after = self.text[self.spans[last - 1, 1] : self.spans[last, 0]].decode("utf-8", "replace")
        return "\n" in after or (not in_a_line and bool(_ENDS.difference("*" * is_strict) & set(after)))

    def share(self, wanted: Array, low: int, high: int) -> float:
        """The share of the wanted words that occur in a range, in any order; repeated words count each time."""
        here = Counter(self.words[low:high].tolist())
        return sum(min(times, here[word]) for word, times in Counter(wanted.tolist()).items()) / max(len(wanted), 1)

    def answers(self, answer: Array, high: int, last: int, is_open: bool) -> bool:
        """Whether an answer follows a question that ends at `high`; a short answer must follow closely. `is_open`: the
        answer may also complete a question that does not end there.
        """
        size = len(answer)
        if size < SEVERAL:
            reach = BESIDE_WORDS + size if self._ends(high, False) else size * is_open
            last = min(high + reach, len(self.spans))
        return size > 0 and self.holds(answer, high, last)

    def holds(self, wanted: Array, low: int, high: int) -> bool:
        """Whether a range of words contains these words in this order."""
        size, low = len(wanted), max(low, 0)
        starts = np.flatnonzero(self.words[low : max(high - size + 1, 0)] == wanted[0]) + low
        return any(np.array_equal(self.words[at : at + size], wanted) for at in starts.tolist())


@lru_cache(maxsize=4096)
def raw_words(text: str) -> list[str]:
    """The words of a unit, as they are written."""
    words = WordSequence(np.frombuffer(text.encode(), np.uint8))
    return [words.read(number, number + 1) for number in range(len(words.spans))]


@lru_cache(maxsize=4096)
def hashes_of(*texts: str) -> tuple[Array, ...]:
    """The hashes of the words of each text."""
    hashes = hash_words(texts)
    return tuple(hashes.of(number) for number in range(len(texts)))
