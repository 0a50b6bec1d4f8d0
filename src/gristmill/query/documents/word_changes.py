"""The words that differ between two texts."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_WORDS = 1_000
"""Words that are compared from the first difference on: the time of a comparison grows with the square."""
_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff"
"""Scripts without spaces: a character is a word."""
_WORD = re.compile(rf"\s*(?:[{_UNSPACED}]|[^\s{_UNSPACED}]+)|\s+$")


CONTEXT_WORDS = 12
"""Words that are shown before and after a difference."""


class WordChange(NamedTuple):
    """Consecutive words of two texts."""

    kind: Literal["same", "removed", "added", "not compared"]
    text: str


def word_changes(before: str, after: str) -> list[WordChange]:
    """The two texts as one list of words that are the same, removed or added. White space at the start of a word
    belongs to it. Words after the first MOST_WORDS different ones are `not compared`; their text is that of `after`.
    """
    old, new = (_WORD.findall(text) for text in (before, after))
    start = _common(old, new)
    stop = _common(old[start:][::-1], new[start:][::-1])
    tail = new[len(new) - stop :]
    middle = [side[start : len(side) - stop] for side in (old, new)]
    found = [WordChange("same", "".join(new[:start]))]
    compared = [side[:MOST_WORDS] for side in middle]
    for kind, begin, end, first, last in SequenceMatcher(None, compared[0], compared[1]).get_opcodes():
        if kind == "equal":
            found.append(WordChange("same", "".join(compared[1][first:last])))
        else:
            found.append(WordChange("removed", "".join(compared[0][begin:end])))
            found.append(WordChange("added", "".join(compared[1][first:last])))
    if any(len(side) > MOST_WORDS for side in middle):
        found.append(WordChange("not compared", "".join([*middle[1][MOST_WORDS:], *tail])))
    else:
        found.append(WordChange("same", "".join(tail)))
    return [one for one in found if one.text or one.kind == "not compared"]


def _common(one: list[str], other: list[str]) -> int:
    """The number of words at the start that are the same."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))


def around_changes(changes: Sequence[WordChange]) -> list[WordChange]:
    """The same list with long equal stretches cut to the words next to a difference; ` … ` replaces the others."""
    found = []
    for at, (kind, text) in enumerate(changes):
        words = _WORD.findall(text)
        head, tail = (CONTEXT_WORDS if is_next else 0 for is_next in (at > 0, at < len(changes) - 1))
        if kind == "same" and len(words) > head + tail:
            text = f"{''.join(words[:head])} … {''.join(words[len(words) - tail :]).lstrip()}"
        found.append(WordChange(kind, text))
    return found
