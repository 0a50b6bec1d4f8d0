"""The words that differ between two texts."""

import re
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

from gristmill.counted import counted

MOST_WORDS = 1_500
"""Words that are compared from the first difference on: the time of a comparison grows with the square."""
CONTEXT_WORDS = 12
"""Equal words shown before and after a difference."""
MOST_SHOWN = 8
"""Differences shown of two texts."""
SAME, REMOVED, ADDED, NOTE = "same", "removed", "added", "note"
_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff"
"""Scripts without spaces: a character is a word."""
WORD = re.compile(rf"\s*(?:[{_UNSPACED}]|[^\s{_UNSPACED}]+)")


class WordChange(NamedTuple):
    """Consecutive words of two texts: the same in both, removed, added, or a note about words that are left out."""

    kind: str
    text: str


def word_changes(before: str, after: str, full: bool = False) -> list[WordChange]:
    """The differences of two texts, in order, with the words around them; with `full`, all differences and words."""
    old, new = (WORD.findall(text) for text in (before, after))
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    compared = [side[start : start + MOST_WORDS] for side in (old, new)]
    bare = [[word.strip() for word in side] for side in compared]
    blocks = SequenceMatcher(None, bare[0], bare[1]).get_opcodes()
    found = _same(new[:start], False, bool(blocks), full)
    differences = [block for block in blocks if block[0] != "equal"]
    for kind, begin, end, first, last in blocks:
        if not full and (kind, begin, end, first, last) in differences[MOST_SHOWN:]:
            found.append(WordChange(NOTE, f" … {counted(len(differences) - MOST_SHOWN, 'more difference')}"))
            break
        words = ["".join(compared[0][begin:end]), "".join(compared[1][first:last])]
        if kind == "equal":
            found += _same(compared[1][first:last], True, last < len(compared[1]), full)
        else:
            found += [WordChange(one, text) for one, text in zip((REMOVED, ADDED), words, strict=True) if text]
    if max(len(old), len(new)) > start + MOST_WORDS:
        found.append(WordChange(NOTE, f" … only {MOST_WORDS:,} words from the first difference on are compared"))
    return found


def same_words(
    one: str, other: str, most: int, letters_only: bool = False
) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """The words of two texts, each with the white space before it, and whether the other text has it in that order.
    Only the first `most` are compared. With `letters_only`, case and signs do not count.
    """
    sides = [_lettered(text) if letters_only else WORD.findall(text) for text in (one, other)]
    bare = [[_letters(word) if letters_only else word.strip() for word in side[:most]] for side in sides]
    blocks = SequenceMatcher(None, bare[0], bare[1], autojunk=False).get_matching_blocks()
    in_one = {place for block in blocks for place in range(block.a, block.a + block.size)}
    in_other = {place for block in blocks for place in range(block.b, block.b + block.size)}
    return [(word, at in in_one) for at, word in enumerate(sides[0])], [
        (word, at in in_other) for at, word in enumerate(sides[1])
    ]


def _lettered(text: str) -> list[str]:
    """Words; one without letters is joined to the word before it."""
    found: list[str] = []
    for word in WORD.findall(text):
        if found and not _letters(word):
            found[-1] += word
        else:
            found.append(word)
    return found


def _letters(word: str) -> str:
    return "".join(one for one in word.lower() if one.isalnum())


def _same(words: list[str], is_after: bool, is_before: bool, full: bool) -> list[WordChange]:
    """Equal words after or before a difference, without those that are far from it."""
    head, tail = CONTEXT_WORDS * is_after, CONTEXT_WORDS * is_before
    hidden = len(words) - head - tail
    if full or hidden <= 5:
        return [WordChange(SAME, "".join(words))]
    note = f" … {counted(hidden, 'equal word')} … "
    return [
        WordChange(SAME, "".join(words[:head])),
        WordChange(NOTE, note),
        WordChange(SAME, "".join(words[len(words) - tail :])),
    ]
