"""Two texts word by word: which words only one of them has."""

import re
from difflib import SequenceMatcher

MOST_WORDS = 3000
"""Words that are compared: the time grows with the square."""

Marked = list[tuple[str, bool]]
"""Passages of a text, and whether each is marked."""


def differing(one: str, other: str) -> tuple[Marked, Marked]:
    """Both texts; words that the other does not have at that place are marked."""
    (left, rest), (right, other_rest) = _words(one), _words(other)
    bare, other_bare = ([word.strip() for word in side] for side in (left, right))
    first: Marked = []
    second: Marked = []
    for kind, start, stop, begin, end in SequenceMatcher(None, bare, other_bare, autojunk=False).get_opcodes():
        first.append(("".join(left[start:stop]), kind != "equal"))
        second.append(("".join(right[begin:end]), kind != "equal"))
    return [*first, (rest, False)], [*second, (other_rest, False)]


def common(one: str, other: str) -> tuple[Marked, Marked]:
    """Both texts; words that both have in the same order are marked."""
    first, second = differing(one, other)
    return [(text, not marked) for text, marked in first], [(text, not marked) for text, marked in second]


def _words(text: str) -> tuple[list[str], str]:
    """The words that are compared, each with the white space before it, and the rest of the text."""
    found = [word.group() for word, _ in zip(re.finditer(r"\s*\S+", text), range(MOST_WORDS), strict=False)]
    return found, text[sum(map(len, found)) :]
