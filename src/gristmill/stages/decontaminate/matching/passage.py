"""A passage of a text as words: their letters, their positions, and the text around them."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from gristmill.kernels.decontaminate.texts import word_spans
from gristmill.kernels.dedup.shingles import copy_tables
from gristmill.kernels.text.look_alikes import readings
from gristmill.kernels.text.unicode_data import known
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


class ItemText(NamedTuple):
    """One text of an item, as words and as letters."""

    words: Array
    letters: str


class WordWindow:
    """The words of a part of a text."""

    def __init__(self, data: Array, begin: int, end: int) -> None:
        self.begin = begin
        self.text = data[begin:end].tobytes()

    @cached_property
    def spans(self) -> Array:
        data = np.frombuffer(self.text or b" ", np.uint8)
        return np.asarray(word_spans(data, 0, len(self.text), copy_tables()))

    @cached_property
    def words(self) -> Array:
        return hash_words([self.text.decode("utf-8", "replace")]).words

    @cached_property
    def all_named(self) -> dict[int, str]:
        return self.named(0, len(self.words))

    def named(self, low: int, high: int) -> dict[int, str]:
        """The letters of each word in a range, by the word's hash; empty if two different words share a hash."""
        found: dict[int, str] = {}
        for at, word in enumerate(self.words[low:high].tolist(), low):
            letters = self.letters(at, at + 1)
            if found.setdefault(word, letters) != letters:
                found[word] = ""
        return found

    def letters(self, first: int, last: int) -> str:
        """The letters and digits of a range of words, in lower case."""
        return letters_of(self.read(first, last)) if first < last else ""

    def read(self, first: int, last: int) -> str:
        """The text of a range of words."""
        return self.text[self.spans[first, 0] : self.spans[last - 1, 1]].decode("utf-8", "replace")

    def bytes(self, first: int, last: int) -> tuple[int, int]:
        """The byte offsets of a range of words in the whole text."""
        return self.begin + int(self.spans[first, 0]), self.begin + int(self.spans[last - 1, 1])

    def stands_alone(self, first: int, last: int, in_a_line: bool, edge: int = 0, is_strict: bool = False) -> bool:
        """Whether a range of words, with up to `edge` more words at each end, is a whole sentence or paragraph; a line
        break ends one. `in_a_line`: it must have a line to itself, except for a label. `is_strict`: a quote, colon or
        bracket does not begin a sentence, and emphasis does not end one.
        """
        begins = any(self._begins(place, in_a_line, is_strict) for place in range(max(first - edge, 0), first + 1))
        return begins and any(
            self._ends(place, in_a_line, is_strict) for place in range(last, min(last + edge, len(self.spans)) + 1)
        )

    def _each(self, first: int, last: int) -> list[str]:
        return [self.letters(at, at + 1) for at in range(max(first, 0), min(last, len(self.spans)))]

    def with_ends(self, first: int, last: int, own: Sequence[str]) -> tuple[int, int]:
        """Extend the range of an edited copy to its first or last word if one word was inserted next to it."""
        before, after = self._each(first - 2, first + 1), self._each(last - 1, last + 2)
        first -= 2 * (len(before) == 3 and before[0] == own[0] not in before[1:])
        return first, last + 2 * (len(after) == 3 and after[2] == own[-1] not in after[:2])

    def in_common(self, first: int, last: int, own: Sequence[str]) -> list[str]:
        """The words of an item that occur in a range, each at most as often as in the range."""
        here = self._each(first, last)
        return [one for number, one in enumerate(own) if own[:number].count(one) < here.count(one)]

    def is_verbatim(self, first: int, text: str) -> bool:
        """Whether `text` is there verbatim, its first word at `first`, and white space follows it."""
        wanted = text.strip().encode()
        at = int(self.spans[first, 0] - WordWindow(np.frombuffer(wanted, np.uint8), 0, len(wanted)).spans[0, 0])
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

    def answers(self, answer: ItemText, high: int, last: int, is_open: bool) -> bool:
        """Whether an answer follows a question that ends at `high`; a short answer must follow closely. `is_open`: the
        answer may also complete a question that does not end there.
        """
        size = len(answer.words)
        if size < SEVERAL:
            reach = BESIDE_WORDS + size if self._ends(high, False) else size * is_open
            last = min(high + reach, len(self.spans))
        return size > 0 and self.holds(answer, high, last)

    def holds(self, wanted: ItemText, low: int, high: int) -> bool:
        """Whether a range of words contains a text of an item, letter by letter."""
        size = len(wanted.words)
        places = self.words[max(low, 0) : max(high - size + 1, 0)] == wanted.words[0]
        return any(
            np.array_equal(self.words[at : at + size], wanted.words) and self.letters(at, at + size) == wanted.letters
            for at in (np.flatnonzero(places) + max(low, 0)).tolist()
        )


def letters_of(text: str) -> str:
    """The letters and digits of a text in lower case, with look-alike characters replaced (`look_alikes.py`)."""
    lower = known(text).lower()
    if not lower.isascii():
        lower = lower.translate(readings())
    return lower if lower.isalnum() else "".join(filter(str.isalnum, lower))


@lru_cache(maxsize=4096)
def spelled(text: str) -> list[str]:
    """The letters of each word of a unit."""
    words = WordWindow(np.frombuffer(text.encode(), np.uint8), 0, len(text.encode()))
    return [words.letters(at, at + 1) for at in range(len(words.spans))]


@lru_cache(maxsize=4096)
def pieces_of(*texts: str) -> tuple[ItemText, ...]:
    """The texts of an item as words and letters."""
    hashes = hash_words(texts)
    return tuple(ItemText(hashes.of(number), letters_of(text)) for number, text in enumerate(texts))
